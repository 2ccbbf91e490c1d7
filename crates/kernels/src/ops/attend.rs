//! Small products, one for each item: weighted sums of rows, and relations between them.

use rayon::prelude::*;

use crate::operation::{Operation, apply};
use crate::{Error, Left, Packed, Real, Tensor};

/// `sum_r weights[r, k] rows[r]` over the rows of every item, for each column `k` of the weights:
/// items times columns by dimensions. `offsets` has the first row of each item, then the end of the
/// last.
///
/// # Errors
/// If the rows differ in number, or are not those of the items.
pub fn attend(weights: &Tensor, rows: &Tensor, offsets: &[usize]) -> Result<Tensor, Error> {
    let ((count, dim), (of_weights, heads)) = (rows.matrix_shape()?, weights.matrix_shape()?);
    Error::check_len("the weights of rows", of_weights, count)?;
    super::spans::check("rows to attend to", count, offsets)?;
    let first = offsets.first().copied().unwrap_or(0);
    let offsets = offsets.iter().map(|offset| offset - first).collect();
    apply(Attend { heads, dim, offsets }, &[weights, rows])
}

struct Attend {
    heads: usize,
    dim: usize,
    offsets: Vec<usize>,
}

impl Attend {
    /// The rows of every item.
    fn spans(&self) -> Vec<std::ops::Range<usize>> {
        self.offsets.windows(2).map(|span| span[0]..span[1]).collect()
    }
}

fn part<N>(of: &[N], rows: std::ops::Range<usize>, width: usize) -> &[N] {
    &of[rows.start * width..rows.end * width]
}

impl Operation for Attend {
    fn shape(&self) -> Vec<usize> {
        vec![(self.offsets.len() - 1) * self.heads, self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let mut out = Vec::with_capacity(self.shape().iter().product());
        for span in self.spans() {
            for (head, at) in (0..self.heads).flat_map(|h| (0..self.dim).map(move |at| (h, at))) {
                let term = |row: usize| {
                    inputs[0][row * self.heads + head] * inputs[1][row * self.dim + at]
                };
                out.push(R::sum(span.clone().map(term)));
            }
        }
        out
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = vec![0.0; self.shape().iter().product()];
        let items = out.par_chunks_exact_mut(self.heads * self.dim).zip(self.spans());
        items.for_each(|(out, span)| {
            for (head, out) in out.chunks_exact_mut(self.dim).enumerate() {
                for row in span.clone() {
                    let weight = inputs[0][row * self.heads + head];
                    let values = &inputs[1][row * self.dim..][..self.dim];
                    out.iter_mut().zip(values).for_each(|(sum, x)| *sum += weight * x);
                }
            }
        });
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let (heads, dim) = (self.heads, self.dim);
        let each = heads * dim;
        let of_item = |(item, span): (usize, std::ops::Range<usize>)| {
            let upstream = &upstream[item * each..][..each];
            let (mut of_weights, mut of_rows) = (Vec::new(), Vec::new());
            for row in span {
                let values = &inputs[1][row * dim..][..dim];
                let of_head =
                    |up: &[f32]| crate::elementwise::sum_of(dim, |at| up[at] * values[at]);
                of_weights.extend(upstream.chunks_exact(dim).map(of_head));
                if wanted[1] {
                    let first = of_rows.len();
                    of_rows.resize(first + dim, 0.0);
                    for (head, up) in upstream.chunks_exact(dim).enumerate() {
                        let weight = inputs[0][row * heads + head];
                        let out = of_rows[first..].iter_mut().zip(up);
                        out.for_each(|(sum, g)| *sum += weight * g);
                    }
                }
            }
            (of_weights, of_rows)
        };
        let spans = self.spans();
        let found: Vec<(Vec<f32>, Vec<f32>)> =
            spans.into_par_iter().enumerate().map(of_item).collect();
        let (of_weights, of_rows): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        Ok(vec![Some(of_weights.concat()), wanted[1].then(|| of_rows.concat())])
    }
}

/// `(Q Kᵀ / n) V` for every item of `n` rows: what each of its rows takes from the others. There is no
/// softmax.
///
/// # Errors
/// If the shapes differ, or the rows do not divide into items of `n`.
pub fn relate(
    queries: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    each: usize,
) -> Result<Tensor, Error> {
    let (rows, dim) = queries.matrix_shape()?;
    for other in [keys, values] {
        if other.shape() != queries.shape() {
            return Err(Error::NotAMatrix { shape: other.shape().to_vec() });
        }
    }
    if each == 0 {
        return Err(Error::EmptyItem { what: "rows to relate", item: 0 });
    }
    Error::check_len("rows to relate", rows, rows / each * each)?;
    apply(Relate { rows, dim, each }, &[queries, keys, values])
}

struct Relate {
    rows: usize,
    dim: usize,
    each: usize,
}

impl Relate {
    /// `Q Kᵀ / n` of an item.
    fn affinity(&self, queries: &[f32], keys: &[f32]) -> Vec<f32> {
        let mut affinity = vec![0.0; self.each * self.each];
        Packed::transposed(self.each, self.dim, keys)
            .multiply(Left::rows(queries, self.dim), &mut affinity);
        let scale = 1.0 / self.each as f32;
        affinity.iter_mut().for_each(|a| *a *= scale);
        affinity
    }

