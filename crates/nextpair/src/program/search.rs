//! `nextpair search MODEL DATASET "a dog in the snow"`: retrieval with a trained model.

mod page;
mod query;
mod ranking;
mod report;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::data::{AtomicFile, Side};
use anyhow::{Result, bail, ensure};

use crate::program::device::DeviceArgs;
use crate::program::evaluate::items_of;
use crate::program::progress::Bar;
use crate::program::streams::print;
use crate::program::trained::Trained;
use query::Query;
use report::{Found, Report};

/// Puts the query last; the derived usage line would not.
pub(crate) const USAGE: &str =
    "nextpair search [OPTIONS] <MODEL> <DATASET> <TEXT|--image <FILE>|--item <ID>>";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of a model, as `nextpair train` made it
    model: PathBuf,
    /// The dataset to search
    dataset: PathBuf,
    #[command(flatten)]
    query: QueryArgs,
    /// How many to show, the best first
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true)]
    top: usize,
    /// Search this split only
    #[arg(long, value_name = "NAME")]
    split: Option<String>,
    /// Write a page with pictures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// What to search for: one of these.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct QueryArgs {
    /// Find images for this text
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Find captions for the picture in this file; its features are made as those of the dataset
    /// were
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Find captions for the image of this item of the dataset
    #[arg(long, value_name = "ID")]
    item: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    ensure!(args.top > 0, "--top is 0; ask for at least one");
    if let Some(page) = &args.html {
        AtomicFile::check(page)?;
        let folder = page.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
        for kept in [&args.model, &args.dataset] {
            let inside = kept.canonicalize().is_ok_and(|kept| folder.starts_with(kept));
            ensure!(!inside, "--html {}: not into {}", page.display(), kept.display());
        }
    }
    let trained = Trained::open(&args.model, &args.dataset, args.device.device())?;
    let query = match &args.query {
        QueryArgs { text: Some(text), .. } => Query::text(&trained, text)?,
        QueryArgs { image: Some(image), .. } => Query::image(&trained, image)?,
        QueryArgs { item: Some(id), .. } => Query::item(&trained, id)?,
        _ => bail!("give a text, --image or --item"),
    };
    if !query.unknown_words.is_empty() {
        say!("not in the vocabulary of the model: {}", query.unknown_words.join(", "));
    }
    let candidates = candidates(args, &trained, query.wanted())?;
    let bar = Bar::new();
    let encoded = trained.encode(query.wanted(), &candidates, &bar)?;
    let ranked = ranking::best(&trained.model, &query, &encoded, args.top, &bar);
    bar.finish();
    let found = ranked?.into_iter().enumerate().map(|(at, (place, score))| {
        let which = candidates[place as usize];
        Found::new(trained.dataset(), &query, which, at + 1, score)
    });
    let report = Report::new(&trained, &query, candidates.len(), found.collect());
    if let Some(path) = &args.html {
        let mut file = AtomicFile::create(path)?;
        file.write_all(page::write(trained.dataset(), &query, &report)?.as_bytes())?;
        file.commit()?;
    }
    let text = if args.json { serde_json::to_string(&report)? + "\n" } else { report.table() };
    print(&text)?;
    if let Some(path) = &args.html {
        say!("page: {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the images (as items) or captions of the dataset or of one split.
fn candidates(args: &Args, trained: &Trained, wanted: Side) -> Result<Vec<usize>> {
    let (corpus, items) = (&trained.corpus, trained.dataset().items());
    let within: Vec<usize> = match &args.split {
        Some(split) => items_of(trained.dataset(), split)?,
        None => (0..items.len()).collect(),
    };
    let (candidates, what): (Vec<usize>, _) = match wanted {
        Side::Image => {
            (within.into_iter().filter(|&item| corpus.has_image(item)).collect(), "image")
        }
        Side::Text => {
            (within.into_iter().flat_map(|item| corpus.captions_of(item)).collect(), "caption")
        }
    };
    ensure!(!candidates.is_empty(), "there is no {what} with features to be found");
    ensure!(u32::try_from(candidates.len()).is_ok(), "more than {} {what}s", u32::MAX);
    Ok(candidates)
}
