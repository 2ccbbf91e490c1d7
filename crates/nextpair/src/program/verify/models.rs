//! Reference cases of the retrieval models: similarities, losses, gradients, training steps.

use std::collections::BTreeMap;

use crate::models::{
    Batch, Config, Cuda, Device, Gradients, Inputs, Mode, Model, Objective, Pass, Precision,
    Reduction, Tensor, Texts, Trainer, Training, Violation, batch_loss, loss,
};
use anyhow::{Context, Result, ensure};

use super::{Case, Outcome};

/// Where a model computes, and of what.
#[derive(Clone, Copy)]
pub(super) struct Given {
    pub(super) device: Device,
    /// Whether weights and features are rounded first to the 10 bits of a factor on matrix units.
    pub(super) rounded: bool,
}

/// By how much answers may differ from the references.
#[derive(Clone, Copy)]
pub(super) struct Tolerances {
    /// Of similarities.
    pub(super) similarity: f64,
    /// Of a loss, relative to it.
    pub(super) loss: f64,
    /// Of a gradient, relative to the largest gradient of the same weight.
    pub(super) gradient: f64,
    /// Whether that is said of the norm of a gradient and of its difference, rather than of numbers:
    /// rounding to few bits may make another wrong pair the hardest.
    pub(super) by_norm: bool,
    /// Of weights after ten steps.
    pub(super) weight: f64,
}

impl Tolerances {
    /// Single precision, on the CPU and on a GPU; there, gradients of sums of hinges, which are small
    /// differences of large numbers, need twice as much, and so do weights after steps along them.
    pub(super) const SINGLE: Self =
        Tolerances { similarity: 2e-6, loss: 1e-5, gradient: 1e-4, by_norm: false, weight: 1e-4 };

    pub(super) fn of(given: Given) -> Self {
        match given.device {
            _ if given.rounded => Tolerances { by_norm: true, ..Tolerances::SINGLE },
            Device::Cuda(Cuda { precision: Precision::Tf32, .. }) => Tolerances {
                similarity: 1e-2,
                loss: 5e-3,
                gradient: 0.2,
                by_norm: true,
                weight: 5e-3,
            },
            Device::Cuda(Cuda { precision: Precision::Fp16, .. }) => Tolerances {
                similarity: 3e-2,
                loss: 3e-2,
                gradient: 0.5,
                by_norm: true,
                weight: 5e-3,
            },
            Device::Cuda(_) => Tolerances { gradient: 2e-4, weight: 2e-4, ..Tolerances::SINGLE },
            _ => Tolerances::SINGLE,
        }
    }
}

/// Whether a device multiplies factors of few bits.
pub(super) fn is_rounding(device: Device) -> bool {
    matches!(device, Device::Cuda(Cuda { precision: Precision::Tf32 | Precision::Fp16, .. }))
}

pub(super) fn model(case: &Case, given: Given, outcome: &mut Outcome) -> Result<()> {
    let (ready, tolerances) = (Ready::of(case, given)?, Tolerances::of(given));
    if case.has("out.losses") {
        return training(case, ready, tolerances, outcome);
    }
    let Batch { images, texts, .. } = &ready.all;
    let (images, texts) = (ready.model.encode_images(images)?, ready.model.encode_texts(texts)?);
    let scores = ready.model.comparison()?.scores(&images, &texts)?;
    let scores: Vec<f64> = scores.into_iter().map(f64::from).collect();
    outcome.within("sims", &scores, &case.floats("out.sims")?, tolerances.similarity)?;
    for (violation, name) in [(Violation::Max, "max"), (Violation::Sum, "sum")] {
        let pass = Pass::new(ready.model.weights(), Mode::Train(0));
        let objective =
            Objective::Hinge { margin: ready.margin, violation, reduction: Reduction::Sum };
        let (losses, found) = batch_loss(&ready.model, &pass, &ready.square, objective)?;
        let expected = case.floats(&format!("out.loss_{name}"))?;
        outcome.within(
            &format!("loss_{name}"),
            &[losses.read()?[0].loss],
            &expected,
            tolerances.loss * expected[0].abs(),
        )?;
        let norm = format!("out.grad_norm_{name}");
        if case.has(&norm) {
            let compared = Compared { prefix: &format!("grad_{name}"), norm: &norm, nothing: 0.0 };
            gradients(case, &ready.model, &found, compared, tolerances, outcome)?;
        }
    }
    Ok(())
}

