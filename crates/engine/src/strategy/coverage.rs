//! Hard negatives chosen together: an anchor counts only what it gains beyond earlier picks.
//!
//! The gain of a set of items is the sum over anchors of the largest surplus (or, by count, the
//! number of anchors hit): facility location above the thresholds, monotone and submodular. So
//! gains only fall, and an item whose old gain is too small needs no new one. Greedy is within 1 -
//! 1/e of the best set (Nemhauser, Wolsey and Fisher, 1978).

use std::collections::BinaryHeap;

use nextpair_core::Amount;
use rayon::prelude::*;

use super::{Needs, Sharded, Strategy};
use crate::error::unless_stopped;
use crate::lazy::Bound;
use crate::parameters::parameters;
use crate::score::{Anchors, Hit, Scorer, Scores};
use crate::{Error, Fill, Guards, Hits, Partial, Pick, Picks, Problem, Progress, Size, Weight};

parameters! {
    /// Items that are hard negatives together: each anchor counts only what is new (ours; greedy as by Nemhauser, Wolsey
    /// and Fisher, 1978).
    pub struct Coverage {
        /// Pairs of the mini batch that the pool is compared with, drawn by the seed: a count, or a share of all
        sample: Option<Amount> = None,
        /// The threshold is the k-th largest rival similarity
        top_k: usize = 1,
        /// What a hit is worth: how far it exceeds the threshold, or one
        weight: Weight = Weight::Surplus,
        /// Likely false negatives to ignore
        guards: Guards = Guards::default(),
        /// What fills the budget when fewer items have a hit: the nearest misses, or the first of the pool
        fill: Fill = Fill::NearestMiss,
    }
}

impl Strategy for Coverage {
    fn name(&self) -> &'static str {
        "coverage"
    }

    fn needs(&self) -> Needs {
        let &Self { sample, top_k, guards, fill, .. } = self;
        let matching = Some(Hits { sample, top_k, guards, fill });
        Needs { matching, ..Needs::default() }
    }

    fn memory(&self, size: &Size) -> usize {
        // Hits depend on the data; two for every item is a guess.
        size.scores() + size.pool * 2 * 48
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Ok(self)
    }
}

impl Sharded for Coverage {
    fn score(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Partial, Error> {
        let scorer = Scorer::new(problem, progress)?;
        let blocks = scorer.sweep(|items| {
            let mut found = Vec::new();
            scorer.visit_hits(items, |at, hits| found.push((items[at], hits.to_vec())))?;
            Ok(found)
        })?;
        let hits: Vec<(u32, Vec<Hit>)> = blocks.into_iter().flatten().collect();
        let mut scores = Scores::none(problem.items());
        for (item, hits) in &hits {
            scores.set(*item, scorer.surplus(hits), hits.len());
        }
        scorer.fill(&mut scores, budget)?;
        // Fillers are ordered by surplus, whatever the weight.
        let best = scores.best(Weight::Surplus, budget);
        Ok(scorer.into_partial(budget, best, Some(scores.hard_negatives()), hits))
    }

    fn finish(
        &self,
        whole: Partial,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        let anchors = Anchors::of(&whole);
        let why = |hits: &[Hit]| anchors.reasons(hits, problem.explain());
        progress.start("coverage", budget as u64);
        let mut covered = CoverLevels { weight: self.weight, levels: whole.thresholds.clone() };
        let hits_of = |item: u32| {
            let slot = whole.hits.binary_search_by_key(&item, |(item, _)| *item);
            slot.map_or(&[][..], |slot| &whole.hits[slot].1)
        };
        // Items with hits, by their place: ascending, so that ties go to the lower item.
        let first_gain = |(place, (_, hits)): (usize, &(u32, Vec<Hit>))| {
            let value = covered.gain(hits, &whole.thresholds);
            Bound { value, item: place as u32, seen: 0 }
        };
        let gains: Vec<Bound> = whole.hits.par_iter().enumerate().map(first_gain).collect();
        let mut heap = BinaryHeap::from(gains);
        let mut picks: Vec<Pick> = Vec::with_capacity(budget);
        while picks.len() < budget
            && let Some(mut top) = heap.pop()
        {
            unless_stopped(progress)?;
            let (item, hits) = &whole.hits[top.item as usize];
            if top.seen < picks.len() {
                // The gain is old; the new one can only be smaller.
                top.value = covered.gain(hits, &whole.thresholds);
                top.seen = picks.len();
                if top.value > 0.0 {
                    heap.push(top);
                }
                continue;
            }
            covered.add(hits);
            let count = Some(hits.len() as u32);
            picks.push(Pick { hits: count, why: why(hits), ..Pick::new(*item, top.value) });
            progress.advance(1);
        }
        let mut taken: Vec<u32> = picks.iter().map(|pick| pick.index).collect();
        taken.sort_unstable();
        let fillers = whole.best.iter().filter(|pick| taken.binary_search(&pick.index).is_err());
        for filler in fillers.take(budget - picks.len()) {
            let why = why(hits_of(filler.index));
            // Those without a hit keep how far they are from one.
            picks.push(Pick { score: filler.score.min(0.0), why, ..filler.clone() });
        }
        Ok(whole.into_picks(picks, problem.pool()))
    }
}

/// How far each anchor is covered by the picks so far.
struct CoverLevels {
    weight: Weight,
    /// Thresholds, raised to the largest picked similarity.
    levels: Vec<f64>,
}

impl CoverLevels {
    fn gain(&self, hits: &[Hit], thresholds: &[f64]) -> f64 {
        let gain = |hit: &Hit| {
            let level = self.levels[hit.position as usize];
            match self.weight {
                Weight::Surplus => (hit.similarity - level).max(0.0),
                Weight::Count => f64::from(level == thresholds[hit.position as usize]),
            }
        };
        hits.iter().map(gain).sum()
    }

    fn add(&mut self, hits: &[Hit]) {
        for hit in hits {
            let level = &mut self.levels[hit.position as usize];
            *level = level.max(hit.similarity);
        }
    }
}
