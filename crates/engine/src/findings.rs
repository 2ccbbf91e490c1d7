//! Guards: they warn of what looks wrong about a selection before money is spent on it.
//!
//! A guard that raises false alarms is soon ignored, so each one compares its count with what the pairs themselves
//! show to be chance, and small counts pass. The limits were chosen on the worlds, clean and broken, of
//! `tests/engine/findings.rs`.

mod chance;
mod pairs;
mod said;
mod sides;
mod twins;

use nextpair_core::{Matrix, draw};

use crate::duplicates::{copies_among, first_copies};
use crate::score::Scorer;
use crate::selection::one_each;
use crate::threshold::Measures;
use crate::{Error, Pick, Picks, Problem, Progress, Strategy, Usability, Vectors};
pub use chance::Chance;
use pairs::Sample;

/// Purpose of the draws of pairs and pool items to compare picks with, and their largest number.
const STRANGERS: u64 = 24;
const COMPARED: usize = 500;
/// The least count of picks that look like nothing paired for a warning, and by how much their share must exceed that
/// of the pool, beyond three standard errors.
const STRANGE: (usize, f64) = (5, 0.2);

/// Something about a selection that its owner should look at before paying for it. Items are places
/// in the pool, pairs places in the paired set.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// The pairs do not find each other: their order is wrong, or their side, or the model is useless.
    NearChance {
        /// Halves of sampled pairs that rank their other half first.
        right: usize,
        /// Halves asked about.
        asked: usize,
        /// How many would be right by chance.
        by_chance: f64,
    },
    /// The pool looks like the other half of the pairs.
    OtherSide,
    /// Pool items with the same numbers as an earlier one.
    Copies {
        /// Such items.
        items: usize,
        /// Items in the pool.
        of: usize,
        /// One of them, and the earlier one.
        example: (u32, u32),
    },
    /// Picks that are nearly the same as an earlier pick.
    PicksAlike {
        /// Such picks.
        picks: usize,
        /// All picks.
        of: usize,
        /// The cosine from which on they count.
        cosine: f64,
        /// One of them, and the earlier one.
        example: (u32, u32),
    },
    /// Picks that are nearly the same as something paired.
    PicksPaired {
        /// Such picks.
        picks: usize,
        /// All picks.
        of: usize,
        /// The cosine from which on they count.
        cosine: f64,
        /// One of them, and the pair.
        example: (u32, u32),
    },
    /// Picks that are hits of at least half of the anchors, more than there would be if pairs were the
    /// pool.
    Hubs {
        /// Such picks.
        picks: usize,
        /// All picks.
        of: usize,
        /// The one with the most hits, and how many it has.
        example: (u32, u32),
        /// Anchors in scope.
        anchors: usize,
    },
    /// Items of the pool with a hit, many more than there would be if pairs were the pool: the model has learned its
    /// pairs by heart, the paired halves are exchanged, or the pool is of another kind.
    PoolHit {
        /// Such items.
        hit: usize,
        /// Items in the pool.
        of: usize,
        /// The share that pairs show when some of them play the pool, or the most that it could be if they are too few.
        by_chance: f64,
    },
    /// Picks that look like nothing paired, many more than in the pool. Nobody may be able to caption them.
    Strangers {
        /// Such picks.
        picks: usize,
        /// All picks.
        of: usize,
        /// The share of such items in the pool.
        in_pool: f64,
    },
    /// Picks without a hit, which only fill the budget.
    NoHit {
        /// Such picks.
        picks: usize,
        /// All picks.
        of: usize,
    },
    /// Picks that tell nothing, which only fill the budget: the items that are left do not vary, or are copies.
    NoGain {
        /// Such picks.
        picks: usize,
        /// All picks.
        of: usize,
    },
    /// Picks at least as similar to an anchor as its own pair, though that is well above all rivals: more
    /// than there would be if pairs were the pool. The anchor may describe them too.
    FalseNegatives {
        /// Such picks.
        picks: usize,
        /// All picks.
        of: usize,
        /// The share that pairs show when some of them play the pool.
        by_chance: f64,
        /// One of them, and the pair of the anchor.
        example: (u32, u32),
    },
}

