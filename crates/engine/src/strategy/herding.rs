//! Items that stand for many others that nothing paired stands for: a greedy cover of points.

use super::{Needs, Strategy, above_zero};
use crate::cover::{Chosen, Cover, Weights};
use crate::parameters::parameters;
use crate::points::Points;
use crate::{Error, Fact, ItemFeatures, Pick, Picks, Problem, Progress, Size};

parameters! {
    /// Items that stand for many others that nothing paired stands for (MaxHerding; Bae, Noh and Sutherland, ECCV
    /// 2024).
    pub struct Herding {
        /// The vectors that distances are measured by: the mean of an item's own, a bag of 300 visual words, or what a model
        /// makes of the item
        features: ItemFeatures = ItemFeatures::Mean,
        /// Items whose cover is measured, drawn from pool and pairs
        points: usize = 2000,
        /// Squared distance at which an item stands for another [default: the median to the nearest neighbour]
        bandwidth: Option<f64> = None,
    }
}

impl Strategy for Herding {
    fn name(&self) -> &'static str {
        "herding"
    }

    fn needs(&self) -> Needs {
        Needs { features: Some(self.features), queries: true, ..Needs::default() }
    }

    fn check(&self) -> Result<(), Error> {
        check_cover(self.points, self.bandwidth)
    }

    fn select(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        let points = Points::new(problem, (self.points, self.bandwidth), progress)?;
        let weights = Weights { pool: None, paired: 1.0 };
        let chosen = Cover::new(&points, &weights, progress)?.pick(budget, progress)?;
        Ok(picks(problem, chosen, |_| Vec::new()))
    }

    fn memory(&self, size: &Size) -> usize {
        size.cover()
    }

    fn shards(&self) -> Result<&'static dyn super::Sharded, &'static str> {
        Err(WHOLE_POOL)
    }
}

/// Fails if nothing can be covered so.
pub(super) fn check_cover(points: usize, bandwidth: Option<f64>) -> Result<(), Error> {
    above_zero("points", Some(points as f64))?;
    above_zero("bandwidth", bandwidth)
}

/// Why a cover cannot be split.
pub(super) const WHOLE_POOL: &str =
    "every pick depends on how far all earlier picks cover the points";

/// The picks of a cover, each with the points it covers and `more` facts about it.
pub(super) fn picks(
    problem: &Problem,
    chosen: Vec<Chosen>,
    more: impl Fn(u32) -> Vec<Fact>,
) -> Picks {
    let pick = |Chosen { item, gain, points }: Chosen| {
        let mut facts = vec![Fact { name: "points", value: points as f64 }];
        facts.extend(more(item));
        Pick { facts, ..Pick::new(item, gain) }
    };
    Picks::of(chosen.into_iter().map(pick).collect(), problem.pool())
}
