//! A custom model in one file: captions are the mean of their word vectors.
//!
//! It trains like the models of the crate, with an operation that has only a formula.

use nextpair_kernels::ops::{gather, linear, mean_rows, unit_rows};
use nextpair_kernels::{Operation, Real, apply};
use nextpair_models::{
    Architecture, Batch, Comparison, Declared, Device, Dot, Encoded, Error, Inputs, Model, Pass,
    Start, Tensor, Texts, Trainer, Training, Weights,
};

/// Images and words in one space.
#[derive(Debug)]
struct WordMeans {
    dim: usize,
}

impl Architecture for WordMeans {
    fn name(&self) -> &str {
        "word-means"
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn reads_words(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), Error> {
        match self.dim {
            0 => Err(Error::setting("dim", "is 0; at least 1 is needed")),
            _ => Ok(()),
        }
    }

    fn declare(&self, inputs: Inputs) -> Vec<Declared> {
        vec![
            Declared::new("image.weight", &[self.dim, inputs.image], Start::Uniform(0.1)),
            Declared::new("image.bias", &[self.dim], Start::Constant(0.0)),
            Declared::new("words", &[inputs.text, self.dim], Start::Uniform(0.1)),
        ]
    }

    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        let &[images, regions, width] = features.shape() else {
            return Err(Error::NoRegions { what: "the images".to_owned() });
        };
        let rows = mean_rows(&features.reshaped(&[images * regions, width])?, regions)?;
        let rows = linear(&rows, pass.weight("image.weight")?, pass.weight("image.bias")?)?;
        Ok(Encoded::uniform(unit_rows(&rows, 1e-8)?, 1)?)
    }

    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        let Texts::Words { ids, offsets } = texts else {
            return Err(Error::Dataset { what: "captions as words are needed".to_owned() });
        };
        let words = gather(pass.weight("words")?, ids)?;
        let means = apply(Means { offsets: offsets.clone(), dim: self.dim }, &[&words])?;
        Ok(Encoded::uniform(unit_rows(&means, 1e-8)?, 1)?)
    }

    fn comparison(&self, _weights: &Weights) -> Result<Box<dyn Comparison>, Error> {
        Ok(Box::new(Dot { members: 1 }))
    }
}

/// The mean of the words of every caption. The formula is enough: gradients follow from it. A fast
/// form can come later (`Operation::forward` and `Operation::backward`).
struct Means {
    offsets: Vec<usize>,
    dim: usize,
}

impl Operation for Means {
    fn shape(&self) -> Vec<usize> {
        vec![self.offsets.len() - 1, self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let mut means = Vec::new();
        for span in self.offsets.windows(2) {
            let words = &inputs[0][span[0] * self.dim..span[1] * self.dim];
            let count = R::of((span[1] - span[0]) as f64);
            let column = |at: usize| words[at..].iter().step_by(self.dim).copied();
            means.extend((0..self.dim).map(|at| R::sum(column(at)) / count));
        }
        means
    }
}

fn main() -> Result<(), Error> {
    // Eight images of two regions; caption i has the words i and i + 1.
    let images = (0..8 * 2 * 5).map(|at| ((at * 37 % 23) as f32 - 11.0) / 11.0).collect();
    let captions: Vec<[u32; 2]> = (0..8).map(|at| [at, at + 1]).collect();
    let images = Tensor::new(images, &[8, 2, 5], Device::Cpu)?;
    let batch = Batch::new(images, Texts::words(&captions)?);
    let architecture: std::sync::Arc<dyn Architecture> = std::sync::Arc::new(WordMeans { dim: 6 });
    let model = Model::new(architecture, Inputs { image: 5, text: 9 }, 0, Device::Cpu)?;
    let mut trainer = Trainer::new(model, Training { rate: 0.05, ..Training::default() })?;
    let mut losses = Vec::new();
    for _ in 0..60 {
        losses.push(trainer.step(&batch, 0)?.losses.read()?[0].loss);
    }
    let (first, last) = (losses[0], losses[59]);
    assert!(last < first / 4.0, "the loss fell from {first} to {last}");
    Ok(())
}

#[test]
fn it_learns() {
    main().unwrap();
}
