//! One vector per item from its local vectors, for strategies that use distances.

use nextpair_data::{Dtype, Matrix, Spill, draw};
use rayon::prelude::*;

use crate::kcenter::nearest;
use crate::{Error, Progress, Vectors};

/// Items whose features are made at once.
const BATCH: usize = 1024;

/// The mean of each item's local vectors: float64, local vectors in order. The result lies in a
/// temporary file, not in memory.
pub fn mean_features(matrix: &Matrix) -> Result<Matrix, Error> {
    let (locals, dim) = (matrix.locals(), matrix.dim());
    let mut spill = Spill::new()?;
    for first in (0..matrix.rows()).step_by(BATCH) {
        let mut means = vec![0.0; BATCH.min(matrix.rows() - first) * dim];
        means.par_chunks_mut(dim).enumerate().for_each(|(row, mean)| {
            let mut values = vec![0.0; locals * dim];
            matrix.read_f64(first + row, &mut values);
            for local in values.chunks_exact(dim) {
                mean.iter_mut().zip(local).for_each(|(m, v)| *m += v);
            }
            mean.iter_mut().for_each(|m| *m /= locals as f64);
        });
        spill.append_f64(&means)?;
    }
    Ok(spill.finish(dim, Dtype::F64)?)
}

/// How the visual words of [`bag_of_words`] are found.
#[derive(Clone, Copy, Debug)]
pub struct BagOfWords {
    /// Words; the paper uses 300.
    pub clusters: usize,
    /// Local vectors that k-means is fitted on, drawn from paired and pool items alike.
    pub sample: usize,
    /// Rounds of k-means at most; it stops earlier when no vector changes its word.
    pub iterations: usize,
    /// Of the draws.
    pub seed: u64,
}

impl Default for BagOfWords {
    fn default() -> Self {
        BagOfWords { clusters: 300, sample: 30_000, iterations: 20, seed: 0 }
    }
}

impl BagOfWords {
    /// About the memory that finding the words of `vectors` local vectors takes, in bytes.
    pub fn memory(&self, vectors: usize, dim: usize) -> usize {
        let points = 2 * 8 * self.sample.min(vectors) * dim;
        points + 72 * vectors + 24 * self.clusters * dim
    }
}

const SAMPLED: u64 = 3;
const FIRST_CENTROIDS: u64 = 4;

/// Histograms of the items' local vectors over k-means clusters, of the paired items and of the
/// pool.
pub fn bag_of_words(
    paired: &Matrix,
    pool: &Matrix,
    settings: BagOfWords,
    progress: &dyn Progress,
) -> Result<(Matrix, Matrix), Error> {
    if paired.dim() != pool.dim() {
        return Err(Error::DimensionMismatch {
            left: "the paired items",
            left_dim: paired.dim(),
            right: "the pool items",
            right_dim: pool.dim(),
        });
    }
    let centroids = fit(&paired.flattened(), &pool.flattened(), settings)?;
    let paired = histograms(&centroids, paired, progress)?;
    Ok((paired, histograms(&centroids, pool, progress)?))
}

