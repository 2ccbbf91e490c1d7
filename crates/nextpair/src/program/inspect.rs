//! `nextpair inspect DATASET`: counts, captions and features of a dataset, and a contact sheet.

mod features;
mod page;
mod samples;
pub(crate) mod words;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::data::dataset::Dataset;
use crate::data::text::{SplitWords, Vocabulary};
use crate::data::{AtomicFile, Progress};
use anyhow::{Context, Error, Result, bail};
use serde::Serialize;

use crate::program::next;
use crate::program::numbers::{grouped, in_usual_order};
use crate::program::progress::Bar;
use crate::program::streams::print;
use crate::report::card::Card;
use crate::report::contact_sheet;
use features::FeatureStatistics;
use words::Words;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset
    dataset: PathBuf,
    /// Write a contact sheet of samples with their captions: FILE.png or FILE.html, or both
    #[arg(long, value_name = "FILE")]
    sheet: Vec<PathBuf>,
    /// Samples on the sheet
    #[arg(long, value_name = "N", default_value_t = 24)]
    samples: usize,
    /// Take the samples from this split
    #[arg(long, value_name = "NAME")]
    split: Option<String>,
    /// Other samples
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Measure the captions by this vocabulary [default: one built of train and dev]
    #[arg(long, value_name = "FILE")]
    vocab: Option<PathBuf>,
    /// A word of the default vocabulary was seen this often
    #[arg(long, value_name = "N", default_value_t = crate::data::text::DEFAULT_MIN_COUNT)]
    min_count: u64,
    /// Do not read the features
    #[arg(long)]
    no_features: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The output of `inspect`.
#[derive(Serialize)]
struct Inspection {
    name: String,
    source: String,
    synthetic: bool,
    items: usize,
    splits: Vec<SplitCounts>,
    words: Words,
    features: Vec<FeatureStatistics>,
}

#[derive(Default, Serialize)]
struct SplitCounts {
    split: Option<String>,
    items: usize,
    images: usize,
    captions: usize,
    without_captions: usize,
    without_image: usize,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    for sheet in &args.sheet {
        kind(sheet)?;
        AtomicFile::check(sheet)?;
    }
    let dataset = Dataset::open(&args.dataset)?;
    let vocabulary = args.vocab.as_deref().map(Vocabulary::read).transpose()?;
    let bar = Bar::new();
    let counted = SplitWords::count(dataset.items(), &bar);
    let (vocabulary, vocabulary_of) = match (vocabulary, &args.vocab) {
        (Some(vocabulary), Some(path)) => (vocabulary, path.display().to_string()),
        _ => {
            let of = format!("of train and dev, words seen at least {} times", args.min_count);
            (Vocabulary::from_counts(&counted.of_train_and_dev(), args.min_count), of)
        }
    };
    let words = Words::new(&counted, &vocabulary, vocabulary_of);
    let sets = if args.no_features { &[][..] } else { &dataset.manifest().features };
    let features = sets.iter().map(|set| features::measure(&dataset, set, &bar));
    let features = features.collect::<Result<Vec<_>>>()?;
    let manifest = dataset.manifest();
    let inspection = Inspection {
        name: manifest.name.clone(),
        source: manifest.source.clone(),
        synthetic: manifest.synthetic,
        items: manifest.items,
        splits: splits(&dataset),
        words,
        features,
    };
    dataset.items().check_unchanged()?;
    if !args.sheet.is_empty() {
        let cards = samples::choose(&dataset, args.split.as_deref(), args.samples, args.seed)?;
        bar.start("contact sheet", cards.len() as u64);
        for path in &args.sheet {
            write_sheet(path, &inspection, &cards)?;
        }
    }
    bar.finish();
    let text =
        if args.json { serde_json::to_string(&inspection)? + "\n" } else { describe(&inspection)? };
    print(&text)?;
    for path in &args.sheet {
        say!("contact sheet: {}", path.display());
    }
    if !args.json {
        next::with_dataset(&dataset).say();
    }
    Ok(ExitCode::SUCCESS)
}

/// The format of a contact sheet.
enum Kind {
    Png,
    Html,
}

fn kind(path: &Path) -> Result<Kind> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("png") => Ok(Kind::Png),
        Some("html" | "htm") => Ok(Kind::Html),
        _ => bail!("{}: a contact sheet is a .png or a .html file", path.display()),
    }
}

fn write_sheet(path: &Path, inspection: &Inspection, cards: &[Card]) -> Result<()> {
    let bytes = match kind(path)? {
        Kind::Png => {
            let synthetic = if inspection.synthetic { ", synthetic" } else { "" };
            let items = grouped(inspection.items);
            let head = format!("{}: {} of {items} items{synthetic}", inspection.name, cards.len());
            contact_sheet(&head, cards).map_err(Error::msg).context("cannot draw the sheet")?
        }
        Kind::Html => page::write(inspection, cards)?.into_bytes(),
    };
    let mut file = AtomicFile::create(path)?;
    file.write_all(&bytes)?;
    Ok(file.commit()?)
}

fn splits(dataset: &Dataset) -> Vec<SplitCounts> {
    let items = dataset.items();
    let image_features = dataset.features(crate::data::Side::Image, None).ok();
    let mut splits: Vec<SplitCounts> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let at = splits.iter().position(|split| split.split == item.split).unwrap_or_else(|| {
            splits.push(SplitCounts { split: item.split.clone(), ..SplitCounts::default() });
            splits.len() - 1
        });
        let described = image_features.as_ref().is_some_and(|(_, f)| f.row(index).is_some());
        let has_image = item.image.is_some() || described;
        let split = &mut splits[at];
        split.items += 1;
        split.images += usize::from(has_image);
        split.captions += item.captions.len();
        split.without_captions += usize::from(item.captions.is_empty());
        split.without_image += usize::from(!has_image);
    }
    in_usual_order(&mut splits, |split| split.split.as_deref());
    splits
}

fn describe(inspection: &Inspection) -> Result<String> {
    use std::fmt::Write;
    let mut text = String::new();
    writeln!(text, "{} ({} items)", inspection.name, grouped(inspection.items))?;
    writeln!(text, "from {}", inspection.source)?;
    if inspection.synthetic {
        writeln!(text, "synthetic: made up by a program, not photographs and not people's words")?;
    }
    let head = "split            items     images   captions  without captions  without image";
    writeln!(text, "\n{head}")?;
    for split in &inspection.splits {
        let name = split.split.as_deref().unwrap_or("(none)");
        let counts = [
            split.items,
            split.images,
            split.captions,
            split.without_captions,
            split.without_image,
        ];
        let [items, images, captions, no_captions, no_image] = counts.map(grouped);
        writeln!(
            text,
            "{name:10} {items:>11} {images:>10} {captions:>10}  {no_captions:>16}  {no_image:>13}"
        )?;
    }
    inspection.words.describe(&mut text)?;
    for features in &inspection.features {
        features.describe(&mut text)?;
    }
    Ok(text)
}
