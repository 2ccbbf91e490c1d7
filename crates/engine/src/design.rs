//! The state of a greedy V-optimal design between two picks.
//!
//! Retrieval is nearly a linear map from features to meanings, and a pair a noisy observation of it at `x`. With `M` the
//! prior and the observations so far and `A` the mean of `x x'` over what predictions are for, the mean variance is
//! `tr(A M^-1)`, and an item of weight `w` lowers it by `w b / (1 + w a)`, where `a = x' M^-1 x` and
//! `b = x' M^-1 A M^-1 x`. A pick changes `M^-1` by one rank, and `a` and `b` of all items by their products with two
//! vectors.

use rayon::prelude::*;

use crate::device::Device;
use crate::directions::{Directions, LANES};
use crate::error::unless_stopped;
use crate::packed::Packed;
use crate::widest::widest;
use crate::{Error, Progress};

/// Groups of a piece of work.
const GROUPS: usize = 64;

/// The two matrices of a design, `A` and `M^-1`.
pub(crate) struct Moments {
    pub(crate) dim: usize,
    /// The mean of `x x'` over what predictions are for.
    pub(crate) targets: Vec<f64>,
    /// `M^-1`.
    pub(crate) inverse: Vec<f64>,
}

impl Moments {
    /// Begins with the mean `A` and with `M`.
    pub(crate) fn new(targets: Vec<f64>, information: Vec<f64>, dim: usize) -> Self {
        Moments { dim, targets, inverse: inverse(information, dim) }
    }

    /// The mean variance, `tr(A M^-1)`.
    pub(crate) fn variance(&self) -> f64 {
        self.variance_of(&self.inverse)
    }

    /// The mean variance with another `M^-1`.
    pub(crate) fn variance_of(&self, inverse: &[f64]) -> f64 {
        dot(&self.targets, inverse)
    }

    /// `M^-1 A M^-1`.
    fn twice(&self) -> Vec<f64> {
        product(&product(&self.inverse, &self.targets, self.dim), &self.inverse, self.dim)
    }

    /// Observes the direction `x` with a weight. Returns the update: `u = M^-1 x` and `h = M^-1 A u` by dimension, and
    /// the factors `s = 1 / (1/w + a)` and `k = u' A u`.
    fn observe(&mut self, x: &[f64], weight: f64) -> (Vec<[f64; 2]>, [f64; 2]) {
        let u = times(&self.inverse, x);
        let weighted = times(&self.targets, &u);
        let h = times(&self.inverse, &weighted);
        let (s, k) = (1.0 / (1.0 / weight + dot(x, &u)), dot(&u, &weighted));
        for (row, &factor) in self.inverse.chunks_exact_mut(self.dim).zip(&u) {
            add_times(row, &u, -(s * factor));
        }
        (u.into_iter().zip(h).map(|(u, h)| [u, h]).collect(), [s, k])
    }
}

/// Items of a pool, and how uncertain predictions for them are.
pub(crate) struct Design {
    pub(crate) moments: Moments,
    pub(crate) directions: Directions,
    pub(crate) groups: Vec<Group>,
    /// Most learners to report for a pick.
    pub(crate) learners: usize,
    /// The remaining budget in money.
    pub(crate) money: f64,
    pub(crate) best: Best,
}

/// The numbers of some items.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    pub(crate) a: [f64; LANES],
    pub(crate) b: [f64; LANES],
    pub(crate) weight: [f64; LANES],
    pub(crate) cost: [f64; LANES],
    pub(crate) gone: [bool; LANES],
}

/// The item that lowers the mean variance most for its cost.
#[derive(Clone, Copy)]
pub(crate) struct Best {
    pub(crate) item: u32,
    pub(crate) gain: f64,
    pub(crate) worth: f64,
}

impl Best {
    const NONE: Best = Best { item: u32::MAX, gain: 0.0, worth: f64::NEG_INFINITY };

    /// The better of two, ties to the lower item.
    fn or(self, other: Best) -> Best {
        match other.worth > self.worth || (other.worth == self.worth && other.item < self.item) {
            true => other,
            false => self,
        }
    }
}

/// A pick, and what it does.
pub(crate) struct DesignPick {
    pub(crate) item: u32,
    /// How much it lowers the mean variance.
    pub(crate) gain: f64,
    /// The items whose variance it lowers most, and by which share.
    pub(crate) learners: Vec<(u32, f64)>,
}

/// An item whose variance a pick lowers: by how much, and by which share.
#[derive(Clone, Copy)]
struct Learner {
    item: u32,
    lowered: f64,
    share: f64,
}

