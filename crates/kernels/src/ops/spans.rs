//! Averages rows of items of different lengths.

use std::sync::OnceLock;

use nextpair_cuda::{Argument, Array, Pointer};

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// The mean of the rows of every item, such as one vector per caption from its words; `offsets` has
/// the first row of each item, then the end of the last.
///
/// # Errors
/// If an item has no rows, or the items have more or fewer rows than there are.
pub fn mean_spans(rows: &Tensor, offsets: &[usize]) -> Result<Tensor, Error> {
    let (count, dim) = rows.matrix_shape()?;
    check("rows to average", count, offsets)?;
    apply(MeanSpans { offsets: offsets.to_vec(), dim, on_gpu: OnGpu::default() }, &[rows])
}

/// Refuses offsets that do not divide so many rows into items of at least one row.
pub(in crate::ops) fn check(
    what: &'static str,
    rows: usize,
    offsets: &[usize],
) -> Result<(), Error> {
    if let Some(item) = offsets.windows(2).position(|span| span[0] >= span[1]) {
        return Err(Error::EmptyItem { what, item });
    }
    let (first, last) = (offsets.first().copied(), offsets.last().copied());
    Error::check_len("the rows of all items", rows, last.unwrap_or(0) - first.unwrap_or(0))
}

/// The offsets of items on a GPU, from the first row on, for the way there and back.
#[derive(Default)]
pub(super) struct OnGpu(OnceLock<Array<u32>>);

impl OnGpu {
    /// What kernels take: the offsets, or none and the number of rows that every item has.
    pub(super) fn arguments(&self, unit: &Unit, offsets: &[usize]) -> Result<[Argument; 2], Error> {
        let first = offsets.first().copied().unwrap_or(0);
        let each = offsets.get(1).map_or(0, |end| end - first);
        if offsets.windows(2).all(|span| span[1] - span[0] == each) {
            return Ok([Pointer::NULL.into(), each.into()]);
        }
        if let Some(kept) = self.0.get() {
            return Ok([kept.into(), 0u32.into()]);
        }
        let offsets: Vec<usize> = offsets.iter().map(|offset| offset - first).collect();
        let offsets = unit.offsets(&offsets)?;
        Ok([self.0.get_or_init(|| offsets).into(), 0u32.into()])
    }
}

struct MeanSpans {
    offsets: Vec<usize>,
    dim: usize,
    on_gpu: OnGpu,
}

impl MeanSpans {
    /// The range of every item among the numbers, and its scale.
    fn spans(&self) -> impl Iterator<Item = (std::ops::Range<usize>, f64)> {
        let dim = self.dim;
        let first = self.offsets.first().copied().unwrap_or(0);
        self.offsets.windows(2).map(move |span| {
            let scale = 1.0 / (span[1] - span[0]) as f64;
            ((span[0] - first) * dim..(span[1] - first) * dim, scale)
        })
    }
}

impl Operation for MeanSpans {
    fn shape(&self) -> Vec<usize> {
        vec![self.offsets.len().saturating_sub(1), self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let mean = |(span, scale): (std::ops::Range<usize>, f64)| {
            let rows = &inputs[0][span];
            let column = |at: usize| rows[at..].iter().step_by(self.dim).copied();
            (0..self.dim).map(|at| R::sum(column(at)) * R::of(scale)).collect::<Vec<R>>()
        };
        self.spans().flat_map(mean).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = vec![0.0; self.shape().iter().product()];
        for (out, (span, scale)) in out.chunks_exact_mut(self.dim).zip(self.spans()) {
            for row in inputs[0][span].chunks_exact(self.dim) {
                out.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            out.iter_mut().for_each(|sum| *sum *= scale as f32);
        }
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let mut out = vec![0.0; inputs[0].len()];
        for (upstream, (span, scale)) in upstream.chunks_exact(self.dim).zip(self.spans()) {
            for row in out[span].chunks_exact_mut(self.dim) {
                row.iter_mut().zip(upstream).for_each(|(out, value)| *out = value * scale as f32);
            }
        }
        Ok(vec![Some(out)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let items = self.offsets.len().saturating_sub(1);
        let out = unit.empty(items * self.dim)?;
        let [offsets, each] = self.on_gpu.arguments(unit, &self.offsets)?;
        let arguments = [(&out).into(), inputs[0].into(), offsets, each, self.dim.into()];
        unit.run("mean_rows", Unit::rows(items), &arguments)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let items = self.offsets.len().saturating_sub(1);
        let out = unit.empty(inputs[0].len())?;
        let [offsets, each] = self.on_gpu.arguments(unit, &self.offsets)?;
        let arguments = [(&out).into(), upstream.into(), offsets, each, self.dim.into()];
        unit.run("mean_rows_backward", Unit::rows(items), &arguments)?;
        Ok(vec![Some(out)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        for offsets in [&[0, 1, 4, 7][..], &[0, 7]] {
            judge(&[tensor(1, &[7, 5])], 1e-6, |inputs| mean_spans(&inputs[0], offsets));
        }
        let rows = tensor(1, &[7, 5]);
        assert!(mean_spans(&rows, &[0, 4, 4, 7]).is_err());
        assert!(mean_spans(&rows, &[0, 4, 6]).is_err());
    }
}
