//! Columns of matrices scaled to unit norm.

use nextpair_cuda::Array;
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// Divides every column of each matrix by its norm plus `epsilon`. The numbers are those of matrices of so
/// many rows and columns, one after the other, such as the rows of items. A column of zeros stays what it is.
///
/// # Errors
/// If there are more or fewer numbers.
pub fn unit_columns(
    numbers: &Tensor,
    matrices: &[(usize, usize)],
    epsilon: f32,
) -> Result<Tensor, Error> {
    let all = matrices.iter().map(|(rows, columns)| rows * columns).sum();
    Error::check_len("the numbers of matrices", numbers.len(), all)?;
    let (shape, matrices) = (numbers.shape().to_vec(), matrices.to_vec());
    apply(UnitColumns { shape, matrices, epsilon }, &[numbers])
}

struct UnitColumns {
    shape: Vec<usize>,
    matrices: Vec<(usize, usize)>,
    epsilon: f32,
}

/// Matrices per thread at least.
const MATRICES: usize = 4;

impl UnitColumns {
    /// The numbers of every matrix, and its columns.
    fn parts<'a>(&self, mut numbers: &'a mut [f32]) -> Vec<(&'a mut [f32], usize)> {
        let part = |&(rows, columns): &(usize, usize)| {
            (numbers.split_off_mut(..rows * columns).expect("as checked"), columns)
        };
        self.matrices.iter().map(part).collect()
    }

    /// The numbers of every matrix, the first of them, and the most columns, as kernels read them.
    fn on_gpu(&self, unit: &Unit) -> Result<(Array<u32>, usize), Error> {
        let mut first = 0;
        let described = self.matrices.iter().flat_map(|&(rows, columns)| {
            first += rows * columns;
            [first - rows * columns, rows, columns].map(|number| number as u32)
        });
        let described = unit.array(&described.collect::<Vec<_>>())?;
        let widest = self.matrices.iter().map(|&(_, columns)| columns).max();
        Ok((described, widest.unwrap_or(0)))
    }
}

/// The norm of every column of a matrix, and what it is multiplied by.
fn norms(matrix: &[f32], columns: usize, epsilon: f32) -> Vec<(f32, f32)> {
    let mut squares = vec![0.0f32; columns];
    for row in matrix.chunks_exact(columns) {
        squares.iter_mut().zip(row).for_each(|(sum, x)| *sum += x * x);
    }
    let norm = |square: f32| match square.sqrt() {
        norm if norm > 0.0 => (norm, 1.0 / (norm + epsilon)),
        zero => (zero, 1.0),
    };
    squares.into_iter().map(norm).collect()
}

impl Operation for UnitColumns {
    fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let (mut out, mut rest) = (Vec::with_capacity(inputs[0].len()), inputs[0]);
        for &(rows, columns) in &self.matrices {
            let (own, later) = rest.split_at(rows * columns);
            let norm = |column: usize| {
                let own = own[column..].iter().step_by(columns);
                let norm = R::sum(own.map(|&x| x * x)).sqrt();
                if norm.value() > 0.0 { norm + R::of(self.epsilon.into()) } else { R::of(1.0) }
            };
            let norms: Vec<R> = (0..columns).map(norm).collect();
            out.extend(own.iter().zip(norms.iter().cycle()).map(|(&x, &norm)| x / norm));
            rest = later;
        }
        out
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = inputs[0].to_vec();
        let parts = self.parts(&mut out).into_par_iter().with_min_len(MATRICES);
        parts.for_each(|(matrix, columns)| {
            let norms = norms(matrix, columns, self.epsilon);
            for row in matrix.chunks_exact_mut(columns) {
                row.iter_mut().zip(&norms).for_each(|(x, (_, scale))| *x *= scale);
            }
        });
        Ok(out)
    }

    /// With `n = |x|`: `dx = (dy - x (x . dy) / (n (n + epsilon))) / (n + epsilon)`.
    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let mut out = upstream.to_vec();
        let mut first = 0;
        let parts = self.parts(&mut out).into_iter().map(|(out, columns)| {
            first += out.len();
            (&inputs[0][first - out.len()..first], out, columns)
        });
        let parts: Vec<_> = parts.collect();
        parts.into_par_iter().with_min_len(MATRICES).for_each(|(matrix, out, columns)| {
            let norms = norms(matrix, columns, self.epsilon);
            let mut along = vec![0.0f32; columns];
            for (up, row) in out.chunks_exact(columns).zip(matrix.chunks_exact(columns)) {
                let numbers = along.iter_mut().zip(up).zip(row);
                numbers.for_each(|((sum, g), x)| *sum += g * x);
            }
            let radial = along.iter_mut().zip(&norms).filter(|(_, (norm, _))| *norm > 0.0);
            radial.for_each(|(sum, (norm, scale))| *sum *= scale / norm);
            for (up, row) in out.chunks_exact_mut(columns).zip(matrix.chunks_exact(columns)) {
                let numbers = along.iter().zip(&norms);
                for ((g, x), (along, (_, scale))) in up.iter_mut().zip(row).zip(numbers) {
                    *g = (*g - x * along) * scale;
                }
            }
        });
        Ok(vec![Some(out)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let (out, (matrices, widest)) = (unit.empty(inputs[0].len())?, self.on_gpu(unit)?);
        let grid = Unit::numbers(self.matrices.len(), widest);
        let arguments = [(&out).into(), inputs[0].into(), (&matrices).into(), self.epsilon.into()];
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
        let (out, (matrices, widest)) = (unit.empty(inputs[0].len())?, self.on_gpu(unit)?);
        let arguments = [
            (&out).into(),
            inputs[0].into(),
            upstream.into(),
            (&matrices).into(),
            self.epsilon.into(),
        ];
        let grid = Unit::numbers(self.matrices.len(), widest);
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
            let even = [(4, dim); 3];
            judge(&[tensor(1, &[12, dim])], 1e-5, |inputs| unit_columns(&inputs[0], &even, 0.0));
        }
        let matrices = [(4, 7), (1, 3), (2, 140)];
        judge(&[tensor(1, &[311, 1])], 1e-5, |inputs| unit_columns(&inputs[0], &matrices, 0.5));
        assert!(unit_columns(&tensor(1, &[12, 7]), &[(5, 7), (6, 7)], 0.0).is_err());
    }

    #[test]
    fn zeros_stay_zeros() {
        for device in Device::available() {
            let rows = Tensor::new(vec![3.0, 0.0, 4.0, 0.0], &[2, 2], device).unwrap();
            let rows = rows.into_weight();
            let found = unit_columns(&rows, &[(2, 2)], 1e-8).unwrap();
            let gradients = found.backward(&[1.0; 4]).unwrap().of(&rows).unwrap().to_f32s();
            assert!(gradients.unwrap().iter().all(|g| g.is_finite()), "{device}");
            let found = found.to_f32s().unwrap();
            assert!((found[0] - 0.6).abs() < 1e-6 && (found[2] - 0.8).abs() < 1e-6);
            assert_eq!([found[1], found[3]], [0.0, 0.0]);
        }
    }
}
