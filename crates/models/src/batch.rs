//! The loss of a batch and its gradients.

use nextpair_kernels::ops::{self, Counted, Tally};
use nextpair_kernels::{Device, Encoded, Gradients, Tensor};
use rayon::prelude::*;

use crate::info_nce::info_nce;
use crate::loss::{Loss, cross_entropy, loss};
use crate::{Comparison, Error, Mode, Model, Pair, Pass, Reduction, Texts, Violation};

/// A batch: images and captions, row `i` of both for pair `i`. One of several members has the pairs of
/// the first, of the second, and so on: equally many of each.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Features: images by regions by numbers.
    pub images: Tensor,
    /// The captions, as many as images.
    pub texts: Texts,
    /// Which image and which caption each row is: dropout draws by it, and InfoNCE does not take pairs
    /// that share one for wrong.
    pub pairs: Vec<Pair>,
    /// How many regions of each image come before those that are all zeros, where that is known:
    /// else who wants to know looks at the features, and a GPU waits.
    pub regions: Option<Vec<usize>>,
}

impl Batch {
    /// A batch of images and captions that are all different.
    pub fn new(images: Tensor, texts: Texts) -> Self {
        let pairs = (0..texts.len()).map(|row| Pair { item: row, caption: row }).collect();
        Batch { images, texts, pairs, regions: None }
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
        /// Whether they are added up or averaged.
        reduction: Reduction,
    },
    /// InfoNCE; see [`info_nce`].
    InfoNce {
        /// The logarithm of the temperature, one number for each member. It has a gradient if it is a
        /// weight.
        log_temperature: &'a Tensor,
        /// Whether the losses of pairs are added up or averaged.
        reduction: Reduction,
    },
    /// Cross entropy; see [`cross_entropy`].
    CrossEntropy {
        /// Which wrong pairs count.
        violation: Violation,
    },
}

impl Objective<'_> {
    /// The factor of a sum over a batch of so many pairs.
    fn factor(self, pairs: usize) -> f64 {
        let pairs = pairs.max(1) as f64;
        match self {
            Objective::Hinge { reduction: Reduction::Sum, .. }
            | Objective::InfoNce { reduction: Reduction::Sum, .. }
            | Objective::CrossEntropy { .. } => 1.0,
            Objective::Hinge { violation: Violation::Sum, .. } => 1.0 / (pairs * pairs),
            Objective::Hinge { .. } | Objective::InfoNce { .. } => 1.0 / pairs,
        }
    }
}

/// The losses of the members of a batch. On a GPU nobody has waited for them.
#[derive(Clone, Debug)]
pub struct Losses {
    /// Sums. A score that is NaN or infinite is found when they are read.
    tally: Tally,
    /// The factor of the sums.
    factor: f64,
    /// The loss of the architecture, if it has one.
    auxiliary: Option<Tensor>,
    /// Pairs of each member.
    pairs: usize,
}

/// The loss of a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemberLoss {
    /// The loss of its part of the batch.
    pub loss: f64,
    /// What the architecture adds to it.
    pub auxiliary: f64,
    /// Number of pairs with a gradient.
    pub active: usize,
}

impl Losses {
    /// The loss of every member. Waits for them.
    ///
    /// # Errors
    /// If a score or the loss of the architecture is NaN or infinite, or the device failed.
    pub fn read(&self) -> Result<Vec<MemberLoss>, Error> {
        let counted = self.tally.read()?;
        let bad = counted.iter().enumerate().find_map(|(at, own)| Some((at, own.bad?)));
        if let Some((member, (at, value))) = bad {
            let first = member * self.pairs;
            let (image, caption) = (first + at / self.pairs, first + at % self.pairs);
            return Err(Error::Score { image, caption, value });
        }
        let auxiliary = auxiliary_value(self.auxiliary.as_ref())?;
        let loss = |own: &Counted| {
            let loss = self.factor * own.loss + auxiliary;
            MemberLoss { loss, auxiliary, active: own.active }
        };
        Ok(counted.iter().map(loss).collect())
    }
}

/// The scores that losses depend on, and the derivatives by them.
struct Scored<'a> {
    tally: Tally,
    /// Tensors with the derivatives of the losses by their numbers.
    parts: Vec<(Tensor, Vec<f32>)>,
    /// Temperatures, with the derivatives by their logarithms.
    temperature: Vec<(&'a Tensor, Vec<f32>)>,
}

/// The value of the loss of an architecture, which may have none. Waits for it.
fn auxiliary_value(loss: Option<&Tensor>) -> Result<f64, Error> {
    let Some(loss) = loss else { return Ok(0.0) };
    match loss.to_f64s()?[..] {
        [own] if own.is_finite() => Ok(own),
        [own] => Err(Error::NotFinite { what: format!("the auxiliary loss is {own}") }),
        _ => Err(one_number("the auxiliary loss", loss)),
    }
}

