//! Batch normalisation on a GPU. Means and variances stay there.

use nextpair_cuda::{Argument, Array, Grid, Pointer};

use super::{BatchNorm, Groups, Layout};
use crate::cuda::Unit;
use crate::device::Cuda;
use crate::{Error, Tensor, Values};

/// Means and variances of groups, in double precision, one after the other.
#[derive(Clone, Debug)]
pub(super) struct OnGpu {
    cuda: Cuda,
    numbers: Array<f64>,
    /// The offsets of spans.
    offsets: Option<Array<u32>>,
    /// The slots, if groups are slots.
    each: usize,
    rows: usize,
    dim: usize,
    count: usize,
}

impl OnGpu {
    fn room(unit: &Unit, cuda: Cuda, layout: &Layout) -> Result<Self, Error> {
        let &Layout { rows, dim, .. } = layout;
        let count = layout.counts.len();
        let (offsets, each) = match &layout.groups {
            Groups::Columns => (None, 0),
            Groups::Slots(each) => (None, *each),
            Groups::Spans(offsets) => {
                let from_first = offsets.iter().map(|offset| offset - offsets[0]);
                (Some(unit.offsets(&from_first.collect::<Vec<_>>())?), 0)
            }
        };
        Ok(OnGpu { cuda, numbers: unit.empty(2 * count)?, offsets, each, rows, dim, count })
    }

    /// Those of a batch.
    pub(super) fn of_batch(
        cuda: Cuda,
        layout: &Layout,
        values: &Array<f32>,
    ) -> Result<Self, Error> {
        let unit = Unit::new(cuda)?;
        let found = Self::room(&unit, cuda, layout)?;
        let [offsets, each, rows, dim, count] = found.groups();
        let arguments = [(&found.numbers).into(), values.into(), offsets, each, rows, dim, count];
        unit.run("group_moments", found.grid(), &arguments)?;
        Ok(found)
    }

    /// Given ones: a number for each group, or one for all.
    pub(super) fn given(
        cuda: Cuda,
        layout: &Layout,
        means: &Tensor,
        variances: &Tensor,
    ) -> Result<Self, Error> {
        let unit = Unit::new(cuda)?;
        let found = Self::room(&unit, cuda, layout)?;
        let (count, channels) = (found.count, means.len());
        let arguments = [
            (&found.numbers).into(),
            numbers(means)?.into(),
            numbers(variances)?.into(),
            count.into(),
            channels.into(),
        ];
        unit.run("given_moments", Grid::each(count), &arguments)?;
        Ok(found)
    }

    /// What running means and variances become with these.
    pub(super) fn running(
        &self,
        means: &Tensor,
        variances: &Tensor,
    ) -> Result<(Tensor, Tensor), Error> {
        let (unit, channels) = (Unit::new(self.cuda)?, means.len());
        let new = [unit.empty(channels)?, unit.empty(channels)?];
        let [offsets, each, rows, dim, count] = self.groups();
        let arguments = [
            (&new[0]).into(),
            (&new[1]).into(),
            numbers(means)?.into(),
            numbers(variances)?.into(),
            (&self.numbers).into(),
            offsets,
            each,
            rows,
            dim,
            count,
            channels.into(),
        ];
        unit.run("running_moments", Grid::each(channels), &arguments)?;
        let [of_means, of_variances] = new.map(|array| Values::Cuda(self.cuda, array));
        let new_means = Tensor::of_values(of_means, means.shape())?;
        Ok((new_means, Tensor::of_values(of_variances, variances.shape())?))
    }

    /// What kernels take of the groups.
    fn groups(&self) -> [Argument; 5] {
        let offsets = self.offsets.as_ref().map_or(Pointer::NULL, Array::pointer);
        let sizes = [self.each, self.rows, self.dim, self.count];
        let [each, rows, dim, count] = sizes.map(Argument::from);
        [offsets.into(), each, rows, dim, count]
    }

    /// The blocks of sums over groups.
    fn grid(&self) -> Grid {
        match self.offsets.is_none() && self.each == 0 {
            true => Grid::blocks(self.dim.div_ceil(32), 1024),
            false => Grid::blocks(self.count, 1024),
        }
    }
}

/// The numbers of a tensor on a GPU.
fn numbers(tensor: &Tensor) -> Result<&Array<f32>, Error> {
    match tensor.values() {
        Values::Cuda(_, values) => Ok(values),
        _ => Err(Error::Devices),
    }
}

pub(super) fn forward(
    norm: &BatchNorm,
    moments: &OnGpu,
    unit: &Unit,
    inputs: &[&Array<f32>],
) -> Result<Array<f32>, Error> {
    let out = unit.empty(inputs[0].len())?;
    let [offsets, each, rows, dim, count] = moments.groups();
    let arguments = [
        (&out).into(),
        inputs[0].into(),
        (&moments.numbers).into(),
        inputs[1].into(),
        inputs[2].into(),
        offsets,
        each,
        rows,
        dim,
        count,
        norm.channels().into(),
    ];
    unit.run("batch_norm", Grid::each(out.len()), &arguments)?;
    Ok(out)
}

pub(super) fn backward(
    norm: &BatchNorm,
    moments: &OnGpu,
    unit: &Unit,
    inputs: &[&Array<f32>],
    upstream: &Array<f32>,
    wanted: &[bool],
) -> Result<Vec<Option<Array<f32>>>, Error> {
    let channels = norm.channels();
    let [offsets, each, rows, dim, count] = moments.groups();
    let sums = unit.empty::<f64>(2 * moments.count)?;
    let arguments = [
        (&sums).into(),
        inputs[0].into(),
        upstream.into(),
        (&moments.numbers).into(),
        offsets,
        each,
        rows,
        dim,
        count,
    ];
    unit.run("batch_norm_sums", moments.grid(), &arguments)?;
    let of_values = wanted[0].then(|| {
        let out = unit.empty(inputs[0].len())?;
        let arguments = [
            (&out).into(),
            inputs[0].into(),
            upstream.into(),
            (&moments.numbers).into(),
            norm.of_batch.then_some(&sums).into(),
            inputs[1].into(),
            offsets,
            each,
            rows,
            dim,
            count,
            channels.into(),
        ];
        unit.run("batch_norm_backward", Grid::each(out.len()), &arguments)?;
        Ok::<_, Error>(out)
    });
    let (of_gain, of_shift) = (unit.empty(channels)?, unit.empty(channels)?);
    let arguments = [(&of_gain).into(), (&of_shift).into(), (&sums).into(), count, channels.into()];
    unit.run("batch_norm_channels", Grid::each(channels), &arguments)?;
    Ok(vec![of_values.transpose()?, Some(of_gain), Some(of_shift)])
}
