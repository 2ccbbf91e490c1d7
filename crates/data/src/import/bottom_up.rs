//! Region features as published with bottom-up attention (Anderson et al., CVPR 2018): tables of
//! tab-separated columns, one image per line, with boxes and features in base64.
//!
//! ```text
//! image_id  image_w  image_h  num_boxes  boxes  features
//! ```
//!
//! There is no header line. Boxes are `num_boxes` by 4 and features `num_boxes` by 2,048 numbers in
//! single precision. A line of 36 regions is 0.4 MB long, so tables are streamed.

mod join;
mod line;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::{Importer, Sink};
use crate::lines::{Line, Lines};
use crate::{Dtype, Error, npy};
use join::{NameMatch, Names};
use line::{Regions, Shape};

/// A source whose images have region features in separate tables.
///
/// A dataset has the same number of regions for all images. The published version with 36 regions
/// can be imported; the one with 10 to 100 cannot.
pub struct BottomUp {
    /// The source of items, captions and images.
    pub source: Box<dyn Importer>,
    /// `.tsv` files, and folders of them.
    pub tables: Vec<PathBuf>,
}

/// Name of the feature set.
const NAME: &str = "bottom-up";

/// Bytes of lines decoded at a time, on all threads.
const AT_ONCE: usize = 32 << 20;

/// The kind of finding for a line that cannot be imported.
const BAD: &str = "bad line of features";

impl Importer for BottomUp {
    fn source(&self) -> String {
        let tables: Vec<String> = self.tables.iter().map(|t| t.display().to_string()).collect();
        format!("{}, bottom-up {}", self.source.source(), tables.join(", "))
    }

    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let tables = files(&self.tables)?;
        self.source.read(sink)?;
        let items = sink.written()?;
        if sink.is_refused() {
            // Report the bad entries without reading the tables first.
            return Ok(());
        }
        let names = Names::of(&items);
        let path = sink.own_features()?.join(format!("{NAME}.image.npy"));
        let mut taking = TableImport {
            rows: vec![-1; items.len()],
            names,
            lines: 0,
            stranger: None,
            out: Growing::create(&path)?,
        };
        let bytes = |table: &PathBuf| std::fs::metadata(table).map_or(0, |m| m.len() as usize);
        sink.start("features", tables.iter().map(bytes).sum());
        for table in &tables {
            taking.read(table, sink)?;
            if sink.is_refused() {
                return Ok(());
            }
        }
        let TableImport { rows, stranger, lines, out, .. } = taking;
        if out.rows == 0 {
            let what = match stranger {
                Some(id) => format!(
                    "none of the {lines} images in it is in the dataset; the first is called {id}"
                ),
                None => "there is no line of features in it".to_owned(),
            };
            return Err(Error::format(&self.tables[0], what));
        }
        for (item, _) in items.iter().zip(&rows).filter(|(_, row)| **row < 0) {
            sink.note("item without features", &item.id)?;
        }
        let available = out.finish()?;
        sink.image_rows(NAME, path, rows, available)
    }
}

/// The named tables, and those in the named folders.
fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let fail = |e| Error::io(path, e);
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(fail)? {
            let entry = entry.map_err(fail)?.path();
            inside.extend(Some(entry).filter(|e| e.extension() == Some(OsStr::new("tsv"))));
        }
        if inside.is_empty() {
            return Err(Error::format(path, "there is no .tsv file in this folder"));
        }
        inside.sort();
        files.extend(inside);
    }
    if files.is_empty() {
        Err(Error::Argument { name: "tables", what: "there is none".to_owned() })
    } else {
        Ok(files)
    }
}

/// The state of an import of tables.
struct TableImport {
    names: Names,
    /// The row of every item, -1 for none.
    rows: Vec<i64>,
    lines: usize,
    /// An image that is not in the dataset.
    stranger: Option<String>,
    out: Growing,
}

