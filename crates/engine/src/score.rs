//! Hits of pool items, and the scores they add up to.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::unless_stopped;
use crate::highest::nearest_misses;
use crate::picks::{Pick, Reason, keep_best};
use crate::similarity::{Sieve, exact_rows, exact_values, row_block};
use crate::threshold::thresholds;
use crate::{Error, Fill, Matching, Problem, Progress, Weight};

/// One hit of a pool item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Position of the anchor in the rule's anchors.
    pub position: u32,
    /// The exact similarity, above the anchor's threshold.
    pub similarity: f64,
}

/// Finds the hits of pool items, once the thresholds are known.
pub(crate) struct Scorer<'a> {
    problem: &'a Problem,
    matching: &'a Matching,
    progress: &'a dyn Progress,
    thresholds: Vec<f64>,
    /// Similarities above these count as false negatives.
    ceilings: Vec<f64>,
    sieve: Box<dyn Sieve + 'a>,
}

/// Scores of all items of a problem.
pub(crate) struct Scores {
    first: u32,
    /// The sum of surpluses. Of an item without a hit, how far it is from one, as a negative number,
    /// once that is known.
    surplus: Vec<f64>,
    hits: Vec<u32>,
}

impl<'a> Scorer<'a> {
    pub(crate) fn new(problem: &'a Problem, progress: &'a dyn Progress) -> Result<Self, Error> {
        let matching = problem.matching()?;
        let (anchors, guards) = (matching.rule.anchors(), matching.rule.guards());
        let thresholds = thresholds(matching, progress)?;
        let mut ceilings = vec![f64::INFINITY; anchors.len()];
        if guards.any() {
            for (ceiling, &anchor) in ceilings.iter_mut().zip(anchors) {
                let positive = exact_values(&*matching.paired, anchor, &[anchor])?;
                *ceiling = guards.ceiling(positive[0]);
            }
        }
        let sieve = matching.pool.sieve(anchors, Some(&thresholds))?;
        Ok(Scorer { problem, matching, progress, thresholds, ceilings, sieve })
    }

    /// The anchors that positions of hits refer to.
    pub(crate) fn anchors(&self) -> &[u32] {
        self.matching.rule.anchors()
    }

    pub(crate) fn into_thresholds(self) -> Vec<f64> {
        self.thresholds
    }

    /// Visits the hits of each of `items` that has any, with its position; anchors ascend.
    pub(crate) fn visit_hits(
        &self,
        items: &[u32],
        mut visit: impl FnMut(usize, &[Hit]),
    ) -> Result<(), Error> {
        let rows: Vec<u32> = items.iter().map(|&item| self.problem.row(item)).collect();
        let pairs = self.sieve.above(&rows, &self.thresholds)?;
        let mut hits = Vec::new();
        let pool = &*self.matching.pool;
        exact_rows(pool, &rows, self.anchors(), &pairs, |at, pairs, values| {
            hits.clear();
            hits.extend(pairs.iter().zip(values).filter_map(|(&(_, position), &similarity)| {
                let p = position as usize;
                let counts = similarity > self.thresholds[p] && similarity <= self.ceilings[p];
                counts.then_some(Hit { position, similarity })
            }));
            if !hits.is_empty() {
                visit(at as usize, &hits);
            }
        })
    }

    /// Applies `work` to blocks of items in parallel; results are in order.
    pub(crate) fn sweep<T: Send>(
        &self,
        work: impl Fn(&[u32]) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        let (all, width) = (self.problem.items(), self.thresholds.len() as u64);
        self.progress.start("scores", all.len() as u64 * width);
        let at_once = row_block(&*self.sieve);
        let block = |first: u32| {
            unless_stopped(self.progress)?;
            let end = all.end.min(first.saturating_add(at_once as u32));
            let items: Vec<u32> = (first..end).collect();
            let result = work(&items)?;
            self.progress.advance(items.len() as u64 * width);
            Ok(result)
        };
        all.clone().into_par_iter().step_by(at_once).map(block).collect()
    }

