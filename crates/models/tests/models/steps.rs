//! Steps of training on every device.

use nextpair_models::{Batch, Config, Device, Trainer, Training, VseInfinity};

use crate::small;

/// The losses and norms of the first steps of a model with the optimiser it was published with, and
/// what it encodes then.
fn steps(config: &Config, device: Device) -> [Vec<f64>; 2] {
    let training = Training { rate: 1e-3, ..config.architecture().training() };
    let mut trainer = Trainer::new(small::model(config, 4, device), training).unwrap();
    let steps = (0..3).map(|number| {
        let batch = small::batch(config, 6, 6 + number, device);
        let step = trainer.step(&batch, 0).unwrap();
        [step.losses.read().unwrap()[0].loss, step.gradient.value().unwrap()]
    });
    let losses: Vec<f64> = steps.flatten().collect();
    let Batch { images, texts, .. } = small::batch(config, 4, 9, device);
    let mut encoded = trainer.model().encode_images(&images).unwrap().rows.to_f64s().unwrap();
    encoded.extend(trainer.model().encode_texts(&texts).unwrap().rows.to_f64s().unwrap());
    [losses, encoded]
}

/// Losses, those of the model itself, the steps of optimisers and the values that batch norm keeps.
#[test]
fn every_device_takes_the_same_steps() {
    let mut configs = small::with_own_losses();
    let dual = |config: &Config| {
        matches!(config, Config::VseInfinity(_) | Config::Vsrn(_) | Config::Pvse(_))
    };
    configs.extend(small::configs().into_iter().filter(|(_, config)| dual(config)));
    let changed = configs.iter().find_map(|(_, config)| match config {
        Config::VseInfinity(own) => Some(VseInfinity { augmentation: 0.3, ..own.clone() }),
        _ => None,
    });
    configs.extend(changed.map(|own| ("augmented".to_owned(), Config::VseInfinity(own))));
    for (name, config) in configs {
        let expected = steps(&config, Device::Reference);
        for device in Device::available() {
            // A bias before a batch norm follows the rounding of a gradient that is zero: that shows where
            // running values take the place of those of the batch.
            let found = steps(&config, device);
            for ((found, expected), tolerance) in found.iter().zip(&expected).zip([1e-3, 2e-2]) {
                for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                    let near = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
                    assert!(near, "{name} on {device}: {found} instead of {expected} at {at}");
                }
            }
        }
    }
}
