//! Principal component analysis: the directions of largest variance.

use std::io::Write;
use std::ops::{AddAssign, Range};
use std::path::Path;

use nalgebra::{DMatrix, DVector, SymmetricEigen};
use nextpair_data::safetensors::{SafetensorsFile, sealed};
use nextpair_data::{AtomicFile, Matrix, Progress};
use rayon::prelude::*;
use safetensors::tensor::{Dtype, TensorView};

use crate::Error;

/// Most vectors to fit on. More hardly change the directions, only the time; of more vectors every
/// second, third and so on is used.
const ENOUGH: usize = 1 << 18;
/// Vectors whose products one thread sums up. The size is fixed and the sums are joined in order,
/// so the result does not depend on the number of threads.
const CHUNK: usize = 1024;
/// Chunks in memory at a time.
const WAVE: usize = 16;
/// Variance below this share of the largest is rounding error.
const NEGLIGIBLE: f64 = 1e-12;

/// A mean and orthonormal directions, by falling variance.
#[derive(Clone, Debug, PartialEq)]
pub struct Pca {
    mean: DVector<f64>,
    /// One direction per column. The largest number of each is positive, so that the same vectors
    /// give the same directions.
    axes: DMatrix<f64>,
    variances: Vec<f64>,
    total_variance: f64,
}

impl Pca {
    /// Fits the first `components` directions to the rows of all `parts`, which have one vector
    /// each.
    pub fn fit(
        parts: &[Matrix],
        components: usize,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let sample = Sample::new(parts);
        let (count, dim) = (sample.count, sample.dim);
        Pca::check(components, count, dim)?;
        progress.start("fitting", 2 * count as u64);
        let sum = sample.sum(progress, DVector::zeros(dim), |vectors| vectors.row_sum_tr());
        let mean = sum / count as f64;
        let centre = mean.transpose();
        let scatter = sample.sum(progress, DMatrix::zeros(dim, dim), |mut vectors| {
            vectors.row_iter_mut().for_each(|mut row| row -= &centre);
            vectors.tr_mul(&vectors)
        });
        let covariance = scatter / (count - 1) as f64;
        let total_variance = covariance.trace();
        if !total_variance.is_finite() {
            let what = "principal components of numbers that are not finite".to_owned();
            return Err(Error::Components { what });
        }
        let SymmetricEigen { eigenvalues, eigenvectors } = SymmetricEigen::new(covariance);
        let mut order: Vec<usize> = (0..dim).collect();
        order.sort_by(|&a, &b| eigenvalues[b].total_cmp(&eigenvalues[a]));
        let largest = eigenvalues[order[0]];
        let rank = order.iter().filter(|&&i| eigenvalues[i] > NEGLIGIBLE * largest).count();
        if components > rank {
            let what = format!("{components} principal components of vectors that span {rank}");
            return Err(Error::Components { what });
        }
        order.truncate(components);
        let mut axes = eigenvectors.select_columns(&order);
        for mut axis in axes.column_iter_mut() {
            if axis[axis.icamax()] < 0.0 {
                axis.neg_mut();
            }
        }
        let variances = order.iter().map(|&i| eigenvalues[i]).collect();
        Ok(Pca { mean, axes, variances, total_variance })
    }

    /// Returns an error if `count` vectors of `dim` dimensions cannot have this many components.
    pub fn check(components: usize, count: usize, dim: usize) -> Result<(), Error> {
        let most = dim.min(count.saturating_sub(1));
        if components == 0 || components > most {
            let what = format!(
                "{components} principal components of {count} vectors of {dim} numbers; there are \
                 at most {most}"
            );
            return Err(Error::Components { what });
        }
        Ok(())
    }

    /// Number of directions.
    pub fn components(&self) -> usize {
        self.axes.ncols()
    }

    /// Dimensions of a vector before the projection.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// The share of the variance that the directions keep, from 0 to 1.
    pub fn explained_share(&self) -> f64 {
        self.variances.iter().sum::<f64>() / self.total_variance
    }

