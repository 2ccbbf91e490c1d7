//! Trainings that stay on a plateau, by their losses.

use std::fmt;

use crate::{Architecture, Criterion, Epoch, Evaluation, Reduction, Training, Violation};

/// How far below the loss of equal scores a loss has to be, as a share of it.
const PLATEAU: f64 = 0.01;
/// The share of the fall of a loss in the last quarter of the epochs above which more epochs would lower it further.
const STILL_FALLING: f64 = 0.15;
/// Rates above this are hardly ever right.
const HIGH_RATE: f64 = 0.01;

/// A training that stayed on a plateau: its loss ended at that of a model with equal scores for all pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateau {
    /// The loss of the last epoch.
    pub loss: f64,
    /// The loss of equal scores.
    pub alike: f64,
    /// The learning rate at first.
    pub rate: f64,
    /// Whether the hardest negatives counted alone from the first epoch on.
    pub hardest_at_once: bool,
}

impl Plateau {
    /// Looks at the losses of the training of a model on `pairs` pairs, and at what the model finds: in `tested`, or
    /// on dev. `None` if it has learned something: the loss of the hardest negatives may stay high
    /// while recalls rise.
    pub fn of(
        model: &dyn Architecture,
        training: &Training,
        pairs: usize,
        epochs: &[Epoch],
        tested: Option<&Evaluation>,
    ) -> Option<Self> {
        let tested = tested.or_else(|| epochs.iter().rev().find_map(|epoch| epoch.dev.as_ref()));
        if tested.and_then(Evaluation::is_near_chance) == Some(false) {
            return None;
        }
        let loss = epochs.last().map(|epoch| epoch.loss - epoch.auxiliary)?;
        let alike = model.losses() as f64 * loss_of_equal_scores(training, pairs);
        let stuck = alike > 0.0 && loss >= (1.0 - PLATEAU) * alike;
        let hardest_at_once = training.violation_at(0) == Violation::Max
            && matches!(training.loss, Criterion::Hinge | Criterion::CrossEntropy);
        stuck.then_some(Plateau { loss, alike, rate: training.rate, hardest_at_once })
    }
}

impl fmt::Display for Plateau {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plateau { loss, alike, rate, hardest_at_once } = self;
        write!(
            out,
            "the loss ended at {loss:.3}, and equal scores for all pairs have {alike:.3}: \
             hardly anything was learned; "
        )?;
        match (*rate > HIGH_RATE, hardest_at_once) {
            (true, _) => write!(out, "take a smaller rate than {rate}, such as 2e-4"),
            (false, false) => write!(out, "train for more epochs, or try another rate than {rate}"),
            (false, true) => write!(
                out,
                "train for more epochs, try another rate than {rate}, or let all negatives count, at \
                 first (--sum-epochs 1) or always (--violation sum)"
            ),
        }
    }
}

/// Returns the share of the fall of the loss that came in the last quarter of the epochs, if it is so large that the
/// training should have gone on.
pub fn still_falling(epochs: &[Epoch]) -> Option<f64> {
    let loss = |at: usize| epochs.get(at).map(|epoch| epoch.loss - epoch.auxiliary);
    let quarter = (epochs.len() / 4).max(1);
    let last = epochs.len().checked_sub(1).filter(|&last| last >= 3)?;
    let (first, late, last) = (loss(0)?, loss(last - quarter)?, loss(last)?);
    let share = (late - last) / (first - last);
    (first > last && share > STILL_FALLING).then_some(share)
}