/// The inputs of the guards besides the picks. A guard without its inputs is skipped.
#[derive(Default)]
pub struct FindingInputs<'a> {
    /// The problem that the picks answer, [as their strategy sees it](Problem::of_strategy), for its similarities.
    pub problem: Option<&'a Problem>,
    /// Rates by chance, for picks of merged parts, whose similarities are elsewhere. A problem computes them itself.
    pub chance: Option<Chance>,
    /// The numbers of all pool items: their vectors, or their rows of similarities.
    pub pool: Option<Matrix>,
    /// The vectors of all pool items that are of the same space as the next two.
    pub vectors: Option<Matrix>,
    /// One vector for every pick, in their order.
    pub picked: Option<Matrix>,
    /// One vector for every paired item on the side of the pool.
    pub paired: Option<Matrix>,
    /// One vector for every paired item on the other side, comparable with [`pool`](Self::pool).
    pub anchors: Option<Matrix>,
}

impl Problem {
    /// Looks for what is wrong with the pairs and the pool, before anything is picked from it.
    ///
    /// # Errors
    /// If numbers cannot be compared, or if the work is stopped.
    pub fn inspect_inputs(
        &self,
        strategy: &dyn Strategy,
        progress: &dyn Progress,
    ) -> Result<Vec<Finding>, Error> {
        let problem = self.of_strategy(strategy)?;
        let known = FindingInputs {
            problem: Some(&problem),
            pool: self.pool_rows(),
            paired: self.features().ok().map(|features| features.paired.clone()),
            anchors: self.anchor_vectors().cloned(),
            ..FindingInputs::default()
        };
        known.inspect_inputs(problem.sample(progress)?.as_ref(), progress)
    }

    /// Looks for what is wrong with the pairs, the pool and the picks of a strategy.
    ///
    /// # Errors
    /// If numbers cannot be compared, or if the work is stopped.
    pub fn inspect(
        &self,
        strategy: &dyn Strategy,
        picks: &Picks,
        progress: &dyn Progress,
    ) -> Result<Vec<Finding>, Error> {
        let features = self.features().ok();
        let problem = self.of_strategy(strategy)?;
        let known = FindingInputs {
            problem: Some(&problem),
            pool: self.pool_rows(),
            vectors: features.map(|features| features.pool.clone()),
            picked: features.map(|features| features.pool.gather(&picks.indices())),
            paired: features.map(|features| features.paired.clone()),
            anchors: self.anchor_vectors().cloned(),
            chance: None,
        };
        known.inspect(picks, progress)
    }

    /// What chance does to a selection of `budget` items with a strategy, if there are similarities and enough pairs
    /// to tell.
    ///
    /// # Errors
    /// If a similarity is not a number, or if the work is stopped.
    pub fn chance(
        &self,
        strategy: &dyn Strategy,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Option<Chance>, Error> {
        let problem = self.of_strategy(strategy)?;
        Ok(problem.sample(progress)?.and_then(|sample| sample.chance(&problem, budget)))
    }

    fn sample(&self, progress: &dyn Progress) -> Result<Option<Sample>, Error> {
        self.matching().ok().map(|_| Sample::of(self, progress)).transpose()
    }
}

impl FindingInputs<'_> {
    /// Looks for what is wrong with the inputs and with the picks.
    ///
    /// # Errors
    /// If numbers cannot be compared, or if the work is stopped.
    pub fn inspect(&self, picks: &Picks, progress: &dyn Progress) -> Result<Vec<Finding>, Error> {
        let sample = match self.problem {
            Some(problem) => problem.sample(progress)?,
            None => None,
        };
        let mut found = self.inspect_inputs(sample.as_ref(), progress)?;
        if let (Some(picked), Some(paired)) = (&self.picked, &self.paired) {
            found.extend(twins::near_duplicates(
                picked,
                paired,
                &picks.picks,
                self.seed(),
                progress,
            )?);
        }
        found.extend(self.strangers(progress)?);
        let without = picks.without_hit().filter(|&count| count > 0);
        let of = picks.picks.len();
        found.extend(without.map(|without| Finding::NoHit { picks: without, of }));
        let idle = picks.without_gain().filter(|&count| count > 0);
        found.extend(idle.map(|idle| Finding::NoGain { picks: idle, of }));
        let chance = match (self.problem, sample) {
            (Some(problem), Some(sample)) => sample.chance(problem, of),
            _ => self.chance,
        };
        if picks.thresholds.is_empty() {
            return Ok(found);
        }
        found.extend(chance::hubs(chance.as_ref(), picks));
        let rule = self.problem.and_then(|problem| Some(&problem.matching().ok()?.rule));
        found.extend(rule.and_then(|rule| chance::pool_hit(chance.as_ref(), picks, rule)));
        if let Some(chance) = chance {
            found.extend(chance.false_negatives(picks, &self.explained(picks, progress)?));
        }
        Ok(found)
    }

