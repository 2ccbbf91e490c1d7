//! Embeddings in files: the paired set and a pool.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use nextpair_core::{Matrix, Side};
use nextpair_data::{open, read_ids};
use nextpair_engine as engine;

use crate::Error;

/// Paths of pairs, pool and their names. Matrices are `.npy`, `.parquet`, `.safetensors:tensor`, or
/// folders of them.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Side of the pool: images or texts.
    pub pool_side: Side,
    /// Embeddings of the unpaired items.
    pub pool: PathBuf,
    /// Embeddings of the pairs' half on the pool's side, row `j` of pair `j`.
    pub paired: PathBuf,
    /// Embeddings of the other half; not every strategy needs it.
    pub anchors: Option<PathBuf>,
    /// One id per pool item and line, if the table has none, or to replace them.
    pub pool_ids: Option<PathBuf>,
    /// One id per pair and line.
    pub pair_ids: Option<PathBuf>,
}

/// Open files with matching shapes.
pub struct Files {
    paths: Paths,
    pool: Matrix,
    paired: Matrix,
    anchors: Option<Matrix>,
    pool_ids: Option<Vec<String>>,
    pair_ids: Option<Vec<String>>,
}

impl Files {
    /// Maps the files. This does not read their numbers yet.
    pub fn open(paths: Paths) -> Result<Self, Error> {
        let side = paths.pool_side;
        let pool = open(&paths.pool, side)?;
        let rows = pool.matrix.rows();
        if u32::try_from(rows).is_err() {
            return Err(engine::Error::TooManyRows { what: POOL, rows }.into());
        }
        let paired = open(&paths.paired, side)?.matrix;
        let anchors = paths.anchors.as_ref().map(|path| open(path, side.other())).transpose()?;
        let pairs = paired.rows();
        if let Some(anchors) = &anchors
            && anchors.matrix.rows() != pairs
        {
            let (images, texts) = side.own_and_other(pairs, anchors.matrix.rows());
            return Err(engine::Error::PairCount { images, texts }.into());
        }
        if pairs == 0 {
            return Err(engine::Error::EmptyPaired.into());
        }
        let pool_ids = matched_ids(paths.pool_ids.as_deref(), &paths.pool, pool.ids, rows)?;
        let (anchors, ids) = anchors.map_or((None, None), |table| (Some(table.matrix), table.ids));
        let table = paths.anchors.as_deref().unwrap_or(&paths.paired);
        let pair_ids = matched_ids(paths.pair_ids.as_deref(), table, ids, pairs)?;
        Ok(Files { pool: pool.matrix, paired, anchors, pool_ids, pair_ids, paths })
    }

    /// The paths of the files.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The pool.
    pub fn pool(&self) -> &Matrix {
        &self.pool
    }

    /// The pairs' half on the pool's side.
    pub fn paired(&self) -> &Matrix {
        &self.paired
    }

    /// The pairs' other half, if given.
    pub fn anchors(&self) -> Option<&Matrix> {
        self.anchors.as_ref()
    }

    /// The names of the pool items, if they have any.
    pub fn pool_ids(&self) -> Option<&[String]> {
        self.pool_ids.as_deref()
    }

    /// The names of the pairs, if they have any.
    pub fn pair_ids(&self) -> Option<&[String]> {
        self.pair_ids.as_deref()
    }

    /// The name of a pool item, or else its index.
    pub fn pool_id(&self, index: u32) -> String {
        name_of(self.pool_ids(), index)
    }

    /// The name of a pair, or else its index.
    pub fn pair_id(&self, index: u32) -> String {
        name_of(self.pair_ids(), index)
    }

    /// The same files with some items of the pool alone.
    pub(crate) fn only(&self, rows: &[u32]) -> Files {
        let names = |ids: &Vec<String>| rows.iter().map(|&row| ids[row as usize].clone()).collect();
        Files {
            paths: self.paths.clone(),
            pool: self.pool.view(rows.iter().map(|&row| row as usize)),
            paired: self.paired.clone(),
            anchors: self.anchors.clone(),
            pool_ids: self.pool_ids.as_ref().map(names),
            pair_ids: self.pair_ids.clone(),
        }
    }

    /// Fails if a file changed since it was opened.
    pub fn check_unchanged(&self) -> Result<(), Error> {
        let matrices = [&self.pool, &self.paired].into_iter().chain(&self.anchors);
        Ok(matrices.into_iter().try_for_each(Matrix::check_unchanged)?)
    }
}

/// Name of the pool in errors.
pub(crate) const POOL: &str = "the pool items";

/// Names in errors of the pairs' half on the pool's side, and of the other.
pub(crate) fn paired_names(pool_side: Side) -> (&'static str, &'static str) {
    pool_side.own_and_other("the paired images", "the paired texts")
}

fn name_of(ids: Option<&[String]>, index: u32) -> String {
    ids.map_or_else(|| index.to_string(), |ids| ids[index as usize].clone())
}

/// The ids of a table's rows: those of `file` if given, else those of the table itself.
fn matched_ids(
    file: Option<&Path>,
    table: &Path,
    from_table: Option<Vec<String>>,
    rows: usize,
) -> Result<Option<Vec<String>>, Error> {
    if let Some(file) = file {
        let ids = read_ids(file)?;
        if ids.len() != rows {
            let (file, table, count) = (file.display(), table.display(), ids.len());
            let what = format!("{file}: {count} ids for the {rows} rows of {table}");
            return Err(Error::Files(what));
        }
        return Ok(Some(ids));
    }
    if let Some(ids) = &from_table {
        let mut first: HashMap<&str, usize> = HashMap::with_capacity(ids.len());
        for (row, id) in ids.iter().enumerate() {
            if let Some(earlier) = first.insert(id, row) {
                let table = table.display();
                let what = format!("{table}: rows {earlier} and {row} have the same id '{id}'");
                return Err(Error::Files(what));
            }
        }
    }
    Ok(from_table)
}
