//! Relations between the rows of every item.

use std::sync::OnceLock;

use nextpair_cuda::{Array, Operand};
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Left, Packed, Real, Tensor};

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
    apply(Relate { rows, dim, each, affinities: OnceLock::new() }, &[queries, keys, values])
}

struct Relate {
    rows: usize,
    dim: usize,
    each: usize,
    /// `Q Kᵀ / n` of all items on a GPU, which the forward pass keeps.
    affinities: OnceLock<Array<f32>>,
}

impl Relate {
    /// The product of the matrices of every item on a GPU: of `size` rows, columns and depth.
    fn multiply(
        &self,
        unit: &Unit,
        (rows, columns, depth): (usize, usize, usize),
        left: Operand,
        right: Operand,
    ) -> Result<Array<f32>, Error> {
        let (items, each) = (self.rows / self.each, rows * columns);
        let out = unit.empty(items * each)?;
        let to = Operand::new(&out, 0, columns).apart(each);
        unit.multiply_each(items, (rows, columns, depth), left, right, 0.0, to)?;
        Ok(out)
    }

    /// The rows of every item, and a square for every item, as factors on a GPU.
    fn of_rows(&self, rows: &Array<f32>) -> Operand {
        Operand::new(rows, 0, self.dim).apart(self.each * self.dim)
    }

    fn of_squares(&self, squares: &Array<f32>) -> Operand {
        Operand::new(squares, 0, self.each).apart(self.each * self.each)
    }

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
            let row = |of: usize, row: usize| &inputs[of][(first + row) * dim..][..dim];
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

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let &Relate { dim, each, .. } = self;
        let [queries, keys, values] = [0, 1, 2].map(|of| self.of_rows(inputs[of]));
        let affinities = self.multiply(unit, (each, each, dim), queries, keys.turned())?;
        let affinities = unit.times(&affinities, 1.0 / each as f32)?;
        let out = self.multiply(unit, (each, dim, each), self.of_squares(&affinities), values)?;
        self.affinities.get_or_init(|| affinities);
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let &Relate { dim, each, .. } = self;
        let affinities = self.affinities.get().expect("the forward pass comes first");
        let (affinities, up) = (self.of_squares(affinities), self.of_rows(upstream));
        let [queries, keys, values] = [0, 1, 2].map(|of| self.of_rows(inputs[of]));
        let slopes = self.multiply(unit, (each, each, dim), up, values.turned())?;
        let slopes = unit.times(&slopes, 1.0 / each as f32)?;
        let slopes = self.of_squares(&slopes);
        let product = |left: Operand, right: Operand| {
            self.multiply(unit, (each, dim, each), left, right).map(Some)
        };
        Ok(vec![
            product(slopes, keys)?,
            product(slopes.turned(), queries)?,
            product(affinities.turned(), up)?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        let inputs = [tensor(1, &[12, 7]), tensor(2, &[12, 7]), tensor(3, &[12, 7])];
        for each in [1, 4, 12] {
            judge(&inputs, 1e-5, |inputs| relate(&inputs[0], &inputs[1], &inputs[2], each));
        }
        assert!(relate(&inputs[0], &inputs[1], &inputs[2], 5).is_err());
        assert!(relate(&inputs[0], &inputs[1], &tensor(1, &[11, 7]), 4).is_err());
    }
}