impl Design {
    /// States the design for a pool. `weight` and `cost` are those of an item.
    pub(crate) fn new(
        moments: Moments,
        directions: Directions,
        (weight, cost): (impl Fn(usize) -> f64 + Sync, impl Fn(usize) -> f64 + Sync),
        (money, learners): (f64, usize),
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let (dim, items) = (moments.dim, directions.count);
        let [zeros, ones] = [[0.0; LANES], [1.0; LANES]];
        let group = Group { a: zeros, b: zeros, weight: ones, cost: ones, gone: [true; LANES] };
        let mut groups = vec![group; items.div_ceil(LANES)];
        let packed = [&moments.inverse, &moments.twice()].map(|matrix| {
            Packed::new(dim, dim, |at, out| out.copy_from_slice(&matrix[at * dim..][..dim]))
        });
        progress.start("variance", items as u64);
        let pieces = groups.par_chunks_mut(GROUPS).enumerate();
        let first = |(piece, groups): (usize, &mut [Group])| {
            unless_stopped(progress)?;
            let first = piece * GROUPS * LANES;
            let rows = (items - first).min(groups.len() * LANES);
            let (mut x, mut images) = (vec![0.0; rows * dim], vec![0.0; rows * dim]);
            let each = x.chunks_exact_mut(dim).enumerate();
            each.for_each(|(at, x)| directions.read(first + at, x));
            for (packed, is_b) in packed.iter().zip([false, true]) {
                packed.products(&x, &mut images);
                let both = x.chunks_exact(dim).zip(images.chunks_exact(dim));
                for (at, (x, y)) in both.enumerate() {
                    let group = &mut groups[at / LANES];
                    let of = if is_b { &mut group.b } else { &mut group.a };
                    of[at % LANES] = dot(x, y);
                }
            }
            for at in 0..rows {
                let (group, lane) = (&mut groups[at / LANES], at % LANES);
                group.gone[lane] = false;
                group.weight[lane] = weight(first + at);
                group.cost[lane] = cost(first + at);
            }
            progress.advance(rows as u64);
            Ok::<_, Error>(best_of(groups, first, money))
        };
        let best = pieces.map(first).try_reduce(|| Best::NONE, |one, other| Ok(one.or(other)))?;
        Ok(Design { moments, directions, groups, learners, money, best })
    }

    /// The mean variance.
    pub(crate) fn variance(&self) -> f64 {
        self.moments.variance()
    }

    /// Picks the best items, at most so many: fewer if the money runs out. Also returns the mean variance that they leave.
    pub(crate) fn take(
        &mut self,
        budget: usize,
        device: &Device,
        progress: &dyn Progress,
    ) -> Result<(Vec<DesignPick>, f64), Error> {
        if let Some(taken) = device.design(self, budget, progress)? {
            return Ok(taken);
        }
        progress.start("design", budget as u64);
        let mut taken = Vec::new();
        while taken.len() < budget {
            unless_stopped(progress)?;
            let Some(best) = self.take_best() else { break };
            taken.push(best);
            progress.advance(1);
        }
        Ok((taken, self.variance()))
    }

    fn take_best(&mut self) -> Option<DesignPick> {
        let Best { item, gain, .. } = self.best;
        let (dim, at, lane) = (self.moments.dim, item as usize / LANES, item as usize % LANES);
        let group = self.groups.get_mut(at)?;
        group.gone[lane] = true;
        self.money -= group.cost[lane];
        let direction = self.directions.own(item as usize);
        let (change, factors) = self.moments.observe(&direction, group.weight[lane]);
        let (most, money) = (self.learners, self.money);
        let pieces = self.directions.groups.par_chunks(GROUPS * dim);
        let pieces = pieces.zip(self.groups.par_chunks_mut(GROUPS)).enumerate();
        let update = |(piece, (directions, groups)): (usize, (&[[f32; LANES]], &mut [Group]))| {
            let first = piece * GROUPS * LANES;
            let mut learners = Vec::new();
            let each = directions.chunks_exact(dim).zip(groups.iter_mut());
            for ((x, group), first) in each.zip((first..).step_by(LANES)) {
                let lowered = lower(group, x, &change, factors);
                if most > 0 {
                    group.learners(&lowered, first as u32, most, &mut learners);
                }
            }
            (best_of(groups, first, money), learners)
        };
        let none = || (Best::NONE, Vec::new());
        let (best, learners) = pieces.map(update).reduce(none, |(one, mut some), (other, more)| {
            more.into_iter().for_each(|learner| insert(&mut some, learner, most));
            (one.or(other), some)
        });
        self.best = best;
        let learners = learners.into_iter().map(|learner| (learner.item, learner.share)).collect();
        Some(DesignPick { item, gain, learners })
    }
}

