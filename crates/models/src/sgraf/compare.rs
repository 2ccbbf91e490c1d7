//! How SGR, SAF and both compare, in evaluation and in training.

use nextpair_data::Side;
use nextpair_engine::Similarity;
use nextpair_kernels::ops::{Groups, Reasoning, add, concat, gather, linear, scale};
use nextpair_kernels::{Device, Encoded, Tensor};

use crate::comparison::tiles;
use crate::{Comparison, Encodings, Error, Pass};

impl Comparison for Reasoning {
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        _known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        Ok(Reasoning::pair_scores(self, images, texts, pairs)?)
    }

    fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        Ok(Reasoning::scores(self, images, texts)?)
    }

    fn similarity(
        self: Box<Self>,
        of_rows: Side,
        rows: Encodings,
        columns: Encodings,
        device: Device,
    ) -> Result<Box<dyn Similarity>, Error> {
        tiles(
            Box::new(self.detached()),
            Reasoning::in_precision_of,
            of_rows,
            (rows, columns),
            device,
        )
    }
}

/// The mean of the scores of several models, each with an equal part of the rows of an item.
pub(super) struct Mean(pub(super) Vec<Reasoning>);

impl Comparison for Mean {
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        _known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        let mut sum: Option<Tensor> = None;
        for (at, own) in self.0.iter().enumerate() {
            let (images, texts) = (part(images, at, self.0.len())?, part(texts, at, self.0.len())?);
            let scores = own.pair_scores(&images, &texts, pairs)?;
            sum = Some(match sum {
                Some(sum) => add(&sum, &scores)?,
                None => scores,
            });
        }
        let sum = sum.expect("it consists of models");
        Ok(scale(&sum, 1.0 / self.0.len() as f64)?)
    }

    fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        let mut sum = vec![0.0; images.len() * texts.len()];
        for (at, own) in self.0.iter().enumerate() {
            let (images, texts) = (part(images, at, self.0.len())?, part(texts, at, self.0.len())?);
            let scores = own.scores(&images, &texts)?;
            sum.iter_mut().zip(scores).for_each(|(sum, score)| *sum += score);
        }
        sum.iter_mut().for_each(|sum| *sum /= self.0.len() as f32);
        Ok(sum)
    }

    fn similarity(
        self: Box<Self>,
        of_rows: Side,
        rows: Encodings,
        columns: Encodings,
        device: Device,
    ) -> Result<Box<dyn Similarity>, Error> {
        let in_precision_of = |mean: &Mean, device| {
            Mean(mean.0.iter().map(|own| own.in_precision_of(device)).collect())
        };
        let own = Box::new(Mean(self.0.iter().map(Reasoning::detached).collect()));
        tiles(own, in_precision_of, of_rows, (rows, columns), device)
    }
}

/// A comparison of an equal part of the rows of every item.
pub(super) struct Part<'a> {
    pub(super) part: usize,
    pub(super) of: usize,
    pub(super) comparison: Box<dyn Comparison + 'a>,
}

impl Comparison for Part<'_> {
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        let (images, texts) = (part(images, self.part, self.of)?, part(texts, self.part, self.of)?);
        self.comparison.pair_scores(&images, &texts, pairs, known)
    }

    fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        let (images, texts) = (part(images, self.part, self.of)?, part(texts, self.part, self.of)?);
        self.comparison.scores(&images, &texts)
    }

    fn all_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        let (images, texts) = (part(images, self.part, self.of)?, part(texts, self.part, self.of)?);
        self.comparison.all_scores(&images, &texts, known)
    }

    fn is_dense_on(&self, device: Device) -> bool {
        self.comparison.is_dense_on(device)
    }
}

/// SAF in training: the batch norm of the attention takes mean and variance of each caption over all
/// images of the batch, so that a score depends on all of them, and all pairs have a gradient. Running
/// values follow the captions in the order of the batch.
pub(super) struct InTraining<'a> {
    pub(super) pass: &'a Pass<'a>,
    pub(super) reasoning: Reasoning,
    pub(super) prefix: &'static str,
}

impl InTraining<'_> {
    /// Scores of all pairs, with gradients.
    fn square(&self, images: &Encoded, texts: &Encoded) -> Result<Tensor, Error> {
        let (rows, columns) = (images.len() as u32, texts.len() as u32);
        // Caption by caption, so that what is normalised together lies together.
        let pairs: Vec<(u32, u32)> =
            (0..columns).flat_map(|text| (0..rows).map(move |image| (image, text))).collect();
        let (nodes, offsets) = self.reasoning.nodes(images, texts, &pairs)?;
        let groups = offsets.iter().copied().step_by(rows.max(1) as usize).collect();
        let normalised = self.pass.within(self.prefix, |pass| {
            let (weight, bias) = (pass.weight("saf.attn.weight")?, pass.weight("saf.attn.bias")?);
            pass.batch_norm("saf.bn", &linear(&nodes, weight, bias)?, &Groups::Spans(groups))
        })?;
        let scores = self.reasoning.filtered_scores(&nodes, &normalised, &offsets)?;
        let places = (0..rows).flat_map(|image| (0..columns).map(move |text| text * rows + image));
        let scores = scores.reshaped(&[scores.len(), 1])?;
        let scores = gather(&scores, &places.collect::<Vec<_>>())?;
        Ok(scores.reshaped(&[scores.len()])?)
    }
}

impl Comparison for InTraining<'_> {
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        _known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        let scores = self.square(images, texts)?;
        let places = pairs.iter().map(|&(image, text)| image * texts.len() as u32 + text);
        let scores = scores.reshaped(&[scores.len(), 1])?;
        let some = gather(&scores, &places.collect::<Vec<_>>())?;
        Ok(some.reshaped(&[pairs.len()])?)
    }

    fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        Ok(self.square(&images.detached(), &texts.detached())?.to_f32s()?)
    }

    fn all_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        _known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        self.square(images, texts)
    }

    fn is_dense_on(&self, _device: Device) -> bool {
        true
    }
}

/// The rows of two encodings of the same items: of each item those of the first, then of the second.
pub(super) fn joined(first: &Encoded, second: &Encoded) -> Result<Encoded, Error> {
    let (mut order, mut offsets) = (Vec::new(), vec![0]);
    let before = first.offsets[first.len()];
    for (own, other) in first.offsets.windows(2).zip(second.offsets.windows(2)) {
        order.extend((own[0]..own[1]).chain(before + other[0]..before + other[1]));
        offsets.push(order.len());
    }
    let order: Vec<u32> = order.into_iter().map(|row| row as u32).collect();
    let rows = gather(&concat(&[&first.rows, &second.rows], 0)?, &order)?;
    Ok(Encoded { rows, offsets })
}

/// An equal part of the rows of every item.
fn part(items: &Encoded, part: usize, of: usize) -> Result<Encoded, Error> {
    let (mut order, mut offsets) = (Vec::new(), vec![0]);
    for span in items.offsets.windows(2) {
        let each = (span[1] - span[0]) / of;
        order.extend((span[0] + part * each..span[0] + (part + 1) * each).map(|row| row as u32));
        offsets.push(order.len());
    }
    Ok(Encoded { rows: gather(&items.rows, &order)?, offsets })
}
