//! A selection on embeddings in files.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use nextpair_data::{Matrix, Table, open, read_ids};
use nextpair_engine::{
    Embeddings, Features, Matching, Metric, Progress, Question, Rule, Size, Vectors, mean_features,
    require_finite,
};

use super::{POOL_NAME, Selection, Source};
use crate::inputs::{FeaturesName, PoolSide, SelectionArgs};
use crate::numbers::megabytes;

/// The open files.
pub(crate) struct Files {
    pub(super) pool: Matrix,
    /// Where distances can be taken from again, for `merge`.
    pub(crate) places: Places,
    rivals: Matrix,
    /// Where they were given; strategies that look at hits need them.
    anchors: Option<Matrix>,
    /// Of hits, for strategies that look at them.
    rule: Option<Rule>,
    metric: Metric,
}

/// The files of the pool's own side.
pub(crate) struct Places {
    pub(crate) pool: PathBuf,
    pub(crate) paired: PathBuf,
    pub(crate) side: PoolSide,
}

impl Places {
    /// The matrices of the pool, which must still have `items`, and of its paired side.
    pub(crate) fn open(&self, items: usize) -> Result<(Matrix, Matrix)> {
        let side = self.side.data();
        let pool = open(&self.pool, side)?.matrix;
        ensure!(
            pool.rows() == items,
            "{}: {} items, but it had {items} when the parts were scored",
            self.pool.display(),
            pool.rows()
        );
        Ok((pool, open(&self.paired, side)?.matrix))
    }
}

impl SelectionArgs {
    /// Opens the files of a selection and checks what can be checked without computing.
    pub(crate) fn open_files(&self, pool_path: &Path) -> Result<Selection> {
        let needs = self.strategy.needs();
        let uses_hits = needs.matching;
        let pool = open(pool_path, self.pool_side.data())?;
        ensure!(
            u32::try_from(pool.matrix.rows()).is_ok(),
            nextpair_engine::Error::TooManyRows { what: POOL_NAME, rows: pool.matrix.rows() }
        );
        let (own, other) = match self.pool_side {
            PoolSide::Image => (&self.paired_images, &self.paired_texts),
            PoolSide::Text => (&self.paired_texts, &self.paired_images),
        };
        let flags = match self.pool_side {
            PoolSide::Image => ["--paired-images", "--paired-texts"],
            PoolSide::Text => ["--paired-texts", "--paired-images"],
        };
        let own_path = own.as_deref().with_context(|| format!("{} is missing", flags[0]))?;
        let rivals = open(own_path, self.pool_side.data())?.matrix;
        let [own_name, _] = self.pool_side.paired_names();
        if (needs.features || needs.matching) && pool.matrix.dim() != rivals.dim() {
            bail!(nextpair_engine::Error::DimensionMismatch {
                left: POOL_NAME,
                left_dim: pool.matrix.dim(),
                right: own_name,
                right_dim: rivals.dim(),
            });
        }
        let anchors = match other {
            Some(path) => Some(open(path, self.pool_side.other().data())?),
            None if uses_hits => bail!("{} is missing; {} needs it", flags[1], self.strategy),
            None => None,
        };
        if let Some(anchors) = &anchors {
            let counts = match self.pool_side {
                PoolSide::Image => (rivals.rows(), anchors.matrix.rows()),
                PoolSide::Text => (anchors.matrix.rows(), rivals.rows()),
            };
            let (images, texts) = counts;
            ensure!(images == texts, nextpair_engine::Error::PairCount { images, texts });
        }
        let pairs = rivals.rows();
        ensure!(pairs > 0, nextpair_engine::Error::EmptyPaired);
        let settings = self.settings(pairs)?;
        let rule = self.rule(&settings, pairs)?;
        let ids = matched_ids(self.ids.as_deref(), pool_path, pool.ids, pool.matrix.rows())?;
        let (anchors, from_table) = match anchors {
            Some(Table { matrix, ids }) => (Some(matrix), ids),
            None => (None, None),
        };
        let anchor_path = other.as_deref().unwrap_or(own_path);
        let anchor_ids = matched_ids(self.paired_ids.as_deref(), anchor_path, from_table, pairs)?;
        let places = Places {
            pool: pool_path.to_path_buf(),
            paired: own_path.to_path_buf(),
            side: self.pool_side,
        };
        let files =
            Files { pool: pool.matrix, places, rivals, anchors, rule, metric: self.metric() };
        Ok(Selection {
            strategy: self.strategy,
            budget: self.budget,
            side: self.pool_side,
            ids,
            anchor_ids,
            settings,
            features: self.features,
            bow: self.bow()?,
            source: Source::Files(Box::new(files)),
        })
    }
}

