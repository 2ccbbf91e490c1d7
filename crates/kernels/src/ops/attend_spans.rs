//! Attention between the rows of two items, for many pairs of items.

mod gpu;

use std::sync::OnceLock;

use nextpair_cuda::Array;
use rayon::prelude::*;

use crate::cross::split_rows;
use crate::cuda::Unit;
use crate::elementwise::exp_all;
use crate::operation::{Operation, apply};
use crate::{Error, Left, Packed, Real, Tensor};
use gpu::Kept;

/// Rows of items: the first row of each item, then the end of the last.
type Offsets<'a> = &'a [usize];

/// `softmax(scale Q Kᵀ) V` for every item on its own, with `Q` the item's rows of `queries`, `K` of
/// `keys` and `V` of `values`, which have as many rows as `keys`.
///
/// # Errors
/// If an item has no rows, or shapes do not match.
pub fn attend_spans(
    (queries, query_offsets): (&Tensor, Offsets<'_>),
    (keys, values, offsets): (&Tensor, &Tensor, Offsets<'_>),
    scale: f32,
) -> Result<Tensor, Error> {
    let ((asking, depth), (asked, of_keys)) = (queries.matrix_shape()?, keys.matrix_shape()?);
    let (of_values, dim) = values.matrix_shape()?;
    Error::check_dims("the queries", depth, "the keys", of_keys)?;
    Error::check_len("the rows of values", of_values, asked)?;
    Error::check_len("items that ask", query_offsets.len(), offsets.len())?;
    for (what, offsets, rows) in
        [("queries", query_offsets, asking), ("keys and values", offsets, asked)]
    {
        if let Some(item) = offsets.windows(2).position(|span| span[0] >= span[1]) {
            return Err(Error::EmptyItem { what, item });
        }
        Error::check_len("the rows of all items", offsets.last().copied().unwrap_or(0), rows)?;
    }
    let (asking, asked) = (query_offsets.to_vec(), offsets.to_vec());
    let kept = OnceLock::new();
    apply(AttendSpans { asking, asked, depth, dim, scale, kept }, &[queries, keys, values])
}

struct AttendSpans {
    asking: Vec<usize>,
    asked: Vec<usize>,
    depth: usize,
    dim: usize,
    scale: f32,
    /// What the forward pass keeps on a GPU.
    kept: OnceLock<Kept>,
}

impl AttendSpans {
    fn items(&self) -> usize {
        self.asked.len() - 1
    }

    /// The rows of an item, of queries, keys and values.
    fn parts<'a, N>(&self, inputs: &[&'a [N]], item: usize) -> [&'a [N]; 3] {
        let part = |input: usize, offsets: &[usize], each: usize| {
            &inputs[input][offsets[item] * each..offsets[item + 1] * each]
        };
        [
            part(0, &self.asking, self.depth),
            part(1, &self.asked, self.depth),
            part(2, &self.asked, self.dim),
        ]
    }

    /// The attention weights of an item.
    fn weights(&self, queries: &[f32], keys: &[f32]) -> Vec<f32> {
        let (asking, asked) = (queries.len() / self.depth, keys.len() / self.depth);
        let mut weights = vec![0.0; asking * asked];
        let right = Packed::transposed(asked, self.depth, keys);
        right.multiply(Left::rows(queries, self.depth), &mut weights);
        for row in weights.chunks_exact_mut(asked) {
            let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            row.iter_mut().for_each(|x| *x = (*x - largest) * self.scale);
        }
        exp_all(&mut weights);
        for row in weights.chunks_exact_mut(asked) {
            let share = 1.0 / row.iter().sum::<f32>();
            row.iter_mut().for_each(|x| *x *= share);
        }
        weights
    }
}

