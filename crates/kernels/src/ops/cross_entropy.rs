//! The loss of predicted words.

use rayon::prelude::*;

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
    apply(CrossEntropy { columns, targets: targets.to_vec() }, &[rows])
}

struct CrossEntropy {
    columns: usize,
    targets: Vec<u32>,
}

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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        let targets = [3, 0, 3, 6, 1];
        judge(&[tensor(1, &[5, 7])], 1e-5, |inputs| cross_entropy(&inputs[0], &targets));
        assert!(cross_entropy(&tensor(1, &[5, 7]), &targets[..4]).is_err());
        assert!(cross_entropy(&tensor(1, &[5, 7]), &[0, 1, 2, 3, 7]).is_err());
    }
}
