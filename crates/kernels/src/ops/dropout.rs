//! Dropout by counted draws: whether a number is dropped follows from the stream of its row and its
//! place there, so nothing is stored and every device drops the same.

use std::sync::OnceLock;

use nextpair_core::Draws;
use nextpair_cuda::Array;
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// Sets a `share` of the numbers, from 0 to below 1, to zero and lets the others grow by `1 / (1 - share)`. Row `r` draws
/// from the stream in the state `streams[r]` ([`Draws::of_state`]), and keeps at least the number of
/// its largest draw: a row of zeros has no direction.
///
/// # Errors
/// If `rows` is not a matrix, or there are more or fewer streams.
pub fn dropout(rows: &Tensor, streams: Vec<u64>, share: f64) -> Result<Tensor, Error> {
    let (count, dim) = rows.matrix_shape()?;
    Error::check_len("the streams of dropout", streams.len(), count)?;
    apply(Dropout { dim, share, streams, on_gpu: OnceLock::new() }, &[rows])
}

struct Dropout {
    dim: usize,
    share: f64,
    streams: Vec<u64>,
    /// The streams on a GPU, for the way back.
    on_gpu: OnceLock<Array<u64>>,
}

/// Rows per thread at a time.
const ROWS: usize = 64;

impl Dropout {
    /// The draws below which numbers are dropped.
    fn below(&self) -> u64 {
        (self.share * 2f64.powi(64)) as u64
    }

    /// The factor of the others.
    fn kept(&self) -> f32 {
        (1.0 / (1.0 - self.share)) as f32
    }

    /// The factors of a row.
    fn fill(&self, stream: u64, factors: &mut [f32]) {
        let (below, kept) = (self.below(), self.kept());
        let mut draws = Draws::of_state(stream);
        let mut largest = (0, 0);
        for (at, factor) in factors.iter_mut().enumerate() {
            let drawn = draws.bits();
            largest = largest.max((drawn, at));
            *factor = if drawn < below { 0.0 } else { kept };
        }
        if let Some(factor) = factors.get_mut(largest.1) {
            *factor = kept;
        }
    }

    fn times(&self, values: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; values.len()];
        let dim = self.dim.max(1);
        let rows = out.par_chunks_mut(ROWS * dim).zip(values.par_chunks(ROWS * dim));
        rows.zip(self.streams.par_chunks(ROWS)).for_each(|((out, values), streams)| {
            let rows = out.chunks_exact_mut(dim).zip(values.chunks_exact(dim));
            for ((out, values), &stream) in rows.zip(streams) {
                self.fill(stream, out);
                out.iter_mut().zip(values).for_each(|(factor, value)| *factor *= value);
            }
        });
        out
    }

    fn on_gpu(&self, unit: &Unit, values: &Array<f32>) -> Result<Array<f32>, Error> {
        let streams = match self.on_gpu.get() {
            Some(streams) => streams,
            None => {
                let streams = unit.array(&self.streams)?;
                self.on_gpu.get_or_init(|| streams)
            }
        };
        let out = unit.empty(values.len())?;
        let arguments = [
            (&out).into(),
            values.into(),
            streams.into(),
            self.below().into(),
            self.kept().into(),
            self.dim.into(),
        ];
        unit.run("dropout", Unit::rows(self.streams.len()), &arguments)?;
        Ok(out)
    }
}

impl Operation for Dropout {
    fn shape(&self) -> Vec<usize> {
        vec![self.streams.len(), self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let mut factors = vec![0.0; self.streams.len() * self.dim];
        let rows = factors.chunks_exact_mut(self.dim.max(1));
        rows.zip(&self.streams).for_each(|(row, &stream)| self.fill(stream, row));
        inputs[0].iter().zip(&factors).map(|(&x, &factor)| x * R::of(factor.into())).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        Ok(self.times(inputs[0]))
    }

    fn backward(
        &self,
        _inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        Ok(vec![Some(self.times(upstream))])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        self.on_gpu(unit, inputs[0])
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        _inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        Ok(vec![Some(self.on_gpu(unit, upstream)?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::ops::judge::{judge, tensor};

    fn streams(count: u64) -> Vec<u64> {
        (0..count).map(|row| Draws::new(row).state_after(7 * row)).collect()
    }

    #[test]
    fn every_device_follows_the_formula() {
        for (rows, dim, share) in [(3, 7, 0.5), (70, 300, 0.2), (5, 2, 0.97), (2, 3, 0.0)] {
            let inputs = [tensor(1, &[rows, dim])];
            judge(&inputs, 1e-6, |inputs| dropout(&inputs[0], streams(rows as u64), share));
        }
        assert!(dropout(&tensor(1, &[3, 7]), streams(2), 0.5).is_err());
    }

    #[test]
    fn every_device_has_the_same_bits_and_leaves_no_row_empty() {
        let rows = tensor(4, &[400, 33]);
        for share in [0.4, 0.999] {
            let on = |device: Device| {
                let rows = rows.to_device(device).unwrap();
                dropout(&rows, streams(400), share).unwrap().to_f32s().unwrap()
            };
            let expected = on(Device::Cpu);
            for device in Device::available() {
                assert_eq!(on(device), expected, "{device}");
            }
            let kept = |row: &[f32]| row.iter().filter(|&&x| x != 0.0).count();
            assert!(expected.chunks_exact(33).all(|row| kept(row) >= 1));
            let dropped = expected.iter().filter(|&&x| x == 0.0).count() as f64 / 13_200.0;
            assert!((dropped - share.min(32.0 / 33.0)).abs() < 0.02, "{dropped}");
        }
    }
}
