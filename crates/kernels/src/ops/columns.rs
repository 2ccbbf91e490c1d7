//! Concatenates and averages rows.

use nextpair_cuda::{Array, Pointer};

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// Concatenates tensors along their first dimension.
///
/// # Errors
/// If other dimensions differ, or there are no tensors.
pub fn concat(parts: &[&Tensor]) -> Result<Tensor, Error> {
    let first = parts.first().ok_or(Error::EmptyItem { what: "a concatenation", item: 0 })?;
    let mut shape = first.shape().to_vec();
    let [count, ..] = &mut shape[..] else {
        return Err(Error::NotAMatrix { shape });
    };
    *count = 0;
    for part in parts {
        if part.shape().get(1..) != first.shape().get(1..) {
            return Err(Error::NotAMatrix { shape: part.shape().to_vec() });
        }
        shape[0] += part.shape()[0];
    }
    if let [only] = parts {
        return Ok((*only).clone());
    }
    let lengths = parts.iter().map(|part| part.len()).collect();
    apply(Concat { shape, lengths }, parts)
}

struct Concat {
    shape: Vec<usize>,
    lengths: Vec<usize>,
}

impl Operation for Concat {
    fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        inputs.concat()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        Ok(inputs.concat())
    }

    fn backward(
        &self,
        _inputs: &[&[f32]],
        mut upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let part = |&length: &usize| {
            let (own, rest) = upstream.split_at(length);
            upstream = rest;
            Some(own.to_vec())
        };
        Ok(self.lengths.iter().map(part).collect())
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let out = unit.empty(self.lengths.iter().sum())?;
        let mut first = 0;
        for input in inputs {
            out.copy_from(first, input, 0, input.len())?;
            first += input.len();
        }
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        _inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let mut first = 0;
        let part = |&length: &usize| {
            let own = unit.empty(length)?;
            own.copy_from(0, upstream, first, length)?;
            first += length;
            Ok(Some(own))
        };
        self.lengths.iter().map(part).collect()
    }
}

/// The mean of every `each` rows, such as one vector per image from its regions.
///
/// # Errors
/// If the rows do not divide into groups of `each`.
pub fn mean_rows(rows: &Tensor, each: usize) -> Result<Tensor, Error> {
    let (count, dim) = rows.matrix_shape()?;
    let groups = count / each.max(1);
    Error::check_len("rows in groups", count, groups * each)?;
    if each == 0 {
        return Err(Error::EmptyItem { what: "rows in groups", item: 0 });
    }
    if each == 1 {
        return Ok(rows.clone());
    }
    apply(MeanRows { groups, each, dim }, &[rows])
}

struct MeanRows {
    groups: usize,
    each: usize,
    dim: usize,
}

impl Operation for MeanRows {
    fn shape(&self) -> Vec<usize> {
        vec![self.groups, self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let mean = |group: &[R]| {
            let column = |at: usize| group[at..].iter().step_by(self.dim).copied();
            let mean = |at| R::sum(column(at)) / R::of(self.each as f64);
            (0..self.dim).map(mean).collect::<Vec<R>>()
        };
        inputs[0].chunks_exact(self.each * self.dim).flat_map(mean).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = vec![0.0; self.groups * self.dim];
        let scale = (1.0 / self.each as f64) as f32;
        let groups = inputs[0].chunks_exact(self.each * self.dim);
        for (out, group) in out.chunks_exact_mut(self.dim).zip(groups) {
            for row in group.chunks_exact(self.dim) {
                out.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            out.iter_mut().for_each(|sum| *sum *= scale);
        }
        Ok(out)
    }

    fn backward(
        &self,
        _inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let scale = (1.0 / self.each as f64) as f32;
        let of_group = |row: &[f32]| {
            let row: Vec<f32> = row.iter().map(|value| value * scale).collect();
            row.repeat(self.each)
        };
        Ok(vec![Some(upstream.chunks_exact(self.dim).flat_map(of_group).collect())])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let out = unit.empty(self.groups * self.dim)?;
        let arguments = [
            (&out).into(),
            inputs[0].into(),
            Pointer::NULL.into(),
            self.each.into(),
            self.dim.into(),
        ];
        unit.run("mean_rows", Unit::rows(self.groups), &arguments)?;
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
        let arguments = [
            (&out).into(),
            upstream.into(),
            Pointer::NULL.into(),
            self.each.into(),
            self.dim.into(),
        ];
        unit.run("mean_rows_backward", Unit::rows(self.groups), &arguments)?;
        Ok(vec![Some(out)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        let parts = [tensor(1, &[2, 3]), tensor(2, &[1, 3]), tensor(3, &[4, 3])];
        judge(&parts, 1e-6, |inputs| concat(&inputs.iter().collect::<Vec<_>>()));
        judge(&[tensor(1, &[6, 5])], 1e-6, |inputs| mean_rows(&inputs[0], 3));
        assert!(mean_rows(&tensor(1, &[6, 5]), 4).is_err());
        assert!(concat(&[&parts[0], &tensor(2, &[1, 4])]).is_err());
    }
}
