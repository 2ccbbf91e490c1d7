//! The sparse procedure on every device against all pairs by the plain formulas.

use nextpair_models::{
    Batch, Device, Dropout, Gradients, MemberLoss, Mode, Model, Objective, Pass, Reduction, Tensor,
    Violation, batch_loss, loss,
};

use crate::small;

const BATCH: usize = 6;
const MARGIN: f64 = 0.2;

const NOTHING: Dropout = Dropout { inputs: 0.0, states: 0.0 };
const SOME: Dropout = Dropout { inputs: 0.3, states: 0.2 };

fn sparse(
    model: &Model,
    batch: &Batch,
    violation: Violation,
    dropout: Dropout,
) -> (MemberLoss, Gradients) {
    let pass =
        Pass::new(model.weights(), Mode::Train(3)).with_dropout(dropout, vec![3], &batch.pairs);
    let objective = Objective::Hinge { margin: MARGIN, violation, reduction: Reduction::Sum };
    let (losses, gradients) = batch_loss(model, &pass, batch, objective).unwrap();
    (losses.read().unwrap()[0], gradients)
}

/// The loss over all pairs of every comparison of training: scores in double precision, each with a
/// gradient.
fn dense(model: &Model, batch: &Batch, violation: Violation, dropout: Dropout) -> (f64, Gradients) {
    let pass =
        Pass::new(model.weights(), Mode::Train(3)).with_dropout(dropout, vec![3], &batch.pairs);
    let images = model.architecture().encode_images(&pass, &batch.images).unwrap();
    let texts = model.architecture().encode_texts(&pass, &batch.texts).unwrap();
    let comparisons = model.architecture().training_comparisons(&pass).unwrap();
    let all: Vec<(Tensor, f64, Vec<f32>)> = comparisons
        .iter()
        .map(|comparison| {
            let scores = comparison.all_scores(&images, &texts, None).unwrap();
            let (value, factors) = hinges(&scores.to_f64s().unwrap(), violation);
            (scores, value, factors)
        })
        .collect();
    let mut parts: Vec<_> = all.iter().map(|(scores, _, factors)| (scores, &factors[..])).collect();
    let mut loss = all.iter().map(|(_, value, _)| value).sum();
    let own = model.architecture().auxiliary_loss(&pass, batch, &images, &texts).unwrap();
    if let Some(own) = &own {
        loss += own.to_f64s().unwrap()[0];
        parts.push((own, &[1.0]));
    }
    let gradients = Tensor::backward_of(&parts).unwrap();
    (loss, gradients)
}

/// The hinges of a square of scores, and their derivatives.
fn hinges(scores: &[f64], violation: Violation) -> (f64, Vec<f32>) {
    let (mut value, mut factors) = (0.0, vec![0.0; BATCH * BATCH]);
    let score = |i: usize, j: usize| scores[i * BATCH + j];
    for own in 0..BATCH {
        for place in [|own: usize, other: usize| (own, other), |own, other| (other, own)] {
            let hinge = |&other: &usize| {
                let (i, j) = place(own, other);
                (MARGIN + score(i, j) - score(own, own)).max(0.0)
            };
            let mut others: Vec<usize> = (0..BATCH).filter(|&other| other != own).collect();
            if violation == Violation::Max {
                others.sort_by(|a, b| hinge(b).total_cmp(&hinge(a)));
                others.truncate(1);
            }
            for other in others.into_iter().filter(|other| hinge(other) > 0.0) {
                let (i, j) = place(own, other);
                value += hinge(&other);
                factors[i * BATCH + j] += 1.0;
                factors[own * BATCH + own] -= 1.0;
            }
        }
    }
    (value, factors)
}

/// Asserts that the gradients of a model are those of the same model in double precision.
pub fn compare(
    what: &str,
    found: (&Model, &Gradients),
    exact: (&Model, &Gradients),
    tolerance: f64,
) {
    let mut compared = 0;
    let weights = found.0.weights().iter().zip(exact.0.weights().iter());
    for ((weight, own), (_, exactly)) in weights {
        let found = found.1.of(own).map(|g| g.to_f64s().unwrap());
        let expected = exact.1.of(exactly).map(|g| g.to_f64s().unwrap());
        assert_eq!(found.is_some(), expected.is_some(), "{what}: {weight}");
        let (Some(found), Some(expected)) = (found, expected) else { continue };
        let size = expected.iter().fold(0.0, |largest: f64, g| largest.max(g.abs()));
        let off = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
        let off = off.fold(0.0, f64::max);
        // A gradient that is zero in exact arithmetic, such as that of a bias before a batch norm, comes
        // out as the rounding of much larger numbers.
        let least = if size < 1e-9 { 5e-5 } else { 2e-6 };
        assert!(off <= tolerance * size + least, "{what}: {weight} is {off} off of {size}");
        compared += usize::from(size > 1e-3);
    }
    assert!(compared >= 4, "{what}");
}

