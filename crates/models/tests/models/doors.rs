//! An architecture from outside with all that the published ones do not need: a buffer, another
//! way to encode in training, and a loss of its own.

use std::sync::Arc;

use nextpair_kernels::ops::dot_pairs;
use nextpair_models::{
    Architecture, Batch, Comparison, Config, Declared, Device, Encoded, Error, Heads, Inputs, Mode,
    Model, Pass, Tensor, Texts, Trainer, Training, Weights,
};

use crate::small;

/// Heads that count the batches they were trained on.
#[derive(Debug)]
struct Counting {
    heads: Heads,
    buffer: &'static str,
}

impl Architecture for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn dim(&self) -> usize {
        self.heads.dim
    }

    fn reads_words(&self) -> bool {
        false
    }

    fn check(&self) -> Result<(), Error> {
        self.heads.check()
    }

    fn declare(&self, inputs: Inputs) -> Vec<Declared> {
        let mut all = self.heads.declare(inputs);
        all.push(Declared::buffer("seen", &[1], 0.0));
        all
    }

    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        if let Mode::Train(_) = pass.mode() {
            let seen = pass.weight("seen")?.to_f32s().unwrap()[0] + 1.0;
            pass.observe(self.buffer, Tensor::new(vec![seen], &[1], features.device())?);
        }
        self.heads.encode_images(pass, features)
    }

    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        self.heads.encode_texts(pass, texts)
    }

    fn comparison(&self, weights: &Weights) -> Result<Box<dyn Comparison>, Error> {
        self.heads.comparison(weights)
    }

    /// The similarity of the first pair.
    fn auxiliary_loss(
        &self,
        _pass: &Pass<'_>,
        _batch: &Batch,
        images: &Encoded,
        texts: &Encoded,
    ) -> Result<Option<Tensor>, Error> {
        Ok(Some(dot_pairs(images, texts, &[(0, 0)])?))
    }
}

fn trainer(buffer: &'static str) -> (Trainer, Batch) {
    let heads = Heads { dim: small::DIM, hidden: 0, adapter: false };
    let batch = small::batch(&Config::Heads(heads.clone()), 4, 1, Device::Cpu);
    let architecture: Arc<dyn Architecture> = Arc::new(Counting { heads, buffer });
    let model = Model::new(architecture, small::INPUTS, 3, Device::Cpu).unwrap();
    (Trainer::new(model, Training::default()).unwrap(), batch)
}

/// The loss before a step.
fn loss(trainer: &mut Trainer, batch: &Batch) -> f64 {
    trainer.step(batch, 0).unwrap().losses.read().unwrap()[0].loss
}

#[test]
fn buffers_move_in_training_alone_and_own_losses_count() {
    let (mut trainer, batch) = trainer("seen");
    let plain = {
        let heads = Config::Heads(Heads { dim: small::DIM, hidden: 0, adapter: false });
        let model = small::model(&heads, 3, Device::Cpu);
        let images = model.encode_images(&batch.images).unwrap();
        let texts = model.encode_texts(&batch.texts).unwrap();
        let own = dot_pairs(&images, &texts, &[(0, 0)]).unwrap().to_f64s().unwrap()[0];
        let mut trainer = Trainer::new(model, Training::default()).unwrap();
        loss(&mut trainer, &batch) + own
    };
    let first = loss(&mut trainer, &batch);
    assert!((first - plain).abs() < 1e-5, "{first} {plain}");
    trainer.step(&batch, 1).unwrap();
    trainer.model().encode_images(&batch.images).unwrap();
    assert_eq!(trainer.model().weights().get("seen").unwrap().to_f32s().unwrap(), [2.0]);
    // What was saved is what is loaded, the buffer included.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let model = trainer.model();
    model.save(&path).unwrap();
    let heads = Heads { dim: small::DIM, hidden: 0, adapter: false };
    let architecture: Arc<dyn Architecture> = Arc::new(Counting { heads, buffer: "seen" });
    let loaded = Model::load(architecture, small::INPUTS, &path, Device::Cpu).unwrap();
    for ((name, one), (_, other)) in model.weights().iter().zip(loaded.weights().iter()) {
        assert_eq!(one.to_f32s().unwrap(), other.to_f32s().unwrap(), "{name}");
    }
}

#[test]
fn a_step_that_is_refused_changes_nothing() {
    for (buffer, says) in
        [("image.out.bias", "is trained, not a buffer"), ("nothing", "nothing is not declared")]
    {
        let (mut trainer, batch) = trainer(buffer);
        let before: Vec<Vec<f32>> =
            trainer.model().weights().iter().map(|(_, weight)| weight.to_f32s().unwrap()).collect();
        let error = trainer.step(&batch, 0).err().unwrap().to_string();
        assert!(error.contains(says), "{error}");
        let after = trainer.model().weights().iter().map(|(_, weight)| weight.to_f32s().unwrap());
        assert!(after.eq(before), "{buffer}");
    }
}