    /// Projects vectors onto the directions, one after another.
    ///
    /// # Panics
    /// If `vectors` does not divide into vectors of `dim` dimensions.
    pub fn apply(&self, vectors: &[f64]) -> Vec<f32> {
        let dim = self.mean.len();
        assert!(vectors.len().is_multiple_of(dim), "{} numbers in rows of {dim}", vectors.len());
        let mut columns = DMatrix::from_column_slice(dim, vectors.len() / dim, vectors);
        columns.column_iter_mut().for_each(|mut column| column -= &self.mean);
        self.axes.tr_mul(&columns).iter().map(|&number| number as f32).collect()
    }

    /// Writes a `.safetensors` file: `mean`, `axes` (one per row), `variances`, `total_variance`.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let bytes = |numbers: &[f64]| numbers.iter().flat_map(|v| v.to_le_bytes()).collect();
        let (dim, components) = (self.mean.len(), self.components());
        let stored: [(&str, Vec<usize>, Vec<u8>); 4] = [
            ("mean", vec![dim], bytes(self.mean.as_slice())),
            ("axes", vec![components, dim], bytes(self.axes.as_slice())),
            ("variances", vec![components], bytes(&self.variances)),
            ("total_variance", vec![1], bytes(&[self.total_variance])),
        ];
        let views = stored.iter().map(|(name, shape, bytes)| {
            let view = TensorView::new(Dtype::F64, shape.clone(), bytes);
            (*name, view.expect("as many bytes as the shape says"))
        });
        let about = ("of", "principal components".to_owned());
        let whole = sealed(views, about).map_err(|e| Error::file(path, e.to_string()))?;
        let mut file = AtomicFile::create(path)?;
        file.write_all(&whole).map_err(|e| Error::io(path, e))?;
        Ok(file.commit()?)
    }

    /// Reads a file made by [`write`](Self::write).
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = SafetensorsFile::open(path)?;
        file.check_sealed()?;
        let (_, mean) = file.f64s("mean")?;
        let (shape, axes) = file.f64s("axes")?;
        let (_, variances) = file.f64s("variances")?;
        let (_, total) = file.f64s("total_variance")?;
        let (dim, components) = (mean.len(), variances.len());
        match total[..] {
            [total_variance] if shape == [components, dim] && dim > 0 => {
                let axes = DMatrix::from_vec(dim, components, axes);
                Ok(Pca { mean: DVector::from_vec(mean), axes, variances, total_variance })
            }
            _ => Err(Error::file(path, "not principal components: the shapes do not fit")),
        }
    }
}

/// Vectors at even distances in all parts.
struct Sample<'a> {
    parts: &'a [Matrix],
    /// The number of vectors before each part, and their total.
    starts: Vec<usize>,
    step: usize,
    count: usize,
    dim: usize,
}

impl<'a> Sample<'a> {
    fn new(parts: &'a [Matrix]) -> Self {
        let mut starts = vec![0];
        for part in parts {
            starts.push(starts[starts.len() - 1] + part.rows());
        }
        let total = starts[parts.len()];
        let step = total.div_ceil(ENOUGH).max(1);
        let dim = parts.first().map_or(0, Matrix::dim);
        Sample { parts, starts, step, count: total.div_ceil(step), dim }
    }

    /// Reads vectors, one per row.
    fn read(&self, range: Range<usize>) -> DMatrix<f64> {
        let mut numbers = vec![0.0; range.len() * self.dim];
        for (row, at) in numbers.chunks_mut(self.dim).zip(range.clone()) {
            let vector = at * self.step;
            let part = self.starts.partition_point(|&start| start <= vector) - 1;
            self.parts[part].read_f64(vector - self.starts[part], row);
        }
        DMatrix::from_row_slice(range.len(), self.dim, &numbers)
    }

