//! Columns of every item scaled to unit norm.

use nextpair_cuda::Array;
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// Divides every column of each item of `each` rows by its norm over these rows. A column of zeros
/// stays what it is.
///
/// # Errors
/// If the rows do not divide into items.
pub fn unit_columns(rows: &Tensor, each: usize) -> Result<Tensor, Error> {
    let (count, dim) = rows.matrix_shape()?;
    if each == 0 {
        return Err(Error::EmptyItem { what: "rows of an item", item: 0 });
    }
    Error::check_len("the rows of items", count, count / each * each)?;
    apply(UnitColumns { count, dim, each }, &[rows])
}

struct UnitColumns {
    count: usize,
    dim: usize,
    each: usize,
}

impl UnitColumns {
    /// `1 / norm` of every column of an item, or 1 for zeros.
    fn scales(&self, item: &[f32]) -> Vec<f32> {
        let mut squares = vec![0.0f32; self.dim];
        for row in item.chunks_exact(self.dim) {
            squares.iter_mut().zip(row).for_each(|(sum, x)| *sum += x * x);
        }
        let scale = |square: f32| if square > 0.0 { 1.0 / square.sqrt() } else { 1.0 };
        squares.into_iter().map(scale).collect()
    }
}

impl Operation for UnitColumns {
    fn shape(&self) -> Vec<usize> {
        vec![self.count, self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let item = |item: &[R]| {
            let norm = |column: usize| {
                let own = item[column..].iter().step_by(self.dim);
                let norm = R::sum(own.map(|&x| x * x)).sqrt();
                if norm.value() > 0.0 { norm } else { R::of(1.0) }
            };
            let norms: Vec<R> = (0..self.dim).map(norm).collect();
            item.iter().zip(norms.iter().cycle()).map(|(&x, &norm)| x / norm).collect::<Vec<R>>()
        };
        inputs[0].chunks_exact(self.each * self.dim).flat_map(item).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = inputs[0].to_vec();
        out.par_chunks_exact_mut(self.each * self.dim).for_each(|item| {
            let scales = self.scales(item);
            for row in item.chunks_exact_mut(self.dim) {
                row.iter_mut().zip(&scales).for_each(|(x, scale)| *x *= scale);
            }
        });
        Ok(out)
    }

    /// With `y` the unit column: `dx = (dy - y (y . dy)) / norm`.
    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let item = self.each * self.dim;
        let mut out = upstream.to_vec();
        let items = out.par_chunks_exact_mut(item).zip(inputs[0].par_chunks_exact(item));
        items.for_each(|(out, item)| {
            let scales = self.scales(item);
            let mut along = vec![0.0f32; self.dim];
            for (up, row) in out.chunks_exact(self.dim).zip(item.chunks_exact(self.dim)) {
                let numbers = along.iter_mut().zip(up).zip(row);
                numbers.for_each(|((sum, g), x)| *sum += g * x);
            }
            along.iter_mut().zip(&scales).for_each(|(sum, scale)| *sum *= scale * scale);
            for (up, row) in out.chunks_exact_mut(self.dim).zip(item.chunks_exact(self.dim)) {
                let columns = along.iter().zip(&scales);
                for ((g, x), (along, scale)) in up.iter_mut().zip(row).zip(columns) {
                    *g = (*g - x * along) * scale;
                }
            }
        });
        Ok(vec![Some(out)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let out = unit.empty(inputs[0].len())?;
        let arguments = [(&out).into(), inputs[0].into(), self.each.into(), self.dim.into()];
        let grid = Unit::numbers(self.count / self.each, self.dim);
        unit.run("unit_columns", grid, &arguments)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let out = unit.empty(inputs[0].len())?;
        let arguments =
            [(&out).into(), inputs[0].into(), upstream.into(), self.each.into(), self.dim.into()];
        let grid = Unit::numbers(self.count / self.each, self.dim);
        unit.run("unit_columns_backward", grid, &arguments)?;
        Ok(vec![Some(out)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        for dim in [7, 140] {
            judge(&[tensor(1, &[12, dim])], 1e-5, |inputs| unit_columns(&inputs[0], 4));
        }
        assert!(unit_columns(&tensor(1, &[12, 7]), 5).is_err());
        assert!(unit_columns(&tensor(1, &[12, 7]), 0).is_err());
    }

    #[test]
    fn zeros_stay_zeros() {
        for device in Device::available() {
            let rows = Tensor::new(vec![3.0, 0.0, 4.0, 0.0], &[2, 2], device).unwrap();
            let rows = rows.into_weight();
            let found = unit_columns(&rows, 2).unwrap();
            let gradients = found.backward(&[1.0; 4]).unwrap().of(&rows).unwrap().to_f32s();
            assert!(gradients.unwrap().iter().all(|g| g.is_finite()), "{device}");
            let found = found.to_f32s().unwrap();
            assert!((found[0] - 0.6).abs() < 1e-6 && (found[2] - 0.8).abs() < 1e-6);
            assert_eq!([found[1], found[3]], [0.0, 0.0]);
        }
    }
}
