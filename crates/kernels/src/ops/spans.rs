//! Averages rows of items of different lengths.

use nextpair_cuda::Array;

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
    apply(MeanSpans { offsets: offsets.to_vec(), dim }, &[rows])
}

/// Refuses offsets that do not divide so many rows into items of at least one row.
pub(super) fn check(what: &'static str, rows: usize, offsets: &[usize]) -> Result<(), Error> {
    if let Some(item) = offsets.windows(2).position(|span| span[0] >= span[1]) {
        return Err(Error::EmptyItem { what, item });
    }
    let (first, last) = (offsets.first().copied(), offsets.last().copied());
    Error::check_len("the rows of all items", rows, last.unwrap_or(0) - first.unwrap_or(0))
}

struct MeanSpans {
    offsets: Vec<usize>,
    dim: usize,
}

impl MeanSpans {
    /// The offsets from the first row on.
    fn gpu_offsets(&self, unit: &Unit) -> Result<Array<u32>, Error> {
        let first = self.offsets.first().copied().unwrap_or(0);
        unit.offsets(&self.offsets.iter().map(|offset| offset - first).collect::<Vec<_>>())
    }

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
        let (out, offsets) = (unit.empty(items * self.dim)?, self.gpu_offsets(unit)?);
        let arguments =
            [(&out).into(), inputs[0].into(), (&offsets).into(), 0u32.into(), self.dim.into()];
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
        let (out, offsets) = (unit.empty(inputs[0].len())?, self.gpu_offsets(unit)?);
        let arguments =
            [(&out).into(), upstream.into(), (&offsets).into(), 0u32.into(), self.dim.into()];
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
        judge(&[tensor(1, &[7, 5])], 1e-6, |inputs| mean_spans(&inputs[0], &[0, 1, 4, 7]));
        let rows = tensor(1, &[7, 5]);
        assert!(mean_spans(&rows, &[0, 4, 4, 7]).is_err());
        assert!(mean_spans(&rows, &[0, 4, 6]).is_err());
    }
}
