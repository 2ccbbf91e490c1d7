//! Batch normalisation (Ioffe and Szegedy, ICML 2015, <https://arxiv.org/abs/1502.03167>): the numbers
//! of a group are moved to mean 0 and variance 1, and then by a learned gain and shift.
//!
//! ```text
//! y = gain * (x - mean) / sqrt(variance + 1e-5) + shift
//! ```
//!
//! Training takes mean and (biased) variance of the batch, and gradients flow through both.
//! Evaluation takes running values, which are constants.

mod cpu;
mod gpu;
mod groups;

use nextpair_cuda::Array;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Device, Error, Real, Tensor, Values};
pub use groups::Groups;
use groups::Layout;

/// Added to variances, as PyTorch does.
const EPSILON: f64 = 1e-5;

/// The weight of a batch in running values.
const MOMENTUM: f64 = 0.1;

/// Mean and biased variance of every group of a batch. On a GPU nobody waits for them.
#[derive(Clone, Debug)]
pub struct Statistics {
    moments: Moments,
    /// The numbers in each group.
    counts: Vec<usize>,
}

/// Means and variances of groups, where their device keeps them.
#[derive(Clone, Debug)]
enum Moments {
    Known { means: Vec<f64>, variances: Vec<f64> },
    OnGpu(gpu::OnGpu),
}

impl Moments {
    /// Those of a device that is no GPU.
    fn known(&self) -> (&[f64], &[f64]) {
        match self {
            Moments::Known { means, variances } => (means, variances),
            Moments::OnGpu(_) => unreachable!("a GPU has kernels of its own"),
        }
    }
}

impl Statistics {
    /// What running means and variances become with these: a tenth of the new, nine tenths of the
    /// old. Variances are unbiased here. Where all groups share one number, they follow each other.
    ///
    /// # Errors
    /// If a device failed.
    pub fn running(&self, means: &Tensor, variances: &Tensor) -> Result<(Tensor, Tensor), Error> {
        let channels = means.len();
        Error::check_len("running variances", variances.len(), channels)?;
        if channels != 1 {
            Error::check_len("running means", channels, self.counts.len())?;
        }
        let (own_means, own_variances) = match &self.moments {
            Moments::OnGpu(moments) => return moments.running(means, variances),
            known => known.known(),
        };
        let (mut new_means, mut new_variances) = (means.to_f64s()?, variances.to_f64s()?);
        for (group, &count) in self.counts.iter().enumerate() {
            let channel = if channels == 1 { 0 } else { group };
            let unbiased = own_variances[group] * count as f64 / (count.max(2) - 1) as f64;
            let follow = |old: &mut f64, new: f64| *old = (1.0 - MOMENTUM) * *old + MOMENTUM * new;
            follow(&mut new_means[channel], own_means[group]);
            follow(&mut new_variances[channel], unbiased);
        }
        Ok((means.like(new_means)?, variances.like(new_variances)?))
    }
}

/// Normalises by the statistics of the batch, which come along. `gain` and `shift` have a number for
/// each group, or one for all.
///
/// # Errors
/// If the groups do not match the rows, or gain and shift the groups.
pub fn batch_norm(
    rows: &Tensor,
    gain: &Tensor,
    shift: &Tensor,
    groups: &Groups,
) -> Result<(Tensor, Statistics), Error> {
    let layout = Layout::new(rows, groups)?;
    let moments = match rows.values() {
        Values::Reference(values) => {
            let (means, variances) = layout.moments(values);
            Moments::Known { means, variances }
        }
        Values::Cpu(values) => cpu::moments(&layout, values),
        Values::Cuda(cuda, values) => Moments::OnGpu(gpu::OnGpu::of_batch(*cuda, &layout, values)?),
    };
    let statistics = Statistics { moments: moments.clone(), counts: layout.counts.clone() };
    let operation = BatchNorm::new(layout, gain, shift, moments, true)?;
    Ok((apply(operation, &[rows, gain, shift])?, statistics))
}

