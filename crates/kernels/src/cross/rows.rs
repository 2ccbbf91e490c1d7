//! Vectors that lie one after the other: norms, differences, and their gradients.

use pulp::Arch;

use super::attention::EPSILON;

/// The dot product of a vector with every row.
pub(crate) fn dots(vector: &[f32], rows: &[f32], out: &mut Vec<f32>) {
    out.clear();
    Arch::new().dispatch(
        #[inline(always)]
        || out.extend(rows.chunks_exact(vector.len()).map(|row| dot(vector, row))),
    );
}

/// The sum of rows, each times its weight.
pub(crate) fn weighted_sum(rows: &[f32], weights: &[f32], out: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            out.fill(0.0);
            for (row, &weight) in rows.chunks_exact(out.len()).zip(weights) {
                out.iter_mut().zip(row).for_each(|(sum, x)| *sum = x.mul_add(weight, *sum));
            }
        },
    );
}

/// The dot product in sixteen lanes, which are then added. Fast where it is compiled for a vector unit.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    let mut lanes = [0.0f32; 16];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..16 {
            lanes[lane] = a[lane].mul_add(b[lane], lanes[lane]);
        }
    }
    let rest = a_rest.iter().zip(b_rest).fold(0.0f32, |sum, (a, b)| a.mul_add(*b, sum));
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
    }
    lanes[0] + rest
}

/// Scales every row of `dim` numbers to unit norm.
pub(crate) fn unit(rows: &mut [f32], dim: usize) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for row in rows.chunks_exact_mut(dim) {
                let scale = 1.0 / (dot(row, row).sqrt() + EPSILON);
                row.iter_mut().for_each(|x| *x *= scale);
            }
        },
    );
}

/// Replaces every row `f` by `f / (|f| + ε) - e`, with `e` the row of `others`. Writes the norms.
pub(super) fn unit_difference(rows: &mut [f32], others: &[f32], dim: usize, norms: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let rows = rows.chunks_exact_mut(dim).zip(others.chunks_exact(dim));
            for ((row, other), norm) in rows.zip(norms) {
                *norm = dot(row, row).sqrt();
                let scale = 1.0 / (*norm + EPSILON);
                row.iter_mut().zip(other).for_each(|(x, e)| *x = *x * scale - e);
            }
        },
    );
}

/// From the gradients of the squares of differences to those of `e`, in `others`, and of `f`, in place;
/// `differences` and `norms` are those of [`unit_difference`].
pub(super) fn unit_difference_backward(
    (differences, own): (&[f32], &[f32]),
    norms: &[f32],
    dim: usize,
    gradient: &mut [f32],
    others: &mut [f32],
) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let given = differences.chunks_exact(dim).zip(own.chunks_exact(dim)).zip(norms);
            let out = gradient.chunks_exact_mut(dim).zip(others.chunks_exact_mut(dim));
            for (((difference, own), &norm), (gradient, other)) in given.zip(out) {
                let mut along = 0.0;
                for at in 0..dim {
                    gradient[at] *= 2.0 * difference[at];
                    other[at] = -gradient[at];
                }
                // The attended vector at unit norm is the difference and the word.
                along += dot(gradient, difference) + dot(gradient, own);
                let scale = 1.0 / (norm + EPSILON);
                let radial = if norm > 0.0 { along * (norm + EPSILON) / norm } else { 0.0 };
                for at in 0..dim {
                    let unit = difference[at] + own[at];
                    gradient[at] = (gradient[at] - unit * radial) * scale;
                }
            }
        },
    );
}
