//! A selection on files: all that its parts must agree on.

use std::collections::HashSet;
use std::ops::Range;

use nextpair_core::{Matrix, Progress};
use nextpair_engine::{
    BagOfWords, ItemFeatures, Metric, Picks, Problem, ProblemBuilder, Settings, Shard, Size,
    StrategyName, Usability, bag_of_words, mean_features, require_finite,
};

use crate::files::{POOL, paired_names};
use crate::{Error, Files, Part};

/// The files, strategy and settings of a selection.
pub struct Selection {
    /// The paired set and the pool.
    pub files: Files,
    /// The strategy.
    pub strategy: StrategyName,
    /// Number of items to pick.
    pub budget: usize,
    /// How to compare embeddings.
    pub metric: Metric,
    /// Which pairs take part, how hits count, and the seed of every draw.
    pub settings: Settings,
    /// How to turn several vectors per item into one, for distances.
    pub features: ItemFeatures,
    /// How to find visual words, if features need them; the seed is that of the settings.
    pub words: BagOfWords,
    /// Pool items that annotators refused. Neither they nor items that look like them are picked.
    pub refused: Option<Vec<u32>>,
    /// Embeddings of what people search for, on the side that the pool lacks, for strategies that
    /// cover points.
    pub queries: Option<Matrix>,
}

impl Selection {
    /// Hard negatives by cosine similarity, with default settings.
    pub fn new(files: Files, budget: usize) -> Self {
        Selection {
            files,
            strategy: StrategyName::HardNegative,
            budget,
            metric: Metric::default(),
            settings: Settings::default(),
            features: ItemFeatures::default(),
            words: BagOfWords::default(),
            refused: None,
            queries: None,
        }
    }

    /// Checks shapes and settings, but not the numbers.
    pub fn check(&self) -> Result<(), Error> {
        let (pool, paired) = (self.files.pool(), self.files.paired());
        if self.strategy.needs().features && pool.dim() != paired.dim() {
            let (left_dim, right_dim) = (pool.dim(), paired.dim());
            let (right, _) = paired_names(self.files.paths().pool_side);
            let mismatch = nextpair_engine::Error::DimensionMismatch {
                left: POOL,
                left_dim,
                right,
                right_dim,
            };
            return Err(mismatch.into());
        }
        Ok(self.compared()?.settings(self.settings.clone()).check()?)
    }

    /// Selects the picks.
    pub fn select(&self, progress: &dyn Progress) -> Result<Picks, Error> {
        if let Some(refused) = &self.refused {
            let kept = self.steady(|| self.usable(refused, progress))?;
            let usable = Selection {
                files: self.files.only(&kept),
                settings: self.settings.clone(),
                refused: None,
                queries: self.queries.clone(),
                ..*self
            };
            let pool = self.files.pool().rows() - refused.len();
            return Ok(usable.select(progress)?.among(&kept, pool));
        }
        let whole = 0..self.files.pool().rows() as u32;
        self.steady(|| {
            Ok(self.problem(whole, progress)?.select(self.strategy, self.budget, progress)?)
        })
    }

    /// Returns the pool items to choose from, ascending, if annotators refused some.
    fn usable(&self, refused: &[u32], progress: &dyn Progress) -> Result<Vec<u32>, Error> {
        let (pool, paired) = (self.files.pool(), self.files.paired());
        let one_each = |matrix: &Matrix| match matrix.locals() {
            1 => Ok(matrix.clone()),
            _ => mean_features(matrix, progress),
        };
        let (pool, paired) = (one_each(pool)?, one_each(paired)?);
        let gone: HashSet<u32> = refused.iter().copied().collect();
        let others: Vec<u32> = (0..pool.rows() as u32).filter(|row| !gone.contains(row)).collect();
        let rows = |rows: &[u32]| pool.view(rows.iter().map(|&row| row as usize));
        let (refused, seed) = (rows(refused), self.settings.seed);
        let kept = Usability::choose_from(
            &rows(&others),
            (&paired, &refused),
            self.budget,
            seed,
            progress,
        )?;
        Ok(kept.into_iter().map(|at| others[at as usize]).collect())
    }

    /// Scores one shard of the pool; nothing is computed for the others.
    pub fn score(&self, shard: Shard, progress: &dyn Progress) -> Result<Part, Error> {
        self.strategy.check_shardable()?;
        if self.refused.is_some() {
            let what = "what annotators refused is learned from the whole pool, not from a shard";
            return Err(Error::Files(what.to_owned()));
        }
        let items = shard.items(self.files.pool().rows());
        let partial = self.steady(|| {
            Ok(self.problem(items, progress)?.score(&self.strategy, self.budget, progress)?)
        })?;
        Part::new(self, partial)
    }

