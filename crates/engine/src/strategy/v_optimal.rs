//! Greedy V-optimal design, also known as transductive experimental design: items whose pairs make predictions for all
//! items least uncertain. The mathematics is in [`crate::design`].

use nextpair_core::{Effect, Measure, Near, Neighbour, draw};
use rayon::prelude::*;

use super::{Needs, Sharded, Strategy, above_zero};
use crate::design::{Design, DesignPick, Moments};
use crate::directions::{Directions, GRID, Space, on_grid, squares};
use crate::packed::Packed;
use crate::parameters::parameters;
use crate::points::weights_asked_for;
use crate::problem::{PAIRED_FEATURES, POOL_FEATURES};
use crate::{Error, Fact, Features, ItemFeatures, Pick, Picks, Problem, Progress, Size, Spend};

parameters! {
    /// Items whose pairs make predictions for all items least uncertain (V-optimal design; Yu, Bi and Tresp, ICML 2006).
    pub struct VOptimal {
        /// The vectors that distances are measured by: the mean of an item's own, a bag of 300 visual words, or what a model
        /// makes of the item
        features: ItemFeatures = ItemFeatures::Mean,
        /// Principal axes of the features that count, if they have more dimensions
        dimensions: usize = 512,
        /// How certain the model is without a pair: the variance at an item is 1 over this, at least 0.05 [default: 1]
        prior: Option<f64> = None,
    }
}

/// With a smaller prior, rank-one updates drift: by 7e-6 of `b` in 3,500 picks with 0.01.
const SMALLEST_PRIOR: f64 = 0.05;
/// Purpose of the draws of random batches, and how many there are.
pub(super) const RANDOM_BATCH: u64 = 12;
const RANDOM_BATCHES: u64 = 2;
/// Paired items, and picks, that are compared together.
const PAIRED: usize = 1024;

impl Strategy for VOptimal {
    fn name(&self) -> &'static str {
        "v-optimal"
    }

    fn needs(&self) -> Needs {
        Needs { features: Some(self.features), queries: true, weighs: true, ..Needs::default() }
    }

    fn check(&self) -> Result<(), Error> {
        above_zero("dimensions", Some(self.dimensions as f64))?;
        above_zero("prior", self.prior)?;
        match self.prior {
            Some(value) if value < SMALLEST_PRIOR => {
                Err(Error::TooSmall { setting: "prior", value, least: SMALLEST_PRIOR })
            }
            _ => Ok(()),
        }
    }

    /// The score is the amount by which a pick lowers the mean variance.
    fn select(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        let features = problem.features()?;
        check_dimensions(features)?;
        let space = Space::of([&features.pool, &features.paired], self.dimensions, progress)?;
        let pool = Directions::of(&space, &features.pool, progress)?;
        let paired = Directions::of(&space, &features.paired, progress)?;
        let stated = DesignSetup::new(self, problem, [&pool, &paired], progress)?;
        let mut design = stated.design(pool, progress)?;
        let before = design.variance();
        let (taken, after) = design.take(budget, problem.device(), progress)?;
        let pick = |DesignPick { item, gain, learners }: DesignPick| {
            let near = |(item, value)| Near { item: Neighbour::Pool(item), value };
            let near = learners.into_iter().map(near).collect();
            let cost = |spend: &Spend| Fact { name: "cost", value: spend.costs[item as usize] };
            let facts = problem.spend().map(cost).into_iter().collect();
            Pick { near, facts, ..Pick::new(item, gain) }
        };
        let picks = taken.into_iter().map(pick).collect();
        let mut picks = Picks { gains: true, ..Picks::of(picks, problem.pool()) };
        if problem.explain() > 0 {
            let nearest = nearest(&paired, &design.directions, &picks.indices());
            picks.picks.iter_mut().zip(nearest).for_each(|(pick, near)| pick.near.insert(0, near));
            let random = stated.at_random(&design.directions, picks.picks.len())?;
            picks.effect = Some(Effect { measure: Measure::Uncertainty, before, after, random });
        }
        Ok(picks)
    }

    fn memory(&self, size: &Size) -> usize {
        let dim = size.dim.min(self.dimensions);
        // Columns of a block, twice, and its sums; cosines of picks with paired items.
        let of_thread = 2 * 8 * 8192 * size.dim + 32 * size.dim * size.dim + 8 * PAIRED * PAIRED;
        let of_items = size.pool * (4 * dim + 64) + size.pairs * 4 * dim;
        of_items + (size.threads + 1) * of_thread + 64 * dim * dim
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Err("every pick depends on how much earlier picks tell of the whole pool")
    }
}

