//! Training a model in its folder: epochs, a checkpoint after each, the best on dev kept.

use std::time::{Duration, Instant};

use nextpair_data::dataset::DEV;
use nextpair_data::{Progress, Within};
use nextpair_kernels::Device;

use crate::corpus::Corpus;
use crate::evaluate::evaluate;
use crate::folder::ModelFolder;
use crate::trainer::Trainer;
use crate::training::Epoch;
use crate::{Error, Model};

/// The state is written after an epoch if training has since taken so many times as long as writing
/// did the last time. What a killed process has to repeat ends with the same bytes.
const WORTH_WRITING: u32 = 30;

/// Trains the model of a folder until its last epoch, from where it was left. `report` is told of
/// every epoch.
///
/// # Errors
/// If the dataset is not the one it was made for, or something cannot be read, computed or written.
pub fn train(
    folder: &ModelFolder,
    corpus: &Corpus,
    device: Device,
    progress: &dyn Progress,
    report: impl FnMut(&Epoch) + Send,
) -> Result<Model, Error> {
    // On a thread of the pool itself: from outside, every parallel piece of work would have to
    // wake the pool first, and one more thread would compete for the cores.
    rayon::scope(|_| train_here(folder, corpus, device, progress, report))
}

fn train_here(
    folder: &ModelFolder,
    corpus: &Corpus,
    device: Device,
    progress: &dyn Progress,
    mut report: impl FnMut(&Epoch),
) -> Result<Model, Error> {
    let _lock = folder.lock()?;
    let spec = folder.spec();
    let training = &spec.training;
    let pairs = corpus.steady(|| folder.pairs(corpus))?;
    let dev = match training.validate_last {
        0 => Vec::new(),
        _ => corpus.dev_items(training.validate_images),
    };
    corpus.steady(|| corpus.check_numbers(&pairs, &dev, progress))?;
    let model = Model::new(spec.model.clone(), spec.inputs, training.seed, device)?;
    let mut trainer = Trainer::new(model, training.clone())?;
    let mut position = folder.read_state(&mut trainer)?;
    folder.check_weights(&mut position)?;
    folder.cut_log(position.epochs)?;
    let worth = evaluation_work(trainer.model(), corpus, &dev, training.batch)?;
    let left = training.epochs.saturating_sub(position.epochs);
    let evaluations = left.min(training.validate_last) as u64;
    let evaluating: u64 = worth.iter().map(|(_, pairs)| pairs).sum();
    progress.start("training", left as u64 * pairs.len() as u64 + evaluations * evaluating);
    let (mut written, mut writing) = (Instant::now(), Duration::ZERO);
    while position.epochs < training.epochs {
        // Before anything of the epoch is written.
        let mut epoch =
            corpus.steady(|| trainer.epoch(corpus, &pairs, position.epochs, progress))?;
        position.epochs += 1;
        let asked = training.epochs - position.epochs < training.validate_last;
        if asked && !dev.is_empty() {
            let start = Instant::now();
            let within = Within::new(progress, DEV, &worth);
            epoch.dev = Some(evaluate(trainer.model(), corpus, &dev, 1, &within)?);
            epoch.dev_seconds = start.elapsed().as_secs_f64();
        }
        let worth = written.elapsed() > WORTH_WRITING * writing;
        let due = worth || position.epochs == training.epochs;
        let begun = Instant::now();
        let rsum = epoch.dev.map(|dev| dev.rsum);
        // Before the first evaluation the last weights are the ones to use.
        let newest = rsum.is_none() && position.best.is_none();
        if newest || rsum > position.best {
            position.best = rsum;
            position.best_epoch = position.epochs;
            if due || !newest {
                position.weights = Some(folder.write_weights(trainer.model(), position.epochs)?);
            }
        }
        folder.log(&epoch, due)?;
        if due {
            folder.write_state(&trainer, &mut position)?;
            (written, writing) = (Instant::now(), begun.elapsed());
        }
        report(&epoch);
    }
    folder.model(device)
}

/// About how many pairs of training the phases of an evaluation on dev are worth, so that an ETA
/// can be told.
fn evaluation_work(
    model: &Model,
    corpus: &Corpus,
    dev: &[usize],
    batch: usize,
) -> Result<[(&'static str, u64); 2], Error> {
    let captions: usize = dev.iter().map(|&item| corpus.captions_of(item).count()).sum();
    // A pair of training is scored with those of its batch, and then takes as long again.
    let scored = match model.comparison()?.is_costly() {
        true => dev.len() * captions / batch / 2,
        false => 0,
    };
    // A caption is read without gradients, which is a third of the work.
    Ok([("captions", captions as u64 / 3), ("ranks", scored as u64)])
}
