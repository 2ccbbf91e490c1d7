//! Answers of the CPU, which those of every device are held to before they are timed.

use nextpair_data::Draws;
use nextpair_kernels::{Cuda, Device, Gradients, Precision};

use super::Sizes;
use super::inputs::{Tile, batch};
use crate::{Batch, Encoded, Error, Mode, Model, Pass};

/// Images and captions whose scores are compared, half of them from the end of the tile.
const COMPARED: usize = 12;
/// Pairs of the batch whose gradients are compared.
const PAIRS: usize = 8;

/// By how much answers may differ from the CPU's.
struct Tolerances {
    /// Of a score.
    scores: f64,
    /// Of the gradients of a weight, by norm and relative.
    gradients: f64,
    /// Of a loss, relative.
    loss: f64,
}

impl Tolerances {
    fn of(device: Device) -> Self {
        match device {
            Device::Cuda(Cuda { precision: Precision::Tf32, .. }) => {
                Tolerances { scores: 3e-3, gradients: 5e-2, loss: 5e-3 }
            }
            Device::Cuda(Cuda { precision: Precision::Fp16, .. }) => {
                Tolerances { scores: 3e-2, gradients: 5e-2, loss: 3e-2 }
            }
            _ => Tolerances { scores: 1e-5, gradients: 1e-3, loss: 1e-5 },
        }
    }
}

/// The CPU's answers.
pub(super) struct Answers {
    sizes: Sizes,
    /// Numbers of the images and captions that are compared.
    which: Vec<usize>,
    /// Images and captions of the tile.
    count: usize,
    scores: Vec<f32>,
    /// The gradients of every weight, `None` for those that have none.
    gradients: Vec<Option<Vec<f64>>>,
}

impl Answers {
    pub(super) fn new(sizes: &Sizes, tile: &Tile) -> Result<Self, Error> {
        let count = tile.len();
        let which: Vec<usize> = match count <= COMPARED {
            true => (0..count).collect(),
            false => (0..COMPARED / 2).chain(count - COMPARED / 2..count).collect(),
        };
        let model = sizes.model(1, Device::Cpu)?;
        let (images, texts) = tile.part(&which).on(Device::Cpu)?;
        let scores = model.comparison()?.scores(&images, &texts)?;
        let gradients = gradients(sizes, &model)?;
        Ok(Answers { sizes: *sizes, which, count, scores, gradients })
    }

    /// Holds the scores of a tile to the CPU's. Returns the largest difference.
    pub(super) fn check_scores(&self, device: Device, scores: &[f32]) -> Result<f64, Error> {
        let places = self.which.iter().flat_map(|i| self.which.iter().map(move |j| (i, j)));
        let found = places.map(|(i, j)| scores[i * self.count + j]);
        let off = found.zip(&self.scores).map(|(a, &b)| f64::from(a) - f64::from(b));
        let off = largest(off.map(f64::abs));
        within("a score", device, off, Tolerances::of(device).scores)
    }

    /// Holds the gradients of a small batch to the CPU's. Returns the largest relative difference of a
    /// weight, by norm.
    pub(super) fn check_gradients(&self, model: &Model) -> Result<f64, Error> {
        let (device, found) = (model.device(), gradients(&self.sizes, model)?);
        let whole = norm(self.gradients.iter().flatten().flatten().copied());
        let mut off = 0.0;
        for (found, expected) in found.iter().zip(&self.gradients) {
            let (Some(found), Some(expected)) = (found, expected) else {
                if found.is_some() != expected.is_some() {
                    return within("whether a weight has gradients", device, f64::INFINITY, 0.0);
                }
                continue;
            };
            let difference = norm(found.iter().zip(expected).map(|(a, b)| a - b));
            // What is small beside all others is nothing but rounding.
            let size = norm(expected.iter().copied()).max(1e-3 * whole);
            off = largest([off, difference / size].into_iter());
        }
        within("a gradient", device, off, Tolerances::of(device).gradients)
    }
}

/// Holds the loss of a batch to that of the first precision. Returns the relative difference.
pub(super) fn check_loss(device: Device, loss: f64, first: f64) -> Result<f64, Error> {
    let off = (loss - first).abs() / first.abs().max(f64::MIN_POSITIVE);
    within("the loss", device, off, Tolerances::of(device).loss)
}

/// The gradients of every weight of a model: of a weighted sum of all scores of a small batch. Unlike
/// those of hinges, they do not jump where rounding makes another pair the hardest.
fn gradients(sizes: &Sizes, model: &Model) -> Result<Vec<Option<Vec<f64>>>, Error> {
    let Batch { images, texts, .. } = batch(sizes, PAIRS, model.device())?;
    let pass = Pass::new(model.weights(), Mode::Train(0));
    let images = model.architecture().encode_images(&pass, &images)?;
    let texts = model.architecture().encode_texts(&pass, &texts)?;
    let pairs = Encoded::all_pairs(&images, &texts);
    let scores = model.comparison()?.pair_scores(&images, &texts, &pairs, None)?;
    let mut draws = Draws::new(3);
    let factors: Vec<f32> = pairs.iter().map(|_| draws.normal() as f32).collect();
    let found: Gradients = scores.backward(&factors)?;
    let of = |weight| found.of(weight).map(|values| values.to_f64s()).transpose();
    Ok(model.weights().iter().map(|(_, weight)| of(weight)).collect::<Result<_, _>>()?)
}

fn norm(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.map(|number| number * number).sum::<f64>().sqrt()
}

/// The largest number, or NaN if one is.
fn largest(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |a: f64, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) })
}

fn within(what: &'static str, device: Device, off: f64, tolerance: f64) -> Result<f64, Error> {
    // Written so that NaN fails.
    if off <= tolerance {
        return Ok(off);
    }
    let device = device.describe();
    Err(Error::WrongAnswer { what, device, off, tolerance })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_answers_are_refused() {
        let sizes = Sizes { tile: 20, ..Sizes::quick() };
        let tile = Tile::drawn(&sizes, sizes.tile, &mut Draws::new(1));
        let answers = Answers::new(&sizes, &tile).unwrap();
        let model = sizes.model(1, Device::Cpu).unwrap();
        let (images, texts) = tile.on(Device::Cpu).unwrap();
        let mut scores = model.comparison().unwrap().scores(&images, &texts).unwrap();
        assert_eq!(answers.check_scores(Device::Cpu, &scores).unwrap(), 0.0);
        assert_eq!(answers.check_gradients(&model).unwrap(), 0.0);
        let last = scores.len() - 1;
        for wrong in [scores[last] + 1e-3, f32::NAN] {
            scores[last] = wrong;
            let error = answers.check_scores(Device::Cpu, &scores).unwrap_err().to_string();
            assert!(error.starts_with("a score on cpu is off by "), "{error}");
        }
        // Another model has other gradients.
        let other = sizes.model(2, Device::Cpu).unwrap();
        let error = answers.check_gradients(&other).unwrap_err().to_string();
        assert!(error.starts_with("a gradient on cpu is off by "), "{error}");
        assert!(check_loss(Device::Cpu, 1.0, 1.001).is_err());
        assert!(check_loss(Device::Cpu, f64::NAN, 1.0).is_err());
        assert_eq!(check_loss(Device::Cpu, 2.0, 2.0).unwrap(), 0.0);
    }
}