fn check_dimensions(Features { pool, paired }: &Features) -> Result<(), Error> {
    if pool.dim() != paired.dim() && paired.rows() > 0 {
        let (left_dim, right_dim) = (pool.dim(), paired.dim());
        let (left, right) = (POOL_FEATURES, PAIRED_FEATURES);
        return Err(Error::DimensionMismatch { left, left_dim, right, right_dim });
    }
    Ok(())
}

/// Weights of pool and paired items.
type Weights<'a> = [&'a (dyn Fn(usize) -> f64 + Sync); 2];

/// A design before its first pick.
struct DesignSetup<'a> {
    problem: &'a Problem,
    /// The mean of `x x'` over pool and paired items, by how much they count.
    targets: Vec<f64>,
    /// The prior and `x x'` of the paired items.
    information: Vec<f64>,
    dim: usize,
}

impl<'a> DesignSetup<'a> {
    fn new(
        settings: &VOptimal,
        problem: &'a Problem,
        [pool, paired]: [&Directions; 2],
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let (sizes, dim) = ([pool.count, paired.count], pool.dim);
        let own = |sums: Vec<i128>| sums.into_iter().map(|sum| sum as f64 * GRID * GRID);
        let sums = |directions: &Directions, weight: &(dyn Fn(usize) -> f64 + Sync)| {
            let read = |row: usize, out: &mut [f64]| weighed(directions, row, weight(row), out);
            squares(directions.count, dim, read, progress)
        };
        let of_paired = sums(paired, &|_| 1.0)?;
        let asked = problem.queries().map(|queries| weights_asked_for(queries, sizes, progress));
        let asked = asked.transpose()?;
        let (of_pool, of_targets, count) = match (&asked, problem.usable()) {
            (None, None) => {
                let of_pool = sums(pool, &|_| 1.0)?;
                (of_pool, of_paired.clone(), (sizes[0] + sizes[1]) as f64)
            }
            (asked, usable) => {
                // Largest 1, so that rows stay on the grid.
                let most = asked.iter().flatten().fold(0.0, |most, &weight| f64::max(most, weight));
                let of_asked = |at: usize| asked.as_ref().map_or(1.0, |asked| asked[at] / most);
                let of_usable = |at: usize| usable.map_or(1.0, |usable| usable[at]);
                let weights: Weights<'_> =
                    [&|at| of_asked(at) * of_usable(at), &|at| of_asked(sizes[0] + at)];
                let total = (0..sizes[0]).map(weights[0]).chain((0..sizes[1]).map(weights[1]));
                let total = total.fold(0.0, |sum, weight| sum + weight);
                (sums(pool, weights[0])?, sums(paired, weights[1])?, total)
            }
        };
        let both = of_pool.into_iter().zip(of_targets).map(|(pool, paired)| pool + paired);
        let targets = own(both.collect()).map(|sum| sum / count).collect();
        let mut information: Vec<f64> = own(of_paired).collect();
        let prior = settings.prior.unwrap_or(1.0);
        information.iter_mut().step_by(dim + 1).for_each(|diagonal| *diagonal += prior);
        Ok(DesignSetup { problem, targets, information, dim })
    }

