//! Joins the columns of matrices, and takes some of them.

use std::ops::Range;

use nextpair_cuda::{Array, Grid};

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// The rows of several matrices side by side.
///
/// # Errors
/// If they have different numbers of rows, or there are none.
pub fn concat_columns(parts: &[&Tensor]) -> Result<Tensor, Error> {
    let first = parts.first().ok_or(Error::EmptyItem { what: "a concatenation", item: 0 })?;
    let (rows, _) = first.matrix_shape()?;
    let mut widths = Vec::with_capacity(parts.len());
    for part in parts {
        let (own, width) = part.matrix_shape()?;
        Error::check_len("the rows to join", own, rows)?;
        widths.push(width);
    }
    apply(Join { rows, widths }, parts)
}

/// Some columns of a matrix.
///
/// # Errors
/// If there are fewer.
pub fn columns(matrix: &Tensor, which: Range<usize>) -> Result<Tensor, Error> {
    let (rows, width) = matrix.matrix_shape()?;
    if which.start > which.end || which.end > width {
        let index = which.end.max(which.start);
        return Err(Error::IndexOutOfRange { set: "columns", position: 0, index, len: width });
    }
    apply(Columns { rows, width, which }, &[matrix])
}

/// A matrix on a GPU with the number of its columns, and one of these.
type Place<'a> = (&'a Array<f32>, usize, usize);

/// Copies `width` columns of a matrix, from a place on, to those of another with as many rows.
fn copy_columns(
    unit: &Unit,
    (rows, width): (usize, usize),
    (out, to_width, to): Place<'_>,
    (values, from_width, from): Place<'_>,
) -> Result<(), Error> {
    let count = rows * width;
    let arguments = [
        out.into(),
        values.into(),
        to_width.into(),
        to.into(),
        from_width.into(),
        from.into(),
        width.into(),
        (count as u64).into(),
    ];
    unit.run("copy_columns", Grid::each(count), &arguments)
}

struct Columns {
    rows: usize,
    width: usize,
    which: Range<usize>,
}

impl Columns {
    fn of<N: Copy>(&self, matrix: &[N]) -> Vec<N> {
        let rows = matrix.chunks_exact(self.width.max(1));
        rows.flat_map(|row| &row[self.which.clone()]).copied().collect()
    }
}

impl Operation for Columns {
    fn shape(&self) -> Vec<usize> {
        vec![self.rows, self.which.len()]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        self.of(inputs[0])
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        Ok(self.of(inputs[0]))
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let mut out = vec![0.0; inputs[0].len()];
        let rows = out.chunks_exact_mut(self.width.max(1));
        for (out, row) in rows.zip(upstream.chunks_exact(self.which.len().max(1))) {
            out[self.which.clone()].copy_from_slice(row);
        }
        Ok(vec![Some(out)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let Columns { rows, width, which } = self;
        let out = unit.empty(rows * which.len())?;
        let (to, from) = ((&out, which.len(), 0), (inputs[0], *width, which.start));
        copy_columns(unit, (*rows, which.len()), to, from)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        _inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let Columns { rows, width, which } = self;
        let out = unit.zeros(rows * width)?;
        let (to, from) = ((&out, *width, which.start), (upstream, which.len(), 0));
        copy_columns(unit, (*rows, which.len()), to, from)?;
        Ok(vec![Some(out)])
    }
}

struct Join {
    rows: usize,
    widths: Vec<usize>,
}

impl Join {
    fn joined<N: Copy>(&self, inputs: &[&[N]]) -> Vec<N> {
        let mut out = Vec::with_capacity(inputs.iter().map(|input| input.len()).sum());
        for row in 0..self.rows {
            for (input, &width) in inputs.iter().zip(&self.widths) {
                out.extend_from_slice(&input[row * width..][..width]);
            }
        }
        out
    }
}

impl Operation for Join {
    fn shape(&self) -> Vec<usize> {
        vec![self.rows, self.widths.iter().sum()]
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
        let whole: usize = self.widths.iter().sum();
        let mut first = 0;
        let part = |&width: &usize| {
            let rows = upstream.chunks_exact(whole.max(1));
            let own = rows.flat_map(|row| &row[first..][..width]).copied().collect();
            first += width;
            Some(own)
        };
        Ok(self.widths.iter().map(part).collect())
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let whole: usize = self.widths.iter().sum();
        let (out, mut first) = (unit.empty(self.rows * whole)?, 0);
        for (input, &width) in inputs.iter().zip(&self.widths) {
            copy_columns(unit, (self.rows, width), (&out, whole, first), (input, width, 0))?;
            first += width;
        }
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        _inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let (whole, mut first) = (self.widths.iter().sum(), 0);
        let part = |(&width, &wanted): (&usize, &bool)| {
            let from = (upstream, whole, first);
            first += width;
            if !wanted {
                return Ok(None);
            }
            let own = unit.empty(self.rows * width)?;
            copy_columns(unit, (self.rows, width), (&own, width, 0), from)?;
            Ok(Some(own))
        };
        self.widths.iter().zip(wanted).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        let parts = [tensor(1, &[4, 3]), tensor(2, &[4, 1]), tensor(3, &[4, 2])];
        let wide = [tensor(1, &[9, 50]), tensor(2, &[9, 33])];
        for parts in [&parts[..], &wide] {
            judge(parts, 1e-6, |inputs| concat_columns(&inputs.iter().collect::<Vec<_>>()));
        }
        judge(&wide[..1], 1e-6, |inputs| columns(&inputs[0], 7..43));
        assert!(concat_columns(&[&parts[0], &tensor(1, &[3, 3])]).is_err());
        assert!(concat_columns(&[]).is_err());
        judge(&parts[..1], 1e-6, |inputs| columns(&inputs[0], 1..3));
        assert!(columns(&parts[0], 1..4).is_err());
    }
}
