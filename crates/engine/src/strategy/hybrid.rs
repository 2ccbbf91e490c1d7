//! Hard negatives that differ: the best by surplus, thinned out by distance.

use nextpair_core::Amount;

use super::hard_negative::best_by_score;
use super::{Needs, Sharded, Strategy};
use crate::kcenter::k_center;
use crate::parameters::parameters;
use crate::problem::PAIRED_FEATURES;
use crate::{
    Error, Fill, Guards, Hits, ItemFeatures, Partial, Pick, Picks, Problem, Progress, Size,
    Vectors, Weight,
};

parameters! {
    /// Hard negatives that are far from each other (ours).
    pub struct Hybrid {
        /// Pairs of the mini batch that the pool is compared with, drawn by the seed: a count, or a share of all
        sample: Option<Amount> = None,
        /// The threshold is the k-th largest rival similarity
        top_k: usize = 1,
        /// The vectors that distances are measured by: the mean of an item's own, a bag of 300 visual words, or what a model
        /// makes of the item
        features: ItemFeatures = ItemFeatures::Mean,
        /// Likely false negatives to ignore
        guards: Guards = Guards::default(),
        /// What fills the budget when fewer items have a hit: the nearest misses, or the first of the pool
        fill: Fill = Fill::NearestMiss,
    }
}

/// Candidates for each pick.
const CANDIDATES: usize = 3;

impl Strategy for Hybrid {
    fn name(&self) -> &'static str {
        "hybrid"
    }

    fn needs(&self) -> Needs {
        let &Self { sample, top_k, guards, fill, .. } = self;
        let matching = Some(Hits { sample, top_k, guards, fill });
        Needs { matching, features: Some(self.features), ..Needs::default() }
    }

    fn memory(&self, size: &Size) -> usize {
        let candidates = CANDIDATES * size.budget;
        let vectors = candidates * size.dim * 8;
        size.scores().max(size.k_center(candidates) + vectors)
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Ok(self)
    }
}

impl Sharded for Hybrid {
    fn score(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Partial, Error> {
        let keep = problem.pool().min(CANDIDATES * budget);
        best_by_score(problem, Weight::Surplus, keep, progress)
    }

    fn finish(
        &self,
        whole: Partial,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        let features = problem.features()?;
        // In index order, so that ties of distance go to the lower index.
        let mut whole = whole;
        let mut candidates = std::mem::take(&mut whole.best);
        candidates.sort_by_key(|pick| pick.index);
        let indices: Vec<u32> = candidates.iter().map(|pick| pick.index).collect();
        let gathered = features.pool.gather(&indices);
        let pool = Vectors::new(gathered, "the candidates' features")?.on(problem.device());
        let centres = Vectors::new(features.paired.clone(), PAIRED_FEATURES)?.on(problem.device());
        let chosen = k_center(&centres, &pool, budget, progress)?;
        let pick = |(slot, score): (u32, f64)| Pick { score, ..candidates[slot as usize].clone() };
        Ok(whole.into_picks(chosen.into_iter().map(pick).collect(), problem.pool()))
    }
}
