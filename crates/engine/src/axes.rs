//! Principal axes of a covariance, with the same bits on every machine: plus, minus, times, divide and square root in a
//! fixed order.
//!
//! Householder's reduction to a tridiagonal matrix and implicit QL (Bowdler, Martin, Reinsch and Wilkinson, 1968), with
//! eigenvectors in rows, so that the inner loops run along memory.

use crate::widest::widest;

/// Most sweeps for an eigenvalue. It takes two, unless the matrix holds a NaN.
const SWEEPS: usize = 60;

/// The unit axes of the largest eigenvalues of a symmetric matrix, one after the other, `count` at most and those alone
/// whose eigenvalue is above rounding, but at least one. The largest component of each is positive.
pub(crate) fn axes(matrix: Vec<f64>, dim: usize, count: usize) -> Vec<f64> {
    let (values, vectors) = eigen(matrix, dim);
    let mut order: Vec<usize> = (0..dim).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
    let least = values[order[0]].max(0.0) * dim as f64 * f64::EPSILON;
    let mut axes = Vec::with_capacity(count * dim);
    // Where nothing spreads, any axis will do.
    let spread = |&(rank, at): &(usize, usize)| rank == 0 || values[at] > least;
    for (_, at) in order.into_iter().take(count).enumerate().filter(spread) {
        let axis = &vectors[at * dim..][..dim];
        let mut highest = 0.0f64;
        axis.iter().for_each(|x| {
            if x.abs() > highest.abs() {
                highest = *x
            }
        });
        axes.extend(axis.iter().map(|x| if highest < 0.0 { -x } else { *x }));
    }
    axes
}

/// Eigenvalues, and eigenvectors in rows.
fn eigen(mut a: Vec<f64>, dim: usize) -> (Vec<f64>, Vec<f64>) {
    // Reflections `I - 2 v v'` make the matrix tridiagonal, from the last row up.
    let (mut diagonal, mut beside) = (vec![0.0; dim], vec![0.0; dim]);
    let mut reflections: Vec<Vec<f64>> = Vec::with_capacity(dim);
    for last in (1..dim).rev() {
        let mut v = a[last * dim..][..last].to_vec();
        let scale = v.iter().fold(0.0, |sum, x| sum + f64::abs(*x));
        if scale > 0.0 && last > 1 {
            v.iter_mut().for_each(|x| *x /= scale);
            let length = v.iter().fold(0.0, |sum, x| sum + x * x).sqrt();
            let end = v[last - 1];
            let signed = if end > 0.0 { -length } else { length };
            beside[last] = scale * signed;
            v[last - 1] = end - signed;
            // |v|^2 = 2 length (length + |end|)
            let half = length * (length + end.abs());
            let mut p = vec![0.0; last];
            for (row, &factor) in v.iter().enumerate() {
                add_times(&mut p, &a[row * dim..][..last], factor);
            }
            p.iter_mut().for_each(|x| *x /= half);
            let along = v.iter().zip(&p).fold(0.0, |sum, (v, p)| sum + v * p) / (2.0 * half);
            add_times(&mut p, &v, -along);
            for row in 0..last {
                let own = &mut a[row * dim..][..last];
                add_times(own, &p, -v[row]);
                add_times(own, &v, -p[row]);
            }
            let root = half.sqrt();
            v.iter_mut().for_each(|x| *x /= root);
        } else {
            beside[last] = v[last - 1];
            v.fill(0.0);
        }
        reflections.push(v);
    }
    for (at, value) in diagonal.iter_mut().enumerate() {
        *value = a[at * dim + at];
    }
    // Rows of the product of all reflections: those of the last rows were made first.
    let mut vectors = vec![0.0; dim * dim];
    vectors.iter_mut().step_by(dim + 1).for_each(|one| *one = 1.0);
    for v in reflections.iter().rev() {
        let size = v.len();
        // The matrix so far is the identity beyond `size`: Q = Q - v (v' Q), in columns of the transposed.
        let mut product = vec![0.0; size];
        for (row, &factor) in v.iter().enumerate() {
            add_times(&mut product, &vectors[row * dim..][..size], factor);
        }
        for (row, &factor) in v.iter().enumerate() {
            add_times(&mut vectors[row * dim..][..size], &product, -factor);
        }
    }
    let mut vectors = transposed(&vectors, dim);
    beside.rotate_left(1);
    beside[dim - 1] = 0.0;
    for low in 0..dim {
        for _ in 0..SWEEPS {
            let small = |at: usize| {
                beside[at].abs() <= f64::EPSILON * (diagonal[at].abs() + diagonal[at + 1].abs())
            };
            let high = (low..dim - 1).find(|&at| small(at)).unwrap_or(dim - 1);
            if high == low {
                break;
            }
            let mut g = (diagonal[low + 1] - diagonal[low]) / (2.0 * beside[low]);
            let mut r = (g * g + 1.0).sqrt();
            g = diagonal[high] - diagonal[low] + beside[low] / (g + if g < 0.0 { -r } else { r });
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            let mut at = high;
            let mut ended = false;
            while at > low {
                at -= 1;
                let (f, b) = (s * beside[at], c * beside[at]);
                r = (f * f + g * g).sqrt();
                beside[at + 1] = r;
                if r == 0.0 {
                    diagonal[at + 1] -= p;
                    beside[high] = 0.0;
                    ended = true;
                    break;
                }
                (s, c) = (f / r, g / r);
                g = diagonal[at + 1] - p;
                r = (diagonal[at] - g) * s + 2.0 * c * b;
                p = s * r;
                diagonal[at + 1] = g + p;
                g = c * r - b;
                let (one, other) = vectors.split_at_mut((at + 1) * dim);
                rotate(&mut one[at * dim..], &mut other[..dim], s, c);
            }
            if !ended {
                diagonal[low] -= p;
                beside[low] = g;
                beside[high] = 0.0;
            }
        }
    }
    (diagonal, vectors)
}

