//! `nextpair train DATASET --model NAME --out MODEL`: trains a retrieval model.

mod again;
mod data;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use crate::data::dataset::Dataset;
use crate::kernels::prepare_process;
use crate::models::{Corpus, Epoch, Mixing, ModelFolder, Pair, Plateau, Spec, train};
use crate::scenario::SettingsFile;
use anyhow::Result;

use crate::program::device::DeviceArgs;
use crate::program::evaluate::retrieval_table;
use crate::program::interrupt;
use crate::program::logs::LogArgs;
use crate::program::next;
use crate::program::numbers::grouped;
use crate::program::plan::{Plan, PlanArgs};
use crate::program::progress::Bar;
use crate::program::settings::{self, ModelArgs, TrainingArgs};
use crate::program::streams::print;
use crate::program::typed;
use data::{DataArgs, Source};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset to learn from: its split train, evaluated on its split dev
    dataset: PathBuf,
    /// The folder of the model
    #[arg(long, value_name = "MODEL")]
    out: PathBuf,
    /// Continue a training after its last epoch, to the same weights as if it had never stopped.
    /// Settings may be given again if they are the same
    #[arg(long)]
    resume: bool,
    /// Continue what another version or another vector unit has trained. The weights are those of
    /// neither then, and the model says so
    #[arg(long, requires = "resume")]
    mixed: bool,
    /// Settings in TOML, with the tables [model] and [training]; flags override them
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Begin with the weights of this model, and with its words, where names and shapes are the same; the
    /// other weights are drawn as ever
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["vocabulary", "min_count"])]
    start: Option<PathBuf>,
    /// Other first weights, shuffles and draws [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print the last epoch as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    training: TrainingArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    prepare_process();
    detail!("device: {}", args.device.device().describe());
    let (dataset, out) = (args.dataset.clone(), args.out.clone());
    interrupt::on_stop(move || kept(&dataset, &out));
    let began = Instant::now();
    let bar = Bar::new();
    let plan = Plan::of_training(args.plan.after.as_deref())?;
    let (run, corpus, pairs) = if args.resume {
        let mut run = ModelFolder::open(&args.out)?;
        let corpus = run.training_corpus(Dataset::open(&args.dataset)?)?;
        let pairs = run.pairs(&corpus)?;
        again::check(args, &run, &corpus, &pairs, &bar)?;
        let mixing = if args.mixed { Mixing::Accept } else { Mixing::Refuse };
        // A finished training has nothing left to mix.
        let note = if run.is_finished()? { None } else { run.admit(args.device.device(), mixing)? };
        if let Some(note) = note {
            alert!("note: {note}");
        }
        (run, corpus, pairs)
    } else {
        start(args, &bar)?
    };
    bar.finish();
    if Plan::read(run.folder())?.is_none() {
        plan.write(run.folder())?;
    }
    announce(&run, &corpus, &pairs)?;
    let epochs = run.spec().training.epochs;
    let formats = &args.log.formats;
    run.write_logs(formats)?;
    let trained = train(&run, &corpus, args.device.device(), &bar, |epoch| {
        bar.say(&epoch_line(epoch, epochs));
        // What fails fails again below: training is worth more than its logs.
        let _ = run.write_logs(formats);
    });
    bar.finish();
    trained?;
    run.write_logs(formats)?;
    finish(args, &run, began)?;
    let (spec, epochs) = (run.spec(), run.epochs()?);
    let model = spec.model.architecture();
    if let Some(plateau) = Plateau::of(model, &spec.training, pairs.len(), &epochs, None) {
        alert!("warning: {plateau}");
    }
    if !args.json {
        match next::compare(run.folder(), &corpus, &Plan::of(run.folder())) {
            Some(next) => next.say(),
            None => next::with_model(&run, &corpus, &pairs)?.say(),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says how much of a training is kept, and how it goes on.
fn kept(dataset: &Path, out: &Path) -> String {
    let Ok(run) = ModelFolder::open(out) else { return interrupt::nothing_kept() };
    let (kept, epochs) = (run.epochs_kept().unwrap_or(0), run.spec().training.epochs);
    let (dataset, out) = (typed::path(dataset), typed::path(out));
    format!(
        "{kept} of {epochs} epochs are kept in {out}. Go on with: nextpair train {dataset} --out {out} \
         --resume"
    )
}

/// Creates the folder of a new model.
fn start(args: &Args, bar: &Bar) -> Result<(ModelFolder, Corpus, Vec<Pair>)> {
    let file = args.config.as_deref().map(SettingsFile::read).transpose()?.unwrap_or_default();
    let (config, mut training) = settings::resolve(file, &args.model, &args.training, "--config")?;
    training.seed = args.seed.unwrap_or(training.seed);
    let dataset = Dataset::open(&args.dataset)?;
    let begun = args.start.as_deref().map(ModelFolder::open).transpose()?;
    let words = begun.as_ref().and_then(ModelFolder::vocabulary);
    let Source { corpus, vocabulary, features, pairs } =
        args.data.open(dataset, &config, &training, words, bar)?;
    let spec = Spec::new(corpus.dataset(), config, corpus.inputs(), features, training)
        .made_on(args.device.device());
    let Some(begun) = begun else {
        let run = ModelFolder::create(&args.out, spec, vocabulary, &corpus, &pairs)?;
        return Ok((run, corpus, pairs));
    };
    let (run, left) =
        ModelFolder::create_from(&args.out, spec, vocabulary, &corpus, &pairs, &begun)?;
    let from = begun.folder().display();
    match &left[..] {
        [] => say!("begins with the weights of {from}"),
        left => say!("begins with the weights of {from} but for {}", left.join(", ")),
    }
    Ok((run, corpus, pairs))
}

/// Prints the model and the data it is trained on.
fn announce(run: &ModelFolder, corpus: &Corpus, pairs: &[Pair]) -> Result<()> {
    let spec = run.spec();
    let training = &spec.training;
    let images = pairs.chunk_by(|a, b| a.item == b.item).count();
    let texts = match &spec.text_features {
        Some(name) => format!("{name}, {} numbers", grouped(spec.inputs.text)),
        None => format!("{} words", grouped(spec.inputs.text)),
    };
    let regions = match corpus.regions() {
        1 => String::new(),
        regions => format!("{regions} regions x "),
    };
    say!(
        "{}, {} dimensions, {} weights",
        spec.model.name(),
        spec.model.dim(),
        grouped(spec.model.weights(spec.inputs))
    );
    say!(
        "{} pairs of {} images ({}, {regions}{} numbers; {texts})",
        grouped(pairs.len()),
        grouped(images),
        spec.image_features,
        grouped(spec.inputs.image)
    );
    if let Some(warning) = few_pairs(pairs.len(), spec.model.weights(spec.inputs)) {
        alert!("warning: {warning}");
    }
    let dev = corpus.dev_items(training.validate_images).len();
    let average = training.average_last;
    if average > 0 {
        let dev = if training.validate_last > 0 { dev } else { 0 };
        let what = match dev {
            0 => String::new(),
            dev => format!(", and evaluated on {} images of dev", grouped(dev)),
        };
        say!("the mean of the weights after the last {average} epochs is kept{what}");
    }
    match (training.validate_last.min(training.epochs), dev) {
        _ if average > 0 => {}
        (0, _) => say!("no epoch is evaluated: the last one is kept"),
        (_, 0) => say!("the split dev has nothing to evaluate: the last epoch is kept"),
        (1, dev) => say!("the last epoch is evaluated on {} images of dev", grouped(dev)),
        (last, dev) => {
            let dev = grouped(dev);
            say!("the last {last} epochs are evaluated on {dev} images of dev; the best is kept");
        }
    }
    let done = run.epochs_kept()?;
    if done > 0 {
        say!("epochs done before: {done} of {}", training.epochs);
    }
    Ok(())
}

/// Weights for every pair from which on a model is likely to learn the pairs by heart.
const MANY_WEIGHTS: usize = 10_000;

/// Warns of a model that is too large for its pairs.
fn few_pairs(pairs: usize, weights: usize) -> Option<String> {
    let warning = || {
        let (pairs, weights) = (grouped(pairs), grouped(weights));
        format!(
            "{weights} weights for {pairs} pairs: the model can learn these by heart and nothing about others. A smaller \
             --dim, or --model heads on vectors of a large encoder, learns more from few pairs; `nextpair eval` on \
             other items tells"
        )
    };
    (weights / pairs.max(1) >= MANY_WEIGHTS).then(warning)
}

/// Formats an epoch as one line:
/// `epoch 31/40  loss 2.113  rate 2e-5  29.8 s   dev R@1 text 12.4 image 9.9  rsum 203.1  4.1 s`.
fn epoch_line(epoch: &Epoch, epochs: usize) -> String {
    let width = epochs.to_string().len();
    let mut line = format!(
        "epoch {:width$}/{epochs}  loss {:7.3}  rate {:e}  {:6.1} s",
        epoch.epoch,
        epoch.loss,
        rounded(epoch.rate),
        epoch.seconds
    );
    if let Some(dev) = &epoch.dev {
        line += &format!(
            "   dev R@1 text {:.1} image {:.1}  rsum {:.1}  {:.1} s",
            dev.text.r1, dev.image.r1, dev.rsum, epoch.dev_seconds
        );
    }
    line
}

/// Rounds a learning rate to six digits: a hundredth of 2e-4 is 2e-6, not 2.0000000000000003e-6.
fn rounded(rate: f64) -> f64 {
    format!("{rate:.5e}").parse().unwrap_or(rate)
}

/// Prints the result of the training.
fn finish(args: &Args, run: &ModelFolder, began: Instant) -> Result<()> {
    let epochs = run.epochs()?;
    if args.json {
        return print(&(serde_json::to_string(&epochs.last())? + "\n"));
    }
    let kept = run.weights_epoch()?;
    let evaluated = epochs.iter().find(|epoch| Some(epoch.epoch) == kept && epoch.dev.is_some());
    if let Some(Epoch { epoch, dev: Some(dev), .. }) = evaluated {
        let kept = match run.spec().training.average_last {
            0 => format!("best epoch {epoch}"),
            last => format!("mean of the last {last} epochs"),
        };
        print(&format!("\n{kept}, on dev:\n{}\n", retrieval_table(dev)))?;
    }
    let seconds = began.elapsed().as_secs_f64();
    say!("trained in {seconds:.1} s; the model is {}", run.folder().display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pairs_for_many_weights_are_warned_of() {
        let warning = few_pairs(40, 17_900_000).unwrap();
        assert!(warning.contains("17,900,000 weights for 40 pairs"), "{warning}");
        assert_eq!(few_pairs(30_000, 17_900_000), None);
    }
}
