//! `nextpair vocab DATASET OUT`: builds a vocabulary, to be fixed over all rounds of an experiment.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::data::dataset::Dataset;
use crate::data::text::{DEFAULT_MIN_COUNT, SplitWords};
use crate::data::{AtomicFile, text};
use anyhow::Result;

use crate::program::inspect::words::Words;
use crate::program::next::{Next, fresh};
use crate::program::progress::Bar;
use crate::program::streams::print;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset whose splits train and dev the words come from, in this order
    dataset: PathBuf,
    /// The file to write, such as f8k_vocab.json
    out: PathBuf,
    /// Keep words that were seen this often
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MIN_COUNT)]
    min_count: u64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    AtomicFile::check(&args.out)?;
    let dataset = Dataset::open(&args.dataset)?;
    let bar = Bar::new();
    let words = SplitWords::count(dataset.items(), &bar);
    bar.finish();
    let vocabulary = text::Vocabulary::from_counts(&words.of_train_and_dev(), args.min_count);
    dataset.items().check_unchanged()?;
    vocabulary.write(&args.out)?;
    let mut text = String::new();
    Words::new(&words, &vocabulary, args.out.display().to_string()).describe(&mut text)?;
    print(&text)?;
    let next = Next::new("train").path(&args.dataset).words("--vocabulary").path(&args.out);
    next.words("--out").path(&fresh(Path::new("model"))).say();
    Ok(ExitCode::SUCCESS)
}