    /// The problem for some items of the pool, with all that the strategy needs.
    pub fn problem(&self, items: Range<u32>, progress: &dyn Progress) -> Result<Problem, Error> {
        let needs = self.strategy.needs();
        if !needs.matching {
            self.check_unread(items.clone())?;
        }
        let mut problem = self.compared()?.settings(self.settings.clone()).only(items);
        // Embeddings that are compared are their own features.
        if needs.features && !needs.matching {
            let (pool, paired) = self.vectors(progress)?;
            problem = problem.features(pool, paired);
        }
        Ok(problem.build()?)
    }

    /// Predicted peak of anonymous memory, in bytes.
    pub fn predicted_peak(&self) -> u64 {
        let (pool, paired) = (self.files.pool(), self.files.paired());
        let (items, pairs, dim) = (pool.rows(), paired.rows(), pool.dim());
        let (budget, threads) = (self.budget, rayon::current_num_threads());
        let size = Size { pool: items, pairs, dim, budget, threads };
        let names = [self.files.pool_ids(), self.files.pair_ids()].into_iter().flatten().flatten();
        let names: usize = names.map(|name| name.len() + 64).sum();
        let words = if self.makes_vectors() && self.features == ItemFeatures::Bow {
            self.bag_of_words().memory(items * pool.locals() + pairs * paired.locals(), dim)
        } else {
            0
        };
        self.strategy.predicted_peak(&size) + (names + words) as u64
    }

    /// Starts the problem, with similarities if the strategy needs them.
    fn compared(&self) -> Result<ProblemBuilder, Error> {
        let (side, pool) = (self.files.paths().pool_side, self.files.pool());
        if !self.strategy.needs().matching && self.queries.is_none() {
            return Ok(Problem::of_pool(pool.rows()));
        }
        let anchors = self
            .files
            .anchors()
            .ok_or(nextpair_engine::Error::NoSimilarity { strategy: self.strategy.as_str() })?;
        let (images, texts) = side.own_and_other(self.files.paired(), anchors);
        let problem = Problem::of_embeddings(images.clone(), texts.clone(), pool.clone(), side);
        let problem = problem.metric(self.metric);
        Ok(match &self.queries {
            Some(queries) => problem.queries(queries.clone()),
            None => problem,
        })
    }

    /// Checks the numbers that nothing else reads: bad ones must not go unnoticed.
    fn check_unread(&self, items: Range<u32>) -> Result<(), Error> {
        let (own, other) = paired_names(self.files.paths().pool_side);
        let first = items.start as usize;
        let shard = self.files.pool().slice(first..items.end as usize);
        require_finite(&shard, POOL).map_err(|error| error.in_rows_from(first))?;
        require_finite(self.files.paired(), own)?;
        if let Some(anchors) = self.files.anchors() {
            require_finite(anchors, other)?;
        }
        Ok(())
    }

    /// Whether distances need vectors that are not in the files.
    fn makes_vectors(&self) -> bool {
        let several = self.files.pool().locals() > 1 || self.files.paired().locals() > 1;
        let needs = self.strategy.needs();
        // Similarities take one vector per item; the problem itself rejects several.
        needs.features && !needs.matching && several
    }

    /// One vector per item of the pool and of the paired set.
    fn vectors(&self, progress: &dyn Progress) -> Result<(Matrix, Matrix), Error> {
        let (pool, paired) = (self.files.pool(), self.files.paired());
        if !self.makes_vectors() {
            return Ok((pool.clone(), paired.clone()));
        }
        Ok(match self.features {
            ItemFeatures::Mean => {
                (mean_features(pool, progress)?, mean_features(paired, progress)?)
            }
            ItemFeatures::Bow => {
                let (paired, pool) = bag_of_words(paired, pool, self.bag_of_words(), progress)?;
                (pool, paired)
            }
        })
    }

    fn bag_of_words(&self) -> BagOfWords {
        BagOfWords { seed: self.settings.seed, ..self.words }
    }

    /// Returns the answer of `work`, or an error if a file changed meanwhile. The change comes
    /// first, because it may have caused an error of `work`.
    fn steady<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let answer = work();
        self.files.check_unchanged()?;
        answer
    }
}