/// The gradients of a case that are compared.
pub(super) struct Compared<'a> {
    /// What their names begin with.
    pub(super) prefix: &'a str,
    /// The name of their norm; empty if the case has none.
    pub(super) norm: &'a str,
    /// Gradients below this are rounding of zeros.
    pub(super) nothing: f64,
}

pub(super) fn gradients(
    case: &Case,
    model: &Model,
    found: &Gradients,
    compared: Compared<'_>,
    tolerances: Tolerances,
    outcome: &mut Outcome,
) -> Result<()> {
    let Compared { prefix, norm, nothing } = compared;
    let mut squares = 0.0;
    for (weight, tensor) in model.weights().iter() {
        let reference = format!("{prefix}.{weight}");
        let found = found.of(tensor);
        ensure!(found.is_some() == case.has(&reference), "{reference}: one side has no gradient");
        let Some(found) = found else { continue };
        let found = found.to_f64s()?;
        let expected = case.floats(&reference)?;
        if tolerances.by_norm {
            let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|g| g * g).sum::<f64>();
            let off = norm(&mut found.iter().zip(&expected).map(|(a, b)| a - b)).sqrt();
            let whole = norm(&mut expected.iter().copied()).sqrt();
            // Zeros are compared with what gradients of any size round to in single precision.
            let zeros = whole < nothing;
            let allowed =
                if zeros { Tolerances::SINGLE.gradient } else { tolerances.gradient * whole };
            outcome.within(&reference, &[off], &[0.0], allowed)?;
        } else {
            let largest = expected.iter().fold(0.0, |largest: f64, g| largest.max(g.abs()));
            // Zeros are compared with what gradients of this size round to.
            let size = if largest < nothing { 1.0 } else { largest };
            outcome.within(&reference, &found, &expected, tolerances.gradient * size)?;
        }
        squares += found.iter().map(|g| g * g).sum::<f64>();
    }
    if norm.is_empty() {
        return Ok(());
    }
    let expected = case.floats(norm)?;
    outcome.within(norm, &[squares.sqrt()], &expected, tolerances.gradient * expected[0])
}

/// Runs training steps on one batch, from the given weights.
fn training(
    case: &Case,
    ready: Ready,
    tolerances: Tolerances,
    outcome: &mut Outcome,
) -> Result<()> {
    let number = |key: &str| case.config[key].as_f64().with_context(|| format!("no {key}"));
    let (rate, clip) = (number("lr")?, number("grad_clip")?);
    let training = Training { margin: ready.margin, rate, clip, ..Training::default() };
    let mut trainer = Trainer::new(ready.model, training)?;
    let (losses, norms) = (case.floats("out.losses")?, case.floats("out.grad_norms_before_clip")?);
    for (number, (&loss, &norm)) in losses.iter().zip(&norms).enumerate() {
        let step = trainer.step(&ready.square, 0)?;
        let name = format!("loss before step {}", number + 1);
        outcome.within(&name, &[step.losses.read()?[0].loss], &[loss], tolerances.weight * loss)?;
        outcome.within(
            &format!("gradient norm before step {}", number + 1),
            &[step.gradient.value()?],
            &[norm],
            tolerances.gradient * norm,
        )?;
        for (weight, tensor) in trainer.model().weights().iter() {
            let reference = format!("after_step{}.{weight}", number + 1);
            if case.has(&reference) {
                let found = tensor.to_f64s()?;
                outcome.within(&reference, &found, &case.floats(&reference)?, tolerances.weight)?;
            }
        }
    }
    Ok(())
}

/// Checks losses and gradients of square score matrices.
pub(super) fn losses(case: &Case, outcome: &mut Outcome) -> Result<()> {
    for one in case.config["cases"].as_array().context("no cases")? {
        let key = one["key"].as_str().context("no key")?;
        let (batch, margin) = (one["n"].as_u64(), one["margin"].as_f64());
        let batch = batch.context("no n")? as usize;
        let scores: Vec<f32> =
            case.floats(&format!("{key}.scores"))?.into_iter().map(|s| s as f32).collect();
        for (violation, name) in [(Violation::Max, "max"), (Violation::Sum, "sum")] {
            let found = loss(&scores, batch, margin.context("no margin")?, violation);
            let expected = case.floats(&format!("{key}.loss_{name}"))?;
            let tolerance = Tolerances::SINGLE.loss * expected[0].abs().max(1e-3);
            outcome.within(&format!("{key} {name}"), &[found.value], &expected, tolerance)?;
            let mut gradient = vec![0.0; batch * batch];
            for ((i, j), factor) in found.pairs {
                gradient[i as usize * batch + j as usize] = f64::from(factor);
            }
            let expected = case.floats(&format!("{key}.grad_{name}"))?;
            outcome.within(&format!("{key} gradient {name}"), &gradient, &expected, 0.0)?;
        }
    }
    Ok(())
}

