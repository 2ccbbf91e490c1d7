//! Items that represent many others that no paired item represents: a greedy cover of points.

use nextpair_core::draw;

use super::nearest::with_nearest_paired;
use super::v_optimal::RANDOM_BATCH;
use super::{Needs, Strategy, above_zero};
use crate::cover::{Cover, CoverPick, Weights};
use crate::parameters::parameters;
use crate::points::Points;
use crate::{
    Effect, Error, Fact, ItemFeatures, Measure, Near, Neighbour, Pick, Picks, Problem, Progress,
    Size,
};

parameters! {
    /// Items that represent many others that no paired item represents (MaxHerding; Bae, Noh and Sutherland, ECCV
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
        let cover = Cover::new(&points, &weights, progress)?;
        picks(problem, cover, budget, |_| Vec::new(), progress)
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

/// The picks of a cover, each with the points it covers, `more` facts about it, and what is near.
pub(super) fn picks(
    problem: &Problem,
    mut cover: Cover<'_>,
    budget: usize,
    more: impl Fn(u32) -> Vec<Fact>,
    progress: &dyn Progress,
) -> Result<Picks, Error> {
    let (explain, before) = (problem.explain(), cover.uncovered());
    let at_random = || draw::sample(problem.seed(), RANDOM_BATCH, problem.pool(), budget);
    let random = (explain > 0).then(|| cover.uncovered_with(&at_random()));
    let pick = |CoverPick { item, gain, points, learners }: CoverPick| {
        let mut facts = vec![Fact { name: "points", value: points as f64 }];
        facts.extend(more(item));
        let near = |(item, value)| Near { item: Neighbour::Pool(item), value };
        let near = learners.into_iter().map(near).collect();
        Pick { facts, near, ..Pick::new(item, gain) }
    };
    let chosen = cover.pick((budget, explain), progress)?.into_iter().map(pick).collect();
    let measure = Measure::Uncovered;
    let effect = |random| Effect { measure, before, after: cover.uncovered(), random };
    let effect = random.map(effect);
    let picks = Picks { gains: true, effect, ..Picks::of(chosen, problem.pool()) };
    with_nearest_paired(picks, problem, progress)
}