impl Operation for AttendSpans {
    fn shape(&self) -> Vec<usize> {
        vec![self.asking[self.items()], self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let mut out = Vec::new();
        for item in 0..self.items() {
            let [queries, keys, values] = self.parts(inputs, item);
            for query in queries.chunks_exact(self.depth) {
                let scale = R::of(self.scale.into());
                let logits: Vec<R> =
                    keys.chunks_exact(self.depth).map(|key| R::dot(query, key) * scale).collect();
                let largest = logits.iter().map(|x| x.value()).fold(f64::NEG_INFINITY, f64::max);
                let exps: Vec<R> = logits.into_iter().map(|x| (x - R::of(largest)).exp()).collect();
                let sum = R::sum(exps.iter().copied());
                for at in 0..self.dim {
                    let column = values[at..].iter().step_by(self.dim);
                    out.push(R::sum(exps.iter().zip(column).map(|(&e, &v)| e * v)) / sum);
                }
            }
        }
        out
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = vec![0.0; self.asking[self.items()] * self.dim];
        let parts = split_rows(&mut out, &self.asking, self.dim);
        parts.into_par_iter().enumerate().for_each(|(item, out)| {
            let [queries, keys, values] = self.parts(inputs, item);
            let weights = self.weights(queries, keys);
            let asked = values.len() / self.dim;
            let right = Packed::new(asked, self.dim, values);
            right.multiply(Left::rows(&weights, asked), out);
        });
        Ok(out)
    }

    /// With `A` the weights: `dV = Aᵀ dY`, `dA = dY Vᵀ`, and of the products of queries and keys the
    /// gradient is `scale A (dA - A·dA)`.
    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let (depth, dim) = (self.depth, self.dim);
        let mut found: [Vec<f32>; 3] = std::array::from_fn(|at| vec![0.0; inputs[at].len()]);
        let [of_queries, of_keys, of_values] = &mut found;
        let parts = split_rows(of_queries, &self.asking, depth)
            .into_par_iter()
            .zip(split_rows(of_keys, &self.asked, depth))
            .zip(split_rows(of_values, &self.asked, dim));
        parts.enumerate().for_each(|(item, ((of_queries, of_keys), of_values))| {
            let [queries, keys, values] = self.parts(inputs, item);
            let (asking, asked) = (queries.len() / depth, keys.len() / depth);
            let upstream = &upstream[self.asking[item] * dim..][..asking * dim];
            let weights = self.weights(queries, keys);
            let mut slopes = vec![0.0; weights.len()];
            let right = Packed::transposed(asked, dim, values);
            right.multiply(Left::rows(upstream, dim), &mut slopes);
            for (slopes, weights) in slopes.chunks_exact_mut(asked).zip(weights.chunks(asked)) {
                let along: f32 = slopes.iter().zip(weights).map(|(g, a)| g * a).sum();
                let both = slopes.iter_mut().zip(weights);
                both.for_each(|(g, a)| *g = self.scale * a * (*g - along));
            }
            let mut right = Packed::new(asking, dim, upstream);
            right.multiply(Left::transposed(&weights, asked), of_values);
            right.repack(asking, depth, queries);
            right.multiply(Left::transposed(&slopes, asked), of_keys);
            right.repack(asked, depth, keys);
            right.multiply(Left::rows(&slopes, asked), of_queries);
        });
        Ok(found.map(Some).into())
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        self.forward_on(unit, inputs)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        self.backward_on(unit, inputs, upstream, wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        let inputs = [tensor(1, &[6, 5]), tensor(2, &[9, 5]), tensor(3, &[9, 4])];
        let (asking, asked) = ([0, 1, 4, 6], [0, 3, 7, 9]);
        judge(&inputs, 1e-5, |inputs| {
            attend_spans((&inputs[0], &asking), (&inputs[1], &inputs[2], &asked), 0.7)
        });
        let wide = [tensor(1, &[60, 140]), tensor(2, &[50, 140]), tensor(3, &[50, 150])];
        judge(&wide, 1e-5, |inputs| {
            attend_spans((&inputs[0], &[0, 20, 60]), (&inputs[1], &inputs[2], &[0, 37, 50]), 0.1)
        });
        let [queries, keys, values] = &inputs;
        for (asking, asked) in
            [(vec![0, 6], vec![0, 3, 9]), (vec![0, 0, 6], vec![0, 3, 9]), (vec![0, 5], vec![0, 9])]
        {
            assert!(attend_spans((queries, &asking), (keys, values, &asked), 1.0).is_err());
        }
    }
}