    /// The score `h_i` of every item (Eqs. 4 to 6 of the paper).
    pub(crate) fn score(&self) -> Result<Scores, Error> {
        let blocks = self.sweep(|items| {
            let mut block = vec![(0.0, 0); items.len()];
            self.visit_hits(items, |at, hits| {
                block[at] = (self.surplus(hits), hits.len() as u32);
            })?;
            Ok(block)
        })?;
        let (surplus, hits) = blocks.into_iter().flatten().unzip();
        Ok(Scores { first: self.problem.items().start, surplus, hits })
    }

    /// Tells items without a hit apart, if `keep` are wanted and fewer have one: how far each is
    /// from its nearest hit.
    pub(crate) fn fill(&self, scores: &mut Scores, keep: usize) -> Result<(), Error> {
        let fill = self.problem.settings().fill;
        if fill == Fill::Index || scores.hard_negatives() >= keep as u64 {
            return Ok(());
        }
        let items = self.problem.items().zip(&scores.hits);
        let without: Vec<u32> =
            items.filter(|(_, hits)| **hits == 0).map(|(item, _)| item).collect();
        let rows: Vec<u32> = without.iter().map(|&item| self.problem.row(item)).collect();
        self.progress.start("misses", rows.len() as u64 * self.thresholds.len() as u64);
        let pool = &*self.matching.pool;
        let misses = nearest_misses(pool, &rows, self.anchors(), &self.thresholds, self.progress)?;
        for (item, miss) in without.into_iter().zip(misses) {
            scores.set(item, miss, 0);
        }
        Ok(())
    }

    /// The sum of surpluses, anchors ascending.
    pub(crate) fn surplus(&self, hits: &[Hit]) -> f64 {
        hits.iter().map(|hit| hit.similarity - self.thresholds[hit.position as usize]).sum()
    }

    /// Explains each pick by its strongest hits.
    pub(crate) fn explain(&self, picks: &mut [Pick]) -> Result<(), Error> {
        let explain = self.problem.explain();
        if explain == 0 {
            return Ok(());
        }
        picks.par_chunks_mut(row_block(&*self.sieve)).try_for_each(|picks| {
            unless_stopped(self.progress)?;
            let items: Vec<u32> = picks.iter().map(|pick| pick.index).collect();
            self.visit_hits(&items, |at, hits| {
                picks[at].why = reasons(hits, self.anchors(), &self.thresholds, explain);
            })
        })
    }
}

impl Scores {
    /// Scores of items without hits.
    pub(crate) fn none(items: Range<u32>) -> Self {
        let count = items.len();
        Scores { first: items.start, surplus: vec![0.0; count], hits: vec![0; count] }
    }

    pub(crate) fn set(&mut self, item: u32, surplus: f64, hits: usize) {
        let at = (item - self.first) as usize;
        self.surplus[at] = surplus;
        self.hits[at] = hits as u32;
    }

    /// The best `keep` items by `weight`.
    pub(crate) fn best(&self, weight: Weight, keep: usize) -> Vec<Pick> {
        let pick = |(i, (&surplus, &hits)): (usize, (&f64, &u32))| {
            let score = match weight {
                Weight::Count if hits > 0 => f64::from(hits),
                _ => surplus,
            };
            Pick { hits: Some(hits), ..Pick::new(self.first + i as u32, score) }
        };
        keep_best(self.surplus.iter().zip(&self.hits).enumerate().map(pick), keep)
    }

    /// Items with at least one hit.
    pub(crate) fn hard_negatives(&self) -> u64 {
        self.hits.iter().filter(|&&hits| hits > 0).count() as u64
    }
}

/// The strongest `count` of `hits`, ties to the lower anchor.
pub(crate) fn reasons(
    hits: &[Hit],
    anchors: &[u32],
    thresholds: &[f64],
    count: usize,
) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = hits
        .iter()
        .map(|hit| {
            let threshold = thresholds[hit.position as usize];
            Reason {
                anchor: anchors[hit.position as usize],
                similarity: hit.similarity,
                threshold,
                surplus: hit.similarity - threshold,
            }
        })
        .collect();
    reasons.sort_by(|a, b| b.surplus.total_cmp(&a.surplus).then(a.anchor.cmp(&b.anchor)));
    reasons.truncate(count);
    reasons
}