impl TableImport {
    fn read(&mut self, table: &Path, sink: &mut Sink<'_>) -> Result<(), Error> {
        let mut lines = Lines::open(table)?;
        loop {
            let (mut some, mut bytes) = (Vec::new(), 0);
            while bytes < AT_ONCE
                && let Some(line) = lines.next()?
            {
                let length = line.text.as_ref().map_or(0, String::len) + 1;
                bytes += length;
                let found = line.text.as_ref().ok().map(|text| self.names.find(line::id(text)));
                match (found, line.text.as_deref()) {
                    (Some(NameMatch::Nobody), Ok(text))
                        if line::says_nothing(line.number, text) => {}
                    // Lines of unknown images are neither decoded nor kept, unless columns are
                    // missing: such a line is bad.
                    (Some(NameMatch::Nobody), Ok(text)) if line::has_all_columns(text) => {
                        self.nobody(line::id(text), sink)?;
                    }
                    (found, _) => some.push((line, found)),
                }
            }
            sink.advance(bytes);
            sink.check_stopped()?;
            if some.is_empty() && bytes == 0 {
                return Ok(());
            }
            self.take(table, some, sink)?;
            if sink.is_refused() {
                return Ok(());
            }
        }
    }

    /// Notes features of an image that was not imported, as COCO's restval images may be.
    fn nobody(&mut self, id: &str, sink: &mut Sink<'_>) -> Result<(), Error> {
        self.lines += 1;
        sink.note("features of an image that is not in the dataset", id)?;
        self.stranger.get_or_insert_with(|| id.to_owned());
        Ok(())
    }

    /// Decodes lines in parallel and stores them in order.
    fn take(
        &mut self,
        table: &Path,
        lines: Vec<(Line, Option<NameMatch>)>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let decoded: Vec<Result<Regions, String>> = lines
            .par_iter()
            .map(|(line, _)| line.text.as_deref().map_err(Clone::clone).and_then(Regions::decode))
            .collect();
        for ((line, found), regions) in lines.into_iter().zip(decoded) {
            self.lines += 1;
            if let Err(what) = self.take_one(found, regions)? {
                let place = format!("{}:{}", table.display(), line.number);
                sink.bad(BAD, &place, &what)?;
                if sink.is_refused() {
                    // The import fails already; skip the other lines.
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Writes the features of a line. The inner error describes a bad line.
    fn take_one(
        &mut self,
        found: Option<NameMatch>,
        regions: Result<Regions, String>,
    ) -> Result<Result<(), String>, Error> {
        let regions = match regions {
            Ok(regions) => regions,
            Err(what) => return Ok(Err(what)),
        };
        let item = match found {
            Some(NameMatch::Item(item)) => item as usize,
            Some(NameMatch::Several) => {
                return Ok(Err(format!("{} could be several items", regions.id)));
            }
            _ => return Ok(Err(format!("there is no item {}", regions.id))),
        };
        if self.rows[item] >= 0 {
            return Ok(Err(format!("features of {} were there before", regions.id)));
        }
        if let Some(expected) = self.out.shape.filter(|shape| *shape != regions.shape) {
            return Ok(Err(format!(
                "{} where the first image has {expected}; a dataset has as many regions for every \
                 image",
                regions.shape
            )));
        }
        self.rows[item] = self.out.append(&regions)? as i64;
        Ok(Ok(()))
    }
}

/// The `.npy` file while it grows; its header is written last.
struct Growing {
    path: PathBuf,
    file: BufWriter<File>,
    shape: Option<Shape>,
    rows: usize,
}

impl Growing {
    fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|e| Error::io(path, e))?;
        let (path, file) = (path.to_path_buf(), BufWriter::new(file));
        Ok(Growing { path, file, shape: None, rows: 0 })
    }

    fn header(&self, shape: Shape) -> Vec<u8> {
        npy::header_of(self.rows, shape.regions, shape.dim, Dtype::F32)
    }

    /// Appends the features of an image and returns their row.
    fn append(&mut self, regions: &Regions) -> Result<usize, Error> {
        let header = match self.shape {
            Some(_) => Vec::new(),
            None => self.header(regions.shape),
        };
        self.shape = Some(regions.shape);
        let written = self.file.write_all(&header);
        let written = written.and_then(|()| self.file.write_all(&regions.features));
        written.map_err(|e| Error::io(&self.path, e))?;
        self.rows += 1;
        Ok(self.rows - 1)
    }

    /// Writes the header and returns the number of rows.
    fn finish(mut self) -> Result<usize, Error> {
        let header = self.shape.map_or_else(Vec::new, |shape| self.header(shape));
        let mut finish = || {
            self.file.rewind()?;
            self.file.write_all(&header)?;
            self.file.flush()?;
            self.file.get_ref().sync_all()
        };
        finish().map_err(|e| Error::io(&self.path, e))?;
        Ok(self.rows)
    }
}
