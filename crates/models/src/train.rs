//! Trains models in their folders: epochs, a checkpoint after each; the best on dev is kept, or the mean
//! of the last. Several models of one architecture can train together, each as it would alone.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nextpair_data::dataset::DEV;
use nextpair_data::{Progress, Within};
use nextpair_kernels::Device;
use rayon::prelude::*;

use crate::corpus::{Corpus, Pair};
use crate::evaluate::evaluate;
use crate::folder::{ModelFolder, Position, State};
use crate::trainer::Trainer;
use crate::training::{Epoch, Training};
use crate::{Config, Error, Inputs, Model};

/// Minimum training time between two writes of the state, as a multiple of the time of the last
/// write. Epochs repeated after a kill end with the same bytes.
const WORTH_WRITING: u32 = 30;

/// A guess of how many bytes are written in a second, before several states are written for the first
/// time.
const WRITING_SPEED: f64 = 256e6;

/// One of several models that train together.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    /// Its folder. Without one it is trained along, and nothing of it is written: what a member learns
    /// may depend, in the last digits, on how many train together.
    pub folder: Option<&'a ModelFolder>,
    /// The dataset as it takes it. All of them share their features ([`Corpus::shares_features`]).
    pub corpus: &'a Corpus,
    /// Its pairs, as many as every other has.
    pub pairs: &'a [Pair],
    /// Its seed.
    pub seed: u64,
}

/// Hears of the epochs of each member, by its number.
type Report<'a> = &'a (dyn Fn(usize, &Epoch) + Sync);

/// Trains the model of a folder up to its last epoch, from where it stopped. Calls `report` after
/// every epoch.
///
/// # Errors
/// If the dataset is another than the folder's, or something cannot be read, computed or written.
pub fn train(
    folder: &ModelFolder,
    corpus: &Corpus,
    device: Device,
    progress: &dyn Progress,
    report: impl FnMut(&Epoch) + Send,
) -> Result<Model, Error> {
    let report = Mutex::new(report);
    let report = |_, epoch: &Epoch| report.lock().unwrap_or_else(PoisonError::into_inner)(epoch);
    let pairs = corpus.steady(|| folder.pairs(corpus))?;
    if pairs.is_empty() {
        return folder.model(device);
    }
    let seed = folder.spec().training.seed;
    let member = Member { folder: Some(folder), corpus, pairs: &pairs, seed };
    train_ensemble(&[member], device, progress, &report)?;
    folder.model(device)
}

/// Trains several models together up to their last epoch, each as it would alone. Their folders have
/// the same settings but for the seed, and the architecture allows it
/// ([`Architecture::trains_together`](crate::Architecture::trains_together)). They go on from where all
/// of them stopped, or begin again.
///
/// # Errors
/// If members do not fit together, or something cannot be read, computed or written.
pub fn train_ensemble(
    members: &[Member<'_>],
    device: Device,
    progress: &dyn Progress,
    report: Report<'_>,
) -> Result<(), Error> {
    // Runs on a thread of the pool itself. From outside, every parallel call would first have to
    // wake the pool, and one more thread would compete for the cores.
    rayon::scope(|_| train_here(members, device, progress, report))
}

/// How many models of an architecture train together at most on a device: a fixed rule of sizes, so
/// that the same models always do.
///
/// # Errors
/// If the device failed.
pub fn members_at_most(
    model: &Config,
    inputs: Inputs,
    (regions, batch): (usize, usize),
    device: Device,
) -> Result<usize, Error> {
    if !model.architecture().trains_together() {
        return Ok(1);
    }
    // Weights, and of a batch the features and what is made of them.
    let vectors = model.architecture().vectors_of_pair(regions);
    let each = model.weights(inputs) + batch * (regions * inputs.image + vectors * model.dim());
    // A number has moments and a gradient, and kernels count to 2^32.
    let most = device.memory()?.map_or(1 << 28, |bytes| bytes / 64).min(1 << 30);
    Ok((most / each.max(1)).max(1))
}

/// A member while it trains.
struct Trainee<'a> {
    member: Member<'a>,
    dev: Vec<usize>,
    position: Position,
    /// The best weights, with their epoch, until they are written.
    best: Option<(Model, usize)>,
}

