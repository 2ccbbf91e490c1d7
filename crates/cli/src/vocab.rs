//! `nextpair vocab DATASET OUT`: builds a vocabulary, to be fixed over all rounds of an experiment.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use nextpair::data::dataset::Dataset;
use nextpair::data::text::{DEFAULT_MIN_COUNT, SplitWords};
use nextpair::data::{AtomicFile, text};

use crate::inspect::words::Words;
use crate::next::{Next, fresh};
use crate::progress::Bar;
use crate::streams::print;

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
