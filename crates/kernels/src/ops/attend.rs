//! Weighted sums of the rows of every item.

use nextpair_cuda::{Array, Grid};
use rayon::prelude::*;

use super::spans::OnGpu;
use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// `sum_r weights[r, k] rows[r]` over the rows of every item, for each column `k` of the weights:
/// items times columns by dimensions. `offsets` has the first row of each item, then the end of the
/// last.
///
/// # Errors
/// If the rows differ in number, or are not those of the items.
pub fn attend(weights: &Tensor, rows: &Tensor, offsets: &[usize]) -> Result<Tensor, Error> {
    let ((count, dim), (of_weights, heads)) = (rows.matrix_shape()?, weights.matrix_shape()?);
    Error::check_len("the weights of rows", of_weights, count)?;
    super::spans::check("rows to attend to", count, offsets)?;
    let first = offsets.first().copied().unwrap_or(0);
    let offsets = offsets.iter().map(|offset| offset - first).collect();
    apply(Attend { heads, dim, offsets, on_gpu: OnGpu::default() }, &[weights, rows])
}

struct Attend {
    heads: usize,
    dim: usize,
    offsets: Vec<usize>,
    on_gpu: OnGpu,
}

impl Attend {
    /// Launches a kernel that makes an array of two: of weights, rows and gradients.
    fn on_gpu(
        &self,
        unit: &Unit,
        (kernel, grid): (&'static str, Grid),
        [out, one, other]: [&Array<f32>; 3],
    ) -> Result<(), Error> {
        let [offsets, each] = self.on_gpu.arguments(unit, &self.offsets)?;
        let (heads, dim) = (self.heads.into(), self.dim.into());
        unit.run(kernel, grid, &[out.into(), one.into(), other.into(), offsets, each, heads, dim])
    }

    /// Items per thread at least: waking another takes as long as thousands of numbers.
    fn items_at_once(&self) -> usize {
        (1024 / (self.heads * self.dim).max(1)).max(1)
    }

    /// The rows of every item.
    fn spans(&self) -> Vec<std::ops::Range<usize>> {
        self.offsets.windows(2).map(|span| span[0]..span[1]).collect()
    }
}

impl Operation for Attend {
    fn shape(&self) -> Vec<usize> {
        vec![(self.offsets.len() - 1) * self.heads, self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let mut out = Vec::with_capacity(self.shape().iter().product());
        for span in self.spans() {
            for (head, at) in (0..self.heads).flat_map(|h| (0..self.dim).map(move |at| (h, at))) {
                let term = |row: usize| {
                    inputs[0][row * self.heads + head] * inputs[1][row * self.dim + at]
                };
                out.push(R::sum(span.clone().map(term)));
            }
        }
        out
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = vec![0.0; self.shape().iter().product()];
        let items = out.par_chunks_exact_mut(self.heads * self.dim).zip(self.spans());
        items.with_min_len(self.items_at_once()).for_each(|(out, span)| {
            for (head, out) in out.chunks_exact_mut(self.dim).enumerate() {
                for row in span.clone() {
                    let weight = inputs[0][row * self.heads + head];
                    let values = &inputs[1][row * self.dim..][..self.dim];
                    out.iter_mut().zip(values).for_each(|(sum, x)| *sum += weight * x);
                }
            }
        });
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let (heads, dim) = (self.heads, self.dim);
        let each = heads * dim;
        let of_item = |(item, span): (usize, std::ops::Range<usize>)| {
            let upstream = &upstream[item * each..][..each];
            let (mut of_weights, mut of_rows) = (Vec::new(), Vec::new());
            for row in span {
                let values = &inputs[1][row * dim..][..dim];
                let of_head =
                    |up: &[f32]| crate::elementwise::sum_of(dim, |at| up[at] * values[at]);
                of_weights.extend(upstream.chunks_exact(dim).map(of_head));
                if wanted[1] {
                    let first = of_rows.len();
                    of_rows.resize(first + dim, 0.0);
                    for (head, up) in upstream.chunks_exact(dim).enumerate() {
                        let weight = inputs[0][row * heads + head];
                        let out = of_rows[first..].iter_mut().zip(up);
                        out.for_each(|(sum, g)| *sum += weight * g);
                    }
                }
            }
            (of_weights, of_rows)
        };
        let spans = self.spans();
        let found: Vec<(Vec<f32>, Vec<f32>)> = spans
            .into_par_iter()
            .with_min_len(self.items_at_once())
            .enumerate()
            .map(of_item)
            .collect();
        let (of_weights, of_rows): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        Ok(vec![Some(of_weights.concat()), wanted[1].then(|| of_rows.concat())])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let items = self.offsets.len() - 1;
        let out = unit.empty(items * self.heads * self.dim)?;
        let grid = Unit::numbers(items * self.heads, self.dim);
        self.on_gpu(unit, ("attend_items", grid), [&out, inputs[0], inputs[1]])?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let items = self.offsets.len() - 1;
        let of_weights = wanted[0].then(|| {
            let (out, grid) = (unit.empty(inputs[0].len())?, Grid::blocks(items, 256));
            self.on_gpu(unit, ("attend_items_weights", grid), [&out, inputs[1], upstream])?;
            Ok::<_, Error>(out)
        });
        let of_rows = wanted[1].then(|| {
            let (out, grid) = (unit.empty(inputs[1].len())?, Unit::numbers(items, self.dim));
            self.on_gpu(unit, ("attend_items_rows", grid), [&out, inputs[0], upstream])?;
            Ok::<_, Error>(out)
        });
        Ok(vec![of_weights.transpose()?, of_rows.transpose()?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        for heads in [1, 3] {
            let inputs = [tensor(1, &[9, heads]), tensor(2, &[9, 5])];
            for offsets in [&[0, 1, 5, 9][..], &[0, 3, 6, 9]] {
                judge(&inputs, 1e-5, |inputs| attend(&inputs[0], &inputs[1], offsets));
            }
        }
        let wide = [tensor(1, &[50, 2]), tensor(2, &[50, 150])];
        judge(&wide, 1e-5, |inputs| attend(&inputs[0], &inputs[1], &[0, 40, 50]));
        assert!(attend(&wide[0], &tensor(1, &[11, 2]), &[0, 11]).is_err());
    }
}
