//! InfoNCE of every model on every device, against the plain formula in double precision.

use nextpair_models::{
    Architecture, Batch, Criterion, Device, Gradients, Mode, Model, Objective, Pair, Pass,
    Reduction, Tensor, Trainer, Training, batch_loss,
};

use crate::{gradients, small};

const BATCH: usize = 5;

/// A batch in which two captions are of one image.
fn batch(config: &nextpair_models::Config, device: Device) -> Batch {
    let mut batch = small::batch(config, BATCH, 6, device);
    batch.pairs[3] = Pair { item: batch.pairs[1].item, caption: 3 };
    batch
}

/// The loss, the number of scores that it depends on, and its gradients, from scores in double
/// precision.
fn plain(model: &Model, batch: &Batch, temperature: f64) -> (f64, usize, Gradients) {
    let pass = Pass::new(model.weights(), Mode::Train(0));
    let architecture: &dyn Architecture = model.architecture();
    let images = architecture.encode_images(&pass, &batch.images).unwrap();
    let texts = architecture.encode_texts(&pass, &batch.texts).unwrap();
    let comparisons = architecture.training_comparisons(&pass).unwrap();
    let all: Vec<(Tensor, f64, Vec<f32>)> = comparisons
        .iter()
        .map(|comparison| {
            let scores = comparison.all_scores(&images, &texts, None).unwrap();
            let (value, factors) = losses(batch, &scores.to_f64s().unwrap(), temperature);
            (scores, value, factors)
        })
        .collect();
    let parts: Vec<_> = all.iter().map(|(scores, _, factors)| (scores, &factors[..])).collect();
    let gradients = Tensor::backward_of(&parts).unwrap();
    let loss = all.iter().map(|(_, value, _)| value).sum();
    (loss, parts.len() * (BATCH * BATCH - 2), gradients)
}

/// The loss of a square of scores, and its derivatives.
fn losses(batch: &Batch, numbers: &[f64], temperature: f64) -> (f64, Vec<f32>) {
    let (mut value, mut factors) = (0.0, vec![0.0; BATCH * BATCH]);
    for own in 0..BATCH {
        let rivals =
            |&other: &usize| other == own || batch.pairs[other].item != batch.pairs[own].item;
        let rivals: Vec<usize> = (0..BATCH).filter(rivals).collect();
        for places in [
            rivals.iter().map(|other| own * BATCH + other).collect::<Vec<_>>(),
            rivals.iter().map(|other| other * BATCH + own).collect(),
        ] {
            let sum: f64 = places.iter().map(|&at| (numbers[at] / temperature).exp()).sum();
            value += 0.5 * (sum.ln() - numbers[own * BATCH + own] / temperature);
            for at in places {
                factors[at] += 0.5 * (numbers[at] / temperature).exp() / sum / temperature;
            }
            factors[own * BATCH + own] -= 0.5 / temperature;
        }
    }
    (value, factors.into_iter().map(|factor| factor as f32).collect())
}

#[test]
fn gradients_are_those_of_the_formula() {
    const TEMPERATURE: f64 = 0.2;
    for (name, config) in small::configs() {
        let exact = small::model(&config, 4, Device::Reference);
        let exact_batch = batch(&config, Device::Reference);
        let (loss, active, expected) = plain(&exact, &exact_batch, TEMPERATURE);
        let near = |log: f64| plain(&exact, &exact_batch, log.exp()).0;
        let slope = (near(TEMPERATURE.ln() + 1e-5) - near(TEMPERATURE.ln() - 1e-5)) / 2e-5;
        for device in Device::available() {
            let model = small::model(&config, 4, device);
            let batch = batch(&config, device);
            let log = Tensor::new(vec![TEMPERATURE.ln() as f32], &[1], device).unwrap();
            let log = log.into_weight();
            let pass = Pass::new(model.weights(), Mode::Train(0));
            let of = |log_temperature: &Tensor| {
                let reduction = Reduction::Sum;
                let objective = Objective::InfoNce { log_temperature, reduction };
                let (losses, gradients) = batch_loss(&model, &pass, &batch, objective).unwrap();
                (losses.read().unwrap()[0], gradients)
            };
            let (found, gradients) = of(&log);
            assert!((found.loss - loss).abs() <= 1e-5 * loss, "{name}: {} {loss}", found.loss);
            assert_eq!(found.active, active, "{name}");
            let what = format!("{name} on {device}");
            // Softmax weights carry the rounding of scores into every derivative.
            gradients::compare(&what, (&model, &gradients), (&exact, &expected), 1e-3);
            let by_log = gradients.of(&log).unwrap().to_f64s().unwrap()[0];
            assert!(
                (by_log - slope).abs() <= 1e-4 * slope.abs() + 1e-4,
                "{what}: {by_log} {slope}"
            );
            let (fixed, gradients) = of(&log.detached());
            assert_eq!(fixed.loss, found.loss);
            assert!(gradients.of(&log).is_none());
        }
    }
}

#[test]
fn a_learned_temperature_moves_and_stays_within_bounds() {
    for (name, config) in small::configs().into_iter().rev().take(3) {
        let batch = batch(&config, Device::Cpu);
        let trained = |rate: f64, steps: usize| {
            let training = Training {
                rate,
                loss: Criterion::InfoNce,
                learn_temperature: true,
                loss_temperature: 0.05,
                ..Training::default()
            };
            let model = small::model(&config, 4, Device::Cpu);
            let mut trainer = Trainer::new(model, training).unwrap();
            let mut loss = |_| trainer.step(&batch, 0).unwrap().losses.read().unwrap()[0].loss;
            let losses: Vec<f64> = (0..steps).map(&mut loss).collect();
            (losses[0], losses[steps - 1], trainer.temperatures().unwrap()[0].unwrap())
        };
        let (first, last, temperature) = trained(3e-3, 60);
        assert!(last < first / 2.0, "{name}: {first} {last}");
        assert!((temperature - 0.05).abs() > 1e-4, "{name}: {temperature}");
        for steps in 1..8 {
            let (_, _, temperature) = trained(2.0, steps);
            assert!((0.00999..1.00001).contains(&temperature), "{name}: {temperature}");
        }
    }
}