/// The losses of the members of a batch, and the gradients of every weight that they depend on: zeros if
/// nothing is violated. Hinges go by the exact sparse procedure: all pairs are scored without gradients,
/// then those that the loss depends on with gradients. Where gradients of all scores are sooner there,
/// they have them all.
///
/// # Errors
/// If the batch does not match the model, or a score is NaN or infinite: on a GPU this shows when the
/// losses are read.
pub fn batch_loss(
    model: &Model,
    pass: &Pass<'_>,
    batch: &Batch,
    objective: Objective<'_>,
) -> Result<(Losses, Gradients), Error> {
    let architecture = model.architecture();
    let members = pass.weights().members();
    // 1. Encode images and captions.
    let images = architecture.encode_images(pass, &batch.images)?;
    let texts = architecture.encode_texts(pass, &batch.texts)?;
    let (count, of_texts, pairs) = (images.len(), texts.len(), batch.pairs.len());
    if count != of_texts || count != pairs || count == 0 || !count.is_multiple_of(members) {
        return Err(Error::Shape {
            what: "the batch".to_owned(),
            found: format!("{count} images and {of_texts} captions of {pairs} pairs"),
            expected: "as many of each, and at least one".to_owned(),
        });
    }
    // 2. Score every image with every caption.
    // 3. Compute the loss, and its derivatives by the scores.
    // 4. Score those with a derivative again, with gradients.
    let comparisons = match pass.mode() {
        Mode::Train(_) => architecture.training_comparisons(pass)?,
        Mode::Evaluate => vec![architecture.comparison(pass.weights())?],
    };
    let scored = comparisons.iter().map(|comparison| {
        let (comparison, both) = (&**comparison, (&images, &texts));
        match comparison.is_dense_on(images.rows.device()) {
            true => dense(comparison, both, &batch.pairs, objective),
            false => sparse(comparison, both, &batch.pairs, objective),
        }
    });
    let Scored { tally, mut parts, temperature } = summed(scored)?;
    // 5. Add the architecture's own loss, if it has one.
    let own = architecture.auxiliary_loss(pass, batch, &images, &texts)?;
    let auxiliary = own.as_ref().map(Tensor::detached);
    if let Some(own) = own {
        let waits = matches!(own.device(), Device::Cuda(_)) && own.len() == 1;
        if !waits {
            auxiliary_value(Some(&own))?;
        }
        parts.push((own, vec![1.0]));
    }
    // 6. Back-propagate the derivatives to the weights.
    let parts = parts.iter().map(|(tensor, slopes)| (tensor, &slopes[..]));
    let temperature = temperature.iter().map(|(tensor, slopes)| (*tensor, &slopes[..]));
    let gradients = Tensor::backward_of(&parts.chain(temperature).collect::<Vec<_>>())?;
    let (pairs, factor) = (count / members, objective.factor(count / members));
    Ok((Losses { tally, factor, auxiliary, pairs }, gradients))
}

/// The sum of the losses of several comparisons.
fn summed<'a>(
    mut all: impl Iterator<Item = Result<Scored<'a>, Error>>,
) -> Result<Scored<'a>, Error> {
    let nothing = || Error::setting("comparisons", "training compares nothing");
    let mut sum = all.next().ok_or_else(nothing)??;
    for next in all {
        let Scored { tally, parts, temperature } = next?;
        let mut counted = sum.tally.read()?;
        for (own, next) in counted.iter_mut().zip(tally.read()?) {
            own.loss += next.loss;
            own.active += next.active;
            own.bad = own.bad.or(next.bad);
        }
        sum.tally = Tally::Known(counted);
        sum.parts.extend(parts);
        sum.temperature.extend(temperature);
    }
    Ok(sum)
}

/// The losses with gradients of all scores.
fn dense<'a>(
    comparison: &dyn Comparison,
    (images, texts): (&Encoded, &Encoded),
    pairs: &[Pair],
    objective: Objective<'a>,
) -> Result<Scored<'a>, Error> {
    let members = comparison.members();
    let scores = comparison.all_scores(images, texts, None)?;
    let scores = scores.reshaped(&[pairs.len(), pairs.len() / members])?;
    let (losses, tally) = match objective {
        Objective::Hinge { margin, violation, .. } => {
            ops::hinges(&scores, members, margin, violation == Violation::Max)?
        }
        Objective::InfoNce { log_temperature, .. } => {
            let pairs = pairs.iter().map(|pair| (pair.item as u32, pair.caption as u32));
            ops::info_nce(&scores, log_temperature, pairs.collect())?
        }
        Objective::CrossEntropy { violation } => return judged(scores, members, violation),
    };
    let factor = objective.factor(pairs.len() / members) as f32;
    Ok(Scored { tally, parts: vec![(losses, vec![factor; members])], temperature: Vec::new() })
}

