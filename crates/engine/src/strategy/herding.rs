//! Items that stand for many others that nothing paired stands for: a greedy cover of points.

use super::{Needs, Strategy};
use crate::cover::{Chosen, Cover, Weights};
use crate::picks::{Fact, Pick};
use crate::points::Points;
use crate::{Error, Picks, Problem, Progress, Size};

pub(super) struct Herding;

impl Strategy for Herding {
    fn name(&self) -> &'static str {
        "herding"
    }

    fn needs(&self) -> Needs {
        Needs { features: true, queries: true, ..Needs::default() }
    }

    fn select(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        let points = Points::new(problem, progress)?;
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
