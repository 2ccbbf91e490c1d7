//! CSV and TSV tables of image paths and captions, as open_clip reads them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use csv::StringRecord;

use super::{Entry, Importer, Sink};
use crate::Error;
use crate::dataset::{Item, TRAIN};

/// A table with one row per caption. Rows of one image are one item.
#[derive(Clone, Debug)]
pub struct Table {
    /// The file. Tabs separate the columns of `.tsv` and `.tab`, commas those of all others.
    pub file: PathBuf,
    /// The column of image paths. A row without one is a caption without an image.
    pub image_column: String,
    /// The column of captions. A row without one is an image without a caption.
    pub caption_column: String,
    /// The column of ids; without it the image path is the id.
    pub id_column: Option<String>,
    /// The column of splits.
    pub split_column: Option<String>,
    /// The split of rows that have none.
    pub split: String,
    /// The folder that image paths are relative to: that of the file unless told otherwise.
    pub image_dir: Option<PathBuf>,
    /// Whether the images are left alone, for tables of images that are elsewhere.
    pub without_images: bool,
}

/// Where the columns are.
struct Columns {
    image: Option<usize>,
    caption: Option<usize>,
    id: Option<usize>,
    split: Option<usize>,
}

impl Importer for Table {
    fn source(&self) -> String {
        format!("table {}", self.file.display())
    }

    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        if !self.without_images {
            sink.images_in(&self.folder())?;
        }
        let size = std::fs::metadata(&self.file).map_err(|e| Error::io(&self.file, e))?.len();
        sink.start("reading", size as usize);
        let tabs = self.file.extension().is_some_and(|extension| {
            extension.eq_ignore_ascii_case("tsv") || extension.eq_ignore_ascii_case("tab")
        });
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(if tabs { b'\t' } else { b',' })
            .from_path(&self.file)
            .map_err(|e| self.error(e))?;
        let columns = self.columns(reader.headers().map_err(|e| self.error(e))?)?;
        let mut items: Vec<Entry> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        let (mut record, mut done) = (StringRecord::new(), 0);
        loop {
            let line = reader.position().line();
            let place = format!("{}:{line}", self.file.display());
            match reader.read_record(&mut record) {
                Ok(true) => self.row(&record, &columns, place, &mut items, &mut known, sink)?,
                Ok(false) => break,
                Err(e) if matches!(e.kind(), csv::ErrorKind::Io(_)) => return Err(self.error(e)),
                Err(e) => sink.bad("unreadable row", &place, &e.to_string())?,
            }
            let position = reader.position().byte();
            sink.advance((position - done) as usize);
            done = position;
        }
        items.into_iter().try_for_each(|entry| sink.entry(entry))
    }
}

impl Table {
    /// A table as open_clip expects it: columns `filepath` and `title`, images beside it.
    pub fn new(file: PathBuf) -> Self {
        Table {
            file,
            image_column: "filepath".into(),
            caption_column: "title".into(),
            id_column: None,
            split_column: None,
            split: TRAIN.into(),
            image_dir: None,
            without_images: false,
        }
    }

    /// The folder that image paths are relative to.
    fn folder(&self) -> PathBuf {
        let beside = self.file.parent().filter(|parent| !parent.as_os_str().is_empty());
        self.image_dir.as_deref().or(beside).unwrap_or(".".as_ref()).to_path_buf()
    }

    fn columns(&self, header: &StringRecord) -> Result<Columns, Error> {
        let find = |name: &str| header.iter().position(|column| column.trim() == name);
        let needed = |name: &Option<String>| match name {
            Some(name) => find(name).map(Some).ok_or_else(|| {
                let names: Vec<&str> = header.iter().collect();
                let what = format!("no column {name}; its columns are {}", names.join(", "));
                Error::line(&self.file, 1, what)
            }),
            None => Ok(None),
        };
        let (image, caption) = (find(&self.image_column), find(&self.caption_column));
        if image.is_none() && caption.is_none() {
            needed(&Some(format!("{} or {}", self.image_column, self.caption_column)))?;
        }
        let (id, split) = (needed(&self.id_column)?, needed(&self.split_column)?);
        Ok(Columns { image, caption, id, split })
    }

    fn row(
        &self,
        record: &StringRecord,
        columns: &Columns,
        place: String,
        items: &mut Vec<Entry>,
        known: &mut HashMap<String, usize>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let field = |column: Option<usize>| {
            column.and_then(|column| record.get(column)).map(str::trim).filter(|f| !f.is_empty())
        };
        let image = field(columns.image).map(|image| relative_to(&self.folder(), image));
        let (image, caption) = (image.as_deref(), field(columns.caption));
        if image.is_none() && caption.is_none() {
            return sink.bad("row without image and caption", &place, "");
        }
        let id = match (field(columns.id), image) {
            (Some(id), _) => id.to_owned(),
            (None, Some(image)) => image.to_owned(),
            (None, None) => format!("row-{}", record.position().map_or(0, |p| p.record())),
        };
        let split = field(columns.split).unwrap_or(&self.split);
        match known.get(&id).map(|&at| &mut items[at].item) {
            Some(item) if item.image.as_deref() != image => {
                sink.bad("id with two images", &place, &id)?;
            }
            Some(item) if item.split.as_deref() != Some(split) => {
                sink.bad("image in two splits", &place, &id)?;
            }
            Some(item) => item.captions.extend(caption.map(str::to_owned)),
            None => {
                known.insert(id.clone(), items.len());
                let item = Item {
                    id,
                    split: Some(split.to_owned()),
                    image: image.map(str::to_owned),
                    captions: caption.map(str::to_owned).into_iter().collect(),
                };
                items.push(Entry { item, place, ..Entry::default() });
            }
        }
        Ok(())
    }

    fn error(&self, error: csv::Error) -> Error {
        let line = error.position().map(|position| position.line() as usize);
        match (error.into_kind(), line) {
            (csv::ErrorKind::Io(source), _) => Error::io(&self.file, source),
            (kind, Some(line)) => Error::line(&self.file, line, format!("{kind:?}")),
            (kind, None) => Error::format(&self.file, format!("{kind:?}")),
        }
    }
}

/// Tables often have whole paths; those inside the folder of images are as good as relative ones.
fn relative_to(folder: &Path, image: &str) -> String {
    let inside = Path::new(image).strip_prefix(folder).ok().and_then(Path::to_str);
    inside.unwrap_or(image).trim_start_matches("./").to_owned()
}