/// Adds a learner to a list of the `most` that learn most, ties to the lower item.
fn insert(list: &mut Vec<Learner>, learner: Learner, most: usize) {
    let behind = |other: &Learner| {
        other.lowered > learner.lowered
            || (other.lowered == learner.lowered && other.item < learner.item)
    };
    let place = list.partition_point(behind);
    if place < most {
        list.truncate(most - 1);
        list.insert(place, learner);
    }
}

impl Group {
    /// The best affordable item, ties to the first.
    fn best(&self, first: u32, money: f64) -> Best {
        let mut best = Best::NONE;
        for lane in 0..LANES {
            let (weight, cost) = (self.weight[lane], self.cost[lane]);
            let gain = weight * self.b[lane].max(0.0) / (1.0 + weight * self.a[lane]);
            let worth = gain / cost;
            if !self.gone[lane] && cost <= money && worth > best.worth {
                best = Best { item: first + lane as u32, gain, worth };
            }
        }
        best
    }

    /// Adds those to a list that have learned more than its last.
    fn learners(&self, lowered: &[f64; LANES], first: u32, most: usize, list: &mut Vec<Learner>) {
        let least = if list.len() < most { 0.0 } else { list[most - 1].lowered };
        for (lane, &lowered) in lowered.iter().enumerate() {
            if lowered > least && !self.gone[lane] {
                let share = lowered / (lowered + self.a[lane].max(0.0));
                insert(list, Learner { item: first + lane as u32, lowered, share }, most);
            }
        }
    }
}

/// The best item of some groups, the first of which begins with `first`.
fn best_of(groups: &[Group], first: usize, money: f64) -> Best {
    let each = groups.iter().zip((first..).step_by(LANES));
    each.map(|(group, first)| group.best(first as u32, money)).fold(Best::NONE, Best::or)
}

widest! {
    /// Updates `a` and `b` of a group: `a -= s c^2` and `b += -2 s c e + s^2 k c^2`, with `c = u' x` and `e = h' x`.
    /// Returns `s c^2`.
    lower(group: &mut Group, x: &[[f32; LANES]], change: &[[f64; 2]], factors: [f64; 2]) -> [f64; LANES] {
        let (mut c, mut e) = ([0.0; LANES], [0.0; LANES]);
        for (x, &[u, h]) in x.iter().zip(change) {
            for lane in 0..LANES {
                let x = x[lane] as f64;
                c[lane] += u * x;
                e[lane] += h * x;
            }
        }
        let [s, k] = factors;
        let mut lowered = [0.0; LANES];
        for lane in 0..LANES {
            let square = c[lane] * c[lane];
            lowered[lane] = s * square;
            group.a[lane] -= lowered[lane];
            group.b[lane] += -2.0 * s * c[lane] * e[lane] + s * s * k * square;
        }
        lowered
    }
}

widest! {
    /// Adds a multiple of a vector.
    add_times(to: &mut [f64], vector: &[f64], factor: f64) -> () {
        to.iter_mut().zip(vector).for_each(|(to, x)| *to += factor * x);
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).fold(0.0, |sum, (x, y)| sum + x * y)
}

/// A symmetric matrix times a vector, each number summed in the order of the vector.
fn times(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; vector.len()];
    for (row, &factor) in matrix.chunks_exact(vector.len()).zip(vector) {
        add_times(&mut out, row, factor);
    }
    out
}

/// The product of two matrices, the second of which is symmetric.
fn product(one: &[f64], other: &[f64], dim: usize) -> Vec<f64> {
    one.par_chunks_exact(dim).flat_map_iter(|row| times(other, row)).collect()
}

/// The inverse of a symmetric matrix whose eigenvalues are positive, by Gauss and Jordan.
fn inverse(mut matrix: Vec<f64>, dim: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; dim * dim];
    inverse.iter_mut().step_by(dim + 1).for_each(|one| *one = 1.0);
    for pivot in 0..dim {
        let factor = matrix[pivot * dim + pivot];
        for side in [&mut matrix, &mut inverse] {
            let own: Vec<f64> = side[pivot * dim..][..dim].iter().map(|x| x / factor).collect();
            side[pivot * dim..][..dim].copy_from_slice(&own);
        }
        let rows = [&matrix, &inverse].map(|side| side[pivot * dim..][..dim].to_vec());
        for row in (0..dim).filter(|&row| row != pivot) {
            let factor = -matrix[row * dim + pivot];
            add_times(&mut matrix[row * dim..][..dim], &rows[0], factor);
            add_times(&mut inverse[row * dim..][..dim], &rows[1], factor);
        }
    }
    inverse
}
