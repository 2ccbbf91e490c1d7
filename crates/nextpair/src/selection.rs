//! A selection on files: all that its parts must agree on.

use std::collections::HashSet;
use std::ops::Range;

use nextpair_core::{Matrix, Progress};
use nextpair_engine::{
    self as engine, Alike, BagOfWords, Device, Distinct, Finding, ItemFeatures, Known, Metric,
    Picks, Problem, ProblemBuilder, Settings, Shard, Size, StrategyName, Usability, bag_of_words,
    distinct, mean_features, require_finite,
};

use crate::files::{POOL, paired_names};
use crate::part::OTHER_SELECTION;
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
    /// When pool items count as duplicates of each other or of something paired: of them all, only the
    /// first is chosen from, and none if it is paired.
    pub dedupe: Option<Alike>,
    /// Embeddings of what people search for, on the side that the pool lacks, for strategies that
    /// cover points.
    pub queries: Option<Matrix>,
    /// Where pairs of embeddings are ruled out: on a GPU by default where there is one and the work is
    /// worth it. Only the time depends on it.
    pub device: Device,
    /// A part of this selection, whose thresholds [`score`](Selection::score) takes, so that they are
    /// not computed for every shard.
    pub thresholds: Option<Part>,
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
            dedupe: None,
            queries: None,
            device: Device::auto(),
            thresholds: None,
        }
    }

    /// Checks shapes and settings, but not the numbers.
    pub fn check(&self) -> Result<(), Error> {
        let needs = self.strategy.needs();
        if needs.features && self.files.vectors().is_none() {
            return Err(engine::Error::NoFeatures { strategy: self.strategy.as_str() }.into());
        }
        if let Some((pool, paired)) = self.files.vectors().filter(|_| needs.features)
            && pool.dim() != paired.dim()
        {
            let (left_dim, right_dim) = (pool.dim(), paired.dim());
            let (right, _) = paired_names(self.files.pool_side());
            let mismatch =
                engine::Error::DimensionMismatch { left: POOL, left_dim, right, right_dim };
            return Err(mismatch.into());
        }
        if let Some(alike) = self.dedupe {
            alike.check()?;
            if let Alike::Cosine(_) = alike {
                self.need_vectors("duplicates that are told by a cosine need")?;
            }
        }
        if self.refused.is_some() {
            self.need_vectors("items that look like refused ones are told by")?;
        }
        Ok(self.compared()?.settings(self.settings.clone()).check()?)
    }

    /// Selects the picks.
    pub fn select(&self, progress: &dyn Progress) -> Result<Picks, Error> {
        Ok(self.answer(false, progress)?.0)
    }

    /// Selects the picks, and looks for what is wrong with them and with the files.
    pub fn select_inspected(
        &self,
        progress: &dyn Progress,
    ) -> Result<(Picks, Vec<Finding>), Error> {
        self.answer(true, progress)
    }

    fn answer(
        &self,
        inspect: bool,
        progress: &dyn Progress,
    ) -> Result<(Picks, Vec<Finding>), Error> {
        let placed = |(picks, found): (Picks, Vec<Finding>), kept: &[u32]| {
            let found: Vec<_> = found.into_iter().map(|finding| finding.among(kept)).collect();
            (picks.among(kept), found)
        };
        if let Some(refused) = &self.refused {
            let kept = self.steady(|| self.usable(refused, progress))?;
            let usable = Selection { refused: None, ..self.only(&kept) };
            let (picks, found) = placed(usable.answer(inspect, progress)?, &kept);
            let left_out = Some(self.files.items() - refused.len() - kept.len());
            return Ok((Picks { left_out, ..picks }, found));
        }
        if let Some(alike) = self.dedupe {
            let distinct = self.steady(|| self.distinct(alike, progress))?;
            let duplicates = Some(distinct.left_out());
            let others = Selection { dedupe: None, ..self.only(&distinct.kept) };
            let (picks, found) = placed(others.answer(inspect, progress)?, &distinct.kept);
            return Ok((Picks { duplicates, ..picks }, found));
        }
        self.steady(|| {
            let problem = self.read_once(0..self.files.items() as u32, inspect, progress)?;
            let picks = problem.select(self.strategy, self.budget, progress)?;
            let found = match inspect {
                true => self.known(&problem, &picks, progress)?.inspect(&picks, progress)?,
                false => Vec::new(),
            };
            Ok((picks, found))
        })
    }

    /// What guards can look at.
    fn known<'a>(
        &self,
        problem: &'a Problem,
        picks: &Picks,
        progress: &dyn Progress,
    ) -> Result<Known<'a>, Error> {
        let picked = match self.files.vectors() {
            Some((pool, _)) => Some(one_each(&picked_rows(pool, &picks.indices()), progress)?),
            None => None,
        };
        let paired = match self.files.vectors() {
            Some((_, paired)) => Some(one_each(paired, progress)?),
            None => None,
        };
        let pool = Some(self.files.rows().0.clone());
        let anchors = self.files.anchors().cloned();
        Ok(Known { problem: Some(problem), chance: None, pool, picked, paired, anchors })
    }

    /// The same selection from some items of the pool.
    fn only(&self, kept: &[u32]) -> Selection {
        Selection {
            files: self.files.only(kept),
            settings: self.settings.clone(),
            refused: self.refused.clone(),
            queries: self.queries.clone(),
            device: self.device.clone(),
            // Shards are scored of whole pools alone.
            thresholds: None,
            ..*self
        }
    }

    /// The vectors of the pool and of the paired set, or an error that says what needs them.
    fn need_vectors(&self, what: &str) -> Result<(&Matrix, &Matrix), Error> {
        let missing = || {
            Error::Files(format!(
                "{what} vectors of the pool and of the pairs, beside similarities"
            ))
        };
        self.files.vectors().ok_or_else(missing)
    }

    /// Returns the pool without its duplicates.
    fn distinct(&self, alike: Alike, progress: &dyn Progress) -> Result<Distinct, Error> {
        let (pool, paired) = match alike {
            Alike::Exact => {
                let (pool, paired) = self.files.rows();
                (pool.clone(), paired.clone())
            }
            Alike::Cosine(_) => {
                let (pool, paired) =
                    self.need_vectors("duplicates that are told by a cosine need")?;
                (one_each(pool, progress)?, one_each(paired, progress)?)
            }
        };
        let distinct = distinct(&pool, &paired, alike, progress)?;
        let (budget, left) = (self.budget, distinct.kept.len());
        if budget > left {
            let what = format!(
                "the budget is {budget}, but without its duplicates the pool has only {left} of {} \
                 items",
                pool.rows()
            );
            return Err(Error::Files(what));
        }
        Ok(distinct)
    }

    /// Returns the pool items to choose from, ascending, if annotators refused some.
    fn usable(&self, refused: &[u32], progress: &dyn Progress) -> Result<Vec<u32>, Error> {
        let (pool, paired) = self.need_vectors("items that look like refused ones are told by")?;
        let (pool, paired) = (one_each(pool, progress)?, one_each(paired, progress)?);
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
        Ok(self.score_shard(shard, false, progress)?.0)
    }

    /// Scores one shard of the pool, and looks for what is wrong with the pairs and the shard. What is
    /// wrong with the picks is known when all parts are [finished](crate::Finished::inspect).
    pub fn score_inspected(
        &self,
        shard: Shard,
        progress: &dyn Progress,
    ) -> Result<(Part, Vec<Finding>), Error> {
        self.score_shard(shard, true, progress)
    }

    fn score_shard(
        &self,
        shard: Shard,
        inspect: bool,
        progress: &dyn Progress,
    ) -> Result<(Part, Vec<Finding>), Error> {
        self.strategy.check_shardable()?;
        if self.refused.is_some() {
            let what = "what annotators refused is learned from the whole pool, not from a shard";
            return Err(Error::Files(what.to_owned()));
        }
        if self.dedupe.is_some() {
            let what = "duplicates are found in the whole pool, not in a shard; leave them out of the \
                        pool before it is split, or select from the whole pool";
            return Err(Error::Files(what.to_owned()));
        }
        if let Some(part) = &self.thresholds
            && !part.is_of(self)
        {
            return Err(engine::Error::Parts(OTHER_SELECTION.to_owned()).into());
        }
        let items = shard.items(self.files.items());
        let (partial, chance, found) = self.steady(|| {
            let mut problem = self.read_once(items, inspect, progress)?;
            if let Some(part) = &self.thresholds {
                problem = problem.with_thresholds_of(part.partial(), progress)?;
            }
            let partial = problem.score(&self.strategy, self.budget, progress)?;
            let chance = problem.chance(self.budget, progress)?;
            let found = if inspect { problem.inspect_inputs(progress)? } else { Vec::new() };
            Ok((partial, chance, found))
        })?;
        Ok((Part::new(self, partial, chance)?, found))
    }

    /// The problem for some items of the pool, with all that the strategy needs.
    pub fn problem(&self, items: Range<u32>, progress: &dyn Progress) -> Result<Problem, Error> {
        Ok(self.stated(items, progress)?.build()?)
    }

    /// The same problem, whose pool is checked as it is read if the strategy goes through it item by
    /// item, as those that can be split do.
    fn read_once(
        &self,
        items: Range<u32>,
        inspected: bool,
        progress: &dyn Progress,
    ) -> Result<Problem, Error> {
        let problem = self.stated(items, progress)?;
        let problem = match self.strategy.check_shardable() {
            Ok(()) => problem.read_once(inspected),
            Err(_) => problem,
        };
        Ok(problem.build()?)
    }

    fn stated(&self, items: Range<u32>, progress: &dyn Progress) -> Result<ProblemBuilder, Error> {
        let needs = self.strategy.needs();
        if !needs.matching {
            self.check_unread(items.clone())?;
        }
        let problem = self.compared()?.settings(self.settings.clone());
        let mut problem = problem.on(self.device.clone()).only(items);
        // Embeddings that are compared are their own features.
        if needs.features && (!needs.matching || self.files.similarities().is_some()) {
            let (pool, paired) = self.vectors(progress)?;
            problem = problem.features(pool, paired);
        }
        Ok(problem)
    }

    /// Predicted peak of anonymous memory, in bytes.
    pub fn predicted_peak(&self) -> u64 {
        self.peak_with(self.files.items())
    }

    /// Predicted peak of anonymous memory when one shard is scored, in bytes.
    pub fn predicted_peak_of(&self, shard: Shard) -> u64 {
        self.peak_with(shard.items(self.files.items()).len())
    }

    fn peak_with(&self, items: usize) -> u64 {
        let pairs = self.files.pairs();
        let vectors = self.files.vectors();
        let dim = vectors.map_or(1, |(pool, _)| pool.dim());
        let (budget, threads) = (self.budget, rayon::current_num_threads());
        let size = Size { pool: items, pairs, dim, budget, threads };
        let names = [self.files.pool_ids(), self.files.pair_ids()].into_iter().flatten().flatten();
        let names: usize = names.map(|name| name.len() + 64).sum();
        let words = match vectors {
            Some((pool, paired)) if self.makes_vectors() && self.features == ItemFeatures::Bow => {
                // Words are found in the whole pool, whatever shard is scored.
                let locals = self.files.items() * pool.locals() + pairs * paired.locals();
                self.bag_of_words().memory(locals, dim)
            }
            _ => 0,
        };
        self.strategy.predicted_peak(&size) + (names + words) as u64
    }

    /// Starts the problem, with similarities if the strategy needs them.
    fn compared(&self) -> Result<ProblemBuilder, Error> {
        let side = self.files.pool_side();
        if let Some((pool, pairs)) = self.files.similarities() {
            if self.queries.is_some() {
                return Err(engine::Error::QueriesWithoutEmbeddings.into());
            }
            return Ok(Problem::of_stored(pool.clone(), pairs.clone()));
        }
        if !self.strategy.needs().matching && self.queries.is_none() {
            return Ok(Problem::of_pool(self.files.items()));
        }
        let missing = || engine::Error::NoSimilarity { strategy: self.strategy.as_str() };
        let (pool, paired) = self.files.vectors().ok_or_else(missing)?;
        let anchors = self.files.anchors().ok_or_else(missing)?;
        let (images, texts) = side.own_and_other(paired, anchors);
        let problem = Problem::of_embeddings(images.clone(), texts.clone(), pool.clone(), side);
        let problem = problem.metric(self.metric);
        Ok(match &self.queries {
            Some(queries) => problem.queries(queries.clone()),
            None => problem,
        })
    }

    /// Checks the numbers that nothing else reads: bad ones must not go unnoticed. Similarities are
    /// checked with the problem, whatever the strategy.
    fn check_unread(&self, items: Range<u32>) -> Result<(), Error> {
        let (own, other) = paired_names(self.files.pool_side());
        let first = items.start as usize;
        if let Some((pool, paired)) = self.files.vectors() {
            let shard = pool.slice(first..items.end as usize);
            require_finite(&shard, POOL).map_err(|error| error.in_rows_from(first))?;
            require_finite(paired, own)?;
        }
        if let Some(anchors) = self.files.anchors() {
            require_finite(anchors, other)?;
        }
        Ok(())
    }

    /// Whether distances need vectors that are not in the files.
    fn makes_vectors(&self) -> bool {
        let several = |(pool, paired): (&Matrix, &Matrix)| pool.locals() > 1 || paired.locals() > 1;
        let needs = self.strategy.needs();
        // Embeddings that are compared are one vector per item; the problem itself rejects several.
        needs.features
            && (!needs.matching || self.files.similarities().is_some())
            && self.files.vectors().is_some_and(several)
    }

    /// One vector per item of the pool and of the paired set.
    fn vectors(&self, progress: &dyn Progress) -> Result<(Matrix, Matrix), Error> {
        let missing = || engine::Error::NoFeatures { strategy: self.strategy.as_str() };
        let (pool, paired) = self.files.vectors().ok_or_else(missing)?;
        Ok(match self.features {
            ItemFeatures::Encoded => return Err(Error::NoModel),
            _ if !self.makes_vectors() => (pool.clone(), paired.clone()),
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

/// Copies rows here and there of a pool, which are asked for all at once before.
pub(crate) fn picked_rows(pool: &Matrix, rows: &[u32]) -> Matrix {
    rows.iter().map(|&row| row as usize).for_each(|row| pool.will_need(row..row + 1));
    pool.gather(rows)
}

/// One vector per item: its own, or the mean of several.
pub(crate) fn one_each(matrix: &Matrix, progress: &dyn Progress) -> Result<Matrix, Error> {
    match matrix.locals() {
        1 => Ok(matrix.clone()),
        _ => Ok(mean_features(matrix, progress)?),
    }
}
