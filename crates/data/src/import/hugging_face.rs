//! Parquet tables as Hugging Face writes datasets: a row per image, with the bytes or the path of the
//! image and its captions.
//!
//! A source is a file, or a folder of files such as `data/train-00000-of-00002.parquet`. Bytes of
//! images are written into the dataset under names of ours: the name of the table and the row. A
//! few rows are in memory at a time.

mod columns;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ::parquet::data_type::ByteArray;

use super::{Entry, Importer, Sink, UNUSED_COLUMN, split_in_name};
use crate::Error;
use crate::dataset::{Item, check_inside};
use crate::parquet::columns::{Values, each_row, leaves};
use crate::parquet::outline;
use crate::picture::{self, Format};
use columns::Columns;

/// Largest image in bytes.
const LARGEST_IMAGE: usize = 256 << 20;

/// Tables of images and captions.
#[derive(Clone, Debug)]
pub struct HuggingFace {
    /// A `.parquet` file, or a folder of them.
    pub source: PathBuf,
    /// The column of images: a structure of `bytes` and `path`, bytes, or paths. The default is
    /// `image`, or a column called `file_name` or ending so.
    pub image_column: Option<String>,
    /// The column of captions: texts or lists of texts; `sentences.raw` names a field of structures.
    /// The default is `caption`, `text` or `captions`, or all columns such as `caption_0`.
    pub caption_column: Option<String>,
    /// The column of ids; by default the table and the row are the id.
    pub id_column: Option<String>,
    /// The column of splits; the default is `split`, if it exists and holds texts.
    pub split_column: Option<String>,
    /// The split of rows whose table and columns name none.
    pub split: String,
    /// The folder that paths of images are relative to; by default that of their table.
    pub image_dir: Option<PathBuf>,
}

/// A table of the source.
struct TableFile {
    path: PathBuf,
    /// Its path below the source, without its ending.
    name: String,
    columns: Columns,
    /// Names of columns that are not read.
    unused: Vec<String>,
}

impl Importer for HuggingFace {
    fn source(&self) -> String {
        format!("parquet {}", self.source.display())
    }

    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let tables = self.tables()?;
        let holds_bytes = tables.iter().any(|table| table.columns.bytes.is_some());
        let holds_paths = tables.iter().any(|table| table.columns.path.is_some());
        let own = if holds_bytes {
            Some(sink.own_images()?)
        } else {
            if holds_paths {
                sink.images_in(&self.image_folder())?;
            }
            None
        };
        let unused: BTreeSet<&String> = tables.iter().flat_map(|table| &table.unused).collect();
        for column in unused {
            sink.note(UNUSED_COLUMN, column)?;
        }
        let mut rows = 0usize;
        for table in &tables {
            rows = rows.saturating_add(outline(&table.path)?.1);
        }
        sink.start("reading", rows);
        for table in &tables {
            let wanted = table.columns.wanted();
            each_row(&table.path, &wanted, |row, values| {
                sink.advance(1);
                let row = Row { table, row, values, own: own.as_deref() };
                row.take(self, sink)
            })?;
        }
        Ok(())
    }
}

impl HuggingFace {
    /// The folder that paths of images are below.
    fn image_folder(&self) -> PathBuf {
        match (&self.image_dir, self.source.is_dir()) {
            (Some(folder), _) => folder.clone(),
            (None, true) => self.source.clone(),
            (None, false) => match self.source.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
                _ => PathBuf::from("."),
            },
        }
    }

    /// The tables in the order of their names, with the columns that are read.
    fn tables(&self) -> Result<Vec<TableFile>, Error> {
        let mut found = Vec::new();
        if fs::metadata(&self.source).map_err(|e| Error::io(&self.source, e))?.is_dir() {
            walk(&self.source, "", &mut found)?;
        } else {
            let name = self.source.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            found.extend(stem(name).map(|stem| (stem.to_owned(), self.source.clone())));
        }
        if found.is_empty() {
            return Err(Error::format(&self.source, "no .parquet files"));
        }
        found.sort();
        let table = |(name, path): (String, PathBuf)| {
            let leaves = leaves(&path)?;
            let columns = Columns::of(self, &path, &leaves)?;
            let unused = columns.unused(&leaves);
            Ok(TableFile { path, name, columns, unused })
        };
        found.into_iter().map(table).collect()
    }

    /// The split of a row: what its column says, or else its table, or else the usual one.
    fn split(&self, table: &TableFile, said: Option<String>) -> String {
        let of_table = || table.name.rsplit('/').find_map(split_in_name).map(str::to_owned);
        match said.filter(|said| !said.is_empty()) {
            Some(said) => split_in_name(&said).map_or(said, str::to_owned),
            None => of_table().unwrap_or_else(|| self.split.clone()),
        }
    }
}

/// Collects the tables below a folder. It does not follow links to folders, and ignores hidden
/// files.
fn walk(root: &Path, below: &str, found: &mut Vec<(String, PathBuf)>) -> Result<(), Error> {
    let folder = root.join(below);
    let fail = |e| Error::io(&folder, e);
    for entry in fs::read_dir(&folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') {
            continue;
        }
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        if entry.file_type().map_err(fail)?.is_dir() {
            walk(root, &path, found)?;
        } else if let Some(stem) = stem(&path) {
            found.push((stem.to_owned(), entry.path()));
        }
    }
    Ok(())
}

