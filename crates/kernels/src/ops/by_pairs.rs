//! What is made of pairs of items, some pairs at a time.

use std::ops::Range;

use rayon::prelude::*;

use super::{concat, gather};
use crate::cuda::Unit;
use crate::tensor::Backward;
use crate::{Device, Encoded, Error, Tensor, Values};

/// Some pairs of items of two sides.
pub struct Part<'a> {
    /// Items of the first side: the same ones in every table.
    pub first: &'a [Encoded],
    /// Items of the second side.
    pub second: &'a [Encoded],
    /// Pairs of these items.
    pub pairs: &'a [(u32, u32)],
    weights: &'a [Tensor],
    names: &'a [String],
}

impl Part<'_> {
    /// The weight of a name.
    ///
    /// # Errors
    /// If there is none.
    pub fn weight(&self, name: &str) -> Result<&Tensor, Error> {
        let at = self.names.iter().position(|own| own == name);
        at.map(|at| &self.weights[at]).ok_or_else(|| Error::NoWeight { name: name.to_owned() })
    }
}

/// What `make` makes of pairs of items, in the order of the pairs: of every pair some rows, which depend on
/// its items and the weights alone. Every side has tables with rows of the same items. Rows that are
/// `known` are not made again.
///
/// It is made of some pairs at a time, and once more for gradients, so that nothing but these rows is kept.
///
/// # Errors
/// If there is no such pair, or those of `make`.
pub fn by_pairs<F>(
    (first, second): (&[Encoded], &[Encoded]),
    pairs: &[(u32, u32)],
    weights: Vec<(String, Tensor)>,
    known: Option<Vec<f32>>,
    make: F,
) -> Result<Tensor, Error>
where
    F: Fn(&Part<'_>) -> Result<Tensor, Error> + Send + Sync + 'static,
{
    let (of_first, of_second): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    for (set, own, items) in [
        ("first items of the pairs", of_first, first),
        ("second items of the pairs", of_second, second),
    ] {
        for table in items {
            Error::check_indices(set, &own, table.len())?;
        }
    }
    let tables = || first.iter().chain(second).map(|items| &items.rows);
    let inputs: Vec<&Tensor> = tables().chain(weights.iter().map(|(_, weight)| weight)).collect();
    let device = inputs.first().map_or(Device::Cpu, |input| input.device());
    let each = pairs_at_once(device);
    let starts = (0..pairs.len()).step_by(each);
    let mut work = ByPairs {
        offsets: [first, second].map(|side| side.iter().map(|own| own.offsets.clone()).collect()),
        names: weights.iter().map(|(name, _)| name.clone()).collect(),
        pairs: pairs.to_vec(),
        chunks: starts.map(|start| start..pairs.len().min(start + each)).collect(),
        rows: Vec::new(),
        make,
    };
    let numbers = match known {
        Some(known) => {
            work.rows = work.chunks.iter().map(|chunk| chunk.len()).collect();
            Tensor::new(known, &[pairs.len(), 1], device)?
        }
        None if pairs.is_empty() => Tensor::zeros(&[0, 1], device)?,
        None => {
            let [first, second] =
                [first, second].map(|side| side.iter().map(Encoded::detached).collect::<Vec<_>>());
            let weights: Vec<Tensor> = weights.iter().map(|(_, own)| own.detached()).collect();
            let found = each_of(device, &work.chunks, |chunk| {
                work.made((&first, &second), &pairs[chunk.clone()], &weights)
            })?;
            work.rows = found.iter().map(|own| own.shape()[0]).collect();
            concat(&found.iter().collect::<Vec<_>>(), 0)?
        }
    };
    let shape = numbers.shape().to_vec();
    Ok(Tensor::computed(numbers.into_values(), shape, &inputs, work))
}

/// Pairs that are computed together: what is made of them should stay in a cache, or fill a GPU.
fn pairs_at_once(device: Device) -> usize {
    match device {
        Device::Cpu => 32,
        Device::Cuda(_) => 512,
        Device::Reference => usize::MAX,
    }
}

/// What becomes of every chunk. A GPU is one queue.
fn each_of<T: Send>(
    device: Device,
    chunks: &[Range<usize>],
    make: impl Fn(&Range<usize>) -> Result<T, Error> + Send + Sync,
) -> Result<Vec<T>, Error> {
    match device {
        Device::Cuda(_) => chunks.iter().map(make).collect(),
        _ => chunks.par_iter().with_max_len(1).map(make).collect(),
    }
}

struct ByPairs<F> {
    /// Of every side and table the first row of each item, then the end of the last.
    offsets: [Vec<Vec<usize>>; 2],
    names: Vec<String>,
    pairs: Vec<(u32, u32)>,
    chunks: Vec<Range<usize>>,
    /// Rows that were made of every chunk.
    rows: Vec<usize>,
    make: F,
}

/// Chunks whose gradients are kept at a time, before they are added in their order.
const WAVE: usize = 16;

/// The gradient of an input by some pairs.
struct Gradient {
    values: Values,
    /// Of a table, the rows that it is of.
    rows: Option<Vec<u32>>,
}

impl<F: Fn(&Part<'_>) -> Result<Tensor, Error>> ByPairs<F> {
    fn made(
        &self,
        (first, second): (&[Encoded], &[Encoded]),
        pairs: &[(u32, u32)],
        weights: &[Tensor],
    ) -> Result<Tensor, Error> {
        (self.make)(&Part { first, second, pairs, weights, names: &self.names })
    }

    /// The gradients of the inputs by a chunk: of tables those of the rows of its items.
    fn gradients(
        &self,
        inputs: &[Tensor],
        chunk: &Range<usize>,
        upstream: Values,
    ) -> Result<Vec<Option<Gradient>>, Error> {
        let own = |input: &Tensor, tensor: Tensor| match input.is_tracked() {
            true => tensor.into_weight(),
            false => tensor,
        };
        let pairs = &self.pairs[chunk.clone()];
        let used = |item: fn(&(u32, u32)) -> u32| {
            let mut items: Vec<u32> = pairs.iter().map(item).collect();
            items.sort_unstable();
            items.dedup();
            items
        };
        let used = [used(|pair| pair.0), used(|pair| pair.1)];
        let (mut orders, mut rest) = (Vec::new(), inputs.iter());
        let [first, second] = [0, 1].map(|side| {
            let some = |offsets: &Vec<usize>| {
                let (mut order, mut own_offsets) = (Vec::new(), vec![0]);
                for &item in &used[side] {
                    let rows = offsets[item as usize]..offsets[item as usize + 1];
                    order.extend(rows.map(|row| row as u32));
                    own_offsets.push(order.len());
                }
                let input = rest.next().expect("a tensor for every table");
                let rows = own(input, gather(&input.detached(), &order)?);
                orders.push(order);
                Ok(Encoded { rows, offsets: own_offsets })
            };
            self.offsets[side].iter().map(some).collect::<Result<Vec<_>, Error>>()
        });
        let (first, second) = (first?, second?);
        let weights: Vec<Tensor> = rest.map(|weight| own(weight, weight.detached())).collect();
        let place = |side: usize, item: u32| used[side].partition_point(|&own| own < item) as u32;
        let pairs: Vec<_> = pairs.iter().map(|&(a, b)| (place(0, a), place(1, b))).collect();
        let made = self.made((&first, &second), &pairs, &weights)?;
        let mut found = Tensor::backward_from(vec![(made, upstream)])?;
        let tables = first.iter().chain(&second).map(|items| &items.rows);
        let mut orders = orders.into_iter();
        let gradient = |own: &Tensor| {
            let rows = orders.next();
            found.take(own).map(|values| Gradient { values, rows })
        };
        Ok(tables.chain(&weights).map(gradient).collect())
    }
}

impl<F: Fn(&Part<'_>) -> Result<Tensor, Error> + Send + Sync> Backward for ByPairs<F> {
    fn backward(&self, inputs: &[Tensor], upstream: &Values) -> Result<Vec<Option<Values>>, Error> {
        let all: usize = self.rows.iter().sum();
        let upstream = Tensor::of_values(upstream.clone(), &[all, upstream.len() / all.max(1)])?;
        let mut ends = 0;
        let slopes = self.rows.iter().map(|&rows| {
            ends += rows;
            ends - rows..ends
        });
        let chunks: Vec<_> = self.chunks.iter().zip(slopes).collect();
        let mut sums: Vec<Option<Values>> = inputs.iter().map(|_| None).collect();
        for wave in chunks.chunks(WAVE) {
            let places: Vec<Range<usize>> = (0..wave.len()).map(|at| at..at + 1).collect();
            let found = each_of(upstream.device(), &places, |at| {
                let (chunk, rows) = &wave[at.start];
                let slopes = upstream.some_rows(rows.clone())?.into_values();
                self.gradients(inputs, chunk, slopes)
            })?;
            for gradients in found {
                for ((sum, input), gradient) in sums.iter_mut().zip(inputs).zip(gradients) {
                    let Some(Gradient { values, rows }) = gradient else { continue };
                    match (rows, &mut *sum) {
                        (Some(rows), _) => add_rows(sum, input, &values, &rows)?,
                        (None, Some(sum)) => sum.add(&values)?,
                        (None, None) => *sum = Some(values),
                    }
                }
            }
        }
        Ok(sums)
    }
}

/// Adds gradients of some rows of a table to those of all of its rows.
fn add_rows(
    sum: &mut Option<Values>,
    table: &Tensor,
    part: &Values,
    order: &[u32],
) -> Result<(), Error> {
    fn add<N: Copy + std::ops::AddAssign>(sum: &mut [N], part: &[N], order: &[u32], dim: usize) {
        for (&row, part) in order.iter().zip(part.chunks_exact(dim)) {
            let sum = &mut sum[row as usize * dim..][..dim];
            sum.iter_mut().zip(part).for_each(|(sum, &x)| *sum += x);
        }
    }
    let (rows, dim) = table.matrix_shape()?;
    if let Values::Cuda(cuda, part) = part {
        let places = order.iter().enumerate().map(|(row, &place)| (place, row as u32));
        let own = Values::Cuda(*cuda, Unit::new(*cuda)?.add_rows(part, dim, places, rows)?);
        match sum {
            Some(sum) => sum.add(&own)?,
            None => *sum = Some(own),
        }
        return Ok(());
    }
    if sum.is_none() {
        *sum = Some(Tensor::zeros(table.shape(), table.device())?.into_values());
    }
    match (sum, part) {
        (Some(Values::Cpu(sum)), Values::Cpu(part)) => add(sum, part, order, dim),
        (Some(Values::Reference(sum)), Values::Reference(part)) => add(sum, part, order, dim),
        _ => return Err(Error::Devices),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};
    use crate::ops::{Tables, linear, mean_spans, sigmoid};

    /// More pairs than a chunk has, and tables of different lengths.
    #[test]
    fn chunks_are_the_whole_on_every_device() {
        let inputs = [
            tensor(1, &[9, 6]),
            tensor(2, &[3, 2]),
            tensor(3, &[14, 6]),
            tensor(4, &[2, 6]),
            tensor(5, &[2]),
        ];
        let pairs: Vec<(u32, u32)> = (0..90).map(|at| (at * 7 % 3, at * 5 % 4)).collect();
        let scores = |inputs: &[Tensor]| {
            let [rows, wholes, others, weight, bias] = inputs else { unreachable!("five") };
            let first = [
                Encoded { rows: rows.clone(), offsets: vec![0, 2, 3, 9] },
                Encoded::uniform(wholes.clone(), 1)?,
            ];
            let second = [Encoded { rows: others.clone(), offsets: vec![0, 1, 5, 6, 14] }];
            let weights = [("weight", weight), ("bias", bias)];
            let weights = weights.map(|(name, weight)| (name.to_owned(), weight.clone()));
            by_pairs((&first, &second), &pairs, weights.to_vec(), None, |part| {
                let [rows, wholes] = part.first else { unreachable!("two tables") };
                let others = &part.second[0];
                let tables = Tables::new(&rows.offsets, &others.offsets, part.pairs)?;
                let seen = tables.softmax(&tables.products(&rows.rows, &others.rows)?)?;
                let seen = tables.sums(&seen, &others.rows)?;
                let seen = linear(&seen, part.weight("weight")?, part.weight("bias")?)?;
                let seen = mean_spans(&sigmoid(&seen)?, tables.lines())?;
                let of_pairs: Vec<u32> = part.pairs.iter().map(|pair| pair.0).collect();
                crate::ops::multiply(&seen, &gather(&wholes.rows, &of_pairs)?)
            })
        };
        judge(&inputs, 2e-5, scores);
        let refused =
            by_pairs((&[], &[]), &[(0, 0)], Vec::new(), None, |part| part.weight("other").cloned());
        assert!(refused.unwrap_err().to_string().contains("other"));
    }
}
