//! Dropout of every model: by item, in training alone.

use nextpair_models::{
    Architecture, Batch, Config, Device, Dropout, Mode, Model, Pair, Pass, Texts,
};

use crate::small;

/// The encoded images and captions of a batch.
fn encoded(model: &Model, batch: &Batch, mode: Mode, dropout: Dropout) -> [Vec<f32>; 2] {
    let seeds = match mode {
        Mode::Train(seed) => vec![seed],
        Mode::Evaluate => Vec::new(),
    };
    let pass = Pass::new(model.weights(), mode).with_dropout(dropout, seeds, &batch.pairs);
    let architecture: &dyn Architecture = model.architecture();
    let images = architecture.encode_images(&pass, &batch.images).unwrap();
    let texts = architecture.encode_texts(&pass, &batch.texts).unwrap();
    [images.to_f32s().unwrap(), texts.to_f32s().unwrap()]
}

/// The first pairs of a batch.
fn first(batch: &Batch, count: usize) -> Batch {
    let texts = match &batch.texts {
        Texts::Words { ids, offsets } => {
            let offsets = offsets[..=count].to_vec();
            Texts::Words { ids: ids[..offsets[count]].to_vec(), offsets }
        }
        Texts::Vectors(vectors) => Texts::Vectors(vectors.first_rows(count).unwrap()),
    };
    let images = batch.images.first_rows(count).unwrap();
    Batch { images, texts, pairs: batch.pairs[..count].to_vec(), regions: None }
}

#[test]
fn every_model_drops_by_item_and_in_training_alone() {
    let half = Dropout { inputs: 0.5, states: 0.5 };
    let kinds = [Dropout { states: 0.0, ..half }, Dropout { inputs: 0.0, ..half }, half];
    for (name, config) in small::configs() {
        let model = small::model(&config, 4, Device::Cpu);
        let mut batch = small::batch(&config, 6, 6, Device::Cpu);
        batch.pairs = (0..6).map(|row| Pair { item: 7 * row, caption: 90 - row }).collect();
        let plain = encoded(&model, &batch, Mode::Evaluate, Dropout::default());
        assert_eq!(plain, encoded(&model, &batch, Mode::Evaluate, half), "{name}");
        // Batch norm depends on the batch, and SGRAF drops words before and attention afterwards.
        if matches!(config, Config::Sgraf(_)) {
            drops_the_same(&model, &batch, &name);
            continue;
        }
        // Batch norm looks at the whole batch of images.
        let alone = if small::depends_on_batch(&config) { 1..2 } else { 0..2 };
        let nothing = encoded(&model, &batch, Mode::Train(1), Dropout::default());
        assert_eq!(plain[alone.clone()], nothing[alone.clone()], "{name}");
        for kind in kinds {
            let whole = encoded(&model, &batch, Mode::Train(1), kind);
            let part = encoded(&model, &first(&batch, 2), Mode::Train(1), kind);
            let other = encoded(&model, &batch, Mode::Train(2), kind);
            for side in 0..2 {
                assert!(whole[side].iter().all(|x| x.is_finite()), "{name} {kind:?}");
                assert_ne!(plain[side], whole[side], "{name} {kind:?}");
                assert_ne!(other[side], whole[side], "{name} {kind:?}");
            }
            for side in alone.clone() {
                assert_eq!(part[side], whole[side][..part[side].len()], "{name} {kind:?}");
            }
        }
    }
}

/// What is dropped is what the seed of the epoch says.
fn drops_the_same(model: &Model, batch: &Batch, name: &str) {
    let half = Dropout { inputs: 0.5, states: 0.5 };
    let with = |seed, dropout| encoded(model, batch, Mode::Train(seed), dropout);
    for side in 0..2 {
        assert_ne!(with(1, half)[side], with(1, Dropout::default())[side], "{name}");
        assert_ne!(with(1, half)[side], with(2, half)[side], "{name}");
        assert_eq!(with(1, half)[side], with(1, half)[side], "{name}");
    }
}