fn stem(name: &str) -> Option<&str> {
    name.strip_suffix(".parquet").filter(|stem| !stem.is_empty())
}

/// A row that is being imported.
struct Row<'a> {
    table: &'a TableFile,
    row: usize,
    values: Vec<Values>,
    /// The folder for images that the tables hold.
    own: Option<&'a Path>,
}

/// The image of a row.
enum Image {
    None,
    /// Below the folder of images; a file of ours if it was written.
    Named {
        name: String,
        is_ours: bool,
    },
}

impl Row<'_> {
    fn take(self, source: &HuggingFace, sink: &mut Sink<'_>) -> Result<(), Error> {
        let place = format!("{}: row {}", self.table.path.display(), self.row);
        let read = self.texts().and_then(|texts| Ok((texts, self.image()?)));
        let ((captions, id, split), image) = match read {
            Ok(read) => read,
            Err(Refused::Row(kind, what)) => return sink.bad(kind, &place, &what),
            Err(Refused::Import(error)) => return Err(error),
        };
        let (image, ours) = match image {
            Image::None => (None, None),
            Image::Named { name, is_ours: false } => (Some(name), None),
            Image::Named { name, is_ours: true } => {
                let path = self.own.map(|folder| folder.join(&name));
                (Some(name), path)
            }
        };
        if image.is_none() && captions.is_empty() {
            return sink.note("row without image and caption, left out", &place);
        }
        let id = id.unwrap_or_else(|| format!("{}:{}", self.table.name, self.row));
        let split = Some(source.split(self.table, split));
        let item = Item { id, split, image, captions };
        let kept = sink.entry(Entry { item, place, ..Entry::default() })?;
        match ours {
            Some(path) if !kept => fs::remove_file(&path).map_err(|e| Error::io(&path, e)),
            _ => Ok(()),
        }
    }

    fn of(&self, column: Option<usize>) -> &[ByteArray] {
        let place =
            column.and_then(|leaf| self.table.columns.wanted().iter().position(|l| *l == leaf));
        place.map_or(&[], |place| &self.values[place])
    }

    /// The captions, the id and the split.
    #[allow(clippy::type_complexity, reason = "three parts of one row, named by the caller")]
    fn texts(&self) -> Result<(Vec<String>, Option<String>, Option<String>), Refused> {
        let columns = &self.table.columns;
        let mut captions = Vec::new();
        for &column in &columns.captions {
            for value in self.of(Some(column)) {
                captions.push(text(value, "a caption")?);
            }
        }
        captions.retain(|caption| !caption.trim().is_empty());
        let one = |column, what| self.of(column).first().map(|value| text(value, what)).transpose();
        Ok((captions, one(columns.id, "the id")?, one(columns.split, "the split")?))
    }

    fn image(&self) -> Result<Image, Refused> {
        let columns = &self.table.columns;
        let path = self.of(columns.path).first();
        let path = path.map(|value| text(value, "the path of the image")).transpose()?;
        let path = path.filter(|path| !path.is_empty());
        match (self.own, self.of(columns.bytes).first(), path) {
            (Some(folder), Some(bytes), _) if !bytes.is_empty() => self.write(folder, bytes.data()),
            (Some(_), _, Some(path)) => {
                Err(Refused::Row(BAD_IMAGE, format!("{path}: the table does not hold its bytes")))
            }
            (None, _, Some(path)) => {
                let path = path.trim_start_matches("./");
                let below = self.table.name.rsplit_once('/').map(|(folder, _)| folder);
                let name = below.map_or(path.to_owned(), |folder| format!("{folder}/{path}"));
                check_inside(&name).map_err(|what| Refused::Row(BAD_IMAGE, what))?;
                Ok(Image::Named { name, is_ours: false })
            }
            _ => Ok(Image::None),
        }
    }

    /// Writes an image into the dataset. Its name is ours, so that it leads nowhere else.
    fn write(&self, folder: &Path, bytes: &[u8]) -> Result<Image, Refused> {
        let shown = Path::new("image");
        let header = match bytes.len() {
            0..=LARGEST_IMAGE => picture::probe_bytes(shown, bytes),
            _ => Err(Error::format(shown, "more than 256 MB")),
        };
        let header = header.map_err(|e| Refused::Row(BAD_IMAGE, e.to_string()))?;
        let name = format!("{}/{:06}.{}", self.table.name, self.row, ending(header.format));
        check_inside(&name).map_err(|what| Refused::Row(BAD_IMAGE, what))?;
        let path = folder.join(&name);
        let write = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&path, bytes)
        };
        write().map_err(|e| Refused::Import(Error::io(&path, e)))?;
        Ok(Image::Named { name, is_ours: true })
    }
}

/// The kind of finding for an image that cannot be imported.
const BAD_IMAGE: &str = "bad or missing image";

/// Why a row is not imported.
enum Refused {
    Row(&'static str, String),
    Import(Error),
}

fn text(value: &ByteArray, what: &str) -> Result<String, Refused> {
    let text = std::str::from_utf8(value.data());
    text.map(str::to_owned)
        .map_err(|_| Refused::Row("impossible entry", format!("{what} is not UTF-8")))
}

fn ending(format: Format) -> &'static str {
    match format {
        Format::Jpeg => "jpg",
        Format::Png => "png",
        Format::WebP => "webp",
        Format::Gif => "gif",
        Format::Bmp => "bmp",
    }
}
