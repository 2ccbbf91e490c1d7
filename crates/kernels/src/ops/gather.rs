//! Looks up rows of a table.

use nextpair_cuda::Array;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// The rows `indices` of a matrix, in this order: the words of captions, the last states of
/// sentences.
///
/// # Errors
/// If there is no such row.
pub fn gather(table: &Tensor, indices: &[u32]) -> Result<Tensor, Error> {
    let (rows, dim) = table.matrix_shape()?;
    Error::check_indices("rows to gather", indices, rows)?;
    apply(Gather { rows, dim, indices: indices.to_vec() }, &[table])
}

struct Gather {
    rows: usize,
    dim: usize,
    indices: Vec<u32>,
}

impl Gather {
    fn rows<'a, N: Copy>(&self, table: &'a [N]) -> impl Iterator<Item = &'a [N]> {
        let dim = self.dim;
        self.indices.iter().map(move |&row| &table[row as usize * dim..][..dim])
    }
}

impl Operation for Gather {
    fn shape(&self) -> Vec<usize> {
        vec![self.indices.len(), self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        self.rows(inputs[0]).flatten().copied().collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = Vec::with_capacity(self.indices.len() * self.dim);
        self.rows(inputs[0]).for_each(|row| out.extend_from_slice(row));
        Ok(out)
    }

    fn backward(
        &self,
        _inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let mut out = vec![0.0; self.rows * self.dim];
        for (&row, upstream) in self.indices.iter().zip(upstream.chunks_exact(self.dim)) {
            let out = &mut out[row as usize * self.dim..][..self.dim];
            out.iter_mut().zip(upstream).for_each(|(sum, value)| *sum += value);
        }
        Ok(vec![Some(out)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let out = unit.empty(self.indices.len() * self.dim)?;
        let rows = unit.array(&self.indices)?;
        let arguments = [(&out).into(), inputs[0].into(), (&rows).into(), self.dim.into()];
        unit.run("gather", Unit::rows(self.indices.len()), &arguments)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        _inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let members = self.indices.iter().enumerate().map(|(row, &place)| (place, row as u32));
        Ok(vec![Some(unit.add_rows(upstream, self.dim, members, self.rows)?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        judge(&[tensor(1, &[5, 3])], 1e-6, |inputs| gather(&inputs[0], &[4, 0, 4, 2]));
        let refused = gather(&tensor(1, &[5, 3]), &[1, 5]).unwrap_err().to_string();
        assert_eq!(
            refused,
            "the rows to gather: index 5 at position 1 is out of range, there are 5"
        );
    }
}