    /// Sums the results of `of` over all chunks, in order.
    fn sum<T: Send + AddAssign>(
        &self,
        progress: &dyn Progress,
        mut total: T,
        of: impl Fn(DMatrix<f64>) -> T + Sync,
    ) -> T {
        let starts: Vec<usize> = (0..self.count).step_by(CHUNK).collect();
        for wave in starts.chunks(WAVE) {
            let sums: Vec<T> = wave
                .par_iter()
                .map(|&start| {
                    let range = start..(start + CHUNK).min(self.count);
                    let length = range.len() as u64;
                    let sum = of(self.read(range));
                    progress.advance(length);
                    sum
                })
                .collect();
            sums.into_iter().for_each(|sum| total += sum);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use nextpair_data::Draws;

    use super::*;

    /// Vectors along known directions: 3 x (1, 1, 0), then (1, -1, 0), nothing along the third.
    fn plane(count: usize) -> Matrix {
        let mut draws = Draws::new(1);
        let rows = (0..count).flat_map(|_| {
            let (a, b) = (3.0 * draws.normal(), draws.normal());
            [5.0 + a + b, a - b, -2.0]
        });
        Matrix::from_f64(3, &rows.collect::<Vec<_>>())
    }

    #[test]
    fn directions_by_falling_variance() {
        let rows = plane(5000);
        let pca = Pca::fit(std::slice::from_ref(&rows), 2, &()).unwrap();
        let half = 0.5f64.sqrt();
        for (found, expected) in pca.axes.iter().zip([half, half, 0.0, half, -half, 0.0]) {
            assert!((found.abs() - expected.abs()).abs() < 0.02, "{:?}", pca.axes);
        }
        assert!(pca.variances[0] > 15.0 && pca.variances[1] < 3.0);
        assert!((pca.explained_share() - 1.0).abs() < 1e-9);
        let one = Pca::fit(&[rows], 1, &()).unwrap();
        assert!((0.88..0.92).contains(&one.explained_share()), "{}", one.explained_share());
    }

    #[test]
    fn coordinates_keep_distances_within_the_plane() {
        let rows = plane(300);
        let pca = Pca::fit(&[rows.slice(0..100), rows.slice(100..300)], 2, &()).unwrap();
        assert_eq!(pca, Pca::fit(std::slice::from_ref(&rows), 2, &()).unwrap());
        let read = |row| {
            let mut vector = vec![0.0; 3];
            rows.read_f64(row, &mut vector);
            vector
        };
        let both = pca.apply(&[read(3), read(7)].concat());
        assert_eq!(both[..2], pca.apply(&read(3)));
        let distance = |a: &[f64], b: &[f64]| -> f64 {
            a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
        };
        let both: Vec<f64> = both.into_iter().map(f64::from).collect();
        let found = distance(&both[..2], &both[2..]);
        assert!((found - distance(&read(3), &read(7))).abs() < 1e-5);
    }

    #[test]
    fn threads_do_not_matter_and_files_come_back() {
        let rows = plane(40_000);
        let fit = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| Pca::fit(std::slice::from_ref(&rows), 2, &()).unwrap())
        };
        let pca = fit(1);
        assert_eq!(pca, fit(3));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pca.safetensors");
        pca.write(&path).unwrap();
        assert_eq!(Pca::read(&path).unwrap(), pca);
        std::fs::write(&path, "x").unwrap();
        assert!(Pca::read(&path).is_err());
    }

    #[test]
    fn too_many_components_are_refused() {
        let refused = |rows: &Matrix, components| {
            Pca::fit(std::slice::from_ref(rows), components, &()).unwrap_err().to_string()
        };
        assert!(refused(&plane(50), 3).contains("vectors that span 2"));
        assert!(refused(&plane(50), 4).contains("at most 3"));
        assert!(refused(&plane(2), 2).contains("at most 1"));
        assert!(refused(&plane(50), 0).contains("0 principal components"));
        let odd = Matrix::from_f64(2, &[1.0, f64::NAN, 2.0, 3.0, 4.0, 5.0]);
        assert!(refused(&odd, 1).contains("not finite"));
    }
}
