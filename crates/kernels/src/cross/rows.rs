//! Vectors that lie one after the other: products, norms, differences, and their gradients.

use super::attention::EPSILON;

/// Defines functions that are compiled for the vector unit in use. What they call must be inlined.
macro_rules! vectorised {
    ($($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        $vis fn $name<'a>($($arg: $type),*) {
            struct Call<'a> {
                $($arg: $type,)*
                lifetime: std::marker::PhantomData<&'a ()>,
            }
            impl pulp::WithSimd for Call<'_> {
                type Output = ();

                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, _simd: S) {
                    let Call { $($arg,)* .. } = self;
                    $body
                }
            }
            crate::unit::arch().dispatch(Call { $($arg,)* lifetime: std::marker::PhantomData });
        }
    )*};
}

/// The dot product in sixteen lanes, which are then added.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    let mut lanes = [0.0f32; 16];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..16 {
            lanes[lane] = a[lane].mul_add(b[lane], lanes[lane]);
        }
    }
    let mut rest = 0.0f32;
    for (a, b) in a_rest.iter().zip(b_rest) {
        rest = a.mul_add(*b, rest);
    }
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
    }
    lanes[0] + rest
}

/// Adds a row times a factor to a sum.
#[inline(always)]
fn add_scaled(sum: &mut [f32], row: &[f32], factor: f32) {
    for (sum, x) in sum.iter_mut().zip(row) {
        *sum = x.mul_add(factor, *sum);
    }
}

vectorised! {
    /// The dot product of a vector with every row.
    pub(crate) fn dots(vector: &'a [f32], rows: &'a [f32], out: &'a mut Vec<f32>) {
        out.clear();
        for row in rows.chunks_exact(vector.len()) {
            out.push(dot(vector, row));
        }
    }

    /// The sum of rows, each times its weight.
    pub(crate) fn weighted_sum(rows: &'a [f32], weights: &'a [f32], out: &'a mut [f32]) {
        out.fill(0.0);
        for (row, &weight) in rows.chunks_exact(out.len()).zip(weights) {
            add_scaled(out, row, weight);
        }
    }

    /// The product of a matrix with rows of `depth` numbers and one with rows of `columns`.
    pub(crate) fn small_product(
        left: &'a [f32],
        depth: usize,
        right: &'a [f32],
        columns: usize,
        out: &'a mut [f32],
    ) {
        for (left, out) in left.chunks_exact(depth).zip(out.chunks_exact_mut(columns)) {
            out.fill(0.0);
            for (row, &factor) in right.chunks_exact(columns).zip(left) {
                add_scaled(out, row, factor);
            }
        }
    }

    /// Scales every row of `dim` numbers to unit norm.
    pub(crate) fn unit(rows: &'a mut [f32], dim: usize) {
        for row in rows.chunks_exact_mut(dim) {
            let scale = 1.0 / (dot(row, row).sqrt() + EPSILON);
            for x in row {
                *x *= scale;
            }
        }
    }

    /// Replaces every row `f` by `f / (|f| + ε) - e`, with `e` the row of `others`. Writes the norms.
    pub(super) fn unit_difference(
        rows: &'a mut [f32],
        others: &'a [f32],
        dim: usize,
        norms: &'a mut [f32],
    ) {
        let rows = rows.chunks_exact_mut(dim).zip(others.chunks_exact(dim));
        for ((row, other), norm) in rows.zip(norms) {
            *norm = dot(row, row).sqrt();
            let scale = 1.0 / (*norm + EPSILON);
            for (x, e) in row.iter_mut().zip(other) {
                *x = *x * scale - e;
            }
        }
    }

    /// From the gradients of the squares of differences to those of `e`, in `others`, and of `f`, in
    /// place; `differences`, `own` and `norms` are those of [`unit_difference`].
    pub(super) fn unit_difference_backward(
        differences: &'a [f32],
        own: &'a [f32],
        norms: &'a [f32],
        dim: usize,
        gradient: &'a mut [f32],
        others: &'a mut [f32],
    ) {
        let given = differences.chunks_exact(dim).zip(own.chunks_exact(dim)).zip(norms);
        let out = gradient.chunks_exact_mut(dim).zip(others.chunks_exact_mut(dim));
        for (((difference, own), &norm), (gradient, other)) in given.zip(out) {
            for ((g, other), difference) in gradient.iter_mut().zip(other).zip(difference) {
                *g *= 2.0 * difference;
                *other = -*g;
            }
            // The attended vector at unit norm is the difference and the word.
            let along = dot(gradient, difference) + dot(gradient, own);
            let scale = 1.0 / (norm + EPSILON);
            let radial = if norm > 0.0 { along * (norm + EPSILON) / norm } else { 0.0 };
            for ((g, difference), own) in gradient.iter_mut().zip(difference).zip(own) {
                *g = (*g - (difference + own) * radial) * scale;
            }
        }
    }

    /// Replaces every number by its square.
    pub(super) fn square(values: &'a mut [f32]) {
        for x in values {
            *x *= *x;
        }
    }
}
