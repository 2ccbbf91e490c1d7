//! Hits of pool items, and the scores they add up to.

use rayon::prelude::*;

use crate::picks::{Pick, Reason, keep_best};
use crate::similarity::{Sieve, exact_rows, exact_values};
use crate::threshold::thresholds;
use crate::{Error, Matching, Progress, ROW_BLOCK, Weight};

/// One hit: the anchor's position among the anchors, and the similarity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Position of the anchor in the rule's anchors.
    pub position: u32,
    /// The exact similarity, above the anchor's threshold.
    pub similarity: f64,
}

/// Finds the hits of pool items, once the thresholds are known.
pub(crate) struct Scorer<'a> {
    matching: Matching<'a>,
    progress: &'a dyn Progress,
    thresholds: Vec<f64>,
    /// Similarities above these are taken for false negatives.
    ceilings: Vec<f64>,
    sieve: Box<dyn Sieve + 'a>,
}

/// Scores of all items of a question.
pub(crate) struct Scores {
    surplus: Vec<f64>,
    hits: Vec<u32>,
}

impl<'a> Scorer<'a> {
    pub(crate) fn new(matching: Matching<'a>, progress: &'a dyn Progress) -> Result<Self, Error> {
        let (anchors, guards) = (&matching.rule.anchors, matching.rule.guards);
        let thresholds = thresholds(matching, progress)?;
        let mut ceilings = vec![f64::INFINITY; anchors.len()];
        if guards.any() {
            for (ceiling, &anchor) in ceilings.iter_mut().zip(anchors) {
                let positive = exact_values(matching.paired, anchor, &[anchor])?;
                *ceiling = guards.ceiling(positive[0]);
            }
        }
        let sieve = matching.pool.sieve(anchors, Some(&thresholds))?;
        Ok(Scorer { matching, progress, thresholds, ceilings, sieve })
    }

    pub(crate) fn into_thresholds(self) -> Vec<f64> {
        self.thresholds
    }

    /// Visits the hits of those of `items` that have any, anchors ascending.
    pub(crate) fn visit_hits(
        &self,
        items: &[u32],
        mut visit: impl FnMut(usize, &[Hit]),
    ) -> Result<(), Error> {
        let pairs = self.sieve.above(items, &self.thresholds)?;
        let mut hits = Vec::new();
        let anchors = &self.matching.rule.anchors;
        exact_rows(self.matching.pool, items, anchors, &pairs, |item, pairs, values| {
            hits.clear();
            hits.extend(pairs.iter().zip(values).filter_map(|(&(_, position), &similarity)| {
                let p = position as usize;
                let counts = similarity > self.thresholds[p] && similarity <= self.ceilings[p];
                counts.then_some(Hit { position, similarity })
            }));
            if !hits.is_empty() {
                visit(item as usize, &hits);
            }
        })
    }

    /// Applies `work` to blocks of items, in parallel; results in order.
    pub(crate) fn sweep<T: Send>(
        &self,
        work: impl Fn(&[u32]) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        let (count, width) = (self.matching.pool.rows(), self.thresholds.len() as u64);
        self.progress.start("scores", count as u64 * width);
        let block = |first: usize| {
            let items: Vec<u32> = (first as u32..count.min(first + ROW_BLOCK) as u32).collect();
            let result = work(&items)?;
            self.progress.advance(items.len() as u64 * width);
            Ok(result)
        };
        (0..count).into_par_iter().step_by(ROW_BLOCK).map(block).collect()
    }

    /// `h_i` of every item (Eqs. 4 to 6 of the paper).
    pub(crate) fn score(&self) -> Result<Scores, Error> {
        let blocks = self.sweep(|items| {
            let mut block = vec![(0.0, 0); items.len()];
            self.visit_hits(items, |item, hits| {
                block[item] = (self.surplus(hits), hits.len() as u32);
            })?;
            Ok(block)
        })?;
        let (surplus, hits) = blocks.into_iter().flatten().unzip();
        Ok(Scores { surplus, hits })
    }

    /// The sum of surpluses, anchors ascending.
    pub(crate) fn surplus(&self, hits: &[Hit]) -> f64 {
        hits.iter().map(|hit| hit.similarity - self.thresholds[hit.position as usize]).sum()
    }

    /// Fills in why each pick was chosen: its strongest hits.
    pub(crate) fn explain(&self, picks: &mut [Pick]) -> Result<(), Error> {
        let explain = self.matching.rule.explain;
        if explain == 0 {
            return Ok(());
        }
        picks.par_chunks_mut(ROW_BLOCK).try_for_each(|picks| {
            let items: Vec<u32> = picks.iter().map(|pick| pick.index).collect();
            self.visit_hits(&items, |item, hits| {
                let anchors = &self.matching.rule.anchors;
                picks[item].why = reasons(hits, anchors, &self.thresholds, explain);
            })
        })
    }
}

impl Scores {
    /// No hits at all.
    pub(crate) fn none(items: usize) -> Self {
        Scores { surplus: vec![0.0; items], hits: vec![0; items] }
    }

    pub(crate) fn set(&mut self, item: usize, surplus: f64, hits: usize) {
        self.surplus[item] = surplus;
        self.hits[item] = hits as u32;
    }

    /// The best `keep` items by `weight`.
    pub(crate) fn best(&self, weight: Weight, keep: usize) -> Vec<Pick> {
        let pick = |(i, (&surplus, &hits)): (usize, (&f64, &u32))| Pick {
            index: i as u32,
            score: match weight {
                Weight::Surplus => surplus,
                Weight::Count => hits as f64,
            },
            hits: Some(hits),
            why: Vec::new(),
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
