//! CSV and TSV tables of image paths and captions, as open_clip reads them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use csv::StringRecord;

use super::{Entry, Importer, Sink, UNUSED_COLUMN, split_in_name};
use crate::dataset::{Item, TRAIN};
use crate::lines::Lines;
use crate::rows::{Newlines, reason};
use crate::{Error, listed, mapping, ordinary, stamp};

/// The columns of open_clip's tables.
const IMAGE_COLUMN: &str = "filepath";
const CAPTION_COLUMN: &str = "title";
/// The usual column of splits.
const SPLIT_COLUMN: &str = "split";

/// A table with one row per caption. Rows of one image are one item.
#[derive(Clone, Debug)]
pub struct Table {
    /// The file. Columns are separated by tabs if its first line has any, else by commas.
    pub file: PathBuf,
    /// The column of image paths, which must exist if it is named here. The default is `filepath`,
    /// if it exists. A row without an image path is a caption without an image.
    pub image_column: Option<String>,
    /// The column of captions, likewise; the default is `title`. A row without a caption is an
    /// image without one.
    pub caption_column: Option<String>,
    /// The column of ids; without it the image path is the id.
    pub id_column: Option<String>,
    /// The column of splits; the default is `split`, if it exists.
    pub split_column: Option<String>,
    /// The split of rows without one.
    pub split: String,
    /// The folder that image paths are relative to; by default the folder of the file.
    pub image_dir: Option<PathBuf>,
    /// Whether to skip the checks of image files, for images that are stored elsewhere.
    pub without_images: bool,
}

/// Positions of the columns.
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
        stamp::steady(&self.file, || self.read_rows(sink))
    }
}

impl Table {
    fn read_rows(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        if !self.without_images {
            sink.images_in(&self.folder())?;
        }
        let size = std::fs::metadata(&self.file).map_err(|e| Error::io(&self.file, e))?.len();
        sink.start("reading", size as usize);
        let first = Lines::open(&self.file)?.next()?.map(|line| line.text.unwrap_or_default());
        let tabs = first.is_some_and(|first| first.contains('\t'));
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(if tabs { b'\t' } else { b',' })
            .from_reader(ordinary::open(&self.file)?);
        let columns = self.columns(&reader.headers().map_err(|e| self.error(e))?.clone(), sink)?;
        let mut rows = Rows {
            folders: self.folders(),
            newlines: Newlines::of(mapping::map(&self.file)?),
            items: Vec::new(),
            known: HashMap::new(),
        };
        let (mut record, mut done) = (StringRecord::new(), 0);
        loop {
            match reader.read_record(&mut record) {
                Ok(true) => self.row(&record, &columns, &mut rows, sink)?,
                Ok(false) => break,
                Err(e) if matches!(e.kind(), csv::ErrorKind::Io(_)) => return Err(self.error(e)),
                Err(e) => {
                    let place = self.place(e.position(), &mut rows.newlines);
                    sink.bad("unreadable row", &place, &reason(&e))?;
                }
            }
            let position = reader.position().byte();
            sink.advance((position - done) as usize);
            done = position;
        }
        for entry in rows.items {
            sink.entry(entry)?;
        }
        Ok(())
    }
}

/// The items so far, by id, and the image folder, both as named and as an absolute path.
struct Rows {
    folders: [PathBuf; 2],
    newlines: Newlines,
    items: Vec<Entry>,
    known: HashMap<String, usize>,
}

impl Table {
    /// A table in open_clip's layout: columns `filepath` and `title`, images beside the file.
    pub fn new(file: PathBuf) -> Self {
        Table {
            file,
            image_column: None,
            caption_column: None,
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

    fn folders(&self) -> [PathBuf; 2] {
        let folder = self.folder();
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        [folder, whole]
    }

    fn columns(&self, header: &StringRecord, sink: &mut Sink<'_>) -> Result<Columns, Error> {
        let find = |name: &str| header.iter().position(|column| column.trim() == name);
        let names = || listed(header);
        let named = |name: &Option<String>| match name {
            Some(name) => find(name).map(Some).ok_or_else(|| {
                let what = format!("no column {name}; its columns are {}", names());
                Error::line(&self.file, 1, what)
            }),
            None => Ok(None),
        };
        let usual = |name: &Option<String>, usual| match name {
            Some(_) => named(name),
            None => Ok(find(usual)),
        };
        let image = usual(&self.image_column, IMAGE_COLUMN)?;
        let caption = usual(&self.caption_column, CAPTION_COLUMN)?;
        for (column, name) in [(image, IMAGE_COLUMN), (caption, CAPTION_COLUMN)] {
            if column.is_none() {
                sink.note("usual column is missing", &format!("{name}; there are {}", names()))?;
            }
        }
        if image.is_none() && caption.is_none() {
            named(&Some(format!("{IMAGE_COLUMN} or {CAPTION_COLUMN}")))?;
        }
        let id = named(&self.id_column)?;
        let split = usual(&self.split_column, SPLIT_COLUMN)?;
        let used = [image, caption, id, split];
        for (_, name) in header.iter().enumerate().filter(|(at, _)| !used.contains(&Some(*at))) {
            sink.note(UNUSED_COLUMN, name.trim())?;
        }
        Ok(Columns { image, caption, id, split })
    }

    fn place(&self, position: Option<&csv::Position>, newlines: &mut Newlines) -> String {
        let line = position.map_or(0, |position| newlines.line_of(position.byte() as usize));
        format!("{}:{line}", self.file.display())
    }

    fn row(
        &self,
        record: &StringRecord,
        columns: &Columns,
        rows: &mut Rows,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let Rows { folders, newlines, items, known } = rows;
        let place = self.place(record.position(), newlines);
        let field = |column: Option<usize>| {
            column.and_then(|column| record.get(column)).map(str::trim).filter(|f| !f.is_empty())
        };
        let image = field(columns.image).map(|image| relative_to(folders, image));
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
        let split = split_in_name(split).unwrap_or(split);
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
        let (line, what) = (error.position().map(csv::Position::line), reason(&error));
        match (error.into_kind(), line) {
            (csv::ErrorKind::Io(error), _) => Error::io(&self.file, error),
            (_, line) => Error::line(&self.file, line.unwrap_or(1) as usize, what),
        }
    }
}

/// Makes a path relative to the image folder if it lies inside. Tables often have absolute paths.
fn relative_to(folders: &[PathBuf; 2], image: &str) -> String {
    let inside =
        |folder: &PathBuf| Path::new(image).strip_prefix(folder).ok().and_then(Path::to_str);
    folders.iter().find_map(inside).unwrap_or(image).trim_start_matches("./").to_owned()
}
