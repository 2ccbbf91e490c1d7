//! Files as what a selection chooses from.

use std::ops::Range;

use nextpair_core::{Matrix, Progress};
use nextpair_engine::{
    self as engine, Alike, BagOfWords, BuiltIn, Candidates, ItemFeatures, ItemNumbers, Problem,
    ProblemBuilder, Refused, Settings, Size, Strategy, bag_of_words, one_each, require_finite,
};

use super::{Embedded, Files, POOL, Similarities, paired_names};
use crate::Error;

impl Candidates for Files {
    type Error = Error;

    fn items(&self) -> usize {
        self.first().0.rows()
    }

    fn only(&self, kept: &[u32]) -> Files {
        let names = |ids: &Vec<String>| kept.iter().map(|&row| ids[row as usize].clone()).collect();
        let view = |matrix: &Matrix| matrix.view(kept.iter().map(|&row| row as usize));
        let (vectors, similarities) = (self.vectors.clone(), self.similarities.clone());
        Files {
            vectors: vectors.map(|vectors| Embedded { pool: view(&vectors.pool), ..vectors }),
            similarities: similarities
                .map(|given| Similarities { pool: view(&given.pool), ..given }),
            pool_ids: self.pool_ids.as_ref().map(names),
            pair_ids: self.pair_ids.clone(),
            refused: None,
            queries: self.queries.clone(),
            device: self.device.clone(),
            ..*self
        }
    }

    fn check_unchanged(&self) -> Result<(), Error> {
        Ok(self.matrices().try_for_each(Matrix::check_unchanged)?)
    }

    fn check(
        &self,
        strategy: &BuiltIn,
        settings: &Settings,
        dedupe: Option<Alike>,
    ) -> Result<(), Error> {
        let needs = strategy.needs();
        if needs.features.is_some() {
            let (pool, paired) = self.vectors_for(strategy)?;
            if pool.dim() != paired.dim() {
                let (left_dim, right_dim) = (pool.dim(), paired.dim());
                let (right, _) = paired_names(self.side);
                let mismatch =
                    engine::Error::DimensionMismatch { left: POOL, left_dim, right, right_dim };
                return Err(mismatch.into());
            }
        }
        if let Some(Alike::Cosine(_)) = dedupe {
            self.need_vectors("duplicates that are told by a cosine need")?;
        }
        if self.refused.is_some() {
            self.need_vectors("items that look like refused ones are told by")?;
        }
        Ok(self.compared(strategy)?.settings(settings.clone()).check(strategy)?)
    }

    fn problem(
        &self,
        strategy: &BuiltIn,
        settings: &Settings,
        progress: &dyn Progress,
    ) -> Result<ProblemBuilder, Error> {
        self.problem_of(0..self.items() as u32, strategy, settings, progress)
    }

    fn features(
        &self,
        kind: ItemFeatures,
        settings: &Settings,
        progress: &dyn Progress,
    ) -> Result<(Matrix, Matrix), Error> {
        let (pool, paired) = self.need_vectors("distances and duplicates need")?;
        Ok(match kind {
            ItemFeatures::Encoded => return Err(Error::NoModel),
            ItemFeatures::Bow if self.has_local_vectors() => {
                let words = BagOfWords { seed: settings.seed, ..self.words };
                let (paired, pool) = bag_of_words(paired, pool, words, progress)?;
                (pool, paired)
            }
            _ => (one_each(pool, progress)?, one_each(paired, progress)?),
        })
    }

    fn copies(&self, _: &Settings, _: &dyn Progress) -> Result<(Matrix, Matrix), Error> {
        // Equal items are equally similar to all pairs.
        let (pool, paired) = self.vectors().unwrap_or_else(|| self.first());
        Ok((pool.clone(), paired.clone()))
    }

    fn refused(&self, progress: &dyn Progress) -> Result<Option<Refused>, Error> {
        let Some(refused) = &self.refused else { return Ok(None) };
        let (pool, _) = self.need_vectors("items that look like refused ones are told by")?;
        let vectors = one_each(&pool.view(refused.iter().map(|&row| row as usize)), progress)?;
        Ok(Some(Refused { in_pool: refused.clone(), vectors: Some(vectors) }))
    }

    fn numbers(&self) -> Result<ItemNumbers, Error> {
        Ok(ItemNumbers {
            rows: Some(self.vectors().unwrap_or_else(|| self.first()).0.clone()),
            vectors: self.vectors().map(|(pool, paired)| (pool.clone(), paired.clone())),
            anchors: self.anchors().cloned(),
        })
    }
}

