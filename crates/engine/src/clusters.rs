//! Clusters of vectors: k-means on a seeded sample.

use nextpair_core::{Matrix, Silent, draw};

use crate::kcenter::nearest;
use crate::{Error, Progress, Vectors};

/// Purposes of draws, which keep them apart from other draws of the same seed.
const SAMPLED: u64 = 3;
const FIRST_CENTROIDS: u64 = 4;

/// Vectors to fit centroids on.
const SAMPLE: usize = 30_000;
/// Maximum iterations.
const ITERATIONS: usize = 20;

/// Centroids of clusters.
pub(crate) struct Clusters {
    centroids: Vectors,
}

impl Clusters {
    /// Finds `count` clusters (at most as many as there are vectors) of all `sets` together.
    pub(crate) fn new(
        sets: &[&Vectors],
        count: usize,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let all: usize = sets.iter().map(|set| set.len()).sum();
        let count = count.min(all);
        let drawn = draw::sample(seed, SAMPLED, all, SAMPLE.max(count));
        let dim = sets[0].dim();
        let mut values = vec![0.0; drawn.len() * dim];
        for (&at, row) in drawn.iter().zip(values.chunks_exact_mut(dim)) {
            let mut at = at as usize;
            for set in sets {
                if at < set.len() {
                    set.matrix().read_f64(at, row);
                    break;
                }
                at -= set.len();
            }
        }
        let points = Vectors::new(Matrix::from_f64(dim, &values), "the sampled features")?
            .on(sets[0].device());
        drop(values);
        let centroids = k_means(&points, count, ITERATIONS, seed, progress)?;
        Ok(Clusters { centroids: Vectors::new(centroids, "the clusters")? })
    }

    /// Number of clusters, with empty ones.
    pub(crate) fn len(&self) -> usize {
        self.centroids.len()
    }

    /// The cluster of every vector.
    pub(crate) fn assign(
        &self,
        vectors: &Vectors,
        progress: &dyn Progress,
    ) -> Result<Vec<u32>, Error> {
        let near = nearest(&self.centroids, vectors, progress)?;
        Ok(near.into_iter().map(|(cluster, _)| cluster).collect())
    }
}

/// The vectors of every cluster, ascending.
pub(crate) fn members(of_vector: &[u32], clusters: usize) -> Vec<Vec<u32>> {
    let mut members = vec![Vec::new(); clusters];
    (0..).zip(of_vector).for_each(|(vector, &cluster)| members[cluster as usize].push(vector));
    members
}

/// Lloyd's k-means from a seeded choice of points, at least as many as `clusters`. A cluster that
/// loses all its points keeps its centroid.
pub(crate) fn k_means(
    points: &Vectors,
    clusters: usize,
    iterations: usize,
    seed: u64,
    progress: &dyn Progress,
) -> Result<Matrix, Error> {
    let dim = points.dim();
    let first = draw::sample(seed, FIRST_CENTROIDS, points.len(), clusters);
    let mut centroids = points.matrix().gather(&first);
    let mut words = Vec::new();
    let mut point = vec![0.0; dim];
    for _ in 0..iterations {
        let near =
            nearest(&Vectors::new(centroids.clone(), "the clusters")?, points, &Silent(progress))?;
        let now: Vec<u32> = near.into_iter().map(|(word, _)| word).collect();
        if now == words {
            break;
        }
        words = now;
        let mut sums = vec![0.0; clusters * dim];
        let mut counts = vec![0u32; clusters];
        for (row, &word) in words.iter().enumerate() {
            counts[word as usize] += 1;
            points.matrix().read_f64(row, &mut point);
            let sum = &mut sums[word as usize * dim..][..dim];
            sum.iter_mut().zip(&point).for_each(|(s, v)| *s += v);
        }
        for (word, (sum, count)) in sums.chunks_exact_mut(dim).zip(counts).enumerate() {
            match count {
                0 => centroids.read_f64(word, sum),
                _ => sum.iter_mut().for_each(|s| *s /= count as f64),
            }
        }
        centroids = Matrix::from_f64(dim, &sums);
    }
    Ok(centroids)
}
