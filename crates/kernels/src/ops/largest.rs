//! The largest products of sets of vectors.

use nextpair_cuda::Array;
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// The largest number of every square of `each` rows and columns: of the products of the vectors of
/// items, those of the two vectors of two items that are most alike. The gradient goes to the first
/// of equal ones. A square with a NaN is NaN.
///
/// # Errors
/// If rows or columns do not divide into squares.
pub fn largest_products(products: &Tensor, each: usize) -> Result<Tensor, Error> {
    let (rows, columns) = products.matrix_shape()?;
    if each == 0 {
        return Err(Error::EmptyItem { what: "vectors of an item", item: 0 });
    }
    for side in [rows, columns] {
        Error::check_len("the vectors of items", side, side / each * each)?;
    }
    apply(Largest { rows: rows / each, columns: columns / each, each }, &[products])
}

struct Largest {
    rows: usize,
    columns: usize,
    each: usize,
}

impl Largest {
    /// The place of the largest product of two items.
    fn place(&self, row: usize, column: usize, product: impl Fn(usize) -> f64) -> usize {
        let &Largest { columns, each, .. } = self;
        let place =
            |at: usize| (row * each + at / each) * columns * each + column * each + at % each;
        let larger = |best: usize, at: usize| {
            let (largest, own) = (product(best), product(at));
            let stays = largest.is_nan() || own <= largest;
            if stays { best } else { at }
        };
        (1..each * each).map(place).fold(place(0), larger)
    }

    /// The places of the largest products of all items.
    fn places(&self, products: &[f32]) -> Vec<usize> {
        let of_row = |row: usize| {
            let product = |at: usize| f64::from(products[at]);
            (0..self.columns).map(move |column| self.place(row, column, product))
        };
        (0..self.rows).into_par_iter().flat_map_iter(of_row).collect()
    }
}

impl Operation for Largest {
    fn shape(&self) -> Vec<usize> {
        vec![self.rows, self.columns]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let items =
            (0..self.rows).flat_map(|row| (0..self.columns).map(move |column| (row, column)));
        let product = |at: usize| inputs[0][at].value();
        items.map(|(row, column)| inputs[0][self.place(row, column, product)]).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        Ok(self.places(inputs[0]).into_iter().map(|at| inputs[0][at]).collect())
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let mut out = vec![0.0; inputs[0].len()];
        self.places(inputs[0]).into_iter().zip(upstream).for_each(|(at, &g)| out[at] = g);
        Ok(vec![Some(out)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let out = unit.empty(self.rows * self.columns)?;
        let arguments = [(&out).into(), inputs[0].into(), self.columns.into(), self.each.into()];
        unit.run("largest_products", Unit::numbers(self.rows, self.columns), &arguments)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let (out, grid) = (unit.empty(inputs[0].len())?, Unit::numbers(self.rows, self.columns));
        let arguments = [
            (&out).into(),
            inputs[0].into(),
            upstream.into(),
            self.columns.into(),
            self.each.into(),
        ];
        unit.run("largest_products_backward", grid, &arguments)?;
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
        for (rows, columns, each) in [(3, 5, 1), (6, 4, 2), (3, 420, 3)] {
            let inputs = [tensor(1, &[rows, columns])];
            judge(&inputs, 1e-6, |inputs| largest_products(&inputs[0], each));
        }
        for each in [0, 4] {
            assert!(largest_products(&tensor(1, &[6, 8]), each).is_err());
            assert!(largest_products(&tensor(1, &[8, 6]), each).is_err());
        }
    }

    #[test]
    fn the_first_of_equal_ones_has_the_gradient_and_nan_stays() {
        for device in [Device::Reference].into_iter().chain(Device::available()) {
            let numbers = vec![1.0, 2.0, 5.0, 4.0, 2.0, 2.0, f32::NAN, 9.0];
            let products = Tensor::new(numbers, &[2, 4], device).unwrap().into_weight();
            let found = largest_products(&products, 2).unwrap();
            let values = found.to_f32s().unwrap();
            assert!(values[0] == 2.0 && values[1].is_nan(), "{device}: {values:?}");
            let gradients = found.backward(&[1.0, 3.0]).unwrap();
            let gradients = gradients.of(&products).unwrap().to_f32s().unwrap();
            assert_eq!(gradients, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0], "{device}");
        }
    }
}
