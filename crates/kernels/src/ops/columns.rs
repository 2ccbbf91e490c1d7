//! Concatenates and averages rows.

use nextpair_cuda::{Array, Pointer};

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// Concatenates tensors along an axis.
///
/// # Errors
/// If other dimensions differ, or there are no tensors.
pub fn concat(parts: &[&Tensor], axis: usize) -> Result<Tensor, Error> {
    let first = parts.first().ok_or(Error::EmptyItem { what: "a concatenation", item: 0 })?;
    let mut shape = first.shape().to_vec();
    let Some(count) = shape.get_mut(axis) else {
        return Err(Error::NotAMatrix { shape });
    };
    *count = 0;
    for part in parts {
        let own = part.shape();
        let alike = own.get(..axis) == first.shape().get(..axis)
            && own.get(axis + 1..) == first.shape().get(axis + 1..);
        if !alike {
            return Err(Error::NotAMatrix { shape: own.to_vec() });
        }
        shape[axis] += own[axis];
    }
    if let [only] = parts {
        return Ok((*only).clone());
    }
    let groups: usize = shape[..axis].iter().product();
    let lengths = parts.iter().map(|part| part.len() / groups.max(1)).collect();
    apply(Concat { shape, groups, lengths }, parts)
}

struct Concat {
    shape: Vec<usize>,
    /// Places before the axis.
    groups: usize,
    /// The numbers that each part has in a group.
    lengths: Vec<usize>,
}

impl Concat {
    fn joined<N: Copy>(&self, inputs: &[&[N]]) -> Vec<N> {
        let mut out = Vec::with_capacity(inputs.iter().map(|input| input.len()).sum());
        for group in 0..self.groups {
            for (input, &length) in inputs.iter().zip(&self.lengths) {
                out.extend_from_slice(&input[group * length..][..length]);
            }
        }
        out
    }

    /// Numbers of a group.
    fn whole(&self) -> usize {
        self.lengths.iter().sum()
    }
}

impl Operation for Concat {
    fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        self.joined(inputs)
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        Ok(self.joined(inputs))
    }

    fn backward(
        &self,
        _inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let mut first = 0;
        let part = |&length: &usize| {
            let groups = upstream.chunks_exact(self.whole().max(1));
            let own = groups.flat_map(|group| &group[first..][..length]).copied().collect();
            first += length;
            Some(own)
        };
        Ok(self.lengths.iter().map(part).collect())
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let out = unit.empty(self.groups * self.whole())?;
        let mut first = 0;
        for (input, &length) in inputs.iter().zip(&self.lengths) {
            let to = (&out, first, self.whole());
            unit.copy_parts(self.groups, length, (input, 0, length), to)?;
            first += length;
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
            let own = unit.empty(self.groups * length)?;
            let from = (upstream, first, self.whole());
            unit.copy_parts(self.groups, length, from, (&own, 0, length))?;
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
        judge(&parts, 1e-6, |inputs| concat(&inputs.iter().collect::<Vec<_>>(), 0));
        judge(&[tensor(1, &[6, 5])], 1e-6, |inputs| mean_rows(&inputs[0], 3));
        assert!(mean_rows(&tensor(1, &[6, 5]), 4).is_err());
        assert!(concat(&[&parts[0], &tensor(2, &[1, 4])], 0).is_err());
        let parts = [tensor(1, &[2, 3, 5]), tensor(2, &[2, 1, 5]), tensor(3, &[2, 400, 5])];
        judge(&parts, 1e-6, |inputs| concat(&inputs.iter().collect::<Vec<_>>(), 1));
        assert!(concat(&[&parts[0], &tensor(2, &[3, 1, 5])], 1).is_err());
        assert!(concat(&[&tensor(2, &[3])], 1).is_err());
    }
}
