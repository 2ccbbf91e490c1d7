//! Comparison of images and captions by NAAF: all pairs without gradients, or some with.

mod pairs;

use crate::cross::{Products, Thresholds};
use crate::operation::apply;
use crate::{Aggregation, Attention, Encoded, Error, Normaliser, Tensor};
use pairs::Pairs;

/// Which words are penalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Penalty {
    /// Those that no region is above the threshold for, as in training.
    Own,
    /// Those whose like in the same caption are below it, as in evaluation.
    Smoothed,
}

/// Compares the words of captions with the regions above and below a threshold.
#[derive(Clone, Copy, Debug)]
pub struct Thresholded {
    attention: Attention,
}

/// The products of the words and regions of a batch, to be compared with thresholds that are found on
/// the way.
pub struct BatchProducts {
    comparison: Thresholded,
    products: Products,
}

impl Thresholded {
    /// With this temperature of attention.
    ///
    /// # Errors
    /// If it is not finite.
    pub fn new(temperature: f32) -> Result<Self, Error> {
        let (normaliser, aggregation) = (Normaliser::ClippedL2, Aggregation::Mean);
        let attention =
            Attention { temperature, normaliser, aggregation, steps: 1, normalise_memory: false };
        attention.check()?;
        Ok(Thresholded { attention })
    }

    fn kernel(&self) -> Thresholds {
        Thresholds { attention: self.attention }
    }

    /// The scores of all pairs in evaluation, images by captions, without gradients. A score has the
    /// same bits whatever else is scored with it.
    ///
    /// # Errors
    /// If an item has no rows, or rows of other dimensions.
    pub fn scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        threshold: f32,
    ) -> Result<Vec<f32>, Error> {
        check(images, texts)?;
        let (images, texts) = (images.on_cpu()?, texts.on_cpu()?);
        let mut out = vec![0.0; images.len() * texts.len()];
        if !out.is_empty() {
            self.kernel().scores(images.ragged()?, texts.ragged()?, threshold, &mut out);
        }
        Ok(out)
    }

    /// The products of a batch.
    ///
    /// # Errors
    /// If an item has no rows, or rows of other dimensions.
    pub fn batch(&self, images: &Encoded, texts: &Encoded) -> Result<BatchProducts, Error> {
        check(images, texts)?;
        let (images, texts) = (images.on_cpu()?, texts.on_cpu()?);
        let products = self.kernel().batch(images.ragged()?, texts.ragged()?);
        Ok(BatchProducts { comparison: *self, products })
    }

    /// The scores of some `(image, caption)` pairs, with gradients; every caption has a threshold.
    /// Scores that are `known` are not computed again.
    ///
    /// # Errors
    /// If there is no such pair, an item has no rows, or rows of other dimensions.
    pub fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        (thresholds, penalty): (&[f32], Penalty),
        known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        check(images, texts)?;
        Error::check_len("the thresholds of captions", thresholds.len(), texts.len())?;
        let (of_images, of_captions): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        Error::check_indices("images of the pairs", &of_images, images.len())?;
        Error::check_indices("captions of the pairs", &of_captions, texts.len())?;
        let operation = Pairs {
            dim: images.dim()?,
            temperature: self.attention.temperature,
            image_offsets: images.offsets.clone(),
            text_offsets: texts.offsets.clone(),
            pairs: pairs.to_vec(),
            thresholds: thresholds.to_vec(),
            penalty,
            known,
        };
        apply(operation, &[&images.rows, &texts.rows])
    }
}

impl BatchProducts {
    /// The scores of all images with a caption in training, and the largest product of every word of
    /// it, image after image.
    pub fn column(&self, caption: usize, threshold: f32) -> (Vec<f32>, Vec<f32>) {
        self.comparison.kernel().column(&self.products, caption, threshold)
    }
}

