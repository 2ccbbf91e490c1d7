//! The same on a GPU: a block for each query, or for some columns of a row.

use nextpair_cuda::Array;

use super::AttendSpans;
use crate::Error;
use crate::cuda::Unit;

/// Items and weights on a GPU.
pub(super) struct Kept {
    /// The offsets of queries and of keys.
    asking: Array<u32>,
    asked: Array<u32>,
    /// The item of every query and of every key.
    of_queries: Array<u32>,
    of_keys: Array<u32>,
    /// The weights of every query, as many as the longest item has keys.
    weights: Array<f32>,
}

/// The item of every row.
fn items_of(offsets: &[usize]) -> Vec<u32> {
    let lengths = offsets.windows(2).map(|span| span[1] - span[0]);
    lengths.enumerate().flat_map(|(item, rows)| std::iter::repeat_n(item as u32, rows)).collect()
}

impl AttendSpans {
    /// Keys of the longest item.
    fn width(&self) -> usize {
        self.asked.windows(2).map(|span| span[1] - span[0]).max().unwrap_or(0)
    }

    /// For every query the sum of rows of keys or values with the weights of its item, on a GPU.
    fn sums(
        &self,
        unit: &Unit,
        kept: &Kept,
        weights: &Array<f32>,
        (rows, dim): (&Array<f32>, usize),
    ) -> Result<Array<f32>, Error> {
        let count = self.asking[self.items()];
        let out = unit.empty(count * dim)?;
        let arguments = [
            (&out).into(),
            weights.into(),
            rows.into(),
            (&kept.of_queries).into(),
            (&kept.asked).into(),
            self.width().into(),
            dim.into(),
        ];
        unit.run("attend_spans_sums", Unit::numbers(count, dim), &arguments)?;
        Ok(out)
    }

    /// For every key the sum of rows of queries with the weights of its item, on a GPU.
    fn turned_sums(
        &self,
        unit: &Unit,
        kept: &Kept,
        weights: &Array<f32>,
        (rows, dim): (&Array<f32>, usize),
    ) -> Result<Array<f32>, Error> {
        let count = self.asked[self.items()];
        let out = unit.empty(count * dim)?;
        let arguments = [
            (&out).into(),
            weights.into(),
            rows.into(),
            (&kept.of_keys).into(),
            (&kept.asking).into(),
            (&kept.asked).into(),
            self.width().into(),
            dim.into(),
        ];
        unit.run("attend_spans_turned", Unit::numbers(count, dim), &arguments)?;
        Ok(out)
    }

    pub(super) fn forward_on(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
    ) -> Result<Array<f32>, Error> {
        let (count, width) = (self.asking[self.items()], self.width());
        let kept = Kept {
            asking: unit.offsets(&self.asking)?,
            asked: unit.offsets(&self.asked)?,
            of_queries: unit.array(&items_of(&self.asking))?,
            of_keys: unit.array(&items_of(&self.asked))?,
            weights: unit.empty(count * width)?,
        };
        let arguments = [
            (&kept.weights).into(),
            inputs[0].into(),
            inputs[1].into(),
            (&kept.of_queries).into(),
            (&kept.asked).into(),
            width.into(),
            self.depth.into(),
            self.scale.into(),
        ];
        unit.run("attend_spans_weights", Unit::rows(count), &arguments)?;
        let out = self.sums(unit, &kept, &kept.weights, (inputs[2], self.dim))?;
        self.kept.get_or_init(|| kept);
        Ok(out)
    }

    pub(super) fn backward_on(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let kept = self.kept.get().expect("the forward pass comes first");
        let slopes = unit.empty(kept.weights.len())?;
        let arguments = [
            (&slopes).into(),
            (&kept.weights).into(),
            inputs[2].into(),
            upstream.into(),
            (&kept.of_queries).into(),
            (&kept.asked).into(),
            self.width().into(),
            self.dim.into(),
            self.scale.into(),
        ];
        unit.run("attend_spans_slopes", Unit::rows(self.asking[self.items()]), &arguments)?;
        let (queries, keys) = ((inputs[0], self.depth), (inputs[1], self.depth));
        let of_queries = wanted[0].then(|| self.sums(unit, kept, &slopes, keys));
        let of_keys = wanted[1].then(|| self.turned_sums(unit, kept, &slopes, queries));
        let of_values =
            wanted[2].then(|| self.turned_sums(unit, kept, &kept.weights, (upstream, self.dim)));
        Ok(vec![of_queries.transpose()?, of_keys.transpose()?, of_values.transpose()?])
    }
}
