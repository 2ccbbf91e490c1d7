//! Reference cases of the models that the paper cites. Each has everything: similarities, losses and
//! gradients in both modes, running values, and weights after steps of the optimiser. A new model needs
//! its family in `Config::from_published` and in the list of `verify.rs`.

use std::collections::BTreeMap;

use crate::models::{
    Batch, Criterion, Device, Gpo, Losses, Mode, Model, Objective, OptimiserName, Pass, Tensor,
    Trainer, Training, Violation, Weights, batch_loss,
};
use anyhow::{Context, Result};

use super::models::{Compared, Given, Ready, Tolerances, gradients};
use super::{Case, Outcome};

/// The reference in double precision. Scores and the derivatives by them are singles.
const DOUBLE: Tolerances = Tolerances { gradient: 1e-6, weight: 1e-7, ..Tolerances::SINGLE };

/// A gradient below this is zero in exact arithmetic: what is found there is rounding.
const NOTHING: f64 = 1e-9;

pub(super) fn model(case: &Case, given: Given, outcome: &mut Outcome) -> Result<()> {
    let (ready, mut tolerances) = (Ready::of(case, given)?, tolerances(given));
    if ready.model.architecture().training().loss == Criterion::CrossEntropy {
        // Its slopes follow from scores, which are singles on every device, and may cancel out.
        tolerances.gradient = tolerances.gradient.max(1e-5);
    }
    let check = Check { case, ready, tolerances };
    check.evaluation(outcome)?;
    check.training_mode(outcome)?;
    check.steps(outcome)
}

fn tolerances(given: Given) -> Tolerances {
    match given {
        Given { device: Device::Reference, rounded: false } => DOUBLE,
        given => Tolerances::of(given),
    }
}

/// A case on a device.
struct Check<'a> {
    case: &'a Case,
    ready: Ready,
    tolerances: Tolerances,
}