fn check(images: &Encoded, texts: &Encoded) -> Result<(), Error> {
    Error::check_dims("the images", images.dim()?, "the captions", texts.dim()?)?;
    for (what, items) in [("the images", images), ("the captions", texts)] {
        if let Some(item) = items.offsets.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(Error::EmptyItem { what, item });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::ops::judge::{judge, tensor};
    use crate::ops::unit_rows;

    fn items(seed: u64, offsets: Vec<usize>, device: Device) -> Encoded {
        let rows = tensor(seed, &[offsets[offsets.len() - 1], 24]).to_device(device).unwrap();
        Encoded { rows: unit_rows(&rows, 1e-8).unwrap(), offsets }
    }

    #[test]
    fn every_device_follows_the_formula() {
        let (inputs, pairs) = (
            [tensor(1, &[9, 12]), tensor(2, &[8, 12])],
            [(1, 0), (0, 2), (0, 0), (1, 2), (0, 1), (1, 2)],
        );
        let comparison = Thresholded::new(6.0).unwrap();
        for penalty in [Penalty::Own, Penalty::Smoothed] {
            judge(&inputs, 3e-5, |inputs| {
                let rows = [0, 1].map(|at| unit_rows(&inputs[at], 1e-8).unwrap());
                let [images, texts] = rows;
                let images = Encoded { rows: images, offsets: vec![0, 4, 9] };
                let texts = Encoded { rows: texts, offsets: vec![0, 3, 5, 8] };
                let thresholds = [0.1, 0.9, -0.1];
                comparison.pair_scores(&images, &texts, &pairs, (&thresholds, penalty), None)
            });
        }
    }

    #[test]
    fn all_scores_are_those_of_pairs_in_any_company() {
        let (image_offsets, text_offsets) = (vec![0, 5, 9, 20], vec![0, 3, 5, 20, 29, 61, 300]);
        let on = |device: Device| {
            (items(1, image_offsets.clone(), device), items(2, text_offsets.clone(), device))
        };
        let comparison = Thresholded::new(20.0).unwrap();
        let (images, texts) = on(Device::Cpu);
        let pairs = Encoded::all_pairs(&images, &texts);
        for threshold in [0.0, 0.3, 0.8] {
            let scored = |device: Device, penalty: Penalty| {
                let (images, texts) = on(device);
                let thresholds = [threshold; 6];
                let scores =
                    comparison.pair_scores(&images, &texts, &pairs, (&thresholds, penalty), None);
                scores.unwrap().to_f32s().unwrap()
            };
            let all = comparison.scores(&images, &texts, threshold).unwrap();
            for device in [Device::Cpu, Device::Reference] {
                for (all, some) in all.iter().zip(scored(device, Penalty::Smoothed)) {
                    assert!((all - some).abs() < 2e-6, "{threshold} {device}: {all} {some}");
                }
            }
            let own = scored(Device::Reference, Penalty::Own);
            let batch = comparison.batch(&images, &texts).unwrap();
            for caption in 0..6 {
                let (scores, tops) = batch.column(caption, threshold);
                assert_eq!(tops.len(), 3 * (text_offsets[caption + 1] - text_offsets[caption]));
                for (image, score) in scores.iter().enumerate() {
                    let expected = own[image * 6 + caption];
                    assert!((score - expected).abs() < 2e-6, "{image} {caption}: {score}");
                }
            }
            for (at, &(image, text)) in pairs.iter().enumerate() {
                let one = |items: &Encoded, item: u32| {
                    let span = items.offsets[item as usize]..items.offsets[item as usize + 1];
                    let offsets = vec![0, span.len()];
                    Encoded { rows: items.rows.some_rows(span).unwrap(), offsets }
                };
                let (image, text) = (one(&images, image), one(&texts, text));
                let alone = comparison.scores(&image, &text, threshold).unwrap();
                assert_eq!(alone[0].to_bits(), all[at].to_bits(), "{at}");
            }
        }
    }
}
