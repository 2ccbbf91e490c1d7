//! One vector per item, computed from its local vectors, for strategies that use distances.

use nextpair_core::{Dtype, Matrix, Spill, draw};
use rayon::prelude::*;

use crate::clusters::k_means;
use crate::error::unless_stopped;
use crate::kcenter::nearest_within;
use crate::parameters::choice;
use crate::{Error, Progress, Vectors};

/// Items whose features are computed together.
const BATCH: usize = 1024;

/// The mean of each item's local vectors, summed in float64 and in order. The result lies in a
/// temporary file, not in memory.
pub fn mean_features(matrix: &Matrix, progress: &dyn Progress) -> Result<Matrix, Error> {
    let (locals, dim) = (matrix.locals(), matrix.dim());
    let mut spill = Spill::new()?;
    for first in (0..matrix.rows()).step_by(BATCH) {
        unless_stopped(progress)?;
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

choice! {
    /// How to turn the local vectors of an item into one vector.
    pub enum ItemFeatures: Mean {
        /// The mean of the local vectors.
        Mean = "mean",
        /// A histogram of 300 visual words.
        Bow = "bow",
        /// The mean of what a model makes of them, in the space where it compares items.
        Encoded = "encoded",
    }
}

/// How [`bag_of_words`] finds its visual words.
#[derive(Clone, Copy, Debug)]
pub struct BagOfWords {
    /// Number of visual words; the paper uses 300.
    pub clusters: usize,
    /// Local vectors to fit k-means on, drawn from paired and pool items alike.
    pub sample: usize,
    /// Maximum iterations of k-means; it stops earlier when no vector changes its word.
    pub iterations: usize,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for BagOfWords {
    fn default() -> Self {
        BagOfWords { clusters: 300, sample: 30_000, iterations: 20, seed: 0 }
    }
}

impl BagOfWords {
    /// Approximate memory, in bytes, to find and count the words of `vectors` local vectors. The
    /// vectors themselves do not count.
    pub fn memory(&self, vectors: usize, dim: usize) -> usize {
        let at_once = LOCALS.max(self.sample.max(self.clusters)).min(vectors);
        24 * vectors + 72 * at_once + 24 * self.clusters * dim
    }
}

/// Purpose of the draw of local vectors.
const SAMPLED: u64 = 3;

/// Local vectors assigned to words together.
const LOCALS: usize = 1 << 18;

/// Histograms of the local vectors of paired items and of pool items over k-means clusters. Reads
/// local vectors in place and writes the histograms to temporary files.
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
    let (locals, more) = (paired.flattened(), pool.flattened());
    let words = match locals.followed_by(&more) {
        Some(all) => visual_words(&all, settings, progress)?,
        // Files of different types: convert the drawn vectors to one.
        None => {
            let read = |vector: usize, values: &mut [f64]| match vector.checked_sub(locals.rows()) {
                None => locals.read_f64(vector, values),
                Some(vector) => more.read_f64(vector, values),
            };
            fit(locals.rows() + more.rows(), settings, progress, |drawn| {
                let mut values = vec![0.0; drawn.len() * pool.dim()];
                let rows = values.chunks_exact_mut(pool.dim());
                drawn.iter().zip(rows).for_each(|(&vector, row)| read(vector as usize, row));
                Matrix::from_f64(pool.dim(), &values)
            })?
        }
    };
    let paired = histograms(&words, paired, progress)?;
    Ok((paired, histograms(&words, pool, progress)?))
}

/// The visual words of some items: the centroids of a sample of their local vectors.
pub fn visual_words(
    items: &Matrix,
    settings: BagOfWords,
    progress: &dyn Progress,
) -> Result<Matrix, Error> {
    let locals = items.flattened();
    fit(locals.rows(), settings, progress, |drawn| {
        locals.view(drawn.iter().map(|&vector| vector as usize))
    })
}

/// k-means on drawn vectors, which `points` reads.
fn fit(
    vectors: usize,
    settings: BagOfWords,
    progress: &dyn Progress,
    points: impl FnOnce(&[u32]) -> Matrix,
) -> Result<Matrix, Error> {
    if u32::try_from(vectors).is_err() {
        return Err(Error::TooManyRows { what: "the local vectors", rows: vectors });
    }
    let sample = settings.sample.max(settings.clusters).min(vectors);
    if settings.clusters == 0 || settings.clusters > vectors {
        return Err(Error::TooFewVectors { clusters: settings.clusters, vectors });
    }
    let points = points(&draw::sample(settings.seed, SAMPLED, vectors, sample));
    let points = Vectors::new(points, "the sampled local vectors")?;
    k_means(&points, settings.clusters, settings.iterations, settings.seed, progress)
}

/// Counts, for each item, the local vectors nearest to each centroid. The result lies in a
/// temporary file, not in memory.
pub fn histograms(
    centroids: &Matrix,
    items: &Matrix,
    progress: &dyn Progress,
) -> Result<Matrix, Error> {
    histograms_of(centroids, items, LOCALS, progress)
}

/// [`histograms`] of about `at_once` local vectors at a time.
fn histograms_of(
    centroids: &Matrix,
    items: &Matrix,
    at_once: usize,
    progress: &dyn Progress,
) -> Result<Matrix, Error> {
    let centroids = Vectors::new(centroids.clone(), "the clusters")?;
    let (words, locals) = (centroids.len(), items.locals());
    progress.start("nearest centres", (words * items.rows() * locals) as u64);
    let mut spill = Spill::new()?;
    let at_once = (at_once / locals.max(1)).max(1);
    for first in (0..items.rows()).step_by(at_once) {
        let some = items.slice(first..items.rows().min(first + at_once)).flattened();
        let some = Vectors::new(some, "the local vectors");
        let some = some.map_err(|error| error.in_rows_from(first * locals))?;
        for near in nearest_within(&centroids, &some, progress)?.chunks_exact(locals.max(1)) {
            let mut counts = vec![0.0; words];
            near.iter().for_each(|&(word, _)| counts[word as usize] += 1.0);
            spill.append_f32(&counts)?;
        }
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
        let means = mean_features(&matrix, &()).unwrap();
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

    fn values(matrix: &Matrix) -> Vec<f64> {
        let row = |row| {
            let mut values = vec![0.0; matrix.locals() * matrix.dim()];
            matrix.read_f64(row, &mut values);
            values
        };
        (0..matrix.rows()).flat_map(row).collect()
    }

    #[test]
    fn words_do_not_depend_on_how_many_are_counted_at_once() {
        let items = items(23, 4, 3);
        let words = visual_words(&items, BagOfWords { clusters: 5, ..BagOfWords::default() }, &());
        let words = words.unwrap();
        let expected = values(&histograms(&words, &items, &()).unwrap());
        for at_once in [1, 9, 40, 92] {
            let found = histograms_of(&words, &items, at_once, &()).unwrap();
            assert_eq!(values(&found), expected, "{at_once}");
        }
        let mut numbers = values(&items);
        numbers[3 * 50 + 1] = f64::NAN;
        let bad = Matrix::from_f64(3, &numbers).with_locals(4);
        let what = histograms_of(&words, &bad, 9, &()).err().unwrap().to_string();
        assert_eq!(what, "the local vectors: row 50, dimension 1 is NaN");
    }

    #[test]
    fn views_have_the_words_of_copies_whatever_their_type() {
        let all = items(40, 4, 3);
        let (some, others) = ([3, 1, 39, 20, 7], [0, 5, 6, 11, 38, 2]);
        let views = (all.view(some), all.view(others));
        let copy = |view: &Matrix| Matrix::from_f64(3, &values(view)).with_locals(4);
        let copies = (copy(&views.0), copy(&views.1));
        let settings = BagOfWords { clusters: 6, sample: 30, iterations: 4, seed: 2 };
        let bags = |paired: &Matrix, pool: &Matrix| {
            let (paired, pool) = bag_of_words(paired, pool, settings, &()).unwrap();
            (values(&paired), values(&pool))
        };
        let expected = bags(&copies.0, &copies.1);
        assert_eq!(bags(&views.0, &views.1), expected);
        // Files of two types.
        assert_eq!(bags(&copies.0, &views.1), expected);
        assert_eq!(bags(&views.0, &copies.1), expected);
    }

    #[test]
    fn more_clusters_than_vectors_are_refused() {
        let (paired, pool) = (items(2, 2, 3), items(2, 2, 3));
        let settings = BagOfWords { clusters: 9, ..BagOfWords::default() };
        let error = bag_of_words(&paired, &pool, settings, &()).unwrap_err().to_string();
        assert_eq!(error, "9 clusters need at least as many local vectors, there are 8");
    }
}
