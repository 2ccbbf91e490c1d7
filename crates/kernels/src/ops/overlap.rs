//! How alike the vectors of an item are.

use nextpair_cuda::Array;
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::elementwise::sum_of;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// The mean over items of `|G| / n²`, where `G` has the dot products of the `n` rows of an item and
/// zeros on its diagonal, and `|G|` is its Frobenius norm. One number.
///
/// # Errors
/// If the rows do not divide into items of `n`.
pub fn overlap(rows: &Tensor, each: usize) -> Result<Tensor, Error> {
    let (count, dim) = rows.matrix_shape()?;
    if each == 0 || count == 0 {
        return Err(Error::EmptyItem { what: "rows of an item", item: 0 });
    }
    Error::check_len("the rows of items", count, count / each * each)?;
    apply(Overlap { items: count / each, each, dim }, &[rows])
}

struct Overlap {
    items: usize,
    each: usize,
    dim: usize,
}

impl Overlap {
    /// The dot products of the rows of an item, and the norm.
    fn products(&self, item: &[f32]) -> (Vec<f32>, f32) {
        let row = |at: usize| &item[at * self.dim..][..self.dim];
        let mut products = vec![0.0; self.each * self.each];
        for (one, other) in (0..self.each).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let product = sum_of(self.dim, |at| row(one)[at] * row(other)[at]);
            products[one * self.each + other] = product;
            products[other * self.each + one] = product;
        }
        let norm = products.iter().map(|g| g * g).sum::<f32>().sqrt();
        (products, norm)
    }

    /// Room on a GPU for the products of all items.
    fn room(&self, unit: &Unit) -> Result<Array<f32>, Error> {
        unit.empty(self.items * self.each * self.each)
    }

    fn scale(&self) -> f64 {
        1.0 / (self.items * self.each * self.each) as f64
    }
}

impl Operation for Overlap {
    fn shape(&self) -> Vec<usize> {
        vec![1]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let norm = |item: &[R]| {
            let row = |at: usize| &item[at * self.dim..][..self.dim];
            let pairs = (0..self.each).flat_map(|i| (0..self.each).map(move |j| (i, j)));
            let products = pairs.filter(|(i, j)| i != j).map(|(i, j)| R::dot(row(i), row(j)));
            R::sum(products.map(|g| g * g)).sqrt()
        };
        let items = inputs[0].chunks_exact(self.each * self.dim);
        vec![R::sum(items.map(norm)) * R::of(self.scale())]
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let items = inputs[0].par_chunks_exact(self.each * self.dim);
        let norms: Vec<f64> = items.map(|item| f64::from(self.products(item).1)).collect();
        Ok(vec![(norms.iter().sum::<f64>() * self.scale()) as f32])
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let each = self.each * self.dim;
        let mut out = vec![0.0; inputs[0].len()];
        let items = out.par_chunks_exact_mut(each).zip(inputs[0].par_chunks_exact(each));
        items.for_each(|(out, item)| {
            let (products, norm) = self.products(item);
            let slope =
                if norm > 0.0 { 2.0 * upstream[0] * self.scale() as f32 / norm } else { 0.0 };
            for (one, out) in out.chunks_exact_mut(self.dim).enumerate() {
                for (other, row) in item.chunks_exact(self.dim).enumerate() {
                    let factor = slope * products[one * self.each + other];
                    out.iter_mut().zip(row).for_each(|(sum, x)| *sum += factor * x);
                }
            }
        });
        Ok(vec![Some(out)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let (parts, room) = (unit.empty(self.items)?, self.room(unit)?);
        let (each, dim) = (self.each.into(), self.dim.into());
        let arguments = [(&parts).into(), (&room).into(), inputs[0].into(), each, dim];
        unit.run("overlap", Unit::rows(self.items), &arguments)?;
        unit.total(&parts, self.scale())
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let (out, room) = (unit.empty(inputs[0].len())?, self.room(unit)?);
        let arguments = [
            (&out).into(),
            (&room).into(),
            inputs[0].into(),
            upstream.into(),
            (self.scale() as f32).into(),
            self.each.into(),
            self.dim.into(),
        ];
        unit.run("overlap_backward", Unit::rows(self.items), &arguments)?;
        Ok(vec![Some(out)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        for (each, dim) in [(1, 5), (2, 5), (3, 5), (3, 150), (6, 40)] {
            judge(&[tensor(1, &[6, dim])], 1e-5, |inputs| overlap(&inputs[0], each));
        }
        assert!(
            overlap(&tensor(1, &[6, 5]), 4).is_err() && overlap(&tensor(1, &[6, 5]), 0).is_err()
        );
    }
}