impl Check<'_> {
    /// The published training of the model, with the margin of the case. References drop nothing.
    fn training(&self) -> Training {
        let published = self.ready.model.architecture().training();
        let margin = self.ready.margin;
        Training { margin, sum_epochs: 0, dropout_inputs: 0.0, dropout_states: 0.0, ..published }
    }

    fn objective(&self, violation: Violation) -> Objective<'static> {
        let Training { margin, reduction, loss, .. } = self.training();
        match loss {
            Criterion::CrossEntropy => Objective::CrossEntropy { violation },
            _ => Objective::Hinge { margin, violation, reduction },
        }
    }

    /// Similarities of all items, and losses and gradients of the first, with running values.
    fn evaluation(&self, outcome: &mut Outcome) -> Result<()> {
        let (case, model, all) = (self.case, &self.ready.model, &self.ready.all);
        let (images, texts) = (model.encode_images(&all.images)?, model.encode_texts(&all.texts)?);
        let scores = doubles(model.comparison()?.scores(&images, &texts)?);
        outcome.within("sims", &scores, &case.floats("out.sims")?, self.tolerances.similarity)?;
        for (violation, name) in [(Violation::Max, "max"), (Violation::Sum, "sum")] {
            if !case.has(&format!("out.grad_norm_{name}")) {
                continue;
            }
            let pass = Pass::new(model.weights(), Mode::Evaluate);
            let square = &self.ready.square;
            let (losses, found) = batch_loss(model, &pass, square, self.objective(violation))?;
            self.loss(&format!("out.loss_{name}"), &losses, outcome)?;
            let compared = Compared {
                prefix: &format!("grad_{name}"),
                norm: &format!("out.grad_norm_{name}"),
                nothing: NOTHING,
            };
            gradients(case, model, &found, compared, self.tolerances, outcome)?;
        }
        Ok(())
    }

    /// The same with the statistics of the batch, and what running values become.
    fn training_mode(&self, outcome: &mut Outcome) -> Result<()> {
        let (case, model) = (self.case, &self.ready.model);
        if !case.has("train.loss_max") {
            return Ok(());
        }
        let (architecture, square) = (model.architecture(), &self.ready.square);
        let pass = Pass::new(model.weights(), Mode::Train(0));
        let images = architecture.encode_images(&pass, &square.images)?;
        let texts = architecture.encode_texts(&pass, &square.texts)?;
        let scores = doubles(architecture.training_comparisons(&pass)?[0].scores(&images, &texts)?);
        let (name, tolerance) = ("train.sims", self.tolerances.similarity);
        outcome.within(name, &scores, &case.floats(name)?, tolerance)?;
        let pass = Pass::new(model.weights(), Mode::Train(0));
        let objective = self.objective(Violation::Max);
        let (losses, found) = batch_loss(model, &pass, square, objective)?;
        self.loss("train.loss_max", &losses, outcome)?;
        let compared = Compared { prefix: "train_grad", norm: "", nothing: NOTHING };
        gradients(case, model, &found, compared, self.tolerances, outcome)?;
        // A step of next to nothing moves the running values alone.
        let nothing = Training { rate: f64::MIN_POSITIVE, ..self.training() };
        let mut trainer = Trainer::new(model.clone(), nothing)?;
        trainer.step(square, 0)?;
        self.weights("after_forward1", &trainer, 0.0, outcome)
    }

    /// Steps of the optimiser on the batch of the loss.
    fn steps(&self, outcome: &mut Outcome) -> Result<()> {
        let (case, config) = (self.case, &self.case.config);
        // The release lists weights of the caption loss twice; they are there once too.
        let suffix = if case.has("train.losses_once") { "_once" } else { "" };
        let place = if case.has("train.losses") { "train" } else { "out" };
        let number = |key: &str| config[key].as_f64().with_context(|| format!("no {key}"));
        let (rate, clip) = (number("lr")?, number("grad_clip")?);
        let violation = match config["loss"].as_str() {
            Some("sum") => Violation::Sum,
            _ => Violation::Max,
        };
        let training = Training { rate, clip, violation, ..self.optimiser() };
        let mut trainer = Trainer::new(self.ready.model.clone(), training)?;
        let losses = case.floats(&format!("{place}.losses{suffix}"))?;
        let norms = case.floats(&format!("{place}.grad_norms_before_clip{suffix}"))?;
        for (number, (&loss, &norm)) in losses.iter().zip(&norms).enumerate() {
            let step = trainer.step(&self.ready.square, 0)?;
            let (found, tolerances) = (step.gradient.value()?, self.tolerances);
            let what = format!("loss before step {}", number + 1);
            let tolerance = tolerances.loss.max(tolerances.weight) * loss.abs();
            outcome.within(&what, &[step.losses.read()?[0].loss], &[loss], tolerance)?;
            outcome.within(
                &format!("gradient norm before step {}", number + 1),
                &[found],
                &[norm],
                10.0 * tolerances.gradient * norm,
            )?;
            let moved = rate * (number + 1) as f64;
            let name = format!("after_step{}{suffix}", number + 1);
            self.weights(&name, &trainer, moved, outcome)?;
        }
        Ok(())
    }

    /// The training with the optimiser of the case, and its frozen weights.
    fn optimiser(&self) -> Training {
        let config = &self.case.config;
        let decay = |of: &str| config[of]["weight_decay"].as_f64().unwrap_or(0.0);
        let (optimiser, weight_decay) = match config["optimiser"].as_str() {
            Some("adamw") => (OptimiserName::Adamw, decay("adam")),
            _ if config["sgd"].is_object() => (OptimiserName::Sgd, decay("sgd")),
            _ if config["adam"]["amsgrad"] == true => (OptimiserName::Amsgrad, 0.0),
            _ => (OptimiserName::Adam, 0.0),
        };
        let mut rate_factors = BTreeMap::new();
        if let Some(trained) = config["trained"].as_array() {
            let all = self.ready.model.weights().trained().map(|(name, _)| name);
            let frozen = all.filter(|name| !trained.iter().any(|known| known == name));
            rate_factors = frozen.map(|name| (name.to_owned(), 0.0)).collect();
        }
        Training { optimiser, weight_decay, rate_factors, ..self.training() }
    }

    fn loss(&self, name: &str, found: &Losses, outcome: &mut Outcome) -> Result<()> {
        let expected = self.case.floats(name)?;
        let found = found.read()?[0].loss;
        outcome.within(name, &[found], &expected, self.tolerances.loss * expected[0].abs())
    }

    /// Weights and buffers, as far as the case has them. In single precision, steps of weights without
    /// a gradient are steps along rounding errors: they are left out, and running means, which such a
    /// bias shifts, may be off by as much as it can have `moved`.
    fn weights(
        &self,
        prefix: &str,
        trainer: &Trainer,
        moved: f64,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let single = self.ready.model.device() != Device::Reference;
        for (weight, tensor) in trainer.model().weights().iter() {
            let name = format!("{prefix}.{weight}");
            let rounding = single
                && ["train_grad", "grad_max"].iter().any(|gradient| self.is_zero(gradient, weight));
            if self.case.has(&name) && !rounding {
                let expected = self.case.floats(&name)?;
                let largest = expected.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
                let shifted = single && weight.ends_with(".running_mean");
                let shift = if shifted { moved } else { 0.0 };
                let tolerance = self.tolerances.weight * largest + shift;
                outcome.within(&name, &tensor.to_f64s()?, &expected, tolerance)?;
            }
        }
        Ok(())
    }

    /// Whether a weight has a gradient that is nothing but rounding.
    fn is_zero(&self, prefix: &str, weight: &str) -> bool {
        let gradient = self.case.floats(&format!("{prefix}.{weight}"));
        gradient.is_ok_and(|gradient| gradient.iter().all(|g| g.abs() < NOTHING))
    }
}