fn train_here(
    members: &[Member<'_>],
    device: Device,
    progress: &dyn Progress,
    report: Report<'_>,
) -> Result<(), Error> {
    let folders: Vec<&ModelFolder> = members.iter().filter_map(|member| member.folder).collect();
    let Some(&leader) = folders.first() else { return Ok(()) };
    let (training, corpus) = (&leader.spec().training, members[0].corpus);
    check(members, leader)?;
    let _locks = folders.iter().map(|folder| folder.lock()).collect::<Result<Vec<_>, Error>>()?;
    let dev = |member: &Member<'_>| match training.validate_last {
        0 => Vec::new(),
        _ => member.corpus.dev_items(training.validate_images),
    };
    let devs: Vec<Vec<usize>> = members.iter().map(dev).collect();
    let pairs: Vec<Pair> = members.iter().flat_map(|member| member.pairs).copied().collect();
    corpus.steady(|| corpus.check_numbers(&pairs, &devs.concat(), progress))?;

    // Go on from where all of them stopped.
    let (mut trainer, positions) = begin(members, leader, device)?;
    let trainees = members.iter().zip(devs).zip(positions);
    let mut trainees: Vec<Trainee<'_>> = trainees
        .map(|((&member, dev), position)| Trainee { member, dev, position, best: None })
        .collect();
    trainees.par_iter_mut().try_for_each(Trainee::take_up)?;
    let mut done = trainees[0].position.epochs;
    let left = training.epochs.saturating_sub(done);
    let worth = evaluation_work(trainer.model(), corpus, &trainees[0].dev, training.batch)?;
    let evaluations = (0..left).filter(|ahead| training.validates(training.epochs - ahead));
    let evaluations = (evaluations.count() * folders.len()) as u64;
    let evaluating = evaluations * worth.iter().map(|(_, pairs)| pairs).sum::<u64>();
    progress.start("training", left as u64 * pairs.len() as u64 + evaluating);
    let (mut written, mut writing) = (Instant::now(), Duration::ZERO);
    if members.len() > 1 {
        // Weights and moments of all of them: too much to write after the first epoch.
        let bytes = 16 * trainer.model().weights().count();
        writing = Duration::from_secs_f64(bytes as f64 / WRITING_SPEED);
    }

    while done < training.epochs {
        // A step for every batch. What fails here fails before anything of the epoch is written.
        let mut epochs = corpus.steady(|| trainer.epoch(members, done, progress))?;
        done += 1;

        // Evaluate on dev. The mean of the weights is that of the last epochs when the last is done.
        let last = done == training.epochs;
        let mean = if last { trainer.averaged()? } else { None };
        let model = mean.as_ref().unwrap_or(trainer.model());
        if training.validates(done) {
            let each = epochs.par_iter_mut().zip(&trainees).enumerate();
            each.try_for_each(|(at, (epoch, trainee))| {
                trainee.evaluate(epoch, &model.member(at)?, &Within::new(progress, DEV, &worth))
            })?;
        }

        // Write the best weights, the log and the state, in this order: a kill costs what came after.
        let (due, begun) = (last || written.elapsed() > WORTH_WRITING * writing, Instant::now());
        let each = trainees.par_iter_mut().zip(&epochs).enumerate();
        each.try_for_each(|(at, (trainee, epoch))| {
            trainee.keep_best(epoch, model, at, due)?;
            if let Some(folder) = trainee.member.folder {
                if let Some((best, epoch)) = trainee.best.take_if(|_| due) {
                    trainee.position.weights = Some(folder.write_weights(&best, epoch)?);
                }
                folder.log(epoch, due)?;
                // Of several, the older states are those that all go on from after a kill.
                if due && !(last && members.len() > 1) {
                    folder.write_state(&trainer, at, &mut trainee.position)?;
                }
            }
            report(at, epoch);
            Ok::<_, Error>(())
        })?;
        if due {
            (written, writing) = (Instant::now(), begun.elapsed());
        }
    }
    Ok(())
}

