//! The loss of predicted words.

use std::sync::OnceLock;

use nextpair_cuda::{Array, Grid};
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::elementwise::{exp_all, sum_of};
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// `-sum_i ln softmax(rows[i])[targets[i]]`, one number.
///
/// # Errors
/// If there are more or fewer targets than rows, or one is no column.
pub fn cross_entropy(rows: &Tensor, targets: &[u32]) -> Result<Tensor, Error> {
    let (count, columns) = rows.matrix_shape()?;
    Error::check_len("the targets of rows", targets.len(), count)?;
    Error::check_indices("targets of rows", targets, columns)?;
    let (targets, on_gpu) = (targets.to_vec(), OnceLock::new());
    apply(CrossEntropy { columns, targets, on_gpu }, &[rows])
}

struct CrossEntropy {
    columns: usize,
    targets: Vec<u32>,
    /// The targets on a GPU, for the way back.
    on_gpu: OnceLock<Array<u32>>,
}

/// Threads for a row: it has a column for each word of a language.
const THREADS: u32 = 256;

impl Operation for CrossEntropy {
    fn shape(&self) -> Vec<usize> {
        vec![1]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let rows = inputs[0].chunks_exact(self.columns).zip(&self.targets);
        let losses = rows.map(|(row, &target)| {
            let largest = row.iter().map(|x| x.value()).fold(f64::MIN, f64::max);
            let sum = R::sum(row.iter().map(|&x| (x - R::of(largest)).exp()));
            sum.ln() + R::of(largest) - row[target as usize]
        });
        vec![R::sum(losses)]
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let rows = inputs[0].par_chunks_exact(self.columns).zip(&self.targets);
        let losses = rows.map(|(row, &target)| {
            let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut powers: Vec<f32> = row.iter().map(|x| x - largest).collect();
            exp_all(&mut powers);
            let sum = sum_of(powers.len(), |at| powers[at]);
            f64::from(sum.ln()) + f64::from(largest) - f64::from(row[target as usize])
        });
        // Added up in order, whatever the threads.
        Ok(vec![losses.collect::<Vec<f64>>().iter().sum::<f64>() as f32])
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let mut out = inputs[0].to_vec();
        out.par_chunks_exact_mut(self.columns).zip(&self.targets).for_each(|(row, &target)| {
            let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            row.iter_mut().for_each(|x| *x -= largest);
            exp_all(row);
            let scale = upstream[0] / sum_of(row.len(), |at| row[at]);
            row.iter_mut().for_each(|x| *x *= scale);
            row[target as usize] -= upstream[0];
        });
        Ok(vec![Some(out)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let (parts, targets) = (unit.empty(self.targets.len())?, unit.array(&self.targets)?);
        let arguments = [(&parts).into(), inputs[0].into(), (&targets).into(), self.columns.into()];
        unit.run("cross_entropy", Grid::blocks(parts.len(), THREADS), &arguments)?;
        self.on_gpu.get_or_init(|| targets);
        unit.total(&parts, 1.0)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let targets = self.on_gpu.get().expect("the forward pass comes first");
        let out = unit.empty(inputs[0].len())?;
        let arguments =
            [(&out).into(), inputs[0].into(), targets.into(), upstream.into(), self.columns.into()];
        let grid = Grid::blocks(self.targets.len(), THREADS);
        unit.run("cross_entropy_backward", grid, &arguments)?;
        Ok(vec![Some(out)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        let targets = [3, 0, 3, 6, 1];
        for columns in [7, 300] {
            let inputs = [tensor(1, &[5, columns])];
            judge(&inputs, 1e-5, |inputs| cross_entropy(&inputs[0], &targets));
        }
        assert!(cross_entropy(&tensor(1, &[5, 7]), &targets[..4]).is_err());
        assert!(cross_entropy(&tensor(1, &[5, 7]), &[0, 1, 2, 3, 7]).is_err());
    }
}
