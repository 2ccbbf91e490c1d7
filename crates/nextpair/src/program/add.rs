//! `nextpair add DATASET ANSWERS... --out NEW`: puts what people said back into a dataset.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::data::dataset::{Dataset, DrawnSplits, FeatureSource, GivenVectors, PlacedAnswers};
use crate::data::{Side, open};
use crate::encode::DatasetEncoders;
use crate::{Addition, AdditionSummary};
use anyhow::{Result, ensure};
use serde::Serialize;

use crate::program::inputs::sides;
use crate::program::next;
use crate::program::numbers::grouped;
use crate::program::plan::PlanArgs;
use crate::program::progress::Bar;
use crate::program::streams::print;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset that people were asked about; it stays as it is
    dataset: PathBuf,
    /// What people said: JSON lines, the sheet (.csv) they filled in, or as .json Label Studio's
    /// export or captions in COCO's layout
    #[arg(required = true)]
    answers: Vec<PathBuf>,
    /// The dataset to make, a new folder
    #[arg(long, value_name = "NEW")]
    out: PathBuf,
    /// What people were asked about: images, which get captions, or texts, which get images
    #[arg(long, value_parser = sides(), default_value = "image")]
    pool_side: Side,
    /// For texts: where image files lie that answers name and the dataset does not have. They are
    /// also looked for beside the answers, and among what people brought to `nextpair annotate`
    #[arg(long, value_name = "FOLDER")]
    images: Option<PathBuf>,
    /// Vectors of the captions in the answers, or of images that people brought, made by your own encoder: a row
    /// for every answer or for every caption, in their order, or a Parquet file with the ids of the items
    #[arg(long, value_name = "FILE")]
    features: Option<PathBuf>,
    /// With --features: the features that they belong to [default: the last that were added, or the name of
    /// the file]
    #[arg(long, value_name = "NAME", requires = "features")]
    name: Option<String>,
    /// Move this share of the items that get their first caption to the split dev, drawn by their ids
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    dev: f64,
    /// Move this share of them to the split test, on which `nextpair eval --against` tells whether a batch paid
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    test: f64,
    /// Print what was added as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    plan: PlanArgs,
}

/// The output of `add`.
#[derive(Serialize)]
struct Report {
    captions: usize,
    images: usize,
    paired: usize,
    dev: usize,
    test: usize,
    known: usize,
    refused: BTreeMap<String, usize>,
    skipped: usize,
    features: Vec<Encoded>,
    out: String,
}

#[derive(Serialize)]
struct Encoded {
    name: String,
    encoded: usize,
    missing: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    args.plan.check()?;
    let dataset = Dataset::open(&args.dataset)?;
    if let Some(folder) = &args.images {
        ensure!(folder.is_dir(), "{}: not a folder", folder.display());
        ensure!(args.pool_side == Side::Text, "--images is for texts; images get captions");
    }
    let folders = args.images.as_slice();
    let said = PlacedAnswers::read(&dataset, &args.answers, args.pool_side, folders)?;
    let given = args.vectors(&dataset, &said)?;
    let source: &dyn FeatureSource = match &given {
        Some(given) => given,
        None => &DatasetEncoders,
    };
    let splits = DrawnSplits::new(args.dev, args.test)?;
    let addition = Addition::of(&dataset, &said)?.with_splits(splits);
    let bar = Bar::new();
    let added = addition.write(&args.out, source, &bar);
    bar.finish();
    let mut added = added?;
    let mut report = Report::of(&added, args);
    if let Some(given) = &given
        && let Some((name, encoded, missing)) = given.complete(&mut added.dataset)?
    {
        report.features.push(Encoded { name: name.to_owned(), encoded, missing, why: None });
    }
    if args.json {
        print(&(serde_json::to_string(&report)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&report.describe())?;
    report.warn();
    match &args.plan.after {
        Some(model) => next::train_again(&added.dataset, model).say(),
        None => next::with_dataset(&added.dataset).say(),
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Opens vectors of the answers, if there are any.
    fn vectors(
        &self,
        dataset: &Dataset,
        said: &PlacedAnswers,
    ) -> Result<Option<GivenVectors<'static>>> {
        let Some(file) = &self.features else { return Ok(None) };
        let side = self.pool_side;
        let table = open(file, side.other())?;
        let (name, others) = (self.name.as_deref(), &DatasetEncoders);
        Ok(Some(GivenVectors::of(dataset, said, side, (file, table), name, others)?))
    }
}

impl Report {
    fn of(added: &AdditionSummary, args: &Args) -> Self {
        let encoded = |set: &crate::EncodedSet| Encoded {
            name: set.name.clone(),
            encoded: set.encoded,
            missing: set.missing,
            why: set.why.as_ref().map(|why| why.to_string()),
        };
        Report {
            captions: added.captions,
            images: added.images,
            paired: added.paired,
            dev: added.drawn[0],
            test: added.drawn[1],
            known: added.known,
            refused: added.refused.clone(),
            skipped: added.skipped,
            features: added.features.iter().map(encoded).collect(),
            out: args.out.display().to_string(),
        }
    }

    fn describe(&self) -> String {
        let known = match self.known {
            0 => String::new(),
            known => format!("; {} answers were known before", grouped(known)),
        };
        let mut text = format!("captions    {} added{known}\n", grouped(self.captions));
        if self.images > 0 {
            text += &format!("images      {} brought by people\n", grouped(self.images));
        }
        text += &format!("paired      {} more items\n", grouped(self.paired));
        for (split, count) in [("dev", self.dev), ("test", self.test)] {
            if count > 0 {
                let count = grouped(count);
                text += &format!("{split:<11} {count} of them, which nothing is learned from\n");
            }
        }
        if !self.refused.is_empty() {
            let items: usize = self.refused.values().sum();
            let mut reasons: Vec<(&String, &usize)> = self.refused.iter().collect();
            reasons.sort_by_key(|&(reason, count)| (std::cmp::Reverse(count), reason));
            let told =
                |(reason, count): (&String, &usize)| format!("{} ({count})", shortened(reason));
            let reasons: Vec<String> = reasons.into_iter().map(told).collect();
            text += &format!("refused     {}: {}\n", grouped(items), reasons.join(", "));
        }
        if self.skipped > 0 {
            text += &format!("skipped     {} without a reason\n", grouped(self.skipped));
        }
        for set in self.features.iter().filter(|set| set.encoded > 0) {
            text += &format!("features    {}: {} encoded\n", set.name, grouped(set.encoded));
        }
        text + &format!("written     {}\n", self.out)
    }

    /// Names captions that got no features, and what helps.
    fn warn(&self) {
        for Encoded { name, missing, why, .. } in &self.features {
            let missing = grouped(*missing);
            match why {
                Some(why) => say!(
                    "warning     {missing} captions have no text features {name}, and models on them \
                     do not learn from these: {why}, as in `nextpair embed {} --text-model \
                     ENCODER.onnx --name {name} --replace`; --features FILE adds vectors of your own \
                     encoder",
                    self.out
                ),
                None if missing != "0" => {
                    say!("warning     {missing} captions have no text features {name}");
                }
                None => {}
            }
        }
    }
}

fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}