/// A case ready to run.
pub(super) struct Ready {
    pub(super) config: Config,
    pub(super) model: Model,
    pub(super) all: Batch,
    /// The images and captions of the loss: the first ones, as a square batch.
    pub(super) square: Batch,
    pub(super) margin: f64,
}

impl Ready {
    pub(super) fn of(case: &Case, given: Given) -> Result<Self> {
        let device = given.device;
        let (shape, values) = singles(case, "in.images", given)?;
        let images = Tensor::new(values, &shape, device)?;
        let (shape, ids) = case.file.i64s("in.captions")?;
        let width = shape.get(1).copied().context("in.captions is not a matrix")?;
        let captions: Vec<Vec<u32>> = ids
            .chunks(width)
            .zip(case.integers("in.lengths")?)
            .map(|(ids, length)| ids[..length as usize].iter().map(|&id| id as u32).collect())
            .collect();
        let config = Config::from_published(case.family(), &case.config)?;
        let size = |key: &str| {
            let size = case.config[key].as_u64().with_context(|| format!("no {key}"))?;
            Ok::<_, anyhow::Error>(size as usize)
        };
        let inputs = Inputs { image: size("img_dim")?, text: size("vocab_size")? };
        let mut weights = tensors(case, "param.", given)?;
        weights.extend(tensors(case, "buffer.", given)?);
        for (buffer, key) in [("thres", "thres_before"), ("thres_safe", "thres_safe_before")] {
            if let Some(threshold) = case.config[key].as_f64() {
                let threshold = Tensor::new(vec![threshold as f32], &[1], Device::Cpu)?;
                weights.insert(buffer.to_owned(), threshold);
            }
        }
        // Convolutions over one place are stored with an axis of 1.
        for declared in config.architecture().declare(inputs) {
            if let Some(found) = weights.get_mut(&declared.name) {
                let count: usize = declared.shape.iter().product();
                ensure!(found.len() == count, "{}: {:?}", declared.name, found.shape());
                *found = found.reshaped(&declared.shape)?;
            }
        }
        let model = Model::from_tensors(config.clone(), inputs, &weights, "the case", device)?;
        let block = case.config["loss_block"].as_u64().map_or(captions.len(), |n| n as usize);
        ensure!(block <= captions.len() && block <= images.shape()[0], "loss_block is too large");
        let first = Texts::words(&captions[..block])?;
        let square = Batch::new(images.first_rows(block)?, first);
        let margin = case.config["margin"].as_f64().context("no margin")?;
        let all = Batch::new(images, Texts::words(&captions)?);
        Ok(Ready { config, model, all, square, margin })
    }
}

fn singles(case: &Case, name: &str, given: Given) -> Result<(Vec<usize>, Vec<f32>)> {
    let (shape, values) = case.file.f64s(name)?;
    let rounded = |value: f64| if given.rounded { to_ten_bits(value as f32) } else { value as f32 };
    Ok((shape, values.into_iter().map(rounded).collect()))
}

/// The nearest number whose fraction has 10 bits.
fn to_ten_bits(value: f32) -> f32 {
    const DROPPED: u32 = 13;
    let half = 1 << (DROPPED - 1);
    f32::from_bits((value.to_bits() + half) & !((1 << DROPPED) - 1))
}

/// The tensors whose names begin with `prefix`, by the rest of their names.
pub(super) fn tensors(case: &Case, prefix: &str, given: Given) -> Result<BTreeMap<String, Tensor>> {
    let mut found = BTreeMap::new();
    for name in case.file.names().iter().filter_map(|name| name.strip_prefix(prefix)) {
        let (shape, values) = singles(case, &format!("{prefix}{name}"), given)?;
        found.insert(name.to_owned(), Tensor::new(values, &shape, Device::Cpu)?);
    }
    Ok(found)
}
