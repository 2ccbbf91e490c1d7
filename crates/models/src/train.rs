//! Trains a model in its folder: epochs, a checkpoint after each; the best on dev is kept, or the mean
//! of the last.

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

/// Minimum training time between two writes of the state, as a multiple of the time of the last
/// write. Epochs repeated after a kill end with the same bytes.
const WORTH_WRITING: u32 = 30;

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
    // Runs on a thread of the pool itself. From outside, every parallel call would first have to
    // wake the pool, and one more thread would compete for the cores.
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
    let evaluations = (0..left).filter(|ahead| training.validates(training.epochs - ahead));
    let evaluations = evaluations.count() as u64;
    let evaluating: u64 = worth.iter().map(|(_, pairs)| pairs).sum();
    progress.start("training", left as u64 * pairs.len() as u64 + evaluations * evaluating);
    let (mut written, mut writing) = (Instant::now(), Duration::ZERO);
    while position.epochs < training.epochs {
        // Fail before anything of the epoch is written.
        let mut epoch =
            corpus.steady(|| trainer.epoch(corpus, &pairs, position.epochs, progress))?;
        position.epochs += 1;
        // The mean is that of the last epochs only when the last is done.
        let last = position.epochs == training.epochs;
        let mean = if last { trainer.averaged()? } else { None };
        let model = mean.as_ref().unwrap_or(trainer.model());
        if training.validates(position.epochs) && !dev.is_empty() {
            let start = Instant::now();
            let within = Within::new(progress, DEV, &worth);
            epoch.dev = Some(evaluate(model, corpus, &dev, 1, &within)?);
            epoch.dev_seconds = start.elapsed().as_secs_f64();
        }
        let worth = written.elapsed() > WORTH_WRITING * writing;
        let due = worth || last;
        let begun = Instant::now();
        let rsum = epoch.dev.map(|dev| dev.rsum);
        // Before the first evaluation, the last weights count as the best.
        let newest = rsum.is_none() && position.best.is_none();
        if newest || rsum > position.best {
            position.best = rsum;
            position.best_epoch = position.epochs;
            if due || !newest {
                position.weights = Some(folder.write_weights(model, position.epochs)?);
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
