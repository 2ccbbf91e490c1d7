//! Models that are averaged over their last epochs, and trainings that are resumed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::{Criterion, Member, Model, Trainer};

/// Everything that is off by default.
fn training() -> Training {
    Training {
        epochs: 4,
        batch: 8,
        rate: 3e-3,
        average_last: 3,
        validate_last: 3,
        loss: Criterion::InfoNce,
        learn_temperature: true,
        dropout_inputs: 0.2,
        dropout_states: 0.1,
        ..Training::default()
    }
}

#[test]
fn the_mean_of_the_last_epochs_is_kept() {
    let world = World::with("vse++", training());
    assert_eq!(world.trained().unwrap(), [1, 2, 3, 4]);
    let run = ModelFolder::open(&world.path("run")).unwrap();
    let epochs = run.epochs().unwrap();
    let evaluated: Vec<bool> = epochs.iter().map(|epoch| epoch.dev.is_some()).collect();
    assert_eq!(evaluated, [false, false, false, true]);
    assert!(epochs.iter().all(|epoch| epoch.temperature.is_some_and(|t| t != 0.07)));
    let kept = run.model(Device::Cpu).unwrap();
    let corpus = run.corpus(world.dataset()).unwrap();
    let dev = evaluate(&kept, &corpus, &corpus.dev_items(1000), 1, &()).unwrap();
    assert_eq!(epochs[3].dev, Some(dev), "the mean is what is evaluated");
    // The same by hand.
    let (spec, pairs) = (run.spec(), run.pairs(&corpus).unwrap());
    let model = Model::new(spec.model.clone(), spec.inputs, 0, Device::Cpu).unwrap();
    let mut trainer = Trainer::new(model, training()).unwrap();
    let member = Member { folder: None, corpus: &corpus, pairs: &pairs, seed: training().seed };
    let mut sums: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for epoch in 0..4 {
        trainer.epoch(&[member], epoch, &()).unwrap();
        for (name, weight) in trainer.model().weights().iter().filter(|_| epoch > 0) {
            let sum = sums.entry(name.to_owned()).or_insert_with(|| vec![0.0; weight.len()]);
            sum.iter_mut().zip(weight.to_f64s().unwrap()).for_each(|(sum, value)| *sum += value);
        }
    }
    for (name, weight) in kept.weights().iter() {
        for (found, sum) in weight.to_f64s().unwrap().iter().zip(&sums[name]) {
            assert!((found - sum / 3.0).abs() < 1e-6, "{name}: {found} {}", sum / 3.0);
        }
    }
}

#[test]
fn a_training_that_was_stopped_ends_with_the_same_bytes() {
    for model in ["vse++", "scan-t2i"] {
        let whole = World::with(model, training());
        whole.trained().unwrap();
        let weights = |world: &World| fs::read(world.path("run/model.safetensors")).unwrap();
        for stop in 1..=3 {
            let world = World::with(model, training());
            let run = ModelFolder::open(&world.path("run")).unwrap();
            let corpus = run.training_corpus(world.dataset()).unwrap();
            let stopped = catch_unwind(AssertUnwindSafe(|| {
                train(&run, &corpus, Device::Cpu, &(), |epoch| assert!(epoch.epoch < stop))
                    .map(drop)
            }));
            assert!(stopped.is_err());
            assert!(!world.trained().unwrap().contains(&1), "the state is there");
            assert!(weights(&world) == weights(&whole), "{model} after epoch {stop}");
        }
    }
}