impl Files {
    /// Starts the problem of a strategy for some items of the pool.
    pub(crate) fn problem_of(
        &self,
        items: Range<u32>,
        strategy: &BuiltIn,
        settings: &Settings,
        progress: &dyn Progress,
    ) -> Result<ProblemBuilder, Error> {
        let needs = strategy.needs();
        if needs.matching.is_none() {
            self.check_unread(items.clone())?;
        }
        let problem = self.compared(strategy)?.on(self.device.clone()).only(items);
        match needs.features {
            // Embeddings that are compared are their own features.
            Some(kind) if needs.matching.is_none() || self.similarities.is_some() => {
                self.vectors_for(strategy)?;
                let (pool, paired) = self.features(kind, settings, progress)?;
                Ok(problem.features(pool, paired))
            }
            _ => Ok(problem),
        }
    }

    /// Predicted peak of anonymous memory of a selection that looks at so many items, in bytes.
    pub fn predicted_peak(&self, strategy: &BuiltIn, budget: usize, items: usize) -> u64 {
        let pairs = self.pairs();
        let dim = self.vectors().map_or(1, |(pool, _)| pool.dim());
        let size = Size { pool: items, pairs, dim, budget, threads: rayon::current_num_threads() };
        let names = [self.pool_ids(), self.pair_ids()].into_iter().flatten().flatten();
        let names: usize = names.map(|name| name.len() + 64).sum();
        let needs = strategy.needs();
        // Embeddings that are compared are one vector per item; the problem itself rejects several.
        let made = needs.matching.is_none() || self.similarities.is_some();
        let words = match self.vectors() {
            Some((pool, paired))
                if made
                    && needs.features == Some(ItemFeatures::Bow)
                    && self.has_local_vectors() =>
            {
                // Words are found in the whole pool, whatever shard is scored.
                let locals = self.items() * pool.locals() + pairs * paired.locals();
                self.words.memory(locals, dim)
            }
            _ => 0,
        };
        strategy.predicted_peak(&size) + (names + words) as u64
    }

    /// Starts the problem, with similarities if the strategy needs them.
    fn compared(&self, strategy: &BuiltIn) -> Result<ProblemBuilder, Error> {
        if let Some((pool, pairs)) = self.similarities() {
            if self.queries.is_some() {
                return Err(engine::Error::QueriesWithoutEmbeddings.into());
            }
            return Ok(Problem::of_stored(pool.clone(), pairs.clone()));
        }
        if strategy.needs().matching.is_none() && self.queries.is_none() {
            return Ok(Problem::of_pool(self.items()));
        }
        let missing = || engine::Error::NoSimilarity { strategy: strategy.name() };
        let (pool, paired) = self.vectors().ok_or_else(missing)?;
        // Of no pairs, neither half is there.
        let none = Some(paired).filter(|paired| paired.rows() == 0);
        let anchors = self.anchors().or(none).ok_or_else(missing)?;
        let (images, texts) = self.side.own_and_other(paired, anchors);
        let problem =
            Problem::of_embeddings(images.clone(), texts.clone(), pool.clone(), self.side);
        let problem = problem.metric(self.metric);
        Ok(match &self.queries {
            Some(queries) => problem.queries(queries.clone()),
            None => problem,
        })
    }

    /// Checks the numbers that nothing else reads: bad ones must not go unnoticed. Similarities are
    /// checked with the problem, whatever the strategy.
    fn check_unread(&self, items: Range<u32>) -> Result<(), Error> {
        let (own, other) = paired_names(self.side);
        let first = items.start as usize;
        if let Some((pool, paired)) = self.vectors() {
            let shard = pool.slice(first..items.end as usize);
            require_finite(&shard, POOL).map_err(|error| error.in_rows_from(first))?;
            require_finite(paired, own)?;
        }
        if let Some(anchors) = self.anchors() {
            require_finite(anchors, other)?;
        }
        Ok(())
    }

    /// Whether items have several vectors.
    fn has_local_vectors(&self) -> bool {
        self.vectors().is_some_and(|(pool, paired)| pool.locals() > 1 || paired.locals() > 1)
    }

    /// The vectors of the pool and of the paired set, or an error that says that a strategy needs them.
    fn vectors_for(&self, strategy: &BuiltIn) -> Result<(&Matrix, &Matrix), Error> {
        let missing = || engine::Error::NoFeatures { strategy: strategy.name() };
        Ok(self.vectors().ok_or_else(missing)?)
    }

    /// The vectors of the pool and of the paired set, or an error that says what needs them.
    fn need_vectors(&self, what: &str) -> Result<(&Matrix, &Matrix), Error> {
        let missing = || {
            Error::Files(format!(
                "{what} vectors of the pool and of the pairs, beside similarities"
            ))
        };
        self.vectors().ok_or_else(missing)
    }
}
