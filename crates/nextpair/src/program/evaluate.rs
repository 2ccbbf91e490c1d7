//! `nextpair eval MODEL DATASET`: the recall of a trained model, in both directions, and how it differs from that of another.

mod against;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::data::dataset::{Dataset, TEST};
use crate::models::{Corpus, Evaluation, Model, ModelFolder, evaluate_ranks};
use anyhow::{Result, bail};
use serde::Serialize;

use against::Against;

use crate::program::device::DeviceArgs;
use crate::program::next;
use crate::program::numbers::{grouped, in_usual_order};
use crate::program::plan::Plan;
use crate::program::progress::Bar;
use crate::program::streams::print;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the model, as `nextpair train` made it
    model: PathBuf,
    /// The dataset
    dataset: PathBuf,
    /// The split
    #[arg(long, value_name = "NAME", default_value = TEST)]
    split: String,
    /// Evaluate this many consecutive parts by themselves and average: 5 is COCO's 1K protocol
    #[arg(long, value_name = "N", default_value_t = 1)]
    folds: usize,
    /// Another model, such as the one before the last batch: tests both on the same items, and tells the difference with
    /// its interval
    #[arg(long, value_name = "MODEL", conflicts_with = "folds")]
    against: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// The output of `eval`.
#[derive(Serialize)]
struct Report {
    run: String,
    model: String,
    /// The epoch of the weights. `epochs` is the number of epochs of the whole training.
    epoch: Option<usize>,
    epochs: usize,
    finished: bool,
    dataset: String,
    synthetic: bool,
    split: String,
    /// Items that lack image features or captions.
    left_out: usize,
    #[serde(flatten)]
    evaluation: Evaluation,
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<Against>,
}

/// A trained model and the dataset as it reads it.
struct Opened {
    folder: ModelFolder,
    model: Model,
    corpus: Corpus,
}

impl Opened {
    fn open(folder: &Path, args: &Args) -> Result<Self> {
        let folder = ModelFolder::open(folder)?;
        let model = folder.model(args.device.device())?;
        let corpus = folder.corpus(Dataset::open(&args.dataset)?)?;
        if let Some(notice) = folder.stand_in(&corpus) {
            say!("{notice}");
        }
        Ok(Opened { folder, model, corpus })
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Opened { folder: run, model, corpus } = Opened::open(&args.model, args)?;
    let other = args.against.as_deref().map(|other| Opened::open(other, args)).transpose()?;
    let mut items = items_of(corpus.dataset(), &args.split)?;
    let before = items.len();
    items.retain(|&item| {
        corpus.is_whole(item) && other.as_ref().is_none_or(|other| other.corpus.is_whole(item))
    });
    if items.is_empty() {
        bail!(
            "not one of the {before} items of {} has both image features and captions",
            args.split
        );
    }
    let bar = Bar::new();
    let ranks = |model: &Model, corpus: &Corpus| {
        let found = evaluate_ranks(model, corpus, &items, args.folds, &bar);
        bar.finish();
        found
    };
    let found = ranks(&model, &corpus)?;
    let against = match &other {
        Some(other) => {
            let before = ranks(&other.model, &other.corpus)?;
            let captions = items.iter().map(|&item| corpus.captions_of(item).count());
            let plan = Plan::of(other.folder.folder());
            Some(Against::new(&other.folder, captions, &before, &found).beside(plan))
        }
        None => None,
    };
    let epochs = run.spec().training.epochs;
    let report = Report {
        run: args.model.display().to_string(),
        model: run.spec().model.name().to_owned(),
        epoch: run.weights_epoch()?,
        epochs,
        finished: run.spec().adopted
            || run.epochs()?.last().is_some_and(|last| last.epoch >= epochs),
        dataset: corpus.dataset().manifest().name.clone(),
        synthetic: corpus.dataset().manifest().synthetic,
        split: args.split.clone(),
        left_out: before - items.len(),
        evaluation: found.0,
        against,
    };
    if args.json {
        print(&(serde_json::to_string(&report)? + "\n"))?;
    } else {
        print(&report.describe()?)?;
        // A converted model has no pairs, and one of another dataset none of this one.
        if let Ok(pairs) = run.pairs(&corpus) {
            match next::with_model(&run, &corpus, &pairs)? {
                next if next.is("eval") => {}
                next => next.say(),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the items of a split. If there are none, the error lists the splits that exist.
pub(crate) fn items_of(dataset: &Dataset, split: &str) -> Result<Vec<usize>> {
    let items = dataset.items().in_split(Some(split));
    if items.is_empty() {
        let mut names: Vec<&str> = dataset.items().splits().flatten().collect();
        in_usual_order(&mut names, |name| Some(name));
        let there = if names.is_empty() {
            "its items are in no split".to_owned()
        } else {
            format!("there are {}", names.join(", "))
        };
        bail!("{}: no split {split}; {there}", dataset.folder().display());
    }
    Ok(items)
}

impl Report {
    fn describe(&self) -> Result<String> {
        let mut text = String::new();
        write!(text, "{} of {}", self.model, self.run)?;
        if let Some(epoch) = self.epoch {
            write!(text, ", epoch {epoch} of {}", self.epochs)?;
        }
        if !self.finished {
            write!(text, "; training is not finished")?;
        }
        let synthetic = if self.synthetic { " (synthetic)" } else { "" };
        writeln!(text, "\n{}{synthetic}, split {}", self.dataset, self.split)?;
        if self.left_out > 0 {
            let left_out = grouped(self.left_out);
            writeln!(text, "{left_out} items without image features or captions are left out")?;
        }
        writeln!(text, "\n{}", retrieval_table(&self.evaluation))?;
        if let Some(against) = &self.against {
            writeln!(text, "\n{}", against.text())?;
        }
        Ok(text)
    }
}

/// Formats both directions as a table.
pub(crate) fn retrieval_table(evaluation: &Evaluation) -> String {
    let mut text = format!("{:28}     R@1    R@5   R@10  median     mean", "");
    let rows = [
        ("text retrieval (by image)", &evaluation.text),
        ("image retrieval (by caption)", &evaluation.image),
    ];
    for (name, r) in rows {
        // The median of one part is a whole number; the mean of several medians may not be.
        let median = match evaluation.folds {
            1 => r.median_rank.to_string(),
            _ => format!("{:.1}", r.median_rank),
        };
        text += &format!(
            "\n{name:28}  {:6.2} {:6.2} {:6.2}  {median:>6} {:8.1}",
            r.r1, r.r5, r.r10, r.mean_rank
        );
    }
    let (images, captions) = (grouped(evaluation.images), grouped(evaluation.captions));
    text += &format!("\nrsum {:.1}; {images} images, {captions} captions", evaluation.rsum);
    if evaluation.folds > 1 {
        text += &format!(", averaged over {} folds", evaluation.folds);
    }
    text
}