/// Normalises by given means and variances, such as running ones, which are constants.
///
/// # Errors
/// If the groups do not match the rows, or the other numbers the groups.
pub fn normalise(
    rows: &Tensor,
    gain: &Tensor,
    shift: &Tensor,
    groups: &Groups,
    (means, variances): (&Tensor, &Tensor),
) -> Result<Tensor, Error> {
    let layout = Layout::new(rows, groups)?;
    let channels = if means.len() == 1 { 1 } else { layout.counts.len() };
    Error::check_len("the means of groups", means.len(), channels)?;
    Error::check_len("the variances of groups", variances.len(), channels)?;
    let each = |numbers: &Tensor| {
        let numbers = numbers.to_f64s()?;
        match numbers[..] {
            [one] => Ok(vec![one; layout.counts.len()]),
            _ => Ok::<_, Error>(numbers),
        }
    };
    let moments = match rows.device() {
        Device::Cuda(cuda) => Moments::OnGpu(gpu::OnGpu::given(cuda, &layout, means, variances)?),
        _ => Moments::Known { means: each(means)?, variances: each(variances)? },
    };
    let operation = BatchNorm::new(layout, gain, shift, moments, false)?;
    apply(operation, &[rows, gain, shift])
}

struct BatchNorm {
    layout: Layout,
    /// Whether gain and shift are one number for all groups.
    shared: bool,
    moments: Moments,
    /// Whether means and variances are those of the batch, and have gradients.
    of_batch: bool,
}

impl BatchNorm {
    fn new(
        layout: Layout,
        gain: &Tensor,
        shift: &Tensor,
        moments: Moments,
        of_batch: bool,
    ) -> Result<Self, Error> {
        let norm = BatchNorm { layout, shared: gain.len() == 1, moments, of_batch };
        Error::check_len("the gains of groups", gain.len(), norm.channels())?;
        Error::check_len("the shifts of groups", shift.len(), norm.channels())?;
        Ok(norm)
    }

    /// Gains and shifts.
    fn channels(&self) -> usize {
        if self.shared { 1 } else { self.layout.counts.len() }
    }

    fn channel(&self, group: usize) -> usize {
        if self.shared { 0 } else { group }
    }

    /// The means of all groups, and `1 / sqrt(variance + epsilon)`.
    fn known(&self) -> (&[f64], Vec<f64>) {
        let (means, variances) = self.moments.known();
        (means, variances.iter().map(|variance| 1.0 / (variance + EPSILON).sqrt()).collect())
    }
}

