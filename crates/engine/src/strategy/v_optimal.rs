//! Greedy V-optimal design, also known as transductive experimental design: items whose pairs make predictions for all
//! items least uncertain.
//!
//! Retrieval is nearly a linear map from features to meanings, and a pair a noisy observation of it at `x`. With `M` the
//! prior and the observations so far and `A` the mean of `x x'` over pool and paired items, the mean variance is
//! `tr(A M^-1)`, and an item lowers it by `b / (1 + a)`, where `a = x' M^-1 x` and `b = x' M^-1 A M^-1 x`. A pick changes
//! `M^-1` by one rank, and `a` and `b` of all items by their products with two vectors.

use nextpair_core::Matrix;
use rayon::prelude::*;

use super::{Needs, Sharded, Strategy, above_zero};
use crate::directions::{GRID, Space, squares};
use crate::error::unless_stopped;
use crate::packed::Packed;
use crate::parameters::parameters;
use crate::widest::widest;
use crate::{Error, ItemFeatures, Pick, Picks, Problem, Progress, Size};

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

/// With a smaller prior, updates of one rank drift: by 7e-6 of `b` in 3,500 picks with 0.01.
const SMALLEST_PRIOR: f64 = 0.05;
/// Items that are updated together.
const LANES: usize = 16;
/// Groups of a piece of work.
const GROUPS: usize = 64;

impl Strategy for VOptimal {
    fn name(&self) -> &'static str {
        "v-optimal"
    }

    fn needs(&self) -> Needs {
        Needs { features: Some(self.features), ..Needs::default() }
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
        let mut design = Design::new([&features.pool, &features.paired], self, progress)?;
        progress.start("design", budget as u64);
        let mut picks = Vec::with_capacity(budget);
        while picks.len() < budget {
            unless_stopped(progress)?;
            let (item, gain) = design.best;
            picks.push(Pick::new(item, gain));
            design.take(item);
            progress.advance(1);
        }
        Ok(Picks::of(picks, problem.pool()))
    }

    fn memory(&self, size: &Size) -> usize {
        let dim = size.dim.min(self.dimensions);
        // Columns of a block, twice, and its sums.
        let of_thread = 2 * 8 * 8192 * size.dim + 32 * size.dim * size.dim;
        size.pool * (4 * dim + 32) + (size.threads + 1) * of_thread + 64 * dim * dim
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Err("every pick depends on how much earlier picks tell of the whole pool")
    }
}

/// The state between two picks.
struct Design {
    dim: usize,
    /// Directions of the pool, dimension by dimension for a group of items.
    directions: Vec<[f32; LANES]>,
    /// `a` and `b` of every item, and whether it was picked.
    groups: Vec<Group>,
    /// The mean of `x x'` over all items.
    targets: Vec<f64>,
    /// `M^-1`.
    inverse: Vec<f64>,
    /// The item with the largest gain, and the gain.
    best: (u32, f64),
}

/// The items of a group.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    a: [f64; LANES],
    b: [f64; LANES],
    gone: [bool; LANES],
}

impl Group {
    /// The item with the largest gain, ties to the first.
    fn best(&self, first: u32) -> (u32, f64) {
        let mut best = (u32::MAX, f64::NEG_INFINITY);
        for lane in 0..LANES {
            let gain = self.b[lane].max(0.0) / (1.0 + self.a[lane]);
            if !self.gone[lane] && gain > best.1 {
                best = (first + lane as u32, gain);
            }
        }
        best
    }
}

/// The better of two items.
fn better(one: (u32, f64), other: (u32, f64)) -> (u32, f64) {
    match other.1 > one.1 || (other.1 == one.1 && other.0 < one.0) {
        true => other,
        false => one,
    }
}

