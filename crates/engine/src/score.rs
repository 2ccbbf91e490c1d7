//! Hits of pool items, and the scores they add up to.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::ahead::{ReadAhead, fetch};
use crate::error::unless_stopped;
use crate::highest::{misses_seen, nearest_misses};
use crate::picks::keep_best;
use crate::similarity::{Sieve, exact_rows, row_block};
use crate::threshold::Measures;
use crate::{
    Error, Fill, Matching, Partial, Pick, Problem, Progress, ROW_BLOCK, Reason, Similarity, Weight,
};

/// Items whose nearest misses are searched together.
const MISSES_AT_ONCE: usize = 1 << 20;

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
    /// The similarities of the anchors' own pairs.
    own: Vec<f64>,
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
    /// Whether items without a hit are ranked already.
    filled: bool,
}

impl<'a> Scorer<'a> {
    pub(crate) fn new(problem: &'a Problem, progress: &'a dyn Progress) -> Result<Self, Error> {
        Self::known(problem, problem.measures(progress)?, progress)
    }

    /// With thresholds and similarities of own pairs that are known already.
    pub(crate) fn known(
        problem: &'a Problem,
        Measures { thresholds, own }: Measures,
        progress: &'a dyn Progress,
    ) -> Result<Self, Error> {
        let matching = problem.matching()?;
        let (anchors, guards) = (matching.rule.anchors(), matching.rule.hits().guards);
        let ceilings = own.iter().map(|&own| guards.ceiling(own)).collect();
        let sieve = matching.pool.sieve(anchors, Some(&thresholds))?;
        Ok(Scorer { problem, matching, progress, thresholds, own, ceilings, sieve })
    }

    /// The anchors that positions of hits refer to.
    pub(crate) fn anchors(&self) -> &[u32] {
        self.matching.rule.anchors()
    }

    /// The part of a selection that these items are.
    pub(crate) fn into_partial(
        self,
        keep: usize,
        best: Vec<Pick>,
        hard_negatives: Option<u64>,
        hits: Vec<(u32, Vec<Hit>)>,
    ) -> Partial {
        Partial {
            items: std::iter::once(self.problem.items()).collect(),
            keep,
            best,
            hard_negatives,
            anchors: self.anchors().to_vec(),
            thresholds: self.thresholds,
            own: self.own,
            hits,
        }
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
        let blocks = self.problem.items().len().div_ceil(row_block(&*self.sieve));
        let mut results: Vec<Option<T>> = (0..blocks).map(|_| None).collect();
        self.sweep_into(results.iter_mut(), |items, result| {
            *result = Some(work(items)?);
            Ok(())
        })?;
        Ok(results.into_iter().flatten().collect())
    }

    /// Applies `work` to blocks of items in parallel, each with its place of the results. Threads take
    /// blocks in their order, so that a file is read from its start to its end, and ahead.
    fn sweep_into<P: Send>(
        &self,
        places: impl Iterator<Item = P> + Send,
        work: impl Fn(&[u32], P) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let (all, width) = (self.problem.items(), self.thresholds.len() as u64);
        self.progress.start("scores", all.len() as u64 * width);
        let at_once = row_block(&*self.sieve);
        let reader = self.problem.compared_rows().map(|pool| ReadAhead::new(pool, at_once));
        places.enumerate().par_bridge().try_for_each(|(block, place)| {
            unless_stopped(self.progress)?;
            if let Some(reader) = &reader {
                reader.begin(block);
            }
            let first = all.start + (block * at_once) as u32;
            let end = all.end.min(first.saturating_add(at_once as u32));
            let items: Vec<u32> = (first..end).collect();
            work(&items, place)?;
            self.progress.advance(items.len() as u64 * width);
            Ok(())
        })
    }

    /// The score `h_i` of every item (Eqs. 4 to 6 of the paper).
    pub(crate) fn score(&self) -> Result<Scores, Error> {
        let by_miss = self.matching.rule.hits().fill != Fill::Index;
        let mut scores = Scores::none(self.problem.items());
        let at_once = row_block(&*self.sieve);
        let places = scores.surplus.chunks_mut(at_once).zip(scores.hits.chunks_mut(at_once));
        let filled = AtomicBool::new(true);
        self.sweep_into(places, |items, (surplus, counts)| {
            self.visit_hits(items, |at, hits| {
                surplus[at] = self.surplus(hits);
                counts[at] = hits.len() as u32;
            })?;
            let rows: Vec<u32> = items.iter().map(|&item| self.problem.row(item)).collect();
            // Another pass over all pairs is saved if this one has seen their similarities.
            let seen = by_miss.then(|| self.sieve.seen(&rows)).flatten();
            let Some(seen) = seen else {
                filled.store(false, Ordering::Relaxed);
                return Ok(());
            };
            let without: Vec<bool> = counts.iter().map(|&hits| hits == 0).collect();
            let (pool, anchors) = (&*self.matching.pool, self.anchors());
            let misses = misses_seen(pool, (&rows, &without), anchors, &self.thresholds, &seen)?;
            let wanted = surplus.iter_mut().zip(misses).zip(&without).filter(|(_, own)| **own);
            wanted.for_each(|((own, miss), _)| *own = miss);
            Ok(())
        })?;
        scores.filled = filled.into_inner();
        Ok(scores)
    }

