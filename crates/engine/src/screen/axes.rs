//! Principal axes: an orthonormal basis whose first vectors hold most of the data's energy.
//!
//! Any orthonormal basis gives a valid bound, so the axes need not be exact eigenvectors: a few
//! rounds of orthogonal iteration are enough, and spare a dependency on a full eigensolver.

use rayon::prelude::*;

use super::sums::{dot, dot_f64, subtract, subtract_f64};
use crate::Draws;
use crate::product::product;

/// Rounds of orthogonal iteration.
const ROUNDS: usize = 6;

/// The leading axes of the rows of `sample` (vectors of `dim` numbers), strongest first, one per
/// row of the result.
pub(super) fn principal_axes(sample: &[f32], dim: usize, count: usize) -> Vec<f64> {
    let rows = sample.len() / dim;
    let mut moment = vec![0.0; dim * dim];
    moment.par_chunks_mut(64 * dim).enumerate().for_each(|(part, moment)| {
        let shape = (moment.len() / dim, rows, dim);
        product(shape, (&sample[part * 64..], 1, dim), (sample, dim, 1), moment);
    });
    let mut draws = Draws::new(0x6178_6573);
    let mut axes: Vec<f32> = (0..count * dim).map(|_| draws.unit() as f32 - 0.5).collect();
    let mut next = vec![0.0; count * dim];
    for _ in 0..ROUNDS {
        orthonormalise(&mut axes, dim);
        next.par_chunks_mut(32 * dim).zip(axes.par_chunks(32 * dim)).for_each(|(next, axes)| {
            product((axes.len() / dim, dim, dim), (axes, dim, 1), (&moment, dim, 1), next);
        });
        std::mem::swap(&mut axes, &mut next);
    }
    orthonormalise(&mut axes, dim);
    let mut axes: Vec<f64> = axes.iter().map(|&v| v as f64).collect();
    orthonormalise_exactly(&mut axes, dim);
    axes
}

/// Modified Gram-Schmidt over the rows. A row that vanishes is left as zeros.
fn orthonormalise(axes: &mut [f32], dim: usize) {
    for i in 0..axes.len() / dim {
        let (done, rest) = axes.split_at_mut(i * dim);
        let row = &mut rest[..dim];
        let before = dot(row, row).sqrt();
        for axis in done.chunks_exact(dim) {
            subtract(row, dot(axis, row), axis);
        }
        let norm = dot(row, row).sqrt();
        let inverse = if norm > 1e-5 * before && norm > 0.0 { 1.0 / norm } else { 0.0 };
        row.iter_mut().for_each(|v| *v *= inverse);
    }
}

/// The same in double precision, for rows that are nearly orthonormal already. Rows that vanished,
/// because the data spans fewer dimensions, become any direction that is left.
fn orthonormalise_exactly(axes: &mut [f64], dim: usize) {
    // A direction too close to the axes stays too close, because axes are only added.
    let mut fresh = 0;
    for i in 0..axes.len() / dim {
        let (done, rest) = axes.split_at_mut(i * dim);
        let row = &mut rest[..dim];
        // At least one standard basis vector keeps this much outside of `done`.
        let enough = 0.9 / (dim as f64).sqrt();
        while clear_of(done, row) < enough {
            row.fill(0.0);
            row[fresh] = 1.0;
            fresh += 1;
        }
        // Clear once more: a row that lost most of its norm has lost digits.
        let norm = match fresh {
            0 => dot_f64(row, row).sqrt(),
            _ => clear_of(done, row),
        };
        row.iter_mut().for_each(|v| *v /= norm);
    }
}

/// Removes from `row` its parts along the axes of `done`. Returns the norm that is left.
fn clear_of(done: &[f64], row: &mut [f64]) -> f64 {
    for axis in done.chunks_exact(row.len()) {
        subtract_f64(row, dot_f64(axis, row), axis);
    }
    dot_f64(row, row).sqrt()
}

/// The span of some leading axes, ready for projection.
pub(super) struct Basis {
    /// Number of axes.
    pub(super) axes: usize,
    /// `dim` x `axes`, row by row.
    pub(super) matrix: Vec<f32>,
    /// How far the stored axes are from orthonormal: a bound on the norm of `QᵀQ - I`.
    pub(super) defect: f64,
}

impl Basis {
    /// The span of the first `count` rows of `principal`; `count` is a power of two.
    ///
    /// Within the span, a Hadamard matrix mixes the axes and spreads the energy of a vector over
    /// its dimensions: 8-bit codes lose least when no dimension sticks out.
    pub(super) fn leading(principal: &[f64], dim: usize, count: usize) -> Self {
        let mut mixed = principal[..count * dim].to_vec();
        let mut width = 1;
        while width < count {
            for low in (0..count).filter(|i| i & width == 0) {
                for k in 0..dim {
                    let (a, b) = (mixed[low * dim + k], mixed[(low + width) * dim + k]);
                    mixed[low * dim + k] = (a + b) * std::f64::consts::FRAC_1_SQRT_2;
                    mixed[(low + width) * dim + k] = (a - b) * std::f64::consts::FRAC_1_SQRT_2;
                }
            }
            width *= 2;
        }
        let rounded: Vec<f64> = mixed.iter().map(|&v| v as f32 as f64).collect();
        let squares: f64 = (0..count)
            .into_par_iter()
            .map(|i| {
                let row = &rounded[i * dim..][..dim];
                let off = |j: usize| dot_f64(row, &rounded[j * dim..][..dim]).powi(2);
                (dot_f64(row, row) - 1.0).powi(2) + 2.0 * (0..i).map(off).sum::<f64>()
            })
            .sum();
        let mut matrix = vec![0.0; dim * count];
        for (axis, values) in mixed.chunks_exact(dim).enumerate() {
            for (k, &value) in values.iter().enumerate() {
                matrix[k * count + axis] = value as f32;
            }
        }
        // The Frobenius norm bounds the spectral one; the sums themselves are good to 1e-12.
        Basis { axes: count, matrix, defect: squares.sqrt() + 1e-12 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_orthonormal_and_find_the_energy() {
        let (rows, dim, count) = (300, 24, 8);
        let mut draws = Draws::new(5);
        let sample: Vec<f32> = (0..rows * dim)
            .map(|i| ((draws.unit() - 0.5) / (1.0 + (i % dim) as f64).powi(2)) as f32)
            .collect();
        let axes = principal_axes(&sample, dim, count);
        let basis = Basis::leading(&axes, dim, count);
        assert!(basis.defect < 1e-5, "{}", basis.defect);
        let energy = |values: &[f32]| values.iter().map(|&v| (v as f64).powi(2)).sum::<f64>();
        let mut lead = vec![0.0; rows * count];
        product((rows, dim, count), (&sample, dim, 1), (&basis.matrix, count, 1), &mut lead);
        assert!(energy(&lead) > 0.999 * energy(&sample));
    }

    #[test]
    fn data_of_few_dimensions_gets_axes_all_the_same() {
        let (rows, dim, count) = (100, 200, 64);
        let mut draws = Draws::new(6);
        let three: Vec<f32> = (0..3 * dim).map(|_| draws.normal() as f32).collect();
        let mut sample = vec![0.0; rows * dim];
        for row in sample.chunks_exact_mut(dim) {
            for axis in three.chunks_exact(dim) {
                subtract(row, draws.normal() as f32, axis);
            }
        }
        let basis = Basis::leading(&principal_axes(&sample, dim, count), dim, count);
        assert!(basis.defect < 1e-5, "{}", basis.defect);
    }
}
