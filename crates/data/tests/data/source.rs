//! A folder to import from, and the resulting dataset.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use nextpair_data::Error;
use nextpair_data::dataset::{Dataset, Item};
use nextpair_data::import::{Importer, Summary, Tally, import};
use tempfile::TempDir;

pub struct Source {
    folder: TempDir,
    /// Imports so far. Each makes a dataset of its own, because Windows does not remove one that is open.
    imports: Cell<usize>,
}

/// A dataset and the summary of its import.
pub struct Imported {
    pub dataset: Dataset,
    pub summary: Summary,
    pub folder: PathBuf,
}

impl Source {
    pub fn new() -> Self {
        Source { folder: tempfile::tempdir().unwrap(), imports: Cell::new(0) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("src").join(name)
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes an image of one colour that depends on `shade` alone.
    pub fn image(&self, name: &str, shade: u8) -> PathBuf {
        self.file(name, png(shade))
    }

    /// Writes rows of `dim` numbers that count up.
    pub fn array(&self, name: &str, rows: usize, dim: usize) -> PathBuf {
        let mut bytes = Vec::new();
        let values = (0..rows * dim).map(|number| number as f32);
        nextpair_data::npy::write_f32(&mut bytes, rows, dim, values).unwrap();
        self.file(name, bytes)
    }

    pub fn import(&self, importer: &dyn Importer) -> Imported {
        self.run(importer, false).unwrap()
    }

    pub fn skip_bad(&self, importer: &dyn Importer) -> Imported {
        self.run(importer, true).unwrap()
    }

    /// The error of an import that must leave nothing behind.
    pub fn refused(&self, importer: &dyn Importer) -> String {
        let error = self.run(importer, false).err().expect("the import is refused");
        let name = format!("out-{}", self.imports.get());
        let left = self.outside();
        assert!(!left.iter().any(|path| path.to_string_lossy().contains(&name)), "{left:?}");
        error.to_string()
    }

    fn run(&self, importer: &dyn Importer, skip_bad: bool) -> Result<Imported, Error> {
        self.imports.set(self.imports.get() + 1);
        let folder = self.folder.path().join(format!("out-{}", self.imports.get()));
        let summary = import(importer, &folder, skip_bad, &())?;
        let dataset = Dataset::open(&folder)?;
        Ok(Imported { dataset, summary, folder })
    }

    /// All paths below the folder that holds source and output.
    pub fn outside(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

/// What the system says of a file that is not there.
pub fn no_such_file() -> String {
    std::io::Error::from_raw_os_error(2).to_string()
}

impl Imported {
    pub fn items(&self) -> Vec<Item> {
        self.dataset.items().iter().collect()
    }

    pub fn ids(&self) -> Vec<String> {
        self.dataset.items().iter().map(|item| item.id).collect()
    }

    /// The bad entries, one per line.
    pub fn bad(&self) -> Vec<String> {
        told(&self.summary.findings.bad)
    }

    pub fn notes(&self) -> Vec<String> {
        told(&self.summary.findings.notes)
    }
}

fn told(tallies: &[Tally]) -> Vec<String> {
    tallies.iter().map(|t| format!("{} x {}: {}", t.count, t.what, t.examples.join("; "))).collect()
}

pub fn item(id: &str, split: &str, image: Option<&str>, captions: &[&str]) -> Item {
    Item {
        id: id.to_owned(),
        split: Some(split.to_owned()),
        image: image.map(str::to_owned),
        captions: captions.iter().map(|&caption| caption.to_owned()).collect(),
    }
}

pub fn png(shade: u8) -> Vec<u8> {
    let image = image::RgbImage::from_pixel(8, 8, image::Rgb([shade, 128, 255 - shade]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

/// Returns whether any one line contains all of these parts.
pub fn says(lines: &[String], parts: &[&str]) -> bool {
    lines.iter().any(|line| parts.iter().all(|part| line.contains(part)))
}

pub fn exists(path: impl AsRef<Path>) -> bool {
    path.as_ref().exists()
}
