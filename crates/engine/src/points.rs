//! The points that a cover is measured at: a seeded sample of the pool and the paired set.

use nextpair_core::{Matrix, Silent, draw};

use crate::canonical::exp;
use crate::centred::{Centred, Cosines, mean_of};
use crate::cover::{cosine_error, kernel, squared_distance};
use crate::device::{Device, Gains};
use crate::error::unless_stopped;
use crate::highest::highest;
use crate::problem::{PAIRED_FEATURES, POOL_FEATURES, Queries};
use crate::screen::Source;
use crate::top::{Field, kth_largest};
use crate::{Error, Problem, Progress, Vectors};

/// Purposes of draws, which keep them apart from other draws of the same seed.
pub(crate) const POINTS: u64 = 5;
pub(crate) const SAMPLED_ITEMS: u64 = 6;

/// Items whose nearest neighbours set the bandwidth.
pub(crate) const NEIGHBOURS: usize = 1000;
/// The smallest bandwidth. Copies of each other would make it zero.
pub(crate) const SMALLEST_BANDWIDTH: f64 = 0.05;
/// Nearest queries whose mean similarity weighs a point.
pub(crate) const CLOSEST_QUERIES: usize = 5;
/// The caveat of every output that is made with queries.
pub const QUERIES_CAVEAT: &str =
    "what is gained on queries like these is at the expense of other queries";
/// How steeply the weight of a point grows with it, by standard deviation.
pub(crate) const QUERY_SLOPE: f64 = 1.5;

/// Points, and all items, as directions from the points' mean.
pub(crate) struct Points {
    pub(crate) pool: Centred,
    pub(crate) paired: Centred,
    pub(crate) vectors: Centred,
    /// The pool items among them, which come first.
    of_pool: Vec<u32>,
    weights: Option<Vec<f64>>,
    bandwidth: f64,
}

/// Items by place in the pool followed by the paired set, split into the two.
struct SampledItems {
    pool: Vec<u32>,
    paired: Vec<u32>,
}

impl SampledItems {
    fn new(seed: u64, purpose: u64, (pool, paired): (usize, usize), count: usize) -> Self {
        let mut drawn = draw::sample(seed, purpose, pool + paired, count);
        let rest = drawn.split_off(drawn.partition_point(|&at| (at as usize) < pool));
        SampledItems { pool: drawn, paired: rest.iter().map(|at| at - pool as u32).collect() }
    }
}

impl Points {
    /// Draws so many points of a problem. Without a bandwidth, it is that of the data.
    pub(crate) fn new(
        problem: &Problem,
        (points, bandwidth): (usize, Option<f64>),
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let features = problem.features()?;
        let pool = Vectors::new(features.pool.clone(), POOL_FEATURES)?;
        let paired = Vectors::new(features.paired.clone(), PAIRED_FEATURES)?;
        if pool.dim() != paired.dim() {
            return Err(Error::DimensionMismatch {
                left: POOL_FEATURES,
                left_dim: pool.dim(),
                right: PAIRED_FEATURES,
                right_dim: paired.dim(),
            });
        }
        let (seed, device) = (problem.seed(), problem.device());
        let sizes = (pool.len(), paired.len());
        let drawn = SampledItems::new(seed, POINTS, sizes, points);
        let mean = mean_of(&[(&pool, &drawn.pool), (&paired, &drawn.paired)], pool.dim());
        let sample = |drawn: &SampledItems| {
            let mut values = vec![0.0; (drawn.pool.len() + drawn.paired.len()) * pool.dim()];
            let mut rows = values.chunks_exact_mut(pool.dim());
            for (vectors, items) in [(&pool, &drawn.pool), (&paired, &drawn.paired)] {
                for (&item, row) in items.iter().zip(&mut rows) {
                    vectors.matrix().read_f64(item as usize, row);
                }
            }
            Centred::new(&Matrix::from_f64(pool.dim(), &values), &mean, device)
        };
        let vectors = sample(&drawn);
        let pool = Centred::new(pool.matrix(), &mean, device);
        let paired = Centred::new(paired.matrix(), &mean, device);
        let bandwidth = match bandwidth {
            Some(bandwidth) => bandwidth,
            None => {
                let drawn = SampledItems::new(seed, SAMPLED_ITEMS, sizes, NEIGHBOURS);
                nearest_others((&pool, &paired), &sample(&drawn), &drawn, progress)?
            }
        };
        let weights = problem.queries().map(|queries| asked_for(queries, &drawn, progress));
        let weights = weights.transpose()?;
        Ok(Points { pool, paired, vectors, of_pool: drawn.pool, weights, bandwidth })
    }

    /// Number of points.
    pub(crate) fn len(&self) -> usize {
        self.vectors.len()
    }

    /// The pool item that a point is, if it is one.
    pub(crate) fn pool_item(&self, point: u32) -> Option<u32> {
        self.of_pool.get(point as usize).copied()
    }