fn doubles(scores: Vec<f32>) -> Vec<f64> {
    scores.into_iter().map(f64::from).collect()
}

/// NAAF, which scores otherwise in training, with thresholds that move within a batch.
pub(super) fn naaf(case: &Case, given: Given, outcome: &mut Outcome) -> Result<()> {
    let tolerances = tolerances(given);
    let check = Check { case, ready: Ready::of(case, given)?, tolerances };
    let thresholds = case.floats("in.eval_thres_safe")?;
    let expected = case.floats("out.sims_eval")?;
    let each = expected.len() / thresholds.len().max(1);
    for (threshold, expected) in thresholds.into_iter().zip(expected.chunks(each)) {
        let model = with_threshold(&check.ready, threshold)?;
        let Batch { images, texts, .. } = &check.ready.all;
        let (images, texts) = (model.encode_images(images)?, model.encode_texts(texts)?);
        let scores = doubles(model.comparison()?.scores(&images, &texts)?);
        let what = format!("sims above {threshold}");
        outcome.within(&what, &scores, expected, tolerances.similarity)?;
    }
    let (model, square) = (&check.ready.model, &check.ready.square);
    let pass = Pass::new(model.weights(), Mode::Train(0));
    let images = model.architecture().encode_images(&pass, &square.images)?;
    let texts = model.architecture().encode_texts(&pass, &square.texts)?;
    let comparisons = model.architecture().training_comparisons(&pass)?;
    let scores = doubles(comparisons[0].scores(&images, &texts)?);
    // A threshold that is found in a batch moves with the rounding of its words.
    let expected = case.floats("out.sims_train")?;
    outcome.within("sims_train", &scores, &expected, 5.0 * tolerances.similarity)?;
    for (violation, name) in [(Violation::Max, "max"), (Violation::Sum, "sum")] {
        let pass = Pass::new(model.weights(), Mode::Train(0));
        let (losses, found) = batch_loss(model, &pass, square, check.objective(violation))?;
        check.loss(&format!("out.loss_{name}"), &losses, outcome)?;
        let compared = Compared {
            prefix: &format!("grad_{name}"),
            norm: &format!("out.grad_norm_{name}"),
            nothing: NOTHING,
        };
        gradients(case, model, &found, compared, tolerances, outcome)?;
    }
    let rate = case.config["lr"].as_f64().context("no lr")?;
    let mut trainer = Trainer::new(model.clone(), Training { rate, ..check.training() })?;
    for expected in case.floats("out.thres_after_step")?.chunks_exact(2) {
        trainer.step(square, 0)?;
        let weights = trainer.model().weights();
        let found = [weights.get("thres")?.to_f64s()?[0], weights.get("thres_safe")?.to_f64s()?[0]];
        outcome.within("thresholds after a step", &found, expected, tolerances.weight)?;
    }
    check.steps(outcome)
}