    /// The gradients of an item.
    fn of_item(&self, [queries, keys, values]: [&[f32]; 3], upstream: &[f32]) -> [Vec<f32>; 3] {
        let &Relate { dim, each, .. } = self;
        let affinity = self.affinity(queries, keys);
        let mut slopes = vec![0.0; each * each];
        Packed::transposed(each, dim, values).multiply(Left::rows(upstream, dim), &mut slopes);
        let scale = 1.0 / each as f32;
        slopes.iter_mut().for_each(|slope| *slope *= scale);
        let product = |left: Left<'_>, right: &[f32]| {
            let mut out = vec![0.0; each * dim];
            Packed::new(each, dim, right).multiply(left, &mut out);
            out
        };
        [
            product(Left::rows(&slopes, each), keys),
            product(Left::transposed(&slopes, each), queries),
            product(Left::transposed(&affinity, each), upstream),
        ]
    }
}

impl Operation for Relate {
    fn shape(&self) -> Vec<usize> {
        vec![self.rows, self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let &Relate { dim, each, .. } = self;
        let mut out = Vec::with_capacity(self.rows * dim);
        for first in (0..self.rows).step_by(each) {
            let row = |of: usize, row: usize| part(inputs[of], first + row..first + row + 1, dim);
            for own in 0..each {
                let affinity: Vec<R> = (0..each)
                    .map(|other| R::dot(row(0, own), row(1, other)) / R::of(each as f64))
                    .collect();
                let value = |at: usize| {
                    R::sum(affinity.iter().enumerate().map(|(other, &a)| a * row(2, other)[at]))
                };
                out.extend((0..dim).map(value));
            }
        }
        out
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let item = self.each * self.dim;
        let mut out = vec![0.0; self.rows * self.dim];
        out.par_chunks_exact_mut(item).enumerate().for_each(|(at, out)| {
            let [queries, keys, values] = [0, 1, 2].map(|of| &inputs[of][at * item..][..item]);
            let affinity = self.affinity(queries, keys);
            Packed::new(self.each, self.dim, values)
                .multiply(Left::rows(&affinity, self.each), out);
        });
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let item = self.each * self.dim;
        let mut found = [0, 1, 2].map(|_| vec![0.0; self.rows * self.dim]);
        let [of_queries, of_keys, of_values] = &mut found;
        let out = of_queries
            .par_chunks_exact_mut(item)
            .zip(of_keys.par_chunks_exact_mut(item))
            .zip(of_values.par_chunks_exact_mut(item));
        out.enumerate().for_each(|(at, ((of_queries, of_keys), of_values))| {
            let given = [0, 1, 2].map(|of| &inputs[of][at * item..][..item]);
            let own = self.of_item(given, &upstream[at * item..][..item]);
            for (out, own) in [of_queries, of_keys, of_values].into_iter().zip(own) {
                out.copy_from_slice(&own);
            }
        });
        Ok(found.map(Some).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        for heads in [1, 3] {
            let inputs = [tensor(1, &[9, heads]), tensor(2, &[9, 5])];
            judge(&inputs, 1e-5, |inputs| attend(&inputs[0], &inputs[1], &[0, 1, 5, 9]));
        }
        let inputs = [tensor(1, &[12, 7]), tensor(2, &[12, 7]), tensor(3, &[12, 7])];
        judge(&inputs, 1e-5, |inputs| relate(&inputs[0], &inputs[1], &inputs[2], 4));
        assert!(relate(&inputs[0], &inputs[1], &inputs[2], 5).is_err());
        assert!(attend(&inputs[0], &tensor(1, &[11, 2]), &[0, 12]).is_err());
    }
}
