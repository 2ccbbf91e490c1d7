//! Rows times rows, and rows times numbers.

use nextpair_cuda::Array;

use crate::cuda::Unit;
use crate::elementwise::sum_of;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// The dot product of every row of `a` with the same row of `b`: as many rows of one number.
///
/// # Errors
/// If the shapes differ.
pub fn row_dots(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let (rows, dim) = a.matrix_shape()?;
    Error::check_dims("the rows", dim, "the others", b.matrix_shape()?.1)?;
    Error::check_len("rows to multiply", b.len(), a.len())?;
    apply(RowDots { rows, dim }, &[a, b])
}

/// Every row times its number of `factors`.
///
/// # Errors
/// If there are more or fewer factors than rows.
pub fn scale_rows(rows: &Tensor, factors: &Tensor) -> Result<Tensor, Error> {
    let (count, dim) = rows.matrix_shape()?;
    Error::check_len("factors of rows", factors.len(), count)?;
    apply(ScaleRows { rows: count, dim }, &[rows, factors])
}

struct RowDots {
    rows: usize,
    dim: usize,
}

impl Operation for RowDots {
    fn shape(&self) -> Vec<usize> {
        vec![self.rows, 1]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let both = inputs[0].chunks_exact(self.dim).zip(inputs[1].chunks_exact(self.dim));
        both.map(|(a, b)| R::dot(a, b)).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let both = inputs[0].chunks_exact(self.dim).zip(inputs[1].chunks_exact(self.dim));
        Ok(both.map(|(a, b)| sum_of(self.dim, |at| a[at] * b[at])).collect())
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let by = |other: &[f32]| scaled(other, upstream, self.dim);
        Ok(vec![Some(by(inputs[1])), Some(by(inputs[0]))])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        dots_on(unit, inputs[0], inputs[1], self.dim)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let by = |other: usize| scaled_on(unit, inputs[other], upstream, self.dim);
        Ok(vec![wanted[0].then(|| by(1)).transpose()?, wanted[1].then(|| by(0)).transpose()?])
    }
}

struct ScaleRows {
    rows: usize,
    dim: usize,
}

impl Operation for ScaleRows {
    fn shape(&self) -> Vec<usize> {
        vec![self.rows, self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let rows = inputs[0].chunks_exact(self.dim).zip(inputs[1]);
        rows.flat_map(|(row, &factor)| row.iter().map(move |&x| x * factor)).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        Ok(scaled(inputs[0], inputs[1], self.dim))
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let of_factors =
            RowDots { rows: self.rows, dim: self.dim }.forward(&[inputs[0], upstream])?;
        Ok(vec![Some(scaled(upstream, inputs[1], self.dim)), Some(of_factors)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        scaled_on(unit, inputs[0], inputs[1], self.dim)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let of_rows = wanted[0].then(|| scaled_on(unit, upstream, inputs[1], self.dim));
        let of_factors = wanted[1].then(|| dots_on(unit, inputs[0], upstream, self.dim));
        Ok(vec![of_rows.transpose()?, of_factors.transpose()?])
    }
}

fn dots_on(unit: &Unit, a: &Array<f32>, b: &Array<f32>, dim: usize) -> Result<Array<f32>, Error> {
    let count = a.len() / dim.max(1);
    let out = unit.empty(count)?;
    let arguments = [(&out).into(), a.into(), b.into(), dim.into()];
    unit.run("row_dots", Unit::rows(count), &arguments)?;
    Ok(out)
}

fn scaled_on(
    unit: &Unit,
    rows: &Array<f32>,
    factors: &Array<f32>,
    dim: usize,
) -> Result<Array<f32>, Error> {
    let out = unit.empty(rows.len())?;
    let arguments = [(&out).into(), rows.into(), factors.into(), dim.into()];
    unit.run("scale_rows", Unit::rows(factors.len()), &arguments)?;
    Ok(out)
}

fn scaled(rows: &[f32], factors: &[f32], dim: usize) -> Vec<f32> {
    let rows = rows.chunks_exact(dim).zip(factors);
    rows.flat_map(|(row, &factor)| row.iter().map(move |x| x * factor)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        for dim in [300, 20] {
            let (a, b) = (tensor(1, &[5, dim]), tensor(2, &[5, dim]));
            judge(&[a.clone(), b], 1e-5, |inputs| row_dots(&inputs[0], &inputs[1]));
            let inputs = [a, tensor(3, &[5, 1])];
            judge(&inputs, 1e-5, |inputs| scale_rows(&inputs[0], &inputs[1]));
        }
        let a = tensor(1, &[5, 20]);
        assert!(row_dots(&a, &tensor(1, &[4, 20])).is_err());
        assert!(scale_rows(&a, &tensor(1, &[4])).is_err());
    }
}
