//! Trainings that have learned nothing, told by their losses.

use std::fmt;

use crate::{Criterion, Epoch, Training, Violation};

/// How near to a loss another one counts as the same, as a share of it.
const NEAR: f64 = 0.01;
/// Epochs after which a loss should have fallen.
const PATIENCE: usize = 3;

/// Why a training has learned nothing, and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plateau {
    /// The loss of the last epoch.
    pub loss: f64,
    /// The learning rate at first.
    pub rate: f64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// All scores are equal.
    Collapsed,
    /// The loss never fell below that of the first epoch.
    Flat { first: f64 },
}

impl Plateau {
    /// Looks at the losses of a training on `pairs` pairs. `None` if it has learned something.
    pub fn of(training: &Training, pairs: usize, epochs: &[Epoch]) -> Option<Self> {
        let (first, last) = (epochs.first()?.loss, epochs.last()?.loss);
        let collapsed = loss_of_equal_scores(training, pairs);
        let lowest = epochs.iter().skip(1).map(|epoch| epoch.loss).fold(f64::INFINITY, f64::min);
        let kind = if collapsed > 0.0 && (last - collapsed).abs() <= NEAR * collapsed {
            Kind::Collapsed
        } else if epochs.len() >= PATIENCE && lowest >= (1.0 - NEAR) * first && first > 0.0 {
            Kind::Flat { first }
        } else {
            return None;
        };
        Some(Plateau { loss: last, rate: training.rate, kind })
    }
}

impl fmt::Display for Plateau {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plateau { loss, rate, kind } = self;
        match kind {
            Kind::Collapsed => write!(
                out,
                "the loss ended at {loss:.3}, as if all pairs were alike: nothing was learned"
            )?,
            Kind::Flat { first } => write!(
                out,
                "the loss stayed where it began ({first:.3} in the first epoch, {loss:.3} in the \
                 last): nothing was learned"
            )?,
        }
        write!(out, "; try a smaller rate (it is {rate}), or more epochs if it is small already")
    }
}

/// The loss per pair of a model that gives all pairs the same score.
fn loss_of_equal_scores(training: &Training, pairs: usize) -> f64 {
    let batch = training.batch.max(1);
    let of_batch = |size: usize| {
        let size = size as f64;
        match (training.loss, training.violation) {
            (Criterion::Hinge, Violation::Max) => 2.0 * training.margin * size,
            (Criterion::Hinge, Violation::Sum) => 2.0 * training.margin * size * (size - 1.0),
            (Criterion::InfoNce, _) => size * size.ln(),
        }
    };
    let rest = match pairs % batch {
        // A pair alone has no violation.
        0 | 1 => 0.0,
        rest => of_batch(rest),
    };
    ((pairs / batch) as f64 * of_batch(batch) + rest) / pairs.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pair, info_nce, loss};

    fn epochs(losses: &[f64]) -> Vec<Epoch> {
        let epoch = |(at, &loss): (usize, &f64)| Epoch {
            epoch: at + 1,
            loss,
            rate: 0.1,
            active: 0.5,
            temperature: None,
            gradient: 1.0,
            seconds: 0.0,
            dev: None,
            dev_seconds: 0.0,
        };
        losses.iter().enumerate().map(epoch).collect()
    }

    #[test]
    fn equal_scores_have_this_loss() {
        let scores = [0.3; 25];
        for violation in [Violation::Max, Violation::Sum] {
            let training = Training { violation, batch: 5, ..Training::default() };
            let expected = loss(&scores, 5, training.margin, violation).value / 5.0;
            assert!((loss_of_equal_scores(&training, 10) - expected).abs() < 1e-9);
        }
        let training = Training { loss: Criterion::InfoNce, batch: 5, ..Training::default() };
        let pairs: Vec<Pair> = (0..5).map(|at| Pair { item: at, caption: at }).collect();
        let expected = info_nce(&scores, &pairs, 0.07).value / 5.0;
        assert!((loss_of_equal_scores(&training, 5) - expected).abs() < 1e-9);
    }

    #[test]
    fn a_loss_that_falls_is_not_a_plateau() {
        let training = Training { batch: 10, ..Training::default() };
        let of = |losses: &[f64]| Plateau::of(&training, 100, &epochs(losses));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[0.6, 0.41, 0.3]), None);
        assert_eq!(of(&[0.6]), None);
        let collapsed = of(&[0.6, 0.4001]).unwrap().to_string();
        assert!(collapsed.starts_with("the loss ended at 0.400, as if all pairs"), "{collapsed}");
        assert!(collapsed.contains("smaller rate (it is 0.0002)"), "{collapsed}");
        let flat = of(&[0.6, 0.7, 0.65]).unwrap().to_string();
        assert!(flat.contains("(0.600 in the first epoch, 0.650 in the last)"), "{flat}");
        assert_eq!(of(&[0.6, 0.7]), None);
    }
}