/// Refuses members that do not fit together.
fn check(members: &[Member<'_>], leader: &ModelFolder) -> Result<(), Error> {
    let (spec, first) = (leader.spec(), &members[0]);
    let settings = |training: &Training| Training { seed: 0, ..training.clone() };
    let fits = |member: &Member<'_>| {
        let same = member.folder.is_none_or(|folder| {
            let own = folder.spec();
            (&own.model, own.inputs, settings(&own.training), own.training.seed)
                == (&spec.model, spec.inputs, settings(&spec.training), member.seed)
        });
        let alike = member.pairs.len() == first.pairs.len();
        same && alike && member.corpus.shares_features(first.corpus)
    };
    let can = members.len() == 1 || spec.model.architecture().trains_together();
    if can && members.iter().all(fits) {
        return Ok(());
    }
    let what =
        "they differ in more than their seeds and pairs, or cannot train together".to_owned();
    Err(Error::Dataset { what })
}

/// The trainer of all members, and how far each has come. They begin again if one was trained along, or
/// a kill came while their states were written.
fn begin(
    members: &[Member<'_>],
    leader: &ModelFolder,
    device: Device,
) -> Result<(Trainer, Vec<Position>), Error> {
    let spec = leader.spec();
    let first = |member: &Member<'_>| match member.folder {
        Some(folder) => folder.first_model(Device::Cpu),
        None => Model::new(spec.model.clone(), spec.inputs, member.seed, Device::Cpu),
    };
    let models = members.par_iter().map(first).collect::<Result<Vec<Model>, Error>>()?;
    let model = Model::stacked(&models, device)?;
    let seeds = members.iter().map(|member| member.seed).collect();
    let mut trainer = Trainer::of_ensemble(model, spec.training.clone(), seeds)?;
    let state = |member: &Member<'_>| match member.folder {
        Some(folder) => folder.read_state(&trainer),
        None => Ok((Position::default(), State::new())),
    };
    let states = members.par_iter().map(state).collect::<Result<Vec<_>, Error>>()?;
    let (mut positions, states): (Vec<Position>, Vec<State>) = states.into_iter().unzip();
    if positions.iter().any(|position| position.epochs != positions[0].epochs) {
        positions = vec![Position::default(); members.len()];
    } else if states.iter().all(|state| !state.is_empty()) {
        trainer.resume(states, &positions[0].steps)?;
    }
    Ok((trainer, positions))
}

impl Trainee<'_> {
    /// Makes the folder ready to go on.
    fn take_up(&mut self) -> Result<(), Error> {
        let Some(folder) = self.member.folder else { return Ok(()) };
        folder.check_weights(&mut self.position)?;
        folder.cut_log(self.position.epochs)
    }

    /// Evaluates the model after an epoch on dev, if there are items in it.
    fn evaluate(
        &self,
        epoch: &mut Epoch,
        model: &Model,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        if self.dev.is_empty() || self.member.folder.is_none() {
            return Ok(());
        }
        let start = Instant::now();
        epoch.dev = Some(evaluate(model, self.member.corpus, &self.dev, 1, progress)?);
        epoch.dev_seconds = start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Keeps the weights after an epoch, those of the member `at` of a model, if they are the best so far.
    /// They are written when a write is `due`.
    fn keep_best(
        &mut self,
        epoch: &Epoch,
        model: &Model,
        at: usize,
        due: bool,
    ) -> Result<(), Error> {
        let position = &mut self.position;
        position.epochs = epoch.epoch;
        let rsum = epoch.dev.map(|dev| dev.rsum);
        // Before the first evaluation, the last weights count as the best.
        let newest = rsum.is_none() && position.best.is_none();
        if self.member.folder.is_some() && (newest || rsum > position.best) {
            position.best = rsum;
            position.best_epoch = position.epochs;
            if due || !newest {
                self.best = Some((model.member(at)?.to_device(Device::Cpu)?, position.epochs));
            }
        }
        Ok(())
    }
}

/// The work of an evaluation on dev by phase, in training pairs, to estimate the remaining time.
fn evaluation_work(
    model: &Model,
    corpus: &Corpus,
    dev: &[usize],
    batch: usize,
) -> Result<[(&'static str, u64); 2], Error> {
    let captions: usize = dev.iter().map(|&item| corpus.captions_of(item).count()).sum();
    // A training pair is scored with those of its batch, and then takes as long again.
    let scored = if model.comparison()?.is_costly() { dev.len() * captions / batch / 2 } else { 0 };
    // A caption is encoded without gradients, which is a third of the work.
    Ok([("captions", captions as u64 / 3), ("ranks", scored as u64)])
}

#[cfg(test)]
mod tests;
