//! The loss of a batch and its gradients.

use nextpair_kernels::{Gradients, Tensor};

use crate::loss::loss;
use crate::{Error, Model, Pair, Pass, Texts, Violation};

/// A batch: images and captions, row `i` of both for pair `i`.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Features: images by regions by numbers.
    pub images: Tensor,
    /// The captions, as many as images.
    pub texts: Texts,
    /// Which image and which caption each row is: dropout draws by it.
    pub pairs: Vec<Pair>,
}

impl Batch {
    /// A batch of images and captions that are all different.
    pub fn new(images: Tensor, texts: Texts) -> Self {
        let pairs = (0..texts.len()).map(|row| Pair { item: row, caption: row }).collect();
        Batch { images, texts, pairs }
    }
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

/// The loss of a batch and its gradients by the exact sparse procedure: scores all pairs without
/// gradients, then those that the loss depends on with gradients.
///
/// # Errors
/// If the batch does not match the model, or a score is NaN or infinite.
pub fn batch_loss(
    model: &Model,
    pass: &Pass<'_>,
    batch: &Batch,
    margin: f64,
    violation: Violation,
) -> Result<BatchLoss, Error> {
    let architecture = model.architecture();
    // 1. Encode images and captions.
    let images = architecture.encode_images(pass, &batch.images)?;
    let texts = architecture.encode_texts(pass, &batch.texts)?;
    if images.len() != texts.len() || images.is_empty() {
        return Err(Error::Shape {
            what: "the batch".to_owned(),
            found: format!("{} images and {} captions", images.len(), texts.len()),
            expected: "as many of both, and at least one".to_owned(),
        });
    }
    // 2. Score every image with every caption.
    let comparison = architecture.comparison(pass.weights())?;
    let scores = comparison.scores(&images, &texts)?;
    if let Some(bad) = scores.iter().position(|score| !score.is_finite()) {
        let (image, caption) = (bad / texts.len(), bad % texts.len());
        return Err(Error::Score { image, caption, value: scores[bad] });
    }
    // 3. Compute the loss, a sum of few of the scores with a factor each.
    let hinges = loss(&scores, images.len(), margin, violation);
    let (mut pairs, mut factors): (Vec<(u32, u32)>, Vec<f32>) = hinges.pairs.into_iter().unzip();
    let active = pairs.len();
    if pairs.is_empty() {
        // The gradients are zeros, not missing: momentum still moves the weights.
        (pairs, factors) = (vec![(0, 0)], vec![0.0]);
    }
    // 4. Score those pairs with gradients, and back-propagate the factors to the weights.
    let known = pairs.iter().map(|&(i, j)| scores[i as usize * texts.len() + j as usize]);
    let known = Some(known.collect());
    let scored = comparison.pair_scores(&images, &texts, &pairs, known)?;
    // 5. With the architecture's own loss, if it has one.
    let Some(auxiliary) = architecture.auxiliary_loss(pass, batch, &images, &texts)? else {
        return Ok(BatchLoss { loss: hinges.value, active, gradients: scored.backward(&factors)? });
    };
    let own = match auxiliary.to_f64s()[..] {
        [own] if own.is_finite() => own,
        [own] => return Err(Error::NotFinite { what: format!("the auxiliary loss is {own}") }),
        _ => {
            return Err(Error::Shape {
                what: "the auxiliary loss".to_owned(),
                found: format!("{} numbers", auxiliary.len()),
                expected: "one".to_owned(),
            });
        }
    };
    let gradients = Tensor::backward_of(&[(&scored, &factors), (&auxiliary, &[1.0])])?;
    let loss = hinges.value + own;
    Ok(BatchLoss { loss, active, gradients })
}