    fn seed(&self) -> u64 {
        self.problem.map_or(0, Problem::seed)
    }

    /// Picks that look like nothing paired, if they are many more than of the pool. Samples of pool and pairs tell.
    fn strangers(&self, progress: &dyn Progress) -> Result<Option<Finding>, Error> {
        let (Some(pool), Some(picked), Some(paired)) = (&self.vectors, &self.picked, &self.paired)
        else {
            return Ok(None);
        };
        let drawn = |of: &Matrix| {
            let rows = draw::sample(self.seed(), STRANGERS, of.rows(), COMPARED);
            one_each(&of.gather(&rows), progress)
        };
        let (pool, paired) = (drawn(pool)?, drawn(paired)?);
        let count = || -> Result<Option<[usize; 2]>, Error> {
            let learned = Usability::learn(&paired, None, &pool, self.seed(), progress)?;
            let learned = learned.filter(|_| picked.dim() == paired.dim());
            learned.map(|it| Ok([it.strange(picked)?, it.strange(&pool)?])).transpose()
        };
        let (picks, of_pool) = match count() {
            Ok(Some([picks, of_pool])) => (picks, of_pool),
            Err(Error::Stopped) => return Err(Error::Stopped),
            // Inputs that the strategy does not read need not be comparable.
            Ok(None) | Err(_) => return Ok(None),
        };
        let (of, drawn) = (picked.rows(), pool.rows());
        let told = chance::exceeds((picks, of), (of_pool, drawn), STRANGE);
        let in_pool = of_pool as f64 / drawn as f64;
        Ok(told.then_some(Finding::Strangers { picks, of, in_pool }))
    }

    fn inspect_inputs(
        &self,
        sample: Option<&Sample>,
        progress: &dyn Progress,
    ) -> Result<Vec<Finding>, Error> {
        let near_chance = sample.and_then(Sample::near_chance);
        let mut other_side = match (&self.pool, &self.paired, &self.anchors) {
            (Some(pool), Some(own), Some(other)) => {
                sides::looks_like_other(pool, own, other, self.seed())
            }
            _ => false,
        };
        // Where pairs are no better than chance, anything is as good as a pair.
        if let (Some(problem), Some(sample), None) = (self.problem, sample, &near_chance) {
            other_side = other_side || sample.is_beaten_by_pool(problem)?;
        }
        let mut found: Vec<Finding> = near_chance.into_iter().collect();
        found.extend(other_side.then_some(Finding::OtherSide));
        if let Some(pool) = &self.pool {
            found.extend(copies(self.problem, pool, progress)?);
        }
        Ok(found)
    }

    /// The picks with their strongest reasons, whether or not they were asked for.
    fn explained(&self, picks: &Picks, progress: &dyn Progress) -> Result<Vec<Pick>, Error> {
        let mut explained = picks.picks.clone();
        if let Some(problem) = self.problem.filter(|problem| problem.explain() < chance::REASONS) {
            let (thresholds, own) = (picks.thresholds.clone(), picks.own.clone());
            let known = Measures { thresholds, own };
            Scorer::known(problem, known, progress)?.explain(&mut explained, chance::REASONS)?;
        }
        Ok(explained)
    }
}

/// Looks for copies, by fingerprints that the problem has kept or by reading the pool.
fn copies(
    problem: Option<&Problem>,
    pool: &Matrix,
    progress: &dyn Progress,
) -> Result<Option<Finding>, Error> {
    let vectors = problem.and_then(Problem::pool_vectors);
    let vectors = vectors.filter(|vectors| vectors.len() == pool.rows());
    let copies = match vectors.map(Vectors::prints).transpose()?.flatten() {
        Some(print) => copies_among(&[pool], print),
        None => {
            let first = first_copies(&[pool], progress)?;
            first.into_iter().enumerate().filter(|(item, first)| item != first).collect()
        }
    };
    let Some(&(item, earlier)) = copies.first() else { return Ok(None) };
    let example = (item as u32, earlier as u32);
    Ok(Some(Finding::Copies { items: copies.len(), of: pool.rows(), example }))
}
