//! Embeddings or similarities in files: the paired set and a pool.

mod candidates;
mod of_dataset;
mod tiles;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use nextpair_core::{Matrix, Side};
use nextpair_data::{Columns, open_columns, read_ids};
use nextpair_engine::{self as engine, BagOfWords, Device, Metric};

use crate::Error;

/// Paths of pairs, pool and their names. Matrices are `.npy`, `.parquet`, `.safetensors:tensor`, or
/// folders of them.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Side of the pool: images or texts.
    pub pool_side: Side,
    /// Embeddings of the unpaired items.
    pub pool: PathBuf,
    /// Embeddings of the pairs' half on the pool's side, row `j` of pair `j`; none if nothing is paired.
    pub paired: Option<PathBuf>,
    /// Embeddings of the other half; not every strategy needs it.
    pub anchors: Option<PathBuf>,
    /// One id per pool item and line, if the table has none, or to replace them.
    pub pool_ids: Option<PathBuf>,
    /// One id per pair and line.
    pub pair_ids: Option<PathBuf>,
}

/// Paths of similarities that any model computed, and of names. Rows are items on the side of the
/// pool, columns are pairs: in row `i`, column `j` is the similarity of item `i` and the other half of
/// pair `j`. Every path is a file that [`Paths`] could name, or a folder of such files in the order
/// of their names; the rows of several continue each other.
#[derive(Clone, Debug)]
pub struct SimilarityPaths {
    /// Side of the pool: images or texts.
    pub pool_side: Side,
    /// A row for every unpaired item.
    pub pool: Vec<PathBuf>,
    /// A row for every pair, of its half on the side of the pool: row and column `j` are pair `j`.
    pub pairs: Vec<PathBuf>,
    /// Vectors of the pool and of the pairs' half on its side, for what similarities do not tell:
    /// distances and near duplicates.
    pub vectors: Option<(PathBuf, PathBuf)>,
    /// One id per pool item and line.
    pub pool_ids: Option<PathBuf>,
    /// One id per pair and line.
    pub pair_ids: Option<PathBuf>,
}

/// Open files with matching shapes, and how to compare what is in them.
pub struct Files {
    /// How to compare embeddings.
    pub metric: Metric,
    /// How to find visual words, if features need them; the seed is that of the selection.
    pub words: BagOfWords,
    /// Pool items that annotators refused, ascending. Neither they nor items that look like them are picked.
    pub refused: Option<Vec<u32>>,
    /// Embeddings of what people search for, on the side that the pool lacks, for strategies that
    /// cover points.
    pub queries: Option<Matrix>,
    /// Where pairs of embeddings are ruled out: on a GPU by default where there is one and the work is
    /// worth it. Only the time depends on it.
    pub device: Device,
    side: Side,
    vectors: Option<Embedded>,
    similarities: Option<Similarities>,
    pool_ids: Option<Vec<String>>,
    pair_ids: Option<Vec<String>>,
}

/// Vectors of items.
#[derive(Clone)]
struct Embedded {
    /// Where those of the pool and of the pairs are, if each has a file of its own.
    paths: Option<(PathBuf, PathBuf)>,
    pool: Matrix,
    paired: Matrix,
    anchors: Option<Matrix>,
}

/// Similarities to the pairs.
#[derive(Clone)]
struct Similarities {
    pool: Matrix,
    pairs: Matrix,
}

impl Files {
    /// Maps the files. This does not read their numbers yet.
    pub fn open(paths: Paths) -> Result<Self, Error> {
        Self::open_columns(paths, &Columns::default())
    }

    /// Like [`open`](Self::open), with other columns of Parquet files.
    pub fn open_columns(paths: Paths, columns: &Columns) -> Result<Self, Error> {
        let side = paths.pool_side;
        let open = |path: &Path, side| open_columns(path, side, columns);
        let pool = open(&paths.pool, side)?;
        let rows = counted(pool.matrix.rows())?;
        let paired = match &paths.paired {
            Some(path) => open(path, side)?.matrix,
            None => pool.matrix.slice(0..0),
        };
        let anchors = paths.anchors.as_ref().map(|path| open(path, side.other())).transpose()?;
        let pairs = paired.rows();
        if let Some(anchors) = &anchors
            && anchors.matrix.rows() != pairs
        {
            let (images, texts) = side.own_and_other(pairs, anchors.matrix.rows());
            return Err(engine::Error::PairCount { images, texts }.into());
        }
        let pool_ids = matched_ids(paths.pool_ids.as_deref(), &paths.pool, pool.ids, rows)?;
        let (anchors, ids) = anchors.map_or((None, None), |table| (Some(table.matrix), table.ids));
        let table = paths.anchors.as_deref().or(paths.paired.as_deref()).unwrap_or(&paths.pool);
        let pair_ids = matched_ids(paths.pair_ids.as_deref(), table, ids, pairs)?;
        let paths = paths.paired.map(|paired| (paths.pool, paired));
        let vectors = Some(Embedded { paths, pool: pool.matrix, paired, anchors });
        Ok(Files { pool_ids, pair_ids, ..Files::of(side, vectors, None) })
    }