    fn moments(&self, information: Vec<f64>) -> Moments {
        Moments::new(self.targets.clone(), information, self.dim)
    }

    /// The weight of an observation of a pool item.
    fn weight(&self, item: usize) -> f64 {
        self.problem.usable().map_or(1.0, |usable| usable[item])
    }

    fn design(&self, pool: Directions, progress: &dyn Progress) -> Result<Design, Error> {
        let (weight, spend) = (|item| self.weight(item), self.problem.spend());
        let cost = |item: usize| spend.map_or(1.0, |spend| spend.costs[item]);
        // The remaining money is rounded after many purchases.
        let money = spend.map_or(f64::INFINITY, |spend| spend.money * (1.0 + 1e-9));
        let moments = self.moments(self.information.clone());
        let limits = (money, self.problem.explain());
        Design::new(moments, pool, (weight, cost), limits, progress)
    }

    /// The mean variance that random batches of so many items leave.
    fn at_random(&self, pool: &Directions, count: usize) -> Result<f64, Error> {
        let left = |batch: u64| {
            let purpose = RANDOM_BATCH + (batch << 32);
            let drawn = draw::sample(self.problem.seed(), purpose, pool.count, count);
            let read = |at: usize, out: &mut [f64]| {
                let item = drawn[at] as usize;
                weighed(pool, item, self.weight(item), out);
            };
            let added = squares(drawn.len(), self.dim, read, &())?;
            let sums = self.information.iter().zip(added);
            let information = sums.map(|(known, added)| known + added as f64 * GRID * GRID);
            Ok(self.moments(information.collect()).variance())
        };
        let all: Result<Vec<f64>, Error> = (0..RANDOM_BATCHES).into_par_iter().map(left).collect();
        Ok(all?.into_iter().sum::<f64>() / RANDOM_BATCHES as f64)
    }
}

/// Reads the direction of an item, times the root of its weight, on the grid.
fn weighed(directions: &Directions, item: usize, weight: f64, out: &mut [f64]) {
    directions.read(item, out);
    let root = weight.sqrt();
    if root != 1.0 {
        out.iter_mut().for_each(|x| *x = on_grid(*x * root));
    }
}

/// The paired item with the largest cosine for each of some pool items, ties to the first; none without pairs.
fn nearest(paired: &Directions, pool: &Directions, items: &[u32]) -> Vec<Near> {
    let dim = paired.dim;
    let starts: Vec<usize> = (0..paired.count).step_by(PAIRED).collect();
    let of_block = |first: usize| -> Vec<(u32, f64)> {
        let count = PAIRED.min(paired.count - first);
        let packed = Packed::new(dim, count, |at, out| paired.read(first + at, out));
        let mut best = Vec::with_capacity(items.len());
        for some in items.chunks(PAIRED) {
            let mut rows = vec![0.0; some.len() * dim];
            let each = rows.chunks_exact_mut(dim).zip(some);
            each.for_each(|(row, &item)| pool.read(item as usize, row));
            let mut cosines = vec![0.0; some.len() * count];
            packed.products(&rows, &mut cosines);
            best.extend(cosines.chunks_exact(count).map(|cosines| {
                let each = (first as u32..).zip(cosines);
                each.fold((0, f64::NEG_INFINITY), |best, (row, &cosine)| {
                    if cosine > best.1 { (row, cosine) } else { best }
                })
            }));
        }
        best
    };
    let nearer = |mut one: Vec<(u32, f64)>, other: Vec<(u32, f64)>| {
        one.iter_mut().zip(other).for_each(|(one, other)| {
            if other.1 > one.1 {
                *one = other;
            }
        });
        one
    };
    let best = starts.into_par_iter().map(of_block).reduce_with(nearer).unwrap_or_default();
    let near = |(row, value)| Near { item: Neighbour::Paired(row), value };
    best.into_iter().map(near).collect()
}