/// Lloyd's k-means from a seeded choice of vectors. A cluster that loses all vectors stays where
/// it is.
fn fit(paired: &Matrix, pool: &Matrix, settings: BagOfWords) -> Result<Matrix, Error> {
    let (vectors, dim) = (paired.rows() + pool.rows(), pool.dim());
    if u32::try_from(vectors).is_err() {
        return Err(Error::TooManyRows { what: "the local vectors", rows: vectors });
    }
    let sample = settings.sample.max(settings.clusters).min(vectors);
    if settings.clusters == 0 || settings.clusters > vectors {
        return Err(Error::TooFewVectors { clusters: settings.clusters, vectors });
    }
    let drawn = draw::sample(settings.seed, SAMPLED, vectors, sample);
    let mut values = vec![0.0; sample * dim];
    for (&vector, values) in drawn.iter().zip(values.chunks_exact_mut(dim)) {
        match (vector as usize).checked_sub(paired.rows()) {
            None => paired.read_f64(vector as usize, values),
            Some(vector) => pool.read_f64(vector, values),
        }
    }
    let points = Matrix::from_f64(dim, &values);
    let points = Vectors::new(&points, "the sampled local vectors")?;
    let first = draw::sample(settings.seed, FIRST_CENTROIDS, sample, settings.clusters);
    let mut centroids = points.matrix().gather(&first);
    let mut words = Vec::new();
    for _ in 0..settings.iterations {
        let near = nearest(&Vectors::new(&centroids, "the clusters")?, &points, &())?;
        let now: Vec<u32> = near.into_iter().map(|(word, _)| word).collect();
        if now == words {
            break;
        }
        words = now;
        let mut sums = vec![0.0; settings.clusters * dim];
        let mut counts = vec![0u32; settings.clusters];
        for (&word, point) in words.iter().zip(values.chunks_exact(dim)) {
            counts[word as usize] += 1;
            let sum = &mut sums[word as usize * dim..][..dim];
            sum.iter_mut().zip(point).for_each(|(s, v)| *s += v);
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

/// How many of each item's local vectors are nearest to each centroid. The result lies in a
/// temporary file, not in memory.
pub fn histograms(
    centroids: &Matrix,
    items: &Matrix,
    progress: &dyn Progress,
) -> Result<Matrix, Error> {
    let locals = items.flattened();
    let locals = Vectors::new(&locals, "the local vectors")?;
    let near = nearest(&Vectors::new(centroids, "the clusters")?, &locals, progress)?;
    let words = centroids.rows();
    let mut spill = Spill::new()?;
    for near in near.chunks_exact(items.locals()) {
        let mut counts = vec![0.0; words];
        near.iter().for_each(|&(word, _)| counts[word as usize] += 1.0);
        spill.append_f32(&counts)?;
    }
    Ok(spill.finish(words, Dtype::F32)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;

    fn items(rows: usize, locals: usize, dim: usize) -> Matrix {
        let mut draws = Draws::new(3);
        let values: Vec<f32> =
            (0..rows * locals * dim).map(|_| draws.normal().round() as f32).collect();
        Matrix::from_f32(dim, &values).with_locals(locals)
    }

    #[test]
    fn means_are_means() {
        let matrix = items(2000, 3, 2);
        let means = mean_features(&matrix).unwrap();
        let (mut mean, mut values) = ([0.0; 2], [0.0; 6]);
        for row in [0, 1, 1500, 1999] {
            means.read_f64(row, &mut mean);
            matrix.read_f64(row, &mut values);
            let first = (values[0] + values[2] + values[4]) / 3.0;
            assert_eq!((means.rows(), mean[0]), (2000, first));
        }
    }

    #[test]
    fn words_are_counted_and_follow_the_seed() {
        let (paired, pool) = (items(20, 4, 3), items(30, 4, 3));
        let bag = |seed| {
            let settings = BagOfWords { clusters: 7, sample: 60, iterations: 5, seed };
            let (paired, pool) = bag_of_words(&paired, &pool, settings, &()).unwrap();
            let mut rows = Vec::new();
            for (matrix, count) in [(&paired, 20), (&pool, 30)] {
                assert_eq!((matrix.rows(), matrix.dim()), (count, 7));
                for row in 0..count {
                    let mut counts = [0.0; 7];
                    matrix.read_f64(row, &mut counts);
                    assert_eq!(counts.iter().sum::<f64>(), 4.0, "every local vector has a word");
                    rows.push(counts);
                }
            }
            rows
        };
        assert_eq!(bag(1), bag(1));
        assert_ne!(bag(1), bag(2));
    }

    #[test]
    fn more_clusters_than_vectors_are_refused() {
        let (paired, pool) = (items(2, 2, 3), items(2, 2, 3));
        let settings = BagOfWords { clusters: 9, ..BagOfWords::default() };
        let error = bag_of_words(&paired, &pool, settings, &()).unwrap_err().to_string();
        assert_eq!(error, "9 clusters need at least as many local vectors, there are 8");
    }
}
