//! Principal axes: an orthonormal basis whose first vectors hold most of the data's energy.
//!
//! Any orthonormal basis gives a valid bound, so the axes need not be exact eigenvectors: a few
//! rounds of orthogonal iteration are enough, and spare a dependency on a full eigensolver.

use super::kernel::dot;
use super::product;
use crate::draw::Draws;

/// Rounds of orthogonal iteration.
const ROUNDS: usize = 6;

/// The leading axes of the rows of `sample` (vectors of `dim` numbers), strongest first, one per
/// row of the result.
pub(super) fn principal_axes(sample: &[f32], dim: usize, count: usize) -> Vec<f64> {
    let rows = sample.len() / dim;
    let mut moment = vec![0.0; dim * dim];
    product((dim, rows, dim), (sample, 1, dim), (sample, dim, 1), &mut moment);
    let mut draws = Draws::new(0x6178_6573);
    let mut axes: Vec<f32> = (0..count * dim).map(|_| draws.unit() as f32 - 0.5).collect();
    let mut next = vec![0.0; count * dim];
    for _ in 0..ROUNDS {
        orthonormalise(&mut axes, dim);
        product((count, dim, dim), (&axes, dim, 1), (&moment, dim, 1), &mut next);
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
            let part = dot(axis, row);
            row.iter_mut().zip(axis).for_each(|(v, a)| *v -= part * a);
        }
        let norm = dot(row, row).sqrt();
        let inverse = if norm > 1e-5 * before && norm > 0.0 { 1.0 / norm } else { 0.0 };
        row.iter_mut().for_each(|v| *v *= inverse);
    }
}

/// The same in double precision, for rows that are nearly orthonormal already. Rows that vanished,
/// because the data spans fewer dimensions, become any direction that is left.
fn orthonormalise_exactly(axes: &mut [f64], dim: usize) {
    for i in 0..axes.len() / dim {
        let (done, rest) = axes.split_at_mut(i * dim);
        let row = &mut rest[..dim];
        let mut fresh = 0;
        // Of the coordinate directions at least one keeps this much outside of `done`.
        let enough = 0.9 / (dim as f64).sqrt();
        while clear_of(done, row) < enough {
            row.fill(0.0);
            row[fresh] = 1.0;
            fresh += 1;
        }
        // Once more: a row that was mostly cleared away has lost digits.
        let norm = clear_of(done, row);
        row.iter_mut().for_each(|v| *v /= norm);
    }
}

/// Takes from `row` its parts along the axes of `done`; the norm that is left.
fn clear_of(done: &[f64], row: &mut [f64]) -> f64 {
    for axis in done.chunks_exact(row.len()) {
        let part: f64 = axis.iter().zip(row.iter()).map(|(a, v)| a * v).sum();
        row.iter_mut().zip(axis).for_each(|(v, a)| *v -= part * a);
    }
    row.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// The span of some leading axes, ready to project on.
pub(super) struct Basis {
    /// Axes.
    pub(super) axes: usize,
    /// `dim` x `axes`, row by row.
    pub(super) matrix: Vec<f32>,
    /// How far the stored axes are from orthonormal: a bound on the norm of `QᵀQ - I`.
    pub(super) defect: f64,
}

impl Basis {
    /// The span of the first `count` rows of `principal`; `count` is a power of two.
    ///
    /// Within the span the axes are mixed by a Hadamard matrix, so that the energy of a vector
    /// is spread over its coordinates: 8-bit codes lose least when no coordinate sticks out.
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
        let mut squares = 0.0;
        for (i, a) in rounded.chunks_exact(dim).enumerate() {
            for (j, b) in rounded.chunks_exact(dim).enumerate().take(i + 1) {
                let product: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                let off = if i == j { product - 1.0 } else { product };
                squares += if i == j { off * off } else { 2.0 * off * off };
            }
        }
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
}