/// The model of a case with another threshold of evaluation.
fn with_threshold(ready: &Ready, threshold: f64) -> Result<Model> {
    let model = &ready.model;
    let mut weights: BTreeMap<String, Tensor> =
        model.weights().iter().map(|(name, weight)| (name.to_owned(), weight.clone())).collect();
    let threshold = Tensor::new(vec![threshold as f32], &[1], Device::Cpu)?;
    weights.insert("thres_safe".to_owned(), threshold);
    let config = ready.config.clone();
    Ok(Model::from_tensors(config, model.inputs(), &weights, "the case", model.device())?)
}

/// The pooling of VSE-infinity alone.
pub(super) fn pooling(case: &Case, given: Given, outcome: &mut Outcome) -> Result<()> {
    let (device, tolerances) = (given.device, tolerances(given));
    let size = |at: usize| case.config["gpo_dims"][at].as_u64().context("no gpo_dims");
    let gpo = Gpo { name: "gpo", code: size(0)? as usize, dim: size(1)? as usize };
    let weights = super::models::tensors(case, "param.", given)?;
    let weights = Weights::from_tensors(&gpo.declare(), &weights, "the case", device)?;
    let (shape, features) = case.file.f64s("in.features")?;
    let [_, each, dim] = shape[..] else { anyhow::bail!("in.features has shape {shape:?}") };
    let mut offsets = vec![0];
    let mut places = Vec::new();
    for (item, length) in case.integers("in.lengths")?.into_iter().enumerate() {
        places.extend((0..length as usize).map(|at| item * each + at));
        offsets.push(places.len());
    }
    let rows = places.iter().flat_map(|&row| &features[row * dim..][..dim]);
    let rows = rows.map(|&x| x as f32).collect();
    let rows = Tensor::new(rows, &[places.len(), dim], device)?.into_weight();
    let pooled = gpo.pool(&Pass::new(&weights, Mode::Evaluate), &rows, &offsets)?;
    let expected = case.floats("out.pooled")?;
    outcome.within("pooled", &pooled.to_f64s()?, &expected, tolerances.loss)?;
    let upstream: Vec<f32> = case.floats("in.upstream")?.into_iter().map(|g| g as f32).collect();
    let found = pooled.backward(&upstream)?;
    let of_rows = case.floats("grad.in.features")?;
    let of_rows: Vec<f64> =
        places.iter().flat_map(|&row| &of_rows[row * dim..][..dim]).copied().collect();
    let own = weights
        .iter()
        .map(|(name, weight)| Ok((name, weight, case.floats(&format!("grad.{name}"))?)));
    let mut all = own.collect::<Result<Vec<_>>>()?;
    all.push(("in.features", &rows, of_rows));
    for (name, tensor, expected) in all {
        let gradient = found.of(tensor).with_context(|| format!("{name} has no gradient"))?;
        let largest = expected.iter().fold(0.0, |most: f64, g| most.max(g.abs()));
        let tolerance = tolerances.gradient * largest;
        outcome.within(name, &gradient.to_f64s()?, &expected, tolerance)?;
    }
    Ok(())
}