    /// Ranks items without a hit, if fewer than `keep` items have one: by how far each is from its nearest hit.
    pub(crate) fn fill(&self, scores: &mut Scores, keep: usize) -> Result<(), Error> {
        let fill = self.matching.rule.hits().fill;
        if fill == Fill::Index || scores.filled || scores.hard_negatives() >= keep as u64 {
            return Ok(());
        }
        let items = self.problem.items().zip(&scores.hits);
        let without: Vec<u32> =
            items.filter(|(_, hits)| **hits == 0).map(|(item, _)| item).collect();
        self.progress.start("misses", without.len() as u64 * self.thresholds.len() as u64);
        let pool = &*self.matching.pool;
        // In blocks, so that memory for rows and misses does not grow with the pool.
        for items in without.chunks(MISSES_AT_ONCE) {
            let rows: Vec<u32> = items.iter().map(|&item| self.problem.row(item)).collect();
            let (anchors, thresholds) = (self.anchors(), &self.thresholds);
            let misses = nearest_misses(pool, &rows, anchors, thresholds, self.progress)?;
            for (&item, miss) in items.iter().zip(misses) {
                scores.set(item, miss, 0);
            }
        }
        Ok(())
    }

    /// The sum of surpluses, anchors ascending.
    pub(crate) fn surplus(&self, hits: &[Hit]) -> f64 {
        hits.iter().map(|hit| hit.similarity - self.thresholds[hit.position as usize]).sum()
    }

    /// Explains each pick by its `explain` strongest hits.
    pub(crate) fn explain(&self, picks: &mut [Pick], explain: usize) -> Result<(), Error> {
        if explain == 0 {
            return Ok(());
        }
        let (thresholds, own) = (&self.thresholds[..], &self.own[..]);
        let anchors = Anchors { anchors: self.anchors(), thresholds, own };
        if let Some(pool) = self.problem.compared_rows() {
            let first = self.problem.items().start;
            fetch(&pool, &picks.iter().map(|pick| pick.index - first).collect::<Vec<u32>>());
        }
        picks.par_chunks_mut(row_block(&*self.sieve)).try_for_each(|picks| {
            unless_stopped(self.progress)?;
            let items: Vec<u32> = picks.iter().map(|pick| pick.index).collect();
            self.visit_hits(&items, |at, hits| picks[at].why = anchors.reasons(hits, explain))
        })
    }
}

impl Scores {
    /// Scores of items without hits.
    pub(crate) fn none(items: Range<u32>) -> Self {
        let count = items.len();
        Scores {
            first: items.start,
            surplus: vec![0.0; count],
            hits: vec![0; count],
            filled: false,
        }
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

/// The similarity of each anchor's own pair.
pub(crate) fn own_pairs(
    paired: &dyn Similarity,
    anchors: &[u32],
    progress: &dyn Progress,
) -> Result<Vec<f64>, Error> {
    let of_block = |anchors: &[u32]| {
        unless_stopped(progress)?;
        let own: Vec<(u32, u32)> = (0..anchors.len() as u32).map(|at| (at, at)).collect();
        let mut values = Vec::with_capacity(anchors.len());
        exact_rows(paired, anchors, anchors, &own, |_, _, own| values.extend_from_slice(own))?;
        Ok::<_, Error>(values)
    };
    let blocks: Result<Vec<_>, Error> = anchors.par_chunks(ROW_BLOCK).map(of_block).collect();
    Ok(blocks?.concat())
}

/// The anchors that hits refer to, with their thresholds and own pairs.
pub(crate) struct Anchors<'a> {
    anchors: &'a [u32],
    thresholds: &'a [f64],
    own: &'a [f64],
}

impl<'a> Anchors<'a> {
    pub(crate) fn of(whole: &'a Partial) -> Self {
        Anchors { anchors: &whole.anchors, thresholds: &whole.thresholds, own: &whole.own }
    }

    /// The strongest `count` of `hits`, ties to the lower anchor.
    pub(crate) fn reasons(&self, hits: &[Hit], count: usize) -> Vec<Reason> {
        let reason = |hit: &Hit| {
            let (at, similarity) = (hit.position as usize, hit.similarity);
            let (anchor, threshold, own) = (self.anchors[at], self.thresholds[at], self.own[at]);
            Reason { anchor, similarity, threshold, surplus: similarity - threshold, own }
        };
        let mut reasons: Vec<Reason> = hits.iter().map(reason).collect();
        reasons.sort_by(|a, b| b.surplus.total_cmp(&a.surplus).then(a.anchor.cmp(&b.anchor)));
        reasons.truncate(count);
        reasons
    }
}
