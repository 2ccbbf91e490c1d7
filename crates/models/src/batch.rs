//! The loss of a batch and its gradients.

use nextpair_kernels::{Gradients, Tensor};

use crate::info_nce::info_nce;
use crate::loss::loss;
use crate::{Error, Model, Pair, Pass, Texts, Violation};

/// A batch: images and captions, row `i` of both for pair `i`.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Features: images by regions by numbers.
    pub images: Tensor,
    /// The captions, as many as images.
    pub texts: Texts,
    /// Which image and which caption each row is: dropout draws by it, and InfoNCE does not take pairs
    /// that share one for wrong.
    pub pairs: Vec<Pair>,
}

impl Batch {
    /// A batch of images and captions that are all different.
    pub fn new(images: Tensor, texts: Texts) -> Self {
        let pairs = (0..texts.len()).map(|row| Pair { item: row, caption: row }).collect();
        Batch { images, texts, pairs }
    }
}

/// What training makes small.
#[derive(Clone, Copy, Debug)]
pub enum Objective<'a> {
    /// Hinges; see [`loss`].
    Hinge {
        /// By how much a right pair should beat a wrong one.
        margin: f64,
        /// Which hinges count.
        violation: Violation,
    },
    /// InfoNCE; see [`info_nce`].
    InfoNce {
        /// The logarithm of the temperature, as one number. It has a gradient if it is a weight.
        log_temperature: &'a Tensor,
    },
}

/// The loss of a batch and its gradients.
pub struct BatchLoss {
    /// The loss, summed over the batch.
    pub loss: f64,
    /// Number of pairs with a gradient.
    pub active: usize,
    /// Gradients of every weight that the loss depends on; zeros if nothing is violated.
    pub gradients: Gradients,
}

/// The scores that a loss depends on, and its derivatives by them.
struct Scored<'a> {
    value: f64,
    active: usize,
    /// Tensors with the derivatives of the loss by their numbers.
    parts: Vec<(Tensor, Vec<f32>)>,
    temperature: Option<(&'a Tensor, f32)>,
}

/// The loss of a batch and its gradients. Hinges go by the exact sparse procedure: all pairs are
/// scored without gradients, then those that the loss depends on with gradients.
///
/// # Errors
/// If the batch does not match the model, or a score is NaN or infinite.
pub fn batch_loss(
    model: &Model,
    pass: &Pass<'_>,
    batch: &Batch,
    objective: Objective<'_>,
) -> Result<BatchLoss, Error> {
    let architecture = model.architecture();
    // 1. Encode images and captions.
    let images = architecture.encode_images(pass, &batch.images)?;
    let texts = architecture.encode_texts(pass, &batch.texts)?;
    let (count, of_texts, pairs) = (images.len(), texts.len(), batch.pairs.len());
    if count != of_texts || count != pairs || count == 0 {
        return Err(Error::Shape {
            what: "the batch".to_owned(),
            found: format!("{count} images and {of_texts} captions of {pairs} pairs"),
            expected: "as many of each, and at least one".to_owned(),
        });
    }
    // 2. Score every image with every caption.
    let comparison = architecture.comparison(pass.weights())?;
    let scores = comparison.scores(&images, &texts)?;
    if let Some(bad) = scores.iter().position(|score| !score.is_finite()) {
        return Err(Error::Score { image: bad / count, caption: bad % count, value: scores[bad] });
    }
    // 3. Compute the loss, and its derivatives by the scores.
    // 4. Score those with a derivative again, with gradients.
    let scored = match objective {
        Objective::Hinge { margin, violation } => {
            let hinges = loss(&scores, count, margin, violation);
            let (mut pairs, mut factors): (Vec<(u32, u32)>, Vec<f32>) =
                hinges.pairs.into_iter().unzip();
            let active = pairs.len();
            if pairs.is_empty() {
                // The gradients are zeros, not missing: momentum still moves the weights.
                (pairs, factors) = (vec![(0, 0)], vec![0.0]);
            }
            let known = pairs.iter().map(|&(i, j)| scores[i as usize * count + j as usize]);
            let known = Some(known.collect());
            let tensor = comparison.pair_scores(&images, &texts, &pairs, known)?;
            let parts = vec![(tensor, factors)];
            Scored { value: hinges.value, active, parts, temperature: None }
        }
        Objective::InfoNce { log_temperature } => {
            let [log] = log_temperature.to_f64s()?[..] else {
                return Err(one_number("the temperature", log_temperature));
            };
            let found = info_nce(&scores, &batch.pairs, log.exp());
            let active = found.by_scores.iter().filter(|&&slope| slope != 0.0).count();
            let parts =
                vec![(comparison.all_scores(&images, &texts, Some(scores))?, found.by_scores)];
            let temperature = Some((log_temperature, found.by_log_temperature as f32));
            Scored { value: found.value, active, parts, temperature }
        }
    };
    let Scored { mut value, active, mut parts, temperature } = scored;
    // 5. Add the architecture's own loss, if it has one.
    if let Some(auxiliary) = architecture.auxiliary_loss(pass, batch, &images, &texts)? {
        match auxiliary.to_f64s()?[..] {
            [own] if own.is_finite() => value += own,
            [own] => return Err(Error::NotFinite { what: format!("the auxiliary loss is {own}") }),
            _ => return Err(one_number("the auxiliary loss", &auxiliary)),
        }
        parts.push((auxiliary, vec![1.0]));
    }
    // 6. Back-propagate the derivatives to the weights.
    let slope = temperature.map(|(tensor, slope)| (tensor, [slope]));
    let parts = parts.iter().map(|(tensor, slopes)| (tensor, &slopes[..]));
    let all = parts.chain(slope.iter().map(|(tensor, slope)| (*tensor, &slope[..])));
    let gradients = Tensor::backward_of(&all.collect::<Vec<_>>())?;
    Ok(BatchLoss { loss: value, active, gradients })
}

fn one_number(what: &str, found: &Tensor) -> Error {
    Error::Shape {
        what: what.to_owned(),
        found: format!("{} numbers", found.len()),
        expected: "one".to_owned(),
    }
}
