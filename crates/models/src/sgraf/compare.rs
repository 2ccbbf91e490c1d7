//! How SGR, SAF and both compare, in evaluation and in training.

use nextpair_data::Side;
use nextpair_kernels::ops::{
    Groups, Part, Tables, add, attend, concat, gather, linear, normalise, relu, scale, share_spans,
    sigmoid, square, subtract, unit_rows,
};
use nextpair_kernels::{self as kernels, Device, Encoded, Tensor};

use super::Half;
use crate::composed::{Composed, OfPairs, attention};
use crate::encoder::EPSILON;
use crate::{Comparison, Error, Pass, Weights};

/// Temperature of the attention of words to regions.
const TEMPERATURE: f32 = 9.0;

/// Compares by the mean of the scores of some halves of a model of `of`.
#[derive(Clone)]
pub(super) struct Reasoning {
    /// Which half, how the names of its weights begin, and what it is.
    pub(super) halves: Vec<(usize, &'static str, Half)>,
    pub(super) of: usize,
    /// Steps of graph reasoning.
    pub(super) steps: usize,
}

impl OfPairs for Reasoning {
    /// Of every half items as a whole, and their other rows.
    fn tables(
        &self,
        _weights: &Weights,
        _side: Side,
        items: &Encoded,
    ) -> Result<Vec<Encoded>, Error> {
        let mut tables = Vec::with_capacity(2 * self.halves.len());
        for &(half, ..) in &self.halves {
            let (mut firsts, mut others, mut offsets) = (Vec::new(), Vec::new(), vec![0]);
            for span in items.offsets.windows(2) {
                let each = (span[1] - span[0]) / self.of;
                let first = span[0] + half * each;
                firsts.push(first as u32);
                others.extend((first + 1..first + each).map(|row| row as u32));
                offsets.push(others.len());
            }
            tables.push(Encoded::uniform(gather(&items.rows, &firsts)?, 1)?);
            tables.push(Encoded { rows: gather(&items.rows, &others)?, offsets });
        }
        Ok(tables)
    }

    fn scores(&self, part: &Part<'_>) -> Result<Tensor, kernels::Error> {
        let mut sum: Option<Tensor> = None;
        for (at, &(_, prefix, half)) in self.halves.iter().enumerate() {
            let weight = |name: &str| part.weight(&format!("{prefix}{name}"));
            let (nodes, offsets) = self.nodes(part, at)?;
            let vectors = match half {
                Half::Graph => self.reasoned(nodes, &offsets, &weight)?,
                Half::Filter => {
                    let asked =
                        linear(&nodes, weight("saf.attn.weight")?, weight("saf.attn.bias")?)?;
                    let running = (weight("saf.bn.running_mean")?, weight("saf.bn.running_var")?);
                    let (gain, shift) = (weight("saf.bn.weight")?, weight("saf.bn.bias")?);
                    let asked = normalise(&asked, gain, shift, &Groups::Columns, running)?;
                    filtered(&nodes, &asked, &offsets)?
                }
            };
            let scores = linear(&vectors, weight("sim_eval.weight")?, weight("sim_eval.bias")?)?;
            let scores = sigmoid(&scores)?;
            sum = Some(match sum {
                Some(sum) => add(&sum, &scores)?,
                None => scores,
            });
        }
        let sum = sum.expect("a model has halves");
        if self.halves.len() == 1 { Ok(sum) } else { scale(&sum, 1.0 / self.halves.len() as f64) }
    }
}

impl Reasoning {
    /// The similarity vectors of pairs at unit norm, and the first of each pair, then the end of the last:
    /// how image and caption differ as a whole, and how each word differs from what it attends to.
    fn nodes(&self, part: &Part<'_>, at: usize) -> Result<(Tensor, Vec<usize>), kernels::Error> {
        let [(of_images, regions), (of_texts, words)] =
            [part.first, part.second].map(|side| (&side[2 * at], &side[2 * at + 1]));
        let prefix = self.halves[at].1;
        let layer = |name: &str, rows: &Tensor| {
            let weight = |of: &str| part.weight(&format!("{prefix}{name}.{of}"));
            linear(rows, weight("weight")?, weight("bias")?)
        };
        let (images, texts): (Vec<u32>, Vec<u32>) = part.pairs.iter().copied().unzip();
        let pairs: Vec<(u32, u32)> =
            part.pairs.iter().map(|&(image, text)| (text, image)).collect();
        let tables = Tables::new(&words.offsets, &regions.offsets, &pairs)?;
        let seen = attention(&tables, &tables.products(&words.rows, &regions.rows)?, TEMPERATURE)?;
        let seen = unit_rows(&tables.sums(&seen, &regions.rows)?, EPSILON)?;
        let differences = subtract(&seen, &gather(&words.rows, &tables.first_rows())?)?;
        let local = layer("sim_loc", &square(&differences)?)?;
        let wholes =
            subtract(&gather(&of_images.rows, &images)?, &gather(&of_texts.rows, &texts)?)?;
        let wholes = layer("sim_glo", &square(&wholes)?)?;
        let (mut order, mut offsets) = (Vec::new(), vec![0]);
        for (pair, span) in tables.lines().windows(2).enumerate() {
            order.push(pair as u32);
            order.extend((span[0]..span[1]).map(|line| (pairs.len() + line) as u32));
            offsets.push(order.len());
        }
        Ok((unit_rows(&gather(&concat(&[&wholes, &local], 0)?, &order)?, EPSILON)?, offsets))
    }

