//! Comparison of images and captions by NAAF: all pairs without gradients, or some with.

mod mining;
mod pairs;

use crate::cross::Thresholds;
use crate::cuda::{ThresholdedRows, Unit};
use crate::device::Cuda;
use crate::operation::apply;
use crate::{Aggregation, Attention, Encoded, Error, Normaliser, Tensor, Values};
pub use mining::MinedBatch;
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

    /// Images and captions on a GPU.
    fn on_gpu<'a>(
        &self,
        cuda: Cuda,
        images: &'a Encoded,
        texts: &'a Encoded,
    ) -> Result<ThresholdedRows<'a>, Error> {
        let (unit, both) = (Unit::new(cuda)?, (images.gpu_rows()?, texts.gpu_rows()?));
        ThresholdedRows::new(&unit, images.dim()?, &self.attention, both.0, both.1)
    }

    /// The scores of all pairs in evaluation, images by captions, without gradients. A score has the same
    /// bits whatever else is scored with it.
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
        let mut out = vec![0.0; images.len() * texts.len()];
        if out.is_empty() {
            return Ok(out);
        }
        if let Values::Cuda(cuda, _) = images.rows.values() {
            return Ok(self.on_gpu(*cuda, images, texts)?.scores(threshold)?.to_vec()?);
        }
        let (images, texts) = (images.on_cpu()?, texts.on_cpu()?);
        self.kernel().scores(images.ragged()?, texts.ragged()?, threshold, &mut out);
        Ok(out)
    }

    /// The scores of the pairs of a batch in training, where the threshold of a caption depends on those
    /// before it: `penalty` says how much worse it is to take a mismatch for a match than the other way
    /// round, and `before` has the thresholds of training and of evaluation so far.
    ///
    /// # Errors
    /// If an item has no rows, or rows of other dimensions.
    pub fn mine(
        &self,
        images: &Encoded,
        texts: &Encoded,
        penalty: f64,
        before: [f64; 2],
    ) -> Result<MinedBatch, Error> {
        check(images, texts)?;
        let lengths: Vec<usize> = texts.offsets.windows(2).map(|span| span[1] - span[0]).collect();
        if let Values::Cuda(cuda, _) = images.rows.values() {
            return self.on_gpu(*cuda, images, texts)?.mine(
                &mining::order(&lengths),
                penalty,
                before,
            );
        }
        let (images, texts) = (images.on_cpu()?, texts.on_cpu()?);
        let products = self.kernel().batch(images.ragged()?, texts.ragged()?);
        let both = (self.kernel(), &products);
        Ok(mining::mine(both, images.len(), &lengths, penalty, before))
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
            attention: self.attention,
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
    use crate::ops::judge::{judge, judge_fast, tensor};
    use crate::ops::unit_rows;

    fn items(seed: u64, lengths: &[usize]) -> Encoded {
        let offsets = lengths.iter().fold(vec![0], |mut offsets, length| {
            offsets.push(offsets[offsets.len() - 1] + length);
            offsets
        });
        let rows = tensor(seed, &[offsets[lengths.len()], 24]);
        Encoded { rows: unit_rows(&rows, 1e-8).unwrap(), offsets }
    }

    #[test]
    fn every_device_follows_the_formula() {
        let pairs = [(1, 0), (0, 2), (0, 0), (1, 2), (0, 1), (1, 2)];
        let comparison = Thresholded::new(6.0).unwrap();
        // Captions of one word, and images of more regions than a warp has threads.
        for (dim, image_offsets) in [(12, vec![0, 4, 9]), (33, vec![0, 3, 41])] {
            let inputs = [tensor(1, &[image_offsets[2], dim]), tensor(2, &[22, dim])];
            for penalty in [Penalty::Own, Penalty::Smoothed] {
                let compare = |inputs: &[Tensor]| {
                    let [images, texts] = [0, 1].map(|at| unit_rows(&inputs[at], 1e-8).unwrap());
                    let images = Encoded { rows: images, offsets: image_offsets.clone() };
                    let texts = Encoded { rows: texts, offsets: vec![0, 3, 4, 22] };
                    let thresholds = [0.1, 0.9, -0.1];
                    comparison.pair_scores(&images, &texts, &pairs, (&thresholds, penalty), None)
                };
                judge(&inputs, 3e-5, compare);
                // It is exact in every precision.
                judge_fast(&inputs, 3e-5, compare);
            }
        }
    }

    fn on(items: &Encoded, device: Device) -> Encoded {
        Encoded { rows: items.rows.to_device(device).unwrap(), offsets: items.offsets.clone() }
    }

    #[test]
    fn all_scores_are_those_of_pairs_in_any_company() {
        let comparison = Thresholded::new(20.0).unwrap();
        let (images, texts) = (items(1, &[5, 4, 11]), items(2, &[3, 2, 15, 9, 32, 239]));
        let pairs = Encoded::all_pairs(&images, &texts);
        for threshold in [0.0, 0.3, 0.8] {
            let scored = |device: Device, penalty: Penalty| {
                let (images, texts, thresholds) =
                    (on(&images, device), on(&texts, device), [threshold; 6]);
                let scores =
                    comparison.pair_scores(&images, &texts, &pairs, (&thresholds, penalty), None);
                scores.unwrap().to_f32s().unwrap()
            };
            let exact = scored(Device::Reference, Penalty::Smoothed);
            for device in Device::available() {
                let (images, texts) = (on(&images, device), on(&texts, device));
                let all = comparison.scores(&images, &texts, threshold).unwrap();
                let some = scored(device, Penalty::Smoothed);
                for ((all, some), exact) in all.iter().zip(some).zip(&exact) {
                    assert!((all - some).abs() < 2e-6, "{threshold} {device}: {all} {some}");
                    assert!((all - exact).abs() < 2e-6, "{threshold} {device}: {all} {exact}");
                }
                for (at, &(image, text)) in pairs.iter().enumerate() {
                    let one = |items: &Encoded, item: u32| {
                        let span = items.offsets[item as usize]..items.offsets[item as usize + 1];
                        let offsets = vec![0, span.len()];
                        Encoded { rows: items.rows.some_rows(span).unwrap(), offsets }
                    };
                    let (image, text) = (one(&images, image), one(&texts, text));
                    let alone = comparison.scores(&image, &text, threshold).unwrap();
                    assert_eq!(alone[0].to_bits(), all[at].to_bits(), "{at} on {device}");
                }
            }
            let own = scored(Device::Reference, Penalty::Own);
            let products =
                comparison.kernel().batch(images.ragged().unwrap(), texts.ragged().unwrap());
            for (caption, span) in texts.offsets.windows(2).enumerate() {
                let (scores, tops) = comparison.kernel().column(&products, caption, threshold);
                assert_eq!(tops.len(), 3 * (span[1] - span[0]));
                for (image, score) in scores.iter().enumerate() {
                    let expected = own[image * 6 + caption];
                    assert!((score - expected).abs() < 2e-6, "{image} {caption}: {score}");
                }
            }
        }
    }

    /// Regions are noisy copies of words, so that most captions rank their own image first.
    #[test]
    fn every_device_finds_the_thresholds_of_the_cpu() {
        let lengths: Vec<usize> = (0..37).map(|caption| 2 + caption * 7 % 12).collect();
        let texts = items(3, &lengths);
        let (words, noise) = (texts.to_f32s().unwrap(), tensor(4, &[texts.rows.len()]));
        let both = words.iter().zip(noise.to_f32s().unwrap());
        let regions: Vec<f32> = both.map(|(word, noise)| word + 0.2 * noise).collect();
        let regions = Tensor::new(regions, texts.rows.shape(), Device::Cpu).unwrap();
        let images =
            Encoded { rows: unit_rows(&regions, 1e-8).unwrap(), offsets: texts.offsets.clone() };
        let comparison = Thresholded::new(9.0).unwrap();
        let mined = |device: Device| {
            let (images, texts) = (on(&images, device), on(&texts, device));
            comparison.mine(&images, &texts, 2.0, [0.4, 0.2]).unwrap()
        };
        let exact = mined(Device::Cpu);
        assert!(exact.thresholds.iter().any(|&threshold| threshold > 0.1));
        assert!(exact.thresholds.contains(&0.4) && exact.thresholds.contains(&0.0));
        for device in Device::available() {
            let found = mined(device);
            let close = |found: &[f32], exact: &[f32]| {
                assert_eq!(found.len(), exact.len());
                for (found, exact) in found.iter().zip(exact) {
                    assert!((found - exact).abs() < 3e-6, "{device}: {found} {exact}");
                }
            };
            close(&found.scores, &exact.scores);
            close(&found.thresholds, &exact.thresholds);
            close(&found.after.map(|x| x as f32), &exact.after.map(|x| x as f32));
        }
    }
}
