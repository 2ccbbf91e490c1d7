//! A selection with its files open: from here on nothing depends on what was typed.

use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use nextpair_data::{Matrix, open};
use nextpair_engine::{
    BagOfWords, Embeddings, Features, Matching, Metric, Progress, Question, Rule, Settings, Size,
    StrategyName, Vectors, bag_of_words, mean_features,
};

use crate::inputs::{FeaturesName, PoolSide};
use crate::memory::megabytes;

/// A selection with its files open and its flags checked.
pub(crate) struct Selection {
    pub(crate) strategy: StrategyName,
    pub(crate) budget: usize,
    pub(crate) pool: Matrix,
    pub(crate) ids: Option<Vec<String>>,
    pub(crate) anchor_ids: Option<Vec<String>>,
    /// Where distances can be taken from again, for `merge`.
    pub(crate) sources: Sources,
    pub(crate) rivals: Matrix,
    /// The anchors and the rule of hits, for strategies that look at them.
    pub(crate) matched: Option<(Matrix, Rule)>,
    pub(crate) metric: Metric,
    pub(crate) settings: Settings,
    pub(crate) features: FeaturesName,
}

/// What errors call the pool.
pub(crate) const POOL_NAME: &str = "the pool items";

/// The files of the pool's own side.
pub(crate) struct Sources {
    pub(crate) pool: PathBuf,
    pub(crate) paired: PathBuf,
    pub(crate) side: PoolSide,
}

impl Sources {
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

impl Selection {
    /// Asks `work` the question that was typed, about some of the pool.
    pub(crate) fn ask<T>(
        &self,
        items: Range<u32>,
        progress: &dyn Progress,
        work: impl FnOnce(&Question<'_>) -> Result<T>,
    ) -> Result<T> {
        let shard = self.pool.slice(items.start as usize..items.end as usize);
        let vectors = self.feature_vectors(progress)?;
        let (pool_features, paired_features) =
            vectors.as_ref().map_or((&self.pool, &self.rivals), |(pool, paired)| (pool, paired));
        let question = Question {
            pool: shard.rows(),
            matching: None,
            features: Some(Features { pool: pool_features, paired: paired_features }),
            seed: self.settings.seed,
            progress,
        };
        let Some((anchors, rule)) = &self.matched else {
            if !self.strategy.needs().features {
                // Nobody else will look at the numbers, and bad ones should not pass in silence.
                Vectors::new(&shard.flattened(), POOL_NAME).map_err(|e| in_pool(e, items.start))?;
            }
            return work(&question);
        };
        let names = self.sources.side.paired_names();
        let rivals = Vectors::new(&self.rivals, names[0])?;
        let anchors = Vectors::new(anchors, names[1])?;
        let pool = Vectors::new(&shard, POOL_NAME).map_err(|e| in_pool(e, items.start))?;
        let columns = (&anchors, names[1]);
        let matching = Matching {
            pool: &Embeddings::new((&pool, POOL_NAME), columns, self.metric)
                .map_err(|e| in_pool(e, items.start))?,
            paired: &Embeddings::new((&rivals, names[0]), columns, self.metric)?,
            rule,
        };
        work(&Question { matching: Some(matching), ..question })
    }

    /// Whether distances need vectors that are not in the files.
    fn makes_features(&self) -> bool {
        let several = self.pool.locals() > 1 || self.rivals.locals() > 1;
        let needs = self.strategy.needs();
        // Similarities are of one vector per item; there the question itself refuses several.
        needs.features && !needs.matching && several
    }

    /// One vector per item, where items have several.
    fn feature_vectors(&self, progress: &dyn Progress) -> Result<Option<(Matrix, Matrix)>> {
        if !self.makes_features() {
            return Ok(None);
        }
        Ok(Some(match self.features {
            FeaturesName::Mean => (mean_features(&self.pool)?, mean_features(&self.rivals)?),
            FeaturesName::Bow => {
                let words = BagOfWords { seed: self.settings.seed, ..BagOfWords::default() };
                let (paired, pool) = bag_of_words(&self.rivals, &self.pool, words, progress)?;
                (pool, paired)
            }
        }))
    }

    /// What a pool item is called.
    pub(crate) fn id(&self, index: u32) -> String {
        name_of(self.ids.as_deref(), index)
    }

    /// What a pair is called.
    pub(crate) fn anchor_id(&self, index: u32) -> String {
        name_of(self.anchor_ids.as_deref(), index)
    }

    /// All of the pool.
    pub(crate) fn items(&self) -> Range<u32> {
        0..self.pool.rows() as u32
    }

    /// Says how much memory the work will take; the number of bytes.
    pub(crate) fn announce(&self) -> u64 {
        let (pool, pairs, dim) = (self.pool.rows(), self.rivals.rows(), self.pool.dim());
        let (budget, threads) = (self.budget, rayon::current_num_threads());
        let size = Size { pool, pairs, dim, budget, threads };
        let names = [&self.ids, &self.anchor_ids].into_iter().flatten().flatten();
        let names: usize = names.map(|name| name.len() + 64).sum();
        let words = match (self.makes_features(), self.features) {
            (true, FeaturesName::Bow) => {
                let vectors = pool * self.pool.locals() + pairs * self.rivals.locals();
                BagOfWords::default().memory(vectors, dim)
            }
            _ => 0,
        };
        let predicted = self.strategy.predicted_peak(&size) + (names + words) as u64;
        eprintln!(
            "{pool} pool items, {pairs} pairs, {dim} dimensions; predicted peak memory {}",
            megabytes(predicted)
        );
        predicted
    }

    /// A number that parts of one selection share: what was typed, and a sample of the numbers.
    pub(crate) fn fingerprint(&self) -> String {
        let typed = (self.strategy, self.budget, self.sources.side, self.metric, &self.settings);
        let named = (self.ids.is_some(), self.anchor_ids.is_some(), self.pool.dim());
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

fn name_of(ids: Option<&[String]>, index: u32) -> String {
    ids.map_or_else(|| index.to_string(), |ids| ids[index as usize].clone())
}
