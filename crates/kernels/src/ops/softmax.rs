//! Softmax over the rows of every item.

use nextpair_cuda::Array;
use rayon::prelude::*;

use super::spans::OnGpu;
use crate::cuda::Unit;
use crate::elementwise::exp_all;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// `exp(x) / sum exp(x)` over the rows of every item, each column on its own: attention over the
/// regions of an image or the words of a caption, a column for each head. `offsets` has the first row
/// of each item, then the end of the last.
///
/// # Errors
/// If an item has no rows, or the items have more or fewer rows than there are.
pub fn softmax_spans(rows: &Tensor, offsets: &[usize]) -> Result<Tensor, Error> {
    let (count, columns) = rows.matrix_shape()?;
    super::spans::check("rows of a softmax", count, offsets)?;
    let (offsets, on_gpu) = (offsets.to_vec(), OnGpu::default());
    apply(Softmax { columns, offsets, count, on_gpu }, &[rows])
}

struct Softmax {
    columns: usize,
    offsets: Vec<usize>,
    count: usize,
    on_gpu: OnGpu,
}

/// Items per thread at least.
const ITEMS: usize = 64;

impl Softmax {
    /// The parts of all items.
    fn items<'a>(&self, mut values: &'a mut [f32]) -> Vec<&'a mut [f32]> {
        let lengths = self.offsets.windows(2).map(|span| (span[1] - span[0]) * self.columns);
        lengths.map(|length| values.split_off_mut(..length).expect("as checked")).collect()
    }

    fn shares(&self, values: &[f32]) -> Vec<f32> {
        let mut out = values.to_vec();
        self.items(&mut out).into_par_iter().with_min_len(ITEMS).for_each(|item| {
            for column in 0..self.columns {
                let own = item[column..].iter().step_by(self.columns);
                let largest = own.fold(f32::NEG_INFINITY, |largest, &x| largest.max(x));
                item[column..].iter_mut().step_by(self.columns).for_each(|x| *x -= largest);
            }
            exp_all(item);
            for column in 0..self.columns {
                let scale = 1.0 / item[column..].iter().step_by(self.columns).sum::<f32>();
                item[column..].iter_mut().step_by(self.columns).for_each(|x| *x *= scale);
            }
        });
        out
    }
}

impl Operation for Softmax {
    fn shape(&self) -> Vec<usize> {
        vec![self.count, self.columns]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let mut out = inputs[0].to_vec();
        let first = self.offsets.first().copied().unwrap_or(0);
        for span in self.offsets.windows(2) {
            for column in 0..self.columns {
                let places = (span[0]..span[1]).map(|row| (row - first) * self.columns + column);
                let largest =
                    places.clone().map(|at| inputs[0][at].value()).fold(f64::MIN, f64::max);
                places.clone().for_each(|at| out[at] = (out[at] - R::of(largest)).exp());
                let sum = R::sum(places.clone().map(|at| out[at]));
                places.for_each(|at| out[at] = out[at] / sum);
            }
        }
        out
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        Ok(self.shares(inputs[0]))
    }

    /// `dx = y (dy - sum(y dy))`.
    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let mut shares = self.shares(inputs[0]);
        let mut upstream = upstream.to_vec();
        let items = self.items(&mut shares).into_iter().zip(self.items(&mut upstream));
        let items = items.collect::<Vec<_>>().into_par_iter().with_min_len(ITEMS);
        items.for_each(|(shares, slopes)| {
            for column in 0..self.columns {
                let own = |of: &[f32], at: usize| of[at * self.columns + column];
                let rows = shares.len() / self.columns;
                let along: f32 = (0..rows).map(|at| own(shares, at) * own(slopes, at)).sum();
                for at in 0..rows {
                    let slope = own(shares, at) * (own(slopes, at) - along);
                    shares[at * self.columns + column] = slope;
                }
            }
        });
        Ok(vec![Some(shares)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let (out, items) = (unit.empty(inputs[0].len())?, self.offsets.len().saturating_sub(1));
        let [offsets, each] = self.on_gpu.arguments(unit, &self.offsets)?;
        let arguments =
            [(&out).into(), inputs[0].into(), offsets, each, items.into(), self.columns.into()];
        unit.run("softmax_spans", Unit::warps(items * self.columns), &arguments)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let (out, items) = (unit.empty(inputs[0].len())?, self.offsets.len().saturating_sub(1));
        let [offsets, each] = self.on_gpu.arguments(unit, &self.offsets)?;
        let arguments = [
            (&out).into(),
            inputs[0].into(),
            upstream.into(),
            offsets,
            each,
            items.into(),
            self.columns.into(),
        ];
        unit.run("softmax_spans_backward", Unit::warps(items * self.columns), &arguments)?;
        Ok(vec![Some(out)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        for columns in [1, 3] {
            let inputs = [tensor(1, &[9, columns])];
            for offsets in [&[0, 1, 5, 9][..], &[0, 3, 6, 9]] {
                judge(&inputs, 1e-6, |inputs| softmax_spans(&inputs[0], offsets));
            }
        }
        // More rows than lanes of a warp.
        judge(&[tensor(1, &[140, 5])], 1e-6, |inputs| softmax_spans(&inputs[0], &[0, 70, 75, 140]));
        assert!(softmax_spans(&tensor(1, &[9, 2]), &[0, 5, 5, 9]).is_err());
        assert!(softmax_spans(&tensor(1, &[9, 2]), &[0, 5]).is_err());
    }
}