    /// Maps files of similarities. This does not read their numbers yet.
    ///
    /// # Errors
    /// If a file cannot be read, or if files that continue each other differ in columns or type. A
    /// [`Selection`](crate::Selection) checks shapes.
    pub fn open_similarities(paths: SimilarityPaths) -> Result<Self, Error> {
        Self::open_similarity_columns(paths, &Columns::default())
    }

    /// Like [`open_similarities`](Self::open_similarities), with other columns of Parquet files.
    pub fn open_similarity_columns(
        paths: SimilarityPaths,
        columns: &Columns,
    ) -> Result<Self, Error> {
        let side = paths.pool_side;
        let open = |path: &Path, side| open_columns(path, side, columns);
        let pool = tiles::open(&paths.pool, side, columns)?;
        let pairs = tiles::open(&paths.pairs, side, columns)?;
        let rows = counted(pool.matrix.rows())?;
        if pairs.matrix.rows() == 0 {
            return Err(engine::Error::EmptyPaired.into());
        }
        let vectors = match paths.vectors {
            None => None,
            Some(paths) => {
                let (of_pool, paired) =
                    (open(&paths.0, side)?.matrix, open(&paths.1, side)?.matrix);
                for (path, found, wanted) in [
                    (&paths.0, of_pool.rows(), rows),
                    (&paths.1, paired.rows(), pairs.matrix.rows()),
                ] {
                    if found != wanted {
                        let path = path.display();
                        let what =
                            format!("{path}: {found} vectors, but {wanted} rows of similarities");
                        return Err(Error::Files(what));
                    }
                }
                Some(Embedded { paths: Some(paths), pool: of_pool, paired, anchors: None })
            }
        };
        let name = |paths: &[PathBuf]| paths.first().cloned().unwrap_or_default();
        let pool_ids = matched_ids(paths.pool_ids.as_deref(), &name(&paths.pool), pool.ids, rows)?;
        let count = pairs.matrix.rows();
        let pair_ids =
            matched_ids(paths.pair_ids.as_deref(), &name(&paths.pairs), pairs.ids, count)?;
        let similarities = Some(Similarities { pool: pool.matrix, pairs: pairs.matrix });
        Ok(Files { pool_ids, pair_ids, ..Files::of(side, vectors, similarities) })
    }

    fn of(side: Side, vectors: Option<Embedded>, similarities: Option<Similarities>) -> Self {
        Files {
            metric: Metric::default(),
            words: BagOfWords::default(),
            refused: None,
            queries: None,
            device: Device::auto(),
            side,
            vectors,
            similarities,
            pool_ids: None,
            pair_ids: None,
        }
    }

    /// The side of the pool.
    pub fn pool_side(&self) -> Side {
        self.side
    }

    /// Items in the pool.
    pub fn items(&self) -> usize {
        self.first().0.rows()
    }

    /// Pairs.
    pub fn pairs(&self) -> usize {
        self.first().1.rows()
    }

    /// A matrix with a row for every pool item and one with a row for every pair: similarities if they
    /// are given, and vectors otherwise.
    fn first(&self) -> (&Matrix, &Matrix) {
        match (&self.similarities, &self.vectors) {
            (Some(given), _) => (&given.pool, &given.pairs),
            (None, Some(vectors)) => (&vectors.pool, &vectors.paired),
            (None, None) => unreachable!("files have vectors or similarities"),
        }
    }

    /// The vectors of the pool, and of the pairs' half on its side, if there are any.
    pub fn vectors(&self) -> Option<(&Matrix, &Matrix)> {
        self.vectors.as_ref().map(|vectors| (&vectors.pool, &vectors.paired))
    }

    /// The files of these vectors.
    pub(crate) fn vector_paths(&self) -> Option<(&Path, &Path)> {
        self.vectors.as_ref()?.paths.as_ref().map(|(pool, paired)| (&**pool, &**paired))
    }

    /// The embeddings of the pairs' other half, if given.
    pub fn anchors(&self) -> Option<&Matrix> {
        self.vectors.as_ref()?.anchors.as_ref()
    }

    /// The similarities of the pool and of the pairs, if they are given.
    pub fn similarities(&self) -> Option<(&Matrix, &Matrix)> {
        self.similarities.as_ref().map(|given| (&given.pool, &given.pairs))
    }

    /// All matrices.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        let vectors =
            self.vectors.iter().flat_map(|v| [&v.pool, &v.paired].into_iter().chain(&v.anchors));
        vectors.chain(self.similarities.iter().flat_map(|given| [&given.pool, &given.pairs]))
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
}

/// The rows of a pool, if there are not too many.
fn counted(rows: usize) -> Result<usize, Error> {
    match u32::try_from(rows) {
        Ok(_) => Ok(rows),
        Err(_) => Err(engine::Error::TooManyRows { what: POOL, rows }.into()),
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
