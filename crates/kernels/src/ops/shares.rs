//! Numbers as shares of their sum.

use nextpair_cuda::Array;

use super::spans::OnGpu;
use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// Every number over the sum of its item plus 1e-8, each column on its own. `offsets` has the first row
/// of each item, then the end of the last.
///
/// # Errors
/// If an item has no rows, or the items have more or fewer rows than there are.
pub fn share_spans(rows: &Tensor, offsets: &[usize]) -> Result<Tensor, Error> {
    let (count, dim) = rows.matrix_shape()?;
    super::spans::check("rows to share", count, offsets)?;
    apply(Shares { offsets: offsets.to_vec(), dim, on_gpu: OnGpu::default() }, &[rows])
}

/// Added to sums.
const EPSILON: f64 = 1e-8;

struct Shares {
    offsets: Vec<usize>,
    dim: usize,
    on_gpu: OnGpu,
}

impl Shares {
    /// The places of every column of every item.
    fn columns(&self) -> impl Iterator<Item = Vec<usize>> {
        let dim = self.dim;
        self.offsets.windows(2).flat_map(move |span| {
            let (first, end) = (span[0] * dim, span[1] * dim);
            (0..dim).map(move |column| (first + column..end).step_by(dim).collect())
        })
    }
}

impl Operation for Shares {
    fn shape(&self) -> Vec<usize> {
        vec![self.offsets[self.offsets.len() - 1], self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let mut out = inputs[0].to_vec();
        for places in self.columns() {
            let sum = R::sum(places.iter().map(|&at| inputs[0][at])) + R::of(EPSILON);
            places.into_iter().for_each(|at| out[at] = inputs[0][at] / sum);
        }
        out
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = inputs[0].to_vec();
        for places in self.columns() {
            let sum = places.iter().map(|&at| f64::from(inputs[0][at])).sum::<f64>() + EPSILON;
            places.into_iter().for_each(|at| out[at] = (f64::from(inputs[0][at]) / sum) as f32);
        }
        Ok(out)
    }

    /// With `S` the sum and `p` the shares: `(g - p·g) / S`.
    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let mut out = vec![0.0; upstream.len()];
        for places in self.columns() {
            let number = |at: usize| f64::from(inputs[0][at]);
            let sum = places.iter().map(|&at| number(at)).sum::<f64>() + EPSILON;
            let along = places.iter().map(|&at| number(at) / sum * f64::from(upstream[at]));
            let along: f64 = along.sum();
            places
                .into_iter()
                .for_each(|at| out[at] = ((f64::from(upstream[at]) - along) / sum) as f32);
        }
        Ok(vec![Some(out)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let (out, items) = (unit.empty(inputs[0].len())?, self.offsets.len() - 1);
        let [offsets, each] = self.on_gpu.arguments(unit, &self.offsets)?;
        let arguments =
            [(&out).into(), inputs[0].into(), offsets, each, items.into(), self.dim.into()];
        unit.run("share_spans", Unit::warps(items * self.dim), &arguments)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let (out, items) = (unit.empty(inputs[0].len())?, self.offsets.len() - 1);
        let [offsets, each] = self.on_gpu.arguments(unit, &self.offsets)?;
        let arguments = [
            (&out).into(),
            inputs[0].into(),
            upstream.into(),
            offsets,
            each,
            items.into(),
            self.dim.into(),
        ];
        unit.run("share_spans_backward", Unit::warps(items * self.dim), &arguments)?;
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
        for (rows, offsets) in [(7, vec![0, 1, 4, 7]), (90, vec![0, 45, 90]), (90, vec![0, 2, 90])]
        {
            let numbers = tensor(2, &[rows, 2]).to_f32s().unwrap();
            let numbers = numbers.iter().map(|x| x.abs() + 0.3).collect();
            let numbers = Tensor::new(numbers, &[rows, 2], Device::Cpu).unwrap();
            judge(&[numbers], 1e-5, |inputs| share_spans(&inputs[0], &offsets));
        }
        assert!(share_spans(&tensor(2, &[7, 2]), &[0, 4, 4, 7]).is_err());
    }
}