/// The loss per pair of a model that gives all pairs the same score.
fn loss_of_equal_scores(training: &Training, pairs: usize) -> f64 {
    let batch = training.batch.max(1);
    let of_batch = |size: usize| {
        let size = size as f64;
        match (training.loss, training.violation) {
            (Criterion::Hinge, Violation::Max) => 2.0 * training.margin * size,
            (Criterion::Hinge, Violation::Sum) => {
                let all = 2.0 * training.margin * size * (size - 1.0);
                if training.reduction == Reduction::Mean { all / size } else { all }
            }
            (Criterion::InfoNce, _) => size * size.ln(),
            // The one probability that costs least.
            (Criterion::CrossEntropy, Violation::Max) => size * 4.0 * 2.0f64.ln(),
            (Criterion::CrossEntropy, Violation::Sum) => {
                let (wrong, right) = ((size - 1.0) / size, size / (2.0 * size - 1.0));
                -right.ln() - wrong * (1.0 - right).ln()
            }
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
    use std::sync::LazyLock;

    use super::*;
    use crate::{Config, Pair, info_nce, loss};

    /// A model with one loss.
    fn model() -> &'static dyn Architecture {
        static MODEL: LazyLock<Config> = LazyLock::new(|| Config::named("vse++").unwrap());
        MODEL.architecture()
    }

    fn epochs(losses: &[f64]) -> Vec<Epoch> {
        let epoch = |(at, &loss): (usize, &f64)| Epoch {
            epoch: at + 1,
            loss,
            auxiliary: 0.0,
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
    fn a_training_that_was_cut_short_is_told_from_one_that_has_ended() {
        let of = |loss: fn(f64) -> f64| {
            let losses: Vec<f64> = (0..40).map(|epoch| loss(f64::from(epoch) / 40.0)).collect();
            still_falling(&epochs(&losses))
        };
        assert_eq!(of(|time| (-5.0 * time).exp()), None);
        assert_eq!(of(|time| 0.4 + 0.1 * time), None);
        assert!(of(|time| 1.0 - time).unwrap() > 0.2);
        assert!(of(|time| (-time).exp()).is_some());
        assert!(still_falling(&epochs(&[0.9, 0.5])).is_none(), "too few to tell");
    }

    #[test]
    fn a_loss_that_falls_is_not_a_plateau() {
        let training = Training { batch: 10, ..Training::default() };
        let of = |losses: &[f64]| Plateau::of(model(), &training, 100, &epochs(losses), None);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[0.6, 0.41, 0.3]), None);
        let said = of(&[0.6, 0.4001]).unwrap().to_string();
        assert!(said.starts_with("the loss ended at 0.400, and equal scores"), "{said}");
        assert!(
            said.contains("try another rate than 0.0002, or let all negatives count"),
            "{said}"
        );
        let training = Training { sum_epochs: 1, ..training };
        let said = Plateau::of(model(), &training, 100, &epochs(&[0.4]), None).unwrap().to_string();
        assert!(said.ends_with("or try another rate than 0.0002"), "{said}");
        // A model of two losses has learned something when their sum is below twice the loss.
        let both = Config::named("sgraf").unwrap();
        let of = |loss| Plateau::of(both.architecture(), &training, 100, &epochs(&[loss]), None);
        assert!(of(0.8).is_some() && of(0.5).is_none());
        let training = Training { batch: 10, rate: 99.0, ..Training::default() };
        let said =
            Plateau::of(model(), &training, 100, &epochs(&[0.9, 0.7]), None).unwrap().to_string();
        assert!(said.ends_with("take a smaller rate than 99, such as 2e-4"), "{said}");
    }

    #[test]
    fn a_model_that_finds_things_has_learned() {
        let tested = |r1: f64, mean_rank: f64, images: usize| {
            let mut tested = Evaluation { images, captions: 5 * images, ..Evaluation::default() };
            (tested.text.r1, tested.image.r1, tested.image.mean_rank) = (r1, r1, mean_rank);
            tested
        };
        assert_eq!(tested(0.1, 480.0, 1000).is_near_chance(), Some(true));
        assert_eq!(tested(2.0, 200.0, 1000).is_near_chance(), Some(false));
        assert_eq!(tested(0.1, 100.0, 1000).is_near_chance(), Some(false));
        let folded = Evaluation { folds: 5, ..tested(0.5, 95.0, 1000) };
        assert_eq!(folded.is_near_chance(), Some(true));
        assert_eq!(tested(9.0, 2.0, 10).is_near_chance(), None);

        let training = Training { batch: 10, ..Training::default() };
        let stuck = |tested: Option<Evaluation>| {
            Plateau::of(model(), &training, 100, &epochs(&[0.6, 0.4]), tested.as_ref()).is_some()
        };
        assert!(stuck(None) && stuck(Some(tested(0.1, 480.0, 1000))));
        assert!(!stuck(Some(tested(9.0, 120.0, 1000))), "the loss is high, and it finds things");
        let mut on_dev = epochs(&[0.6, 0.4]);
        on_dev[1].dev = Some(tested(9.0, 120.0, 1000));
        assert_eq!(Plateau::of(model(), &training, 100, &on_dev, None), None);
    }
}