/// The cross entropy of scores that have gradients.
fn judged<'a>(scores: Tensor, members: usize, violation: Violation) -> Result<Scored<'a>, Error> {
    let (rows, each) = scores.matrix_shape()?;
    let mut slopes = vec![0.0; rows * each];
    let mut counted = Vec::with_capacity(members);
    for (member, scores) in scores.to_f32s()?.chunks_exact(each * each).enumerate() {
        let bad = scores.iter().position(|score| !score.is_finite()).map(|at| (at, scores[at]));
        let found = cross_entropy(scores, each, violation);
        counted.push(Counted { loss: found.value, active: found.pairs.len(), bad });
        for ((i, j), slope) in found.pairs {
            slopes[(member * each + i as usize) * each + j as usize] = slope;
        }
    }
    let tally = Tally::Known(counted);
    Ok(Scored { tally, parts: vec![(scores, slopes)], temperature: Vec::new() })
}

/// The losses with gradients of the scores that they depend on.
fn sparse<'a>(
    comparison: &dyn Comparison,
    (images, texts): (&Encoded, &Encoded),
    pairs: &[Pair],
    objective: Objective<'a>,
) -> Result<Scored<'a>, Error> {
    let members = comparison.members();
    let each = pairs.len() / members;
    let scale = objective.factor(each) as f32;
    let scores = comparison.scores(images, texts)?;
    if let Some(bad) = scores.iter().position(|score| !score.is_finite()) {
        let (first, at) = (bad / (each * each) * each, bad % (each * each));
        let (image, caption) = (first + at / each, first + at % each);
        return Err(Error::Score { image, caption, value: scores[bad] });
    }
    let squares = scores.par_chunks_exact(each * each);
    let (mut counted, mut temperature) = (Vec::with_capacity(members), Vec::new());
    let count = |loss: f64, active: usize| Counted { loss, active, bad: None };
    let part = match objective {
        Objective::Hinge { violation, .. } | Objective::CrossEntropy { violation } => {
            let (mut chosen, mut factors, mut known) = (Vec::new(), Vec::new(), Vec::new());
            let losses = squares.map(|scores| match objective {
                Objective::Hinge { margin, .. } => loss(scores, each, margin, violation),
                _ => cross_entropy(scores, each, violation),
            });
            let losses: Vec<Loss> = losses.collect();
            for (member, mut found) in losses.into_iter().enumerate() {
                counted.push(count(found.value, found.pairs.len()));
                if found.pairs.is_empty() {
                    // The gradients are zeros, not missing: momentum still moves the weights.
                    found.pairs.push(((0, 0), 0.0));
                }
                let first = (member * each) as u32;
                for ((i, j), factor) in found.pairs {
                    chosen.push((first + i, first + j));
                    known.push(scores[(first + i) as usize * each + j as usize]);
                    factors.push(factor * scale);
                }
            }
            (comparison.pair_scores(images, texts, &chosen, Some(known))?, factors)
        }
        Objective::InfoNce { log_temperature, .. } => {
            let logs = log_temperature.to_f64s()?;
            if logs.len() != members {
                return Err(one_number("the temperature", log_temperature));
            }
            let (mut slopes, mut by_logs) = (Vec::new(), Vec::new());
            let squares = squares.zip(pairs.par_chunks_exact(each)).zip(logs);
            let losses = squares.map(|((scores, pairs), log)| info_nce(scores, pairs, log.exp()));
            for found in losses.collect::<Vec<_>>() {
                let active = found.by_scores.iter().filter(|&&slope| slope != 0.0).count();
                counted.push(count(found.value, active));
                slopes.extend(found.by_scores.into_iter().map(|slope| slope * scale));
                by_logs.push(found.by_log_temperature as f32 * scale);
            }
            temperature.push((log_temperature, by_logs));
            (comparison.all_scores(images, texts, Some(scores))?, slopes)
        }
    };
    Ok(Scored { tally: Tally::Known(counted), parts: vec![part], temperature })
}

