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

use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor, Values};

/// Added to variances, as PyTorch does.
const EPSILON: f64 = 1e-5;

/// The weight of a batch in running values.
const MOMENTUM: f64 = 0.1;

/// Which numbers of a matrix have a mean and a variance together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    /// Every column.
    Columns,
    /// Every `n`-th row: the same region of all images that have `n` regions.
    Slots(usize),
    /// The rows from each offset to the next: what belongs to one caption.
    Spans(Vec<usize>),
}

/// Mean and biased variance of every group of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// The means.
    pub means: Vec<f64>,
    /// The variances, divided by the count.
    pub variances: Vec<f64>,
    /// The numbers in each group.
    pub counts: Vec<usize>,
}

impl Statistics {
    /// What running means and variances become with these: a tenth of the new, nine tenths of the
    /// old. Variances are unbiased here. Where all groups share one number, they follow each other.
    ///
    /// # Errors
    /// If a device failed.
    pub fn running(&self, means: &Tensor, variances: &Tensor) -> Result<(Tensor, Tensor), Error> {
        let (mut new_means, mut new_variances) = (means.to_f64s()?, variances.to_f64s()?);
        let channels = new_means.len();
        Error::check_len("running variances", new_variances.len(), channels)?;
        for group in 0..self.means.len() {
            let channel = if channels == 1 { 0 } else { group };
            let count = self.counts[group];
            let unbiased = self.variances[group] * count as f64 / (count.max(2) - 1) as f64;
            let follow = |old: &mut f64, new: f64| *old = (1.0 - MOMENTUM) * *old + MOMENTUM * new;
            follow(&mut new_means[channel], self.means[group]);
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
    let statistics = match rows.values() {
        Values::Reference(values) => layout.statistics(values),
        Values::Cpu(values) => cpu::statistics(&layout, values),
        Values::Cuda(..) => cpu::statistics(&layout, &rows.to_f32s()?),
    };
    let (means, variances) = (statistics.means.clone(), statistics.variances.clone());
    let operation = BatchNorm::new(layout, gain, shift, (means, variances), true)?;
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
    let each = |numbers: &Tensor| {
        let numbers = numbers.to_f64s()?;
        match numbers[..] {
            [one] => Ok(vec![one; layout.counts.len()]),
            _ => Ok::<_, Error>(numbers),
        }
    };
    let given = (each(means)?, each(variances)?);
    Error::check_len("the means of groups", given.0.len(), layout.counts.len())?;
    Error::check_len("the variances of groups", given.1.len(), layout.counts.len())?;
    let operation = BatchNorm::new(layout, gain, shift, given, false)?;
    apply(operation, &[rows, gain, shift])
}

/// The groups of a matrix.
struct Layout {
    rows: usize,
    dim: usize,
    /// The group of each row, unless groups are columns.
    of_rows: Option<Vec<u32>>,
    /// Numbers in each group.
    counts: Vec<usize>,
}

impl Layout {
    fn new(rows: &Tensor, groups: &Groups) -> Result<Self, Error> {
        let (count, dim) = rows.matrix_shape()?;
        let (of_rows, counts) = match groups {
            Groups::Columns => (None, vec![count; dim]),
            Groups::Slots(each) => {
                let whole = count / (*each).max(1) * each;
                Error::check_len("the rows of slots", count, whole)?;
                let of_rows = (0..count).map(|row| (row % each) as u32).collect();
                (Some(of_rows), vec![count / (*each).max(1) * dim; *each])
            }
            Groups::Spans(offsets) => {
                super::spans::check("rows to normalise", count, offsets)?;
                let lengths = offsets.windows(2).map(|span| span[1] - span[0]);
                let of_rows = lengths.clone().enumerate();
                let of_rows = of_rows.flat_map(|(group, n)| std::iter::repeat_n(group as u32, n));
                (Some(of_rows.collect()), lengths.map(|length| length * dim).collect())
            }
        };
        Ok(Layout { rows: count, dim, of_rows, counts })
    }

    fn group(&self, row: usize, column: usize) -> usize {
        self.of_rows.as_ref().map_or(column, |groups| groups[row] as usize)
    }

    /// Sums of a number per place, for every group.
    fn sums<R: Real>(&self, number: impl Fn(usize, usize) -> R) -> Vec<R> {
        let mut sums = vec![R::of(0.0); self.counts.len()];
        for at in 0..self.rows * self.dim {
            let group = self.group(at / self.dim, at % self.dim);
            sums[group] = sums[group] + number(at, group);
        }
        sums
    }

    /// Means and biased variances.
    fn moments<R: Real>(&self, values: &[R]) -> (Vec<R>, Vec<R>) {
        let mean = |sums: Vec<R>| -> Vec<R> {
            let counts = self.counts.iter().map(|&count| R::of(count.max(1) as f64));
            sums.into_iter().zip(counts).map(|(sum, count)| sum / count).collect()
        };
        let means = mean(self.sums(|at, _| values[at]));
        let off = |at: usize, group: usize| values[at] - means[group];
        let variances = mean(self.sums(|at, group| off(at, group) * off(at, group)));
        (means, variances)
    }

    fn statistics(&self, values: &[f64]) -> Statistics {
        let (means, variances) = self.moments(values);
        Statistics { means, variances, counts: self.counts.clone() }
    }
}

struct BatchNorm {
    layout: Layout,
    /// Whether gain and shift are one number for all groups.
    shared: bool,
    means: Vec<f64>,
    /// `1 / sqrt(variance + epsilon)`.
    inverses: Vec<f64>,
    /// Whether means and variances are those of the batch, and have gradients.
    of_batch: bool,
}

impl BatchNorm {
    fn new(
        layout: Layout,
        gain: &Tensor,
        shift: &Tensor,
        (means, variances): (Vec<f64>, Vec<f64>),
        of_batch: bool,
    ) -> Result<Self, Error> {
        let shared = gain.len() == 1;
        let channels = if shared { 1 } else { layout.counts.len() };
        Error::check_len("the gains of groups", gain.len(), channels)?;
        Error::check_len("the shifts of groups", shift.len(), channels)?;
        let inverses = variances.iter().map(|variance| 1.0 / (variance + EPSILON).sqrt()).collect();
        Ok(BatchNorm { layout, shared, means, inverses, of_batch })
    }

    fn channel(&self, group: usize) -> usize {
        if self.shared { 0 } else { group }
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
            (constant(&self.means), constant(&self.inverses))
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
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
        let many = [tensor(1, &[300, 70]), tensor(2, &[70]), tensor(3, &[70])];
        judge(&many, 1e-5, |inputs| {
            Ok(batch_norm(&inputs[0], &inputs[1], &inputs[2], &Groups::Columns)?.0)
        });
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