impl Operation for BatchNorm {
    fn shape(&self) -> Vec<usize> {
        vec![self.layout.rows, self.layout.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let &[values, gain, shift] = inputs else { unreachable!("rows, gain and shift") };
        let constant = |numbers: &[f64]| numbers.iter().map(|&x| R::of(x)).collect::<Vec<R>>();
        let (means, inverses) = if self.of_batch {
            let (means, variances) = self.layout.moments(values);
            let inverse = |&variance: &R| R::of(1.0) / (variance + R::of(EPSILON)).sqrt();
            (means, variances.iter().map(inverse).collect())
        } else {
            let (means, inverses) = self.known();
            (constant(means), constant(&inverses))
        };
        let number = |(at, &x): (usize, &R)| {
            let group = self.layout.group(at / self.layout.dim, at % self.layout.dim);
            let channel = self.channel(group);
            gain[channel] * ((x - means[group]) * inverses[group]) + shift[channel]
        };
        values.iter().enumerate().map(number).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        Ok(cpu::forward(self, inputs[0], inputs[1], inputs[2]))
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        Ok(cpu::backward(self, inputs[0], inputs[1], upstream, wanted[0]))
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        match &self.moments {
            Moments::OnGpu(moments) => gpu::forward(self, moments, unit, inputs),
            Moments::Known { .. } => Err(Error::Devices),
        }
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        match &self.moments {
            Moments::OnGpu(moments) => gpu::backward(self, moments, unit, inputs, upstream, wanted),
            Moments::Known { .. } => Err(Error::Devices),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    /// Groups of 12 rows of 5, and how many there are.
    fn all_groups() -> [(Groups, usize); 3] {
        [(Groups::Columns, 5), (Groups::Slots(4), 4), (Groups::Spans(vec![0, 3, 4, 10, 12]), 4)]
    }

    #[test]
    fn every_device_follows_the_formula() {
        for (groups, count) in all_groups() {
            for channels in [1, count] {
                let inputs = [tensor(1, &[12, 5]), tensor(2, &[channels]), tensor(3, &[channels])];
                judge(&inputs, 1e-5, |inputs| {
                    Ok(batch_norm(&inputs[0], &inputs[1], &inputs[2], &groups)?.0)
                });
                let given = [0.3, -0.2, 0.0, 0.5, 1.0];
                judge(&inputs, 1e-5, |inputs| {
                    let device = inputs[0].device();
                    let means = Tensor::new(given[..count].to_vec(), &[count], device)?;
                    let variances = given[..count].iter().map(|x| x * x + 0.1).collect();
                    let variances = Tensor::new(variances, &[count], device)?;
                    let running = (&means, &variances);
                    normalise(&inputs[0], &inputs[1], &inputs[2], &groups, running)
                });
            }
        }
        // More numbers in a group than threads of a block.
        let spans = Groups::Spans(vec![0, 40, 41, 300]);
        for (groups, count) in [(Groups::Columns, 70), (Groups::Slots(6), 6), (spans, 3)] {
            let many = [tensor(1, &[300, 70]), tensor(2, &[count]), tensor(3, &[count])];
            judge(&many, 1e-5, |inputs| {
                Ok(batch_norm(&inputs[0], &inputs[1], &inputs[2], &groups)?.0)
            });
        }
    }

    #[test]
    fn groups_that_do_not_fit_are_refused() {
        let (rows, one) = (tensor(1, &[12, 5]), tensor(2, &[1]));
        for groups in [Groups::Slots(5), Groups::Slots(0), Groups::Spans(vec![0, 3, 3, 12])] {
            assert!(batch_norm(&rows, &one, &one, &groups).is_err(), "{groups:?}");
        }
        let three = tensor(3, &[3]);
        assert!(batch_norm(&rows, &three, &three, &Groups::Columns).is_err());
    }

    #[test]
    fn running_values_follow_the_batch_with_unbiased_variances() {
        for device in [Device::Reference].into_iter().chain(Device::available()) {
            let on =
                |values: Vec<f32>, shape: &[usize]| Tensor::new(values, shape, device).unwrap();
            let rows = on(vec![1.0, 0.0, 3.0, 0.0], &[2, 2]);
            let (one, nothing) = (on(vec![1.0], &[1]), on(vec![0.0], &[1]));
            let running = (on(vec![0.0; 2], &[2]), on(vec![1.0; 2], &[2]));
            let (_, found) = batch_norm(&rows, &one, &nothing, &Groups::Columns).unwrap();
            let (means, variances) = found.running(&running.0, &running.1).unwrap();
            let close = |found: &Tensor, expected: &[f64]| {
                let found = found.to_f64s().unwrap();
                found.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-6));
            };
            close(&means, &[0.2, 0.0]);
            close(&variances, &[0.9 + 0.1 * 2.0, 0.9]);
            // Groups that share one number follow each other.
            let spans = Groups::Spans(vec![0, 1, 2]);
            let (_, found) = batch_norm(&rows, &one, &nothing, &spans).unwrap();
            let (means, _) = found.running(&nothing, &one).unwrap();
            close(&means, &[0.9 * 0.05 + 0.15]);
        }
    }
}
