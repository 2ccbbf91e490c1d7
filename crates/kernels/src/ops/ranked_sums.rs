//! Weighted sums of the largest, the second largest, and so on: pooling by rank (Chen, Hu, Wang, Jiang
//! and Lin, CVPR 2021, <https://arxiv.org/abs/2011.04305>).

use std::ops::Range;
use std::sync::OnceLock;

use nextpair_cuda::{Array, Grid};
use rayon::prelude::*;

use super::spans::OnGpu;
use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// `sum_k weights[first + k] * (the k-th largest number of a column)` for every item and column, with
/// `k` from 0: items by dimensions. Item `i` has the rows from `offsets[i]` to `offsets[i + 1]` and the
/// weights from `firsts[i]` on. Items of one length may share weights. Of equal numbers the first row
/// comes first.
///
/// # Errors
/// If an item has no rows or more than 65,535, or weights are missing.
pub fn ranked_sums(
    rows: &Tensor,
    weights: &Tensor,
    offsets: &[usize],
    firsts: &[usize],
) -> Result<Tensor, Error> {
    let (count, dim) = rows.matrix_shape()?;
    super::spans::check("rows to rank", count, offsets)?;
    Error::check_len("the first weights of items", firsts.len(), offsets.len().max(1) - 1)?;
    let spans: Vec<Range<usize>> =
        offsets.windows(2).map(|span| span[0] - offsets[0]..span[1] - offsets[0]).collect();
    for (item, (span, first)) in spans.iter().zip(firsts).enumerate() {
        let (end, longest) = (first + span.len(), usize::from(u16::MAX));
        let (index, len) =
            if span.len() > longest { (span.len(), longest) } else { (end, weights.len()) };
        if index > len {
            let set = "weights of ranks";
            return Err(Error::IndexOutOfRange { set, position: item, index, len });
        }
    }
    let (offsets, firsts) = (offsets.to_vec(), firsts.to_vec());
    let (ranks, on_gpu) = (OnceLock::new(), OnceLock::new());
    let operation =
        RankedSums { dim, spans, offsets, firsts, ranks, rows_on_gpu: OnGpu::default(), on_gpu };
    apply(operation, &[rows, weights])
}

struct RankedSums {
    dim: usize,
    /// The rows of every item.
    spans: Vec<Range<usize>>,
    offsets: Vec<usize>,
    firsts: Vec<usize>,
    /// The rank of every number, which the forward pass keeps.
    ranks: OnceLock<Vec<Vec<u16>>>,
    rows_on_gpu: OnGpu,
    /// The same on a GPU, and the first weight of every item there.
    on_gpu: OnceLock<(Array<u32>, Array<u32>)>,
}

/// Columns at a time: the rows of an item stay in the nearest cache.
const COLUMNS: usize = 64;

impl RankedSums {
    /// The rank of every number of an item among those of its column: how many are larger, or equal and
    /// before it.
    fn ranks(&self, item: &[f32]) -> Vec<u16> {
        let (dim, rows) = (self.dim, item.len() / self.dim);
        let mut ranks = vec![0u16; item.len()];
        for first in (0..dim).step_by(COLUMNS) {
            let width = COLUMNS.min(dim - first);
            for later in 1..rows {
                let (before, own) = ranks.split_at_mut(later * dim);
                let own = &mut own[first..][..width];
                let x = &item[later * dim + first..][..width];
                for (earlier, before) in before.chunks_exact_mut(dim).enumerate() {
                    let y = &item[earlier * dim + first..][..width];
                    let numbers = own.iter_mut().zip(&mut before[first..][..width]);
                    for ((own, before), (x, y)) in numbers.zip(x.iter().zip(y)) {
                        let larger = u16::from(x > y);
                        *before += larger;
                        *own += 1 - larger;
                    }
                }
            }
        }
        ranks
    }

    fn item<'a>(&self, rows: &'a [f32], item: usize) -> &'a [f32] {
        let span = &self.spans[item];
        &rows[span.start * self.dim..span.end * self.dim]
    }
}