    /// The first node of every pair after all steps.
    fn reasoned<'a>(
        &self,
        mut nodes: Tensor,
        offsets: &[usize],
        weight: &dyn Fn(&str) -> Result<&'a Tensor, kernels::Error>,
    ) -> Result<Tensor, kernels::Error> {
        let pairs: Vec<(u32, u32)> =
            (1..offsets.len() as u32).map(|end| (end - 1, end - 1)).collect();
        let firsts: Vec<u32> = offsets[..pairs.len()].iter().map(|&at| at as u32).collect();
        let ones: Vec<usize> = (0..=pairs.len()).collect();
        for step in 0..self.steps {
            let layer = |name: &str, rows: &Tensor| {
                let weight = |of: &str| weight(&format!("sgr.{step}.{name}.{of}"));
                linear(rows, weight("weight")?, weight("bias")?)
            };
            // Nobody reads other nodes of the last step.
            let (asking, of_asking) = match step + 1 == self.steps {
                true => (gather(&nodes, &firsts)?, &ones[..]),
                false => (nodes.clone(), offsets),
            };
            let tables = Tables::new(of_asking, offsets, &pairs)?;
            let products = tables.products(&layer("query", &asking)?, &layer("key", &nodes)?)?;
            let seen = tables.sums(&tables.softmax(&products)?, &nodes)?;
            nodes = relu(&layer("graph", &seen)?)?;
        }
        Ok(nodes)
    }
}

/// The mean of the nodes of every pair by their shares, at unit norm.
fn filtered(
    nodes: &Tensor,
    normalised: &Tensor,
    offsets: &[usize],
) -> Result<Tensor, kernels::Error> {
    let shares = share_spans(&sigmoid(normalised)?, offsets)?;
    unit_rows(&attend(&shares, nodes, offsets)?, EPSILON)
}

/// SAF in training: the batch norm of the attention takes mean and variance of each caption over all
/// images of the batch, so that a score depends on all of them, and all pairs have a gradient. Running
/// values follow the captions in the order of the batch.
pub(super) struct InTraining<'a> {
    pub(super) pass: &'a Pass<'a>,
    pub(super) reasoning: Composed<Reasoning>,
    pub(super) prefix: &'static str,
}

impl InTraining<'_> {
    /// Scores of all pairs, with gradients.
    fn square(&self, images: &Encoded, texts: &Encoded) -> Result<Tensor, Error> {
        let (rows, columns) = (images.len() as u32, texts.len() as u32);
        // Caption by caption, so that what is normalised together lies together.
        let pairs: Vec<(u32, u32)> =
            (0..columns).flat_map(|text| (0..rows).map(move |image| (image, text))).collect();
        let made = |reasoning: &Reasoning, part: &Part| Ok(reasoning.nodes(part, 0)?.0);
        let nodes = self.reasoning.made((images, texts), &pairs, None, made)?;
        let of_text = |text: u32| {
            let text = text as usize;
            (texts.offsets[text + 1] - texts.offsets[text]) / self.reasoning.model.of
        };
        let offsets: Vec<usize> = std::iter::once(0)
            .chain(pairs.iter().scan(0, |end, &(_, text)| {
                *end += of_text(text);
                Some(*end)
            }))
            .collect();
        let groups = offsets.iter().copied().step_by(rows.max(1) as usize).collect();
        let scores = self.pass.within(self.prefix, |pass| {
            let (weight, bias) = (pass.weight("saf.attn.weight")?, pass.weight("saf.attn.bias")?);
            let asked = linear(&nodes, weight, bias)?;
            let asked = pass.batch_norm("saf.bn", &asked, &Groups::Spans(groups))?;
            let vectors = filtered(&nodes, &asked, &offsets)?;
            let (weight, bias) = (pass.weight("sim_eval.weight")?, pass.weight("sim_eval.bias")?);
            Ok(sigmoid(&linear(&vectors, weight, bias)?)?)
        })?;
        let places = (0..rows).flat_map(|image| (0..columns).map(move |text| text * rows + image));
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