impl Files {
    pub(super) fn ask<T>(
        &self,
        selection: &Selection,
        items: Range<u32>,
        progress: &dyn Progress,
        work: impl FnOnce(&Question<'_>) -> Result<T>,
    ) -> Result<T> {
        let shard = self.pool.slice(items.start as usize..items.end as usize);
        let names = selection.side.paired_names();
        let matched = self.anchors.as_ref().zip(self.rule.as_ref());
        if matched.is_none() {
            // Nobody else will look at all the numbers, and bad ones must not pass in silence.
            require_finite(&shard, POOL_NAME).map_err(|e| in_pool(e, items.start))?;
            require_finite(&self.rivals, names[0])?;
            self.anchors.as_ref().map_or(Ok(()), |anchors| require_finite(anchors, names[1]))?;
        }
        let vectors = self.feature_vectors(selection, progress)?;
        let (pool, paired) =
            vectors.as_ref().map_or((&self.pool, &self.rivals), |(pool, paired)| (pool, paired));
        let question = Question {
            pool: shard.rows(),
            matching: None,
            features: selection.strategy.needs().features.then_some(Features { pool, paired }),
            seed: selection.settings.seed,
            progress,
        };
        let Some((anchors, rule)) = matched else { return work(&question) };
        let rivals = Vectors::new(self.rivals.clone(), names[0])?;
        let anchors = Vectors::new(anchors.clone(), names[1])?;
        let pool = Vectors::new(shard.clone(), POOL_NAME).map_err(|e| in_pool(e, items.start))?;
        let matching = Matching {
            pool: &Embeddings::new(pool, anchors.clone(), self.metric)
                .map_err(|e| in_pool(e, items.start))?,
            paired: &Embeddings::new(rivals, anchors, self.metric)?,
            rule,
        };
        work(&Question { matching: Some(matching), ..question })
    }

    /// An error if a file is not what it was when it was opened.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        let matrices = [&self.pool, &self.rivals].into_iter().chain(&self.anchors);
        Ok(matrices.into_iter().try_for_each(Matrix::check_unchanged)?)
    }

    /// Whether distances need vectors that are not in the files.
    fn makes_features(&self, selection: &Selection) -> bool {
        let several = self.pool.locals() > 1 || self.rivals.locals() > 1;
        let needs = selection.strategy.needs();
        // Similarities are of one vector per item; there the question itself refuses several.
        needs.features && !needs.matching && several
    }

    /// One vector per item, where items have several.
    fn feature_vectors(
        &self,
        selection: &Selection,
        progress: &dyn Progress,
    ) -> Result<Option<(Matrix, Matrix)>> {
        if !self.makes_features(selection) {
            return Ok(None);
        }
        Ok(Some(match selection.features {
            FeaturesName::Mean => (mean_features(&self.pool)?, mean_features(&self.rivals)?),
            FeaturesName::Bow => selection.bags(&self.pool, &self.rivals, progress)?,
        }))
    }

    /// Says how much memory the work will take; the number of bytes.
    pub(super) fn announce(&self, selection: &Selection) -> u64 {
        let (pool, pairs, dim) = (self.pool.rows(), self.rivals.rows(), self.pool.dim());
        let (budget, threads) = (selection.budget, rayon::current_num_threads());
        let size = Size { pool, pairs, dim, budget, threads };
        let names = [&selection.ids, &selection.anchor_ids].into_iter().flatten().flatten();
        let names: usize = names.map(|name| name.len() + 64).sum();
        let words = match (self.makes_features(selection), selection.features) {
            (true, FeaturesName::Bow) => {
                let vectors = pool * self.pool.locals() + pairs * self.rivals.locals();
                selection.words().memory(vectors, dim)
            }
            _ => 0,
        };
        let predicted = selection.strategy.predicted_peak(&size) + (names + words) as u64;
        say!(
            "{pool} pool items, {pairs} pairs, {dim} dimensions; predicted peak memory {}",
            megabytes(predicted)
        );
        predicted
    }

    /// A number that parts of one selection share: what was typed, and a sample of the numbers.
    pub(crate) fn fingerprint(&self, selection: &Selection) -> String {
        let Selection { strategy, budget, side, settings, ids, anchor_ids, .. } = selection;
        let typed = (strategy, budget, side, self.metric, settings);
        let named = (ids.is_some(), anchor_ids.is_some(), self.pool.dim());
        let mut hash = Fnv::new();
        hash.add(format!("{typed:?} {named:?}").as_bytes());
        for matrix in [&self.pool, &self.rivals] {
            for row in (0..matrix.rows()).step_by(matrix.rows().div_ceil(64).max(1)) {
                hash.add(matrix.row_bytes(row));
            }
        }
        format!("{:016x}", hash.0)
    }
}

/// The FNV-1a hash: the same on every machine, which the standard library does not promise.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// Rows of a shard count from its first item; errors name them as rows of the pool.
fn in_pool(mut error: nextpair_engine::Error, first: u32) -> nextpair_engine::Error {
    use nextpair_engine::Error::{NormOutOfRange, NotFinite, ZeroVector};
    if let NotFinite { what, row, .. } | NormOutOfRange { what, row, .. } | ZeroVector { what, row } =
        &mut error
        && *what == POOL_NAME
    {
        *row += first as usize;
    }
    error
}

/// The ids of a table's rows: those of a file if one is given, else those that came with it.
fn matched_ids(
    file: Option<&Path>,
    table: &Path,
    from_table: Option<Vec<String>>,
    rows: usize,
) -> Result<Option<Vec<String>>> {
    if let Some(file) = file {
        let ids = read_ids(file)?;
        let count = ids.len();
        ensure!(
            count == rows,
            "{}: {count} ids for the {rows} rows of {}",
            file.display(),
            table.display()
        );
        return Ok(Some(ids));
    }
    if let Some(ids) = &from_table {
        let mut first: HashMap<&str, usize> = HashMap::with_capacity(ids.len());
        for (row, id) in ids.iter().enumerate() {
            if let Some(earlier) = first.insert(id, row) {
                bail!("{}: rows {earlier} and {row} have the same id '{id}'", table.display());
            }
        }
    }
    Ok(from_table)
}