impl Operation for RankedSums {
    fn shape(&self) -> Vec<usize> {
        vec![self.spans.len(), self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let mut out = Vec::with_capacity(self.spans.len() * self.dim);
        for (span, &first) in self.spans.iter().zip(&self.firsts) {
            for column in 0..self.dim {
                let mut own: Vec<R> =
                    span.clone().map(|row| inputs[0][row * self.dim + column]).collect();
                own.sort_by(|x, y| y.value().total_cmp(&x.value()));
                out.push(R::dot(&own, &inputs[1][first..][..own.len()]));
            }
        }
        out
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = vec![0.0; self.spans.len() * self.dim];
        let items = out.par_chunks_exact_mut(self.dim).enumerate();
        let ranks = items.map(|(at, out)| {
            let item = self.item(inputs[0], at);
            let ranks = self.ranks(item);
            let weights = &inputs[1][self.firsts[at]..][..self.spans[at].len()];
            let rows = item.chunks_exact(self.dim).zip(ranks.chunks_exact(self.dim));
            for (row, ranks) in rows {
                for ((sum, x), &rank) in out.iter_mut().zip(row).zip(ranks) {
                    *sum += weights[usize::from(rank)] * x;
                }
            }
            ranks
        });
        let ranks = ranks.collect();
        self.ranks.get_or_init(|| ranks);
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let all = self.ranks.get().expect("the forward pass comes first");
        let of_item = |at: usize| {
            let (item, up) = (self.item(inputs[0], at), &upstream[at * self.dim..][..self.dim]);
            let weights = &inputs[1][self.firsts[at]..][..self.spans[at].len()];
            let mut of_weights = vec![0.0f32; weights.len()];
            let mut of_rows = vec![0.0; item.len()];
            let rows = item.chunks_exact(self.dim).zip(all[at].chunks_exact(self.dim));
            for ((row, ranks), out) in rows.zip(of_rows.chunks_exact_mut(self.dim)) {
                for (((out, x), &rank), g) in out.iter_mut().zip(row).zip(ranks).zip(up) {
                    *out = weights[usize::from(rank)] * g;
                    of_weights[usize::from(rank)] += x * g;
                }
            }
            (of_rows, of_weights)
        };
        let found: Vec<(Vec<f32>, Vec<f32>)> =
            (0..self.spans.len()).into_par_iter().map(of_item).collect();
        let mut of_weights = vec![0.0; inputs[1].len()];
        for ((_, own), &first) in found.iter().zip(&self.firsts) {
            of_weights[first..].iter_mut().zip(own).for_each(|(sum, part)| *sum += part);
        }
        let of_rows: Vec<Vec<f32>> = found.into_iter().map(|(of_rows, _)| of_rows).collect();
        Ok(vec![Some(of_rows.concat()), Some(of_weights)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let items = self.spans.len();
        let (out, ranks) = (unit.empty(items * self.dim)?, unit.empty(inputs[0].len())?);
        let firsts = unit.offsets(&self.firsts)?;
        let [offsets, each] = self.rows_on_gpu.arguments(unit, &self.offsets)?;
        let arguments = [
            (&out).into(),
            (&ranks).into(),
            inputs[0].into(),
            inputs[1].into(),
            offsets,
            each,
            (&firsts).into(),
            self.dim.into(),
        ];
        unit.run("ranked_sums", Unit::numbers(items, self.dim), &arguments)?;
        self.on_gpu.get_or_init(|| (ranks, firsts));
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let (ranks, firsts) = self.on_gpu.get().expect("the forward pass comes first");
        let (items, count) = (self.spans.len(), inputs[0].len() / self.dim.max(1));
        let [of_rows, products] = [unit.empty(inputs[0].len())?, unit.empty(inputs[0].len())?];
        let [offsets, each] = self.rows_on_gpu.arguments(unit, &self.offsets)?;
        let arguments = [
            (&of_rows).into(),
            (&products).into(),
            ranks.into(),
            inputs[0].into(),
            inputs[1].into(),
            upstream.into(),
            offsets,
            each,
            firsts.into(),
            self.dim.into(),
        ];
        unit.run("ranked_sums_backward", Unit::numbers(items, self.dim), &arguments)?;
        let of_weights = wanted[1].then(|| {
            let (parts, out) = (unit.empty::<f32>(count)?, unit.empty(inputs[1].len())?);
            let arguments = [(&parts).into(), (&products).into(), self.dim.into()];
            unit.run("row_sums", Unit::rows(count), &arguments)?;
            let (of, length) = (firsts.into(), out.len().into());
            let arguments =
                [(&out).into(), (&parts).into(), offsets, each, of, items.into(), length];
            unit.run("ranked_weights", Grid::each(out.len()), &arguments)?;
            Ok::<_, Error>(out)
        });
        Ok(vec![Some(of_rows), of_weights.transpose()?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        // The first and the last item share their weights.
        let (offsets, firsts) = ([0, 3, 4, 9, 12], [0, 3, 4, 0]);
        for dim in [3, 70, 150] {
            let inputs = [tensor(1, &[12, dim]), tensor(2, &[9])];
            judge(&inputs, 1e-5, |inputs| ranked_sums(&inputs[0], &inputs[1], &offsets, &firsts));
            // Items of one length.
            judge(&inputs, 1e-5, |inputs| {
                ranked_sums(&inputs[0], &inputs[1], &[0, 4, 8, 12], &[2, 5, 2])
            });
        }
        let (rows, weights) = (tensor(1, &[12, 3]), tensor(2, &[9]));
        assert!(ranked_sums(&rows, &weights, &offsets, &[0, 3, 5, 0]).is_err());
        assert!(ranked_sums(&rows, &weights, &offsets, &[0, 3, 4]).is_err());
    }

    #[test]
    fn equal_numbers_have_different_ranks() {
        for device in Device::available() {
            let rows = Tensor::new(vec![1.0, 2.0, 1.0, 2.0], &[4, 1], device).unwrap();
            let weights = Tensor::new(vec![1.0, 10.0, 100.0, 1000.0], &[4], device).unwrap();
            let weights = weights.into_weight();
            let found = ranked_sums(&rows, &weights, &[0, 4], &[0]).unwrap();
            assert_eq!(found.to_f32s().unwrap(), [2.0 + 20.0 + 100.0 + 1000.0]);
            let gradients = found.backward(&[1.0]).unwrap();
            assert_eq!(gradients.of(&weights).unwrap().to_f32s().unwrap(), [2.0, 2.0, 1.0, 1.0]);
        }
    }
}
