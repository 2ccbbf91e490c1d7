//! How fast a device trains and scores: Text-IMRAM in the paper's shapes, in every precision.
//!
//! Answers come first: scores of the very tile that is timed, and gradients of a small batch in the
//! same dimensions, are compared with the CPU's. A wrong answer is an error and is not timed.
//!
//! Operations are those of the rearranged procedure, counted as its rivals' are (`bench/gpu.py`):
//! scores of all pairs with their tables, and for training gradients of three pairs per image. The
//! encoders and the optimiser are timed and not counted.

mod answers;
mod inputs;

use std::time::Instant;

use nextpair_data::{Draws, Progress};
use nextpair_kernels::{Cuda, Device, Precision, Spent, profile, time_products};
use serde::Serialize;

use crate::{Config, Encoders, Error, Imram, Inputs, Model, Trainer, Training};
use answers::Answers;
use inputs::{Tile, batch};

/// How long captions are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lengths {
    /// All the same.
    #[default]
    Exact,
    /// Drawn, with as many words in all.
    Drawn,
}

/// The sizes of what is measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sizes {
    /// Pairs of a training step.
    pub batch: usize,
    /// Images of a tile of scores, and captions.
    pub tile: usize,
    /// Dimensions of the joint space.
    pub dim: usize,
    /// Regions of an image.
    pub regions: usize,
    /// Numbers of a region.
    pub features: usize,
    /// Words of the vocabulary.
    pub vocabulary: usize,
    /// Words of a caption on average, markers included.
    pub words: usize,
    /// How long captions are.
    pub lengths: Lengths,
    /// Rows, columns and depth of the plain product.
    pub product: usize,
    /// How often everything is timed.
    pub repeats: usize,
    /// Training steps that are timed together, so that a device need not wait for the clock.
    pub steps: usize,
}

impl Sizes {
    /// The paper's shapes.
    pub fn paper(device: Device) -> Self {
        // The CPU takes long for what fills a GPU.
        let (product, repeats, steps) = match device {
            Device::Cuda(_) => (8192, 12, 5),
            _ => (2048, 3, 1),
        };
        Sizes {
            batch: 128,
            tile: 256,
            dim: 1024,
            regions: 36,
            features: 2048,
            vocabulary: 8481,
            words: 12,
            lengths: Lengths::Exact,
            product,
            repeats,
            steps,
        }
    }

    /// Small ones, to see that everything works.
    pub fn quick() -> Self {
        Sizes {
            batch: 16,
            tile: 32,
            dim: 64,
            features: 96,
            vocabulary: 200,
            product: 512,
            repeats: 3,
            ..Self::paper(Device::Cpu)
        }
    }

    fn check(&self) -> Result<(), Error> {
        match self.batch {
            0 | 1 => Err(Error::setting("batch", "at least two pairs are needed")),
            _ => Ok(()),
        }
    }

    fn model(&self, seed: u64, device: Device) -> Result<Model, Error> {
        let encoders = Encoders { dim: self.dim, ..Encoders::default() };
        let inputs = Inputs { image: self.features, text: self.vocabulary };
        Model::new(Config::Imram(Imram { encoders, ..Imram::default() }), inputs, seed, device)
    }

    /// Operations of scoring so many images and words, and those of the tables.
    fn operations(&self, images: usize, words: usize) -> (f64, f64) {
        let (steps, d, r) = (Imram::default().steps as f64, self.dim as f64, self.regions as f64);
        let (images, words) = (images as f64, words as f64);
        let each = 2.0 * steps * r * d
            + 4.0 * (steps - 1.0) * r * d
            + 4.0 * (steps - 2.0) * d * d
            + 2.0 * steps * (r * r + r);
        let tables = images * (4.0 * r * d * d + 2.0 * r * r * d) + words * 4.0 * d * d;
        (images * words * each, tables)
    }

    /// Operations of a tile of scores.
    pub fn of_tile(&self) -> f64 {
        let (scores, tables) = self.operations(self.tile, self.tile * self.words);
        scores + tables
    }

    /// Operations of a training step: all scores, and three pairs per image with gradients, whose
    /// backward pass costs twice the forward pass.
    pub fn of_step(&self) -> f64 {
        let (scores, tables) = self.operations(self.batch, self.batch * self.words);
        scores * (1.0 + 9.0 / self.batch as f64) + 3.0 * tables
    }
}

/// What was measured on a device.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The version of this crate.
    pub version: &'static str,
    /// Name of the device.
    pub device: String,
    /// The sizes.
    pub sizes: Sizes,
    /// A plain product of square matrices: in half precision on a GPU, in single precision elsewhere.
    pub product: Timed,
    /// Every precision.
    pub precisions: Vec<Measured>,
}

