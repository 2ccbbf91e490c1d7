//! Existing embeddings: clip-retrieval folders, and plain arrays and tables.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{Entry, Importer, Sink};
use crate::dataset::Item;
use crate::lines::{Line, Lines};
use crate::{Columns, Error, Matrix, Side, clip_retrieval, npy, open_columns, read_ids};

/// Embeddings of images, of texts, or of both in the same order.
#[derive(Clone, Debug)]
pub struct Embeddings {
    /// A clip-retrieval folder, or a file of embeddings.
    pub source: PathBuf,
    /// The side of a file.
    pub side: Side,
    /// A file of the other side, with the same rows in the same order.
    pub other: Option<PathBuf>,
    /// A file with one id per line.
    pub ids: Option<PathBuf>,
    /// A file with one caption per line; an empty line is an item without one.
    pub captions: Option<PathBuf>,
    /// The split of all items.
    pub split: String,
    /// The columns of Parquet files.
    pub columns: Columns,
}

/// The rows of one side.
struct Rows {
    side: Side,
    source: PathBuf,
    files: Vec<PathBuf>,
    matrix: Matrix,
    ids: Option<Vec<String>>,
}

impl Importer for Embeddings {
    fn source(&self) -> String {
        format!("embeddings {}", self.source.display())
    }

    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let sides = if self.source.is_dir() { self.folder()? } else { self.files(sink)? };
        let rows = sides[0].matrix.rows();
        if let Some(other) = sides.iter().find(|side| side.matrix.rows() != rows) {
            let what = format!("{} rows, but the other side has {rows}", other.matrix.rows());
            return Err(Error::format(&other.source, what));
        }
        let ids = match &self.ids {
            Some(path) => Some(of_rows(path, read_ids(path)?, rows)?),
            None => sides.iter().find_map(|side| side.ids.clone()),
        };
        let captions = self.read_captions(rows, sink)?;
        if captions.is_some() {
            sink.text_rows_of_captions();
        }
        sink.start("reading", rows);
        for row in 0..rows {
            sink.advance(1);
            let caption = captions.as_ref().and_then(|captions| captions[row].clone());
            let item = Item {
                id: ids.as_ref().map_or_else(|| row.to_string(), |ids| ids[row].clone()),
                split: Some(self.split.clone()),
                image: None,
                captions: caption.into_iter().collect(),
            };
            let row_of = |side| sides.iter().any(|s| s.side == side).then_some(row);
            let (image_row, mut text_row) = (row_of(Side::Image), row_of(Side::Text));
            let place = format!("{}: row {row}", self.source.display());
            if text_row.is_some() && captions.is_some() && item.captions.is_empty() {
                sink.note("text embedding without a caption, not used", &place)?;
                text_row = None;
            }
            sink.entry(Entry { item, place, image_row, text_row })?;
        }
        sides.iter().try_for_each(|s| sink.features("embeddings", s.side, &s.files, rows))
    }
}

impl Embeddings {
    /// The sides of a clip-retrieval folder that exist.
    fn folder(&self) -> Result<Vec<Rows>, Error> {
        if let Some(other) = &self.other {
            return Err(Error::format(other, "a folder has both sides; name the other for a file"));
        }
        let mut sides = Vec::new();
        for side in [Side::Image, Side::Text] {
            let files = clip_retrieval::files(&self.source, side)?;
            if !files.is_empty() {
                let table = open_columns(&self.source, side, &self.columns)?;
                let (matrix, ids) = (table.matrix, table.ids);
                sides.push(Rows { side, source: self.source.clone(), files, matrix, ids });
            }
        }
        if sides.is_empty() {
            Err(Error::format(&self.source, "no img_emb_*.npy and no text_emb_*.npy"))
        } else {
            Ok(sides)
        }
    }

    fn files(&self, sink: &Sink<'_>) -> Result<Vec<Rows>, Error> {
        let other_side = if self.side == Side::Image { Side::Text } else { Side::Image };
        let other = self.other.as_ref().map(|path| (other_side, path));
        let mut sides = Vec::new();
        for (side, path) in [(self.side, &self.source)].into_iter().chain(other) {
            let table = open_columns(path, side, &self.columns)?;
            // Arrays stay where they are. Other formats cannot be mapped row by row.
            let is_npy = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy"));
            let file = if is_npy {
                path.clone()
            } else {
                let copy = sink.own_features()?.join(format!("embeddings.{side}.npy"));
                copy_matrix(&table.matrix, &copy).map_err(|e| Error::io(&copy, e))?;
                table.matrix.check_unchanged()?;
                copy
            };
            let (source, files) = (path.clone(), vec![file]);
            sides.push(Rows { side, source, files, matrix: table.matrix, ids: table.ids });
        }
        Ok(sides)
    }

    fn read_captions(
        &self,
        rows: usize,
        sink: &mut Sink<'_>,
    ) -> Result<Option<Vec<Option<String>>>, Error> {
        let Some(path) = &self.captions else {
            return if self.source.is_dir() {
                clip_retrieval::captions(&self.source)
            } else {
                Ok(None)
            };
        };
        let mut lines = Lines::open(path)?;
        let mut captions = Vec::new();
        while let Some(Line { number, text }) = lines.next()? {
            captions.push(match text {
                Ok(text) => Some(text).filter(|text| !text.trim().is_empty()),
                Err(what) => {
                    let place = format!("{}:{number}", path.display());
                    sink.bad("unreadable line", &place, &what)?;
                    None
                }
            });
        }
        of_rows(path, captions, rows).map(Some)
    }
}

fn of_rows<T>(path: &Path, lines: Vec<T>, rows: usize) -> Result<Vec<T>, Error> {
    if lines.len() == rows {
        Ok(lines)
    } else {
        Err(Error::format(path, format!("{} lines for {rows} rows", lines.len())))
    }
}

fn copy_matrix(matrix: &Matrix, path: &Path) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    npy::write_matrix(&mut file, matrix)?;
    file.flush()?;
    file.get_ref().sync_all()
}