#[test]
fn sparse_gradients_are_those_of_all_pairs() {
    for (name, config) in small::configs().into_iter().chain(small::with_own_losses()) {
        let exact = small::model(&config, 4, Device::Reference);
        for device in Device::available() {
            let model = small::model(&config, 4, device);
            let batch = small::batch(&config, BATCH, 6, device);
            let ways =
                [(Violation::Max, NOTHING), (Violation::Sum, NOTHING), (Violation::Max, SOME)];
            for (violation, dropout) in ways {
                let (sparse, found) = sparse(&model, &batch, violation, dropout);
                let plain = small::batch(&config, BATCH, 6, Device::Reference);
                let (value, expected) = dense(&exact, &plain, violation, dropout);
                let off = (sparse.loss - value).abs();
                assert!(off <= 1e-5 * value, "{name}: {} {value}", sparse.loss);
                assert!(value > 0.1, "{name}: a loss of {value} shows nothing");
                let what = format!("{name} {violation:?} on {device}");
                let expected = (&exact, &expected);
                // Sums of all hinges are small differences of large numbers: the order of sums shows.
                let tolerance = if device == Device::Cpu { 1e-4 } else { 3e-4 };
                compare(&what, (&model, &found), expected, tolerance);
            }
        }
    }
}

/// A batch without a violation, or of a single pair, still has gradients: zeros for the weights
/// that its scores depend on, so that momentum moves them as in PyTorch.
#[test]
fn without_a_violation_the_gradients_are_zeros() {
    for (name, config) in small::configs() {
        for device in Device::available() {
            let model = small::model(&config, 4, device);
            let sparse = |count: usize| {
                let batch = small::batch(&config, count, 6, device);
                sparse(&model, &batch, Violation::Max, NOTHING)
            };
            let (alone, zeros) = sparse(1);
            assert_eq!((alone.loss, alone.active), (0.0, 0), "{name}");
            let (_, many) = sparse(BATCH);
            for (weight, tensor) in model.weights().iter() {
                let zeros = zeros.of(tensor);
                assert_eq!(zeros.is_some(), many.of(tensor).is_some(), "{name}: {weight}");
                let all = zeros.map(|zeros| zeros.to_f64s().unwrap()).unwrap_or_default();
                assert!(all.iter().all(|&g| g == 0.0), "{name}: {weight}");
            }
        }
    }
}

/// The loss of the scores is the one that is differentiated.
#[test]
fn the_dense_loss_is_that_of_the_scores() {
    let (_, config) = small::configs().swap_remove(0);
    let model = small::model(&config, 4, Device::Reference);
    let batch = small::batch(&config, BATCH, 6, Device::Reference);
    let images = model.encode_images(&batch.images).unwrap();
    let texts = model.encode_texts(&batch.texts).unwrap();
    let scores = model.comparison().unwrap().scores(&images, &texts).unwrap();
    for violation in [Violation::Max, Violation::Sum] {
        let expected = loss(&scores, BATCH, MARGIN, violation).value;
        let (found, _) = dense(&model, &batch, violation, NOTHING);
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

#[test]
fn a_batch_that_does_not_fit_together_is_refused() {
    let (_, config) = small::configs().swap_remove(0);
    let model = small::model(&config, 4, Device::Cpu);
    let mut batch = small::batch(&config, BATCH, 6, Device::Cpu);
    batch.texts = small::batch(&config, 2, 6, Device::Cpu).texts;
    let pass = Pass::new(model.weights(), Mode::Train(0));
    let (violation, reduction) = (Violation::Max, Reduction::Sum);
    let hinge = Objective::Hinge { margin: MARGIN, violation, reduction };
    let refused = batch_loss(&model, &pass, &batch, hinge).err().unwrap();
    assert!(refused.to_string().contains("6 images and 2 captions"), "{refused}");
}