/// What was measured in a precision.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The precision.
    pub precision: String,
    /// How far its answers are from the CPU's.
    pub off: Off,
    /// A training step.
    pub step: Timed,
    /// A tile of scores.
    pub tile: Timed,
    /// Pairs of a tile per second.
    pub pairs_per_second: f64,
    /// Where the time of a step goes, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub step_profile: Vec<Part>,
    /// Where the time of a tile goes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tile_profile: Vec<Part>,
}

/// Differences from the CPU's answers.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Off {
    /// The largest of a score.
    pub scores: f64,
    /// The largest of a weight's gradients, by norm and relative.
    pub gradients: f64,
    /// Of the loss of the timed batch from that of the first precision, relative.
    pub loss: f64,
}

/// Times of the same work.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timed {
    /// The median in milliseconds.
    pub ms: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    /// Operations per second by the median, in 10^12.
    pub tflops: f64,
    /// The share of the rate of the plain product.
    pub share: f64,
}

/// One kind of work in a profile.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// The kernel, or the sizes of a product.
    pub work: String,
    /// How often it was launched.
    pub launches: u64,
    /// Milliseconds in all.
    pub ms: f64,
}

impl From<Spent> for Part {
    fn from(spent: Spent) -> Self {
        Part { work: spent.work, launches: spent.launches, ms: 1e3 * spent.seconds }
    }
}

impl Timed {
    /// Of times in seconds; `rate` is that of the plain product in operations per second.
    fn new(mut seconds: Vec<f64>, operations: f64, rate: Option<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let (low, high) = ((seconds.len() - 1) / 2, seconds.len() / 2);
        let median = (seconds[low] + seconds[high]) / 2.0;
        Timed {
            ms: 1e3 * median,
            least: 1e3 * seconds[0],
            most: 1e3 * seconds[seconds.len() - 1],
            tflops: operations / median / 1e12,
            share: rate.map_or(1.0, |rate| operations / median / rate),
        }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The device.
    pub device: Device,
    /// The precisions of a GPU. Other devices have one.
    pub precisions: Vec<Precision>,
    /// The sizes.
    pub sizes: Sizes,
    /// Whether to tell where the time of a GPU goes.
    pub profile: bool,
}

impl Bench {
    /// Compares answers with the CPU's, then measures.
    ///
    /// # Errors
    /// If a size makes no sense, the device fails, or an answer is wrong.
    pub fn run(&self, progress: &dyn Progress) -> Result<Report, Error> {
        let Sizes { product: size, repeats, .. } = self.sizes;
        self.sizes.check()?;
        let devices: Vec<Device> = match self.device {
            Device::Cuda(_) => {
                self.precisions.iter().map(|&p| self.device.with_precision(p)).collect()
            }
            other => vec![other],
        };
        let tile = Tile::drawn(&self.sizes, self.sizes.tile, &mut Draws::new(1));
        progress.start("the CPU's answers", 1);
        let answers = Answers::new(&self.sizes, &tile)?;
        progress.start("measuring", 1 + 3 * devices.len() as u64);
        let seconds = time_products(self.device, size, repeats)?;
        let product = Timed::new(seconds, 2.0 * (size as f64).powi(3), None);
        progress.advance(1);
        let rate = 1e12 * product.tflops;
        let (mut precisions, mut first_loss) = (Vec::new(), None);
        for device in devices {
            let model = self.sizes.model(1, Device::Cpu)?.to_device(device)?;
            let gradients = answers.check_gradients(&model)?;
            progress.advance(1);
            let (off, tile, tile_profile) = self.tile(&model, &tile, &answers, rate)?;
            progress.advance(1);
            let (loss, step, step_profile) = self.step(model, rate)?;
            let first = *first_loss.get_or_insert(loss);
            let off_loss = answers::check_loss(device, loss, first)?;
            progress.advance(1);
            precisions.push(Measured {
                precision: precision_of(device).to_string(),
                off: Off { scores: off, gradients, loss: off_loss },
                pairs_per_second: (self.sizes.tile * self.sizes.tile) as f64 / (tile.ms / 1e3),
                step,
                tile,
                step_profile,
                tile_profile,
            });
        }
        let (version, sizes) = (env!("CARGO_PKG_VERSION"), self.sizes);
        Ok(Report { version, device: self.device.name()?, sizes, product, precisions })
    }

