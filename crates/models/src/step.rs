//! One training step by the exact sparse procedure: score all pairs of the batch without
//! gradients, see which of them the loss looks at, and compute those again with gradients.

use candle_core::Tensor;
use candle_core::backprop::GradStore;

use crate::loss::{Violation, loss};
use crate::{Error, Model, Texts};

/// The loss of a batch and its gradients.
pub struct Slope {
    /// The loss, summed over the batch.
    pub loss: f64,
    /// How many of the pairs had a gradient.
    pub pairs: usize,
    /// Of every weight that the loss depends on; zeros where nothing is violated.
    pub gradients: GradStore,
}

/// The loss of matching images and captions, row by row, and its gradients.
pub fn slope(
    model: &Model,
    images: &Tensor,
    texts: &Texts,
    margin: f64,
    violation: Violation,
) -> Result<Slope, Error> {
    let (images, texts) = (model.encode_images(images)?, model.encode_texts(texts)?);
    let scorer = model.scorer()?;
    let scores = scorer.scores(&images, &texts)?;
    if let Some(bad) = scores.iter().position(|score| !score.is_finite()) {
        let (image, caption) = (bad / texts.len(), bad % texts.len());
        return Err(Error::Score { image, caption, value: scores[bad] });
    }
    let loss = loss(&scores, images.len(), margin, violation);
    let active = loss.pairs.len();
    let (mut pairs, mut factors): (Vec<(u32, u32)>, Vec<f32>) = loss.pairs.into_iter().unzip();
    if pairs.is_empty() {
        // The gradients are zeros, not missing: momentum still moves the weights.
        (pairs, factors) = (vec![(0, 0)], vec![0.0]);
    }
    let factors = Tensor::from_vec(factors, pairs.len(), model.device())?;
    let known = pairs.iter().map(|&(i, j)| scores[i as usize * texts.len() + j as usize]);
    let scores = scorer.known_pair_scores(&images, &texts, &pairs, Some(known.collect()))?;
    let gradients = (scores * factors)?.sum_all()?.backward()?;
    Ok(Slope { loss: loss.value, pairs: active, gradients })
}