fn transposed(matrix: &[f64], dim: usize) -> Vec<f64> {
    (0..dim * dim).map(|at| matrix[at % dim * dim + at / dim]).collect()
}

widest! {
    /// Adds a multiple of a vector.
    add_times(to: &mut [f64], vector: &[f64], factor: f64) -> () {
        to.iter_mut().zip(vector).for_each(|(to, x)| *to += factor * x);
    }
}

widest! {
    /// Turns two vectors in their plane.
    rotate(one: &mut [f64], other: &mut [f64], s: f64, c: f64) -> () {
        for (x, y) in one.iter_mut().zip(other) {
            let turned = s * *x + c * *y;
            *x = c * *x - s * *y;
            *y = turned;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;

    #[test]
    fn axes_make_the_matrix_again() {
        let mut draws = Draws::new(3);
        for (dim, rank) in [(1, 1), (2, 1), (5, 5), (17, 4), (40, 40)] {
            let rows: Vec<Vec<f64>> =
                (0..rank).map(|_| (0..dim).map(|_| draws.normal()).collect()).collect();
            let entry = |at: usize| rows.iter().map(|x| x[at / dim] * x[at % dim]).sum::<f64>();
            let matrix: Vec<f64> = (0..dim * dim).map(entry).collect();
            let axes = axes(matrix.clone(), dim, dim);
            assert_eq!(axes.len(), rank * dim);
            let of = |x: &[f64], y: &[f64]| -> f64 {
                (0..dim * dim).map(|at| x[at / dim] * matrix[at] * y[at % dim]).sum()
            };
            let all: Vec<&[f64]> = axes.chunks(dim).collect();
            let variances: Vec<f64> = all.iter().map(|axis| of(axis, axis)).collect();
            assert!(variances.windows(2).all(|pair| pair[0] >= pair[1] - 1e-9));
            for (i, x) in all.iter().enumerate() {
                for (j, y) in all.iter().enumerate().take(i) {
                    let product: f64 = x.iter().zip(*y).map(|(x, y)| x * y).sum();
                    assert!(product.abs() < 1e-9 && of(x, y).abs() < 1e-9, "{i} {j}");
                }
                let length: f64 = x.iter().map(|x| x * x).sum();
                assert!((length - 1.0).abs() < 1e-12);
                assert!(
                    x.iter().fold(0.0, |m: f64, x| if x.abs() > m.abs() { *x } else { m }) > 0.0
                );
            }
            let trace: f64 = matrix.iter().step_by(dim + 1).sum();
            assert!((variances.iter().sum::<f64>() - trace).abs() < 1e-9 * trace);
        }
        assert_eq!(axes(vec![0.0; 9], 3, 2).len(), 3);
    }
}