    /// Scores a tile. Returns how far its scores are from the CPU's, its time and its profile.
    fn tile(
        &self,
        model: &Model,
        tile: &Tile,
        answers: &Answers,
        rate: f64,
    ) -> Result<(f64, Timed, Vec<Part>), Error> {
        let (images, texts) = tile.on(model.device())?;
        let comparison = model.comparison()?;
        let scores = || comparison.scores(&images, &texts);
        let off = answers.check_scores(model.device(), &scores()?)?;
        let seconds = (0..self.sizes.repeats).map(|_| timed(1, || scores().map(drop)));
        let seconds = seconds.collect::<Result<_, Error>>()?;
        let profile = self.profiled(model.device(), || scores().map(drop))?;
        Ok((off, Timed::new(seconds, self.sizes.of_tile(), Some(rate)), profile))
    }

    /// Trains on one batch. Returns the loss before the first step, the time of a step and its profile.
    fn step(&self, model: Model, rate: f64) -> Result<(f64, Timed, Vec<Part>), Error> {
        let (sizes, device) = (&self.sizes, model.device());
        let batch = batch(sizes, sizes.batch, device)?;
        let training = Training { batch: sizes.batch, rate: RATE, ..Training::default() };
        let mut trainer = Trainer::new(model, training)?;
        let loss = trainer.step(&batch, 0)?.losses.read()?[0].loss;
        let mut steps = |count: usize| {
            (0..count).try_for_each(|_| trainer.step(&batch, 0).map(drop))?;
            Ok(device.wait()?)
        };
        steps(WARM_UP.min(sizes.repeats))?;
        let seconds = (0..sizes.repeats).map(|_| timed(sizes.steps, || steps(sizes.steps)));
        let seconds = seconds.collect::<Result<_, Error>>()?;
        let profile = self.profiled(device, || steps(1))?;
        Ok((loss, Timed::new(seconds, sizes.of_step(), Some(rate)), profile))
    }

    /// Where the time of `work` on a GPU goes, if that was asked for.
    fn profiled(
        &self,
        device: Device,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Vec<Part>, Error> {
        if !self.profile || !matches!(device, Device::Cuda(_)) {
            return Ok(Vec::new());
        }
        let (done, spent) = profile(work);
        done.map(|()| spent.into_iter().map(Part::from).collect())
    }
}

fn precision_of(device: Device) -> Precision {
    match device {
        Device::Cuda(Cuda { precision, .. }) => precision,
        _ => Precision::Fp32,
    }
}

/// The paper's learning rate.
const RATE: f64 = 2e-4;
/// Steps before the first that is timed.
const WARM_UP: usize = 4;

/// Seconds of one of `count` equal parts of `work`.
fn timed(count: usize, work: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed().as_secs_f64() / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_the_specification() {
        let sizes = Sizes { words: 14, ..Sizes::paper(Device::Cpu) };
        // Per image and word, K = 3, d = 1024, R = 36.
        assert_eq!(sizes.operations(1, 1).0, 4_718_392.0);
        let (scores, tables) = sizes.operations(128, 128 * 14);
        let each = 128.0 * 128.0 * 14.0;
        assert_eq!(scores / each, 4_718_392.0);
        assert!((tables / each / 1e6 - 0.12).abs() < 0.005, "{}", tables / each);
        assert!((sizes.of_step() / 1e12 - 1.24).abs() < 0.02, "{}", sizes.of_step());
    }

    #[test]
    fn times_have_a_median_and_a_spread() {
        let timed = Timed::new(vec![0.004, 0.001, 0.002, 0.003], 5e9, Some(4e12));
        assert_eq!((timed.ms, timed.least, timed.most), (2.5, 1.0, 4.0));
        assert_eq!((timed.tflops, timed.share), (2.0, 0.5));
    }

    #[test]
    fn every_device_is_measured() {
        for device in Device::available() {
            for lengths in [Lengths::Exact, Lengths::Drawn] {
                let sizes = Sizes { lengths, ..Sizes::quick() };
                let precisions = Precision::ALL.to_vec();
                let bench = Bench { device, precisions, sizes, profile: true };
                let report = bench.run(&()).unwrap();
                let on_gpu = matches!(device, Device::Cuda(_));
                assert_eq!(report.precisions.len(), if on_gpu { 3 } else { 1 });
                for one in &report.precisions {
                    assert!(one.step.ms > 0.0 && one.tile.ms > 0.0 && one.pairs_per_second > 0.0);
                    assert!(one.tile.share > 0.0 && one.step.least <= one.step.most);
                    assert_eq!(one.step_profile.is_empty(), !on_gpu);
                    assert_eq!(one.tile_profile.is_empty(), !on_gpu);
                }
            }
        }
        let few = Sizes { batch: 1, ..Sizes::quick() };
        let precisions = Precision::ALL.to_vec();
        let bench = Bench { device: Device::Cpu, precisions, sizes: few, profile: false };
        assert_eq!(bench.run(&()).unwrap_err().to_string(), "batch: at least two pairs are needed");
    }
}
