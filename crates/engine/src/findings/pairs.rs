//! A sample of the pairs, compared with each other: whether they find each other.

use nextpair_core::draw;
use rayon::prelude::*;

use super::Finding;
use crate::ahead::fetch;
use crate::error::unless_stopped;
use crate::similarity::exact_block;
use crate::{Error, Problem, Progress};

/// Pairs in the sample, at most.
const SAMPLE: usize = 512;
/// Pool items and anchors whose similarities tell the side of the pool, at most.
const COMPARED: usize = 128;
/// Purposes of the draws.
const SAMPLED: u64 = 21;
const POOL: u64 = 23;

/// Pairs below which R@1 says nothing.
const FEWEST: usize = 20;
/// A model that ranks right answers within this share of all, on average, is of some use.
const USEFUL_RANK: f64 = 0.25;

/// Sampled pairs and all their similarities: rivals in rows, anchors in columns.
pub(super) struct Sample {
    seed: u64,
    groups: Vec<u32>,
    pairs: Vec<u32>,
    values: Vec<f64>,
}

impl Sample {
    pub(super) fn of(problem: &Problem, progress: &dyn Progress) -> Result<Self, Error> {
        let matching = problem.matching()?;
        let (rule, seed) = (&matching.rule, problem.seed());
        let anchors = rule.anchors();
        let places = draw::sample(seed, SAMPLED, anchors.len(), anchors.len().min(SAMPLE));
        let pairs: Vec<u32> = places.into_iter().map(|place| anchors[place as usize]).collect();
        progress.start("guards", pairs.len() as u64);
        let of_block = |rows: &[u32]| {
            unless_stopped(progress)?;
            let values = exact_block(&*matching.paired, rows, &pairs)?;
            progress.advance(rows.len() as u64);
            Ok(values)
        };
        let blocks: Result<Vec<Vec<f64>>, Error> = pairs.par_chunks(64).map(of_block).collect();
        let groups = pairs.iter().map(|&pair| rule.group(pair)).collect();
        Ok(Sample { seed, groups, values: blocks?.concat(), pairs })
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    pub(super) fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.len() + column]
    }

    /// Whether two pairs are rivals of each other.
    pub(super) fn apart(&self, one: usize, other: usize) -> bool {
        self.groups[one] != self.groups[other]
    }

    /// Whether the halves of pairs find each other no more often than by chance.
    pub(super) fn near_chance(&self) -> Option<Finding> {
        let count = self.len();
        if count < FEWEST {
            return None;
        }
        let (mut right, mut by_chance, mut ranks) = (0, 0.0, 0.0);
        for query in 0..count {
            for by_anchor in [true, false] {
                let value = |answer| match by_anchor {
                    true => self.at(answer, query),
                    false => self.at(query, answer),
                };
                let own = (0..count).filter(|&answer| !self.apart(answer, query)).map(value);
                let own = own.fold(f64::NEG_INFINITY, f64::max);
                let (mut others, mut ahead, mut ties) = (0, 0, 0);
                for other in (0..count).filter(|&answer| self.apart(answer, query)).map(value) {
                    others += 1;
                    ahead += usize::from(other > own);
                    ties += usize::from(other == own);
                }
                right += usize::from(ahead + ties == 0);
                by_chance += (count - others) as f64 / count as f64;
                ranks += (ahead as f64 + 0.5 * ties as f64) / (others as f64).max(1.0);
            }
        }
        let asked = 2 * count;
        let few = right as f64 <= by_chance + 6.0 * by_chance.sqrt() + 2.0;
        let useless = ranks / asked as f64 >= USEFUL_RANK;
        (few && useless).then_some(Finding::NearChance { right, asked, by_chance })
    }

    /// Whether the median similarity of pool items and anchors is at least that of right pairs.
    pub(super) fn is_beaten_by_pool(&self, problem: &Problem) -> Result<bool, Error> {
        let (matching, items) = (problem.matching()?, problem.items());
        if self.len() < FEWEST || items.len() < FEWEST {
            return Ok(false);
        }
        let drawn = draw::sample(self.seed, POOL, items.len(), items.len().min(COMPARED));
        let rows: Vec<u32> = drawn.iter().map(|at| problem.row(items.start + at)).collect();
        if let Some(pool) = problem.compared_rows() {
            fetch(&pool, &drawn);
        }
        let anchors = &self.pairs[..self.len().min(COMPARED)];
        let of_pool = exact_block(&*matching.pool, &rows, anchors)?;
        let of_pairs = (0..self.len()).map(|pair| self.at(pair, pair)).collect();
        Ok(median(of_pool) >= median(of_pairs))
    }
}

/// The middle one of some numbers.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