impl Design {
    fn new(
        [pool, paired]: [&Matrix; 2],
        settings: &VOptimal,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        if pool.dim() != paired.dim() && paired.rows() > 0 {
            let (left_dim, right_dim) = (pool.dim(), paired.dim());
            let (left, right) = (crate::problem::POOL_FEATURES, crate::problem::PAIRED_FEATURES);
            return Err(Error::DimensionMismatch { left, left_dim, right, right_dim });
        }
        let space = Space::of([pool, paired], settings.dimensions, progress)?;
        let dim = space.dim();
        let sum = |matrix: &Matrix| {
            squares(matrix.rows(), dim, |row, out| space.direction(matrix, row, out), progress)
        };
        let (of_pool, of_paired) = (sum(pool)?, sum(paired)?);
        let square = GRID * GRID;
        let count = (pool.rows() + paired.rows()) as f64;
        let both = of_pool.iter().zip(&of_paired);
        let targets: Vec<f64> = both.map(|(a, b)| (a + b) as f64 * square / count).collect();
        let mut matrix: Vec<f64> = of_paired.iter().map(|&sum| sum as f64 * square).collect();
        let prior = settings.prior.unwrap_or(1.0);
        matrix.iter_mut().step_by(dim + 1).for_each(|diagonal| *diagonal += prior);
        let inverse = inverse(matrix, dim);
        let twice = product(&product(&inverse, &targets, dim), &inverse, dim);
        let count = pool.rows().div_ceil(LANES);
        let mut design = Design {
            dim,
            directions: vec![[0.0; LANES]; count * dim],
            groups: vec![Group { a: [0.0; LANES], b: [0.0; LANES], gone: [true; LANES] }; count],
            targets,
            inverse,
            best: (u32::MAX, f64::NEG_INFINITY),
        };
        let packed = [&design.inverse, &twice].map(|matrix| {
            Packed::new(dim, dim, |at, out| out.copy_from_slice(&matrix[at * dim..][..dim]))
        });
        progress.start("variance", count as u64);
        let directions = design.directions.par_chunks_mut(GROUPS * dim);
        let pieces = directions.zip(design.groups.par_chunks_mut(GROUPS)).enumerate();
        let first =
            |(piece, (directions, groups)): (usize, (&mut [[f32; LANES]], &mut [Group]))| {
                unless_stopped(progress)?;
                let first = piece * GROUPS * LANES;
                let rows = (pool.rows() - first).min(groups.len() * LANES);
                let mut x = vec![0.0; rows * dim];
                x.chunks_exact_mut(dim)
                    .enumerate()
                    .for_each(|(at, x)| space.direction(pool, first + at, x));
                let mut images = vec![0.0; rows * dim];
                let mut quadratic = |packed: &Packed, mut set: Box<dyn FnMut(usize, f64) + '_>| {
                    packed.products(&x, &mut images);
                    let both = x.chunks_exact(dim).zip(images.chunks_exact(dim));
                    both.enumerate().for_each(|(at, (x, y))| set(at, dot(x, y)));
                };
                quadratic(&packed[0], Box::new(|at, a| groups[at / LANES].a[at % LANES] = a));
                quadratic(&packed[1], Box::new(|at, b| groups[at / LANES].b[at % LANES] = b));
                for (at, x) in x.chunks_exact(dim).enumerate() {
                    groups[at / LANES].gone[at % LANES] = false;
                    let own = &mut directions[at / LANES * dim..][..dim];
                    own.iter_mut().zip(x).for_each(|(lanes, x)| lanes[at % LANES] = *x as f32);
                }
                progress.advance(groups.len() as u64);
                Ok::<_, Error>(best_of(groups, first))
            };
        let none = || (u32::MAX, f64::NEG_INFINITY);
        design.best = pieces.map(first).try_reduce(none, |one, other| Ok(better(one, other)))?;
        Ok(design)
    }

    /// Takes an item, and finds the next one.
    fn take(&mut self, item: u32) {
        let (dim, group, lane) = (self.dim, item as usize / LANES, item as usize % LANES);
        self.groups[group].gone[lane] = true;
        let own = &self.directions[group * dim..][..dim];
        let x: Vec<f64> = own.iter().map(|lanes| f64::from(lanes[lane])).collect();
        let u = times(&self.inverse, &x);
        let weighted = times(&self.targets, &u);
        let h = times(&self.inverse, &weighted);
        let (s, k) = (1.0 / (1.0 + dot(&x, &u)), dot(&u, &weighted));
        for (row, &factor) in self.inverse.chunks_exact_mut(dim).zip(&u) {
            add_times(row, &u, -(s * factor));
        }
        let change: Vec<[f64; 2]> = u.into_iter().zip(h).map(|(u, h)| [u, h]).collect();
        let pieces = self.directions.par_chunks(GROUPS * dim);
        let pieces = pieces.zip(self.groups.par_chunks_mut(GROUPS)).enumerate();
        let update = |(piece, (directions, groups)): (usize, (&[[f32; LANES]], &mut [Group]))| {
            for (x, group) in directions.chunks_exact(dim).zip(groups.iter_mut()) {
                lower(group, x, &change, [s, k]);
            }
            best_of(groups, piece * GROUPS * LANES)
        };
        self.best = pieces.map(update).reduce(|| (u32::MAX, f64::NEG_INFINITY), better);
    }
}

/// The best item of some groups, the first of which begins with `first`.
fn best_of(groups: &[Group], first: usize) -> (u32, f64) {
    let each = groups.iter().zip((first..).step_by(LANES));
    let none = (u32::MAX, f64::NEG_INFINITY);
    each.map(|(group, first)| group.best(first as u32)).fold(none, better)
}

widest! {
    /// Updates `a` and `b` of a group: `a -= s c^2` and `b += -2 s c e + s^2 k c^2`, with `c = u' x` and `e = h' x`.
    lower(group: &mut Group, x: &[[f32; LANES]], change: &[[f64; 2]], factors: [f64; 2]) -> () {
        let (mut c, mut e) = ([0.0; LANES], [0.0; LANES]);
        for (x, &[u, h]) in x.iter().zip(change) {
            for lane in 0..LANES {
                let x = x[lane] as f64;
                c[lane] += u * x;
                e[lane] += h * x;
            }
        }
        let [s, k] = factors;
        for lane in 0..LANES {
            let square = c[lane] * c[lane];
            group.a[lane] -= s * square;
            group.b[lane] += -2.0 * s * c[lane] * e[lane] + s * s * k * square;
        }
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
    one.chunks_exact(dim).flat_map(|row| times(other, row)).collect()
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