fn one_number(what: &str, found: &Tensor) -> Error {
    Error::Shape {
        what: what.to_owned(),
        found: format!("{} numbers", found.len()),
        expected: "one".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Dot, Heads, Inputs, Mode};

    /// Gradients of all scores are those of the scores that matter, for every member.
    #[test]
    fn dense_losses_are_sparse_losses() {
        let (members, each, dim) = (3, 7, 5);
        let numbers = |seed: usize, count: usize| {
            let number = |at: usize| ((at * 7919 + seed * 104_729) % 1009) as f32 / 1009.0 - 0.5;
            (0..count).map(number).collect::<Vec<f32>>()
        };
        let count = members * each;
        let encoded = |seed: usize| {
            let rows = Tensor::new(numbers(seed, count * dim), &[count, dim], Device::Cpu);
            Encoded::uniform(rows.unwrap().into_weight(), 1).unwrap()
        };
        let (images, texts) = (encoded(1), encoded(2));
        let pairs: Vec<Pair> = (0..count).map(|row| Pair { item: row / 2, caption: row }).collect();
        let logs = Tensor::new(vec![-1.0, -0.5, -2.0], &[3, 1], Device::Cpu).unwrap();
        let logs = logs.into_weight();
        let hinge = |violation, reduction| Objective::Hinge { margin: 0.2, violation, reduction };
        let (sum, mean) = (Reduction::Sum, Reduction::Mean);
        let ways = [
            hinge(Violation::Max, sum),
            hinge(Violation::Sum, sum),
            hinge(Violation::Max, mean),
            hinge(Violation::Sum, mean),
            Objective::InfoNce { log_temperature: &logs, reduction: sum },
            Objective::InfoNce { log_temperature: &logs, reduction: mean },
            Objective::CrossEntropy { violation: Violation::Max },
            Objective::CrossEntropy { violation: Violation::Sum },
        ];
        for objective in ways {
            let (dot, both) = (Dot { members }, (&images, &texts));
            let found = [
                dense(&dot, both, &pairs, objective).unwrap(),
                sparse(&dot, both, &pairs, objective).unwrap(),
            ];
            let [dense, sparse] = found.map(|Scored { tally, parts, temperature }| {
                let parts = parts.iter().map(|(tensor, slopes)| (tensor, &slopes[..]));
                let logs = temperature.iter().map(|(tensor, slopes)| (*tensor, &slopes[..]));
                let gradients = Tensor::backward_of(&parts.chain(logs).collect::<Vec<_>>());
                let gradients = gradients.unwrap();
                let of = |weight: &Tensor| gradients.of(weight).map(|g| g.to_f32s().unwrap());
                let all = [of(&images.rows), of(&texts.rows), of(&logs_of(objective, &images))];
                (tally.read().unwrap(), all)
            });
            for (dense, sparse) in dense.0.iter().zip(&sparse.0) {
                assert!((dense.loss - sparse.loss).abs() < 1e-5 * sparse.loss, "{objective:?}");
                assert_eq!(dense.active, sparse.active, "{objective:?}");
            }
            for (dense, sparse) in dense.1.iter().zip(&sparse.1) {
                assert_eq!(dense.is_some(), sparse.is_some());
                for (dense, sparse) in dense.iter().flatten().zip(sparse.iter().flatten()) {
                    assert!((dense - sparse).abs() < 1e-5, "{objective:?}: {dense} {sparse}");
                }
            }
        }
    }

    /// The temperatures of an objective, or a tensor that has no gradient.
    fn logs_of(objective: Objective<'_>, images: &Encoded) -> Tensor {
        match objective {
            Objective::InfoNce { log_temperature, .. } => log_temperature.clone(),
            Objective::Hinge { .. } | Objective::CrossEntropy { .. } => images.rows.detached(),
        }
    }

    #[test]
    fn a_bad_score_is_that_of_its_member() {
        let good = Counted { loss: 1.0, active: 2, bad: None };
        let bad = Counted { bad: Some((4 * 5 + 3, f32::NAN)), ..good };
        let read = |counted: &[Counted]| {
            let tally = Tally::Known(counted.to_vec());
            Losses { tally, factor: 0.5, auxiliary: None, pairs: 5 }.read()
        };
        let Err(Error::Score { image, caption, value }) = read(&[good, bad]) else {
            panic!("there is one")
        };
        assert!((image, caption) == (9, 8) && value.is_nan());
        assert_eq!(read(&[good]).unwrap(), [MemberLoss { loss: 0.5, auxiliary: 0.0, active: 2 }]);
    }

    #[test]
    fn members_must_have_equally_many_pairs() {
        let model = |seed| {
            let (config, inputs) = (Config::Heads(Heads::default()), Inputs { image: 3, text: 2 });
            Model::new(config, inputs, seed, Device::Cpu).unwrap()
        };
        let both = Model::stacked(&[model(1), model(2)], Device::Cpu).unwrap();
        let images = Tensor::zeros(&[3, 1, 3], Device::Cpu).unwrap();
        let texts = Texts::vectors(vec![0.0; 6], 2, Device::Cpu).unwrap();
        let pass = Pass::new(both.weights(), Mode::Train(0));
        let (violation, reduction) = (Violation::Max, Reduction::Sum);
        let objective = Objective::Hinge { margin: 0.2, violation, reduction };
        assert!(batch_loss(&both, &pass, &Batch::new(images, texts), objective).is_err());
    }
}