    /// The weight of a point.
    pub(crate) fn weight(&self, point: u32) -> f64 {
        self.weights.as_ref().map_or(1.0, |weights| weights[point as usize])
    }

    /// The kernel of a cosine.
    pub(crate) fn kernel(&self, cosine: f64) -> f64 {
        kernel(cosine, self.bandwidth)
    }

    /// Bounds gains on a GPU, if the pool is worth it there.
    pub(crate) fn gains(&self) -> Result<Option<Gains<'_>>, Error> {
        let sizes = (self.pool.len(), self.len());
        let Some(card) = Device::for_search(&self.pool, &self.vectors, sizes) else {
            return Ok(None);
        };
        let points = (&self.vectors as &dyn Source, self.len());
        let rounding = (cosine_error(self.pool.dim()), self.slope());
        Gains::new(card, &self.pool, points, rounding).map(Some)
    }

    /// The slope of the kernel's exponent: `2 / s`.
    pub(crate) fn slope(&self) -> f32 {
        (2.0 / self.bandwidth) as f32
    }
}

/// The row of a sampled item in a matrix, if the item is in it.
type RowOf<'a> = dyn Fn(u32) -> Option<u32> + Sync + 'a;

/// The median squared distance of sampled items to their nearest other item.
fn nearest_others(
    (pool, paired): (&Centred, &Centred),
    sample: &Centred,
    drawn: &SampledItems,
    progress: &dyn Progress,
) -> Result<f64, Error> {
    let columns: Vec<u32> = (0..sample.len() as u32).collect();
    let of_pool = drawn.pool.len();
    // The row of a sampled item in its own matrix, which is not its neighbour.
    let own_in_pool = |column: u32| drawn.pool.get(column as usize).copied();
    let own_in_paired =
        |column: u32| (column as usize).checked_sub(of_pool).map(|at| drawn.paired[at]);
    progress.start("neighbours", (pool.len() + paired.len()) as u64 * columns.len() as u64);
    let mut nearest = vec![f64::NEG_INFINITY; sample.len()];
    for (side, own) in [(pool, &own_in_pool as &RowOf), (paired, &own_in_paired)] {
        unless_stopped(progress)?;
        let rows: Vec<u32> = (0..side.len() as u32).collect();
        let field = Field { rows: &rows, group_of_row: &|row| row, barred: own };
        let found = kth_largest(&Cosines::new(side, sample), &field, &columns, 1, progress)?;
        for (nearest, entry) in nearest.iter_mut().zip(found) {
            *nearest = nearest.max(entry.map_or(f64::NEG_INFINITY, |entry| entry.value));
        }
    }
    let mut squares: Vec<f64> =
        nearest.into_iter().filter(|cosine| cosine.is_finite()).map(squared_distance).collect();
    squares.sort_by(f64::total_cmp);
    let median = squares.get(squares.len() / 2).copied().unwrap_or(0.0);
    Ok(median.max(SMALLEST_BANDWIDTH))
}

/// Weights of points by their similarity to the queries.
fn asked_for(
    queries: &Queries,
    drawn: &SampledItems,
    progress: &dyn Progress,
) -> Result<Vec<f64>, Error> {
    let count = queries.pool.columns();
    let columns: Vec<u32> = (0..count as u32).collect();
    progress.start("queries", (drawn.pool.len() + drawn.paired.len()) as u64 * count as u64);
    let mut means = Vec::new();
    for (similarity, rows) in [(&queries.pool, &drawn.pool), (&queries.paired, &drawn.paired)] {
        let mean = |values: &[f64]| {
            values.iter().fold(0.0, |sum, value| sum + value) / values.len() as f64
        };
        let (similarity, silent) = (&**similarity, Silent(progress));
        means.extend(highest(similarity, rows, &columns, CLOSEST_QUERIES, mean, &silent)?);
        progress.advance(rows.len() as u64 * count as u64);
    }
    Ok(query_weights(&means))
}

/// Weights of all items of pool and paired set by their similarity to the queries.
pub(crate) fn weights_asked_for(
    queries: &Queries,
    [pool, paired]: [usize; 2],
    progress: &dyn Progress,
) -> Result<Vec<f64>, Error> {
    let drawn =
        SampledItems { pool: (0..pool as u32).collect(), paired: (0..paired as u32).collect() };
    asked_for(queries, &drawn, progress)
}

/// `exp(1.5 z)`, where `z` are the standardised `means`.
fn query_weights(means: &[f64]) -> Vec<f64> {
    let count = means.len().max(1) as f64;
    let mean = means.iter().fold(0.0, |sum, value| sum + value) / count;
    let square = means.iter().fold(0.0, |sum, value| sum + (value - mean) * (value - mean)) / count;
    let deviation = square.sqrt();
    let weight = |value: &f64| match deviation {
        0.0 => 1.0,
        _ => exp(QUERY_SLOPE * ((value - mean) / deviation)),
    };
    means.iter().map(weight).collect()
}
