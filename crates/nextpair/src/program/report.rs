//! `nextpair report EXPERIMENT...`: the results of experiments as a page, tables and charts.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::models::Device;
use crate::report::{Options, write};
use crate::scenario::Study;
use anyhow::{Result, ensure};

use crate::program::device::DeviceArgs;
use crate::program::interrupt;
use crate::program::next::Next;
use crate::program::progress::Bar;
use crate::program::seeds::Seeds;
use crate::program::streams::print;
use crate::program::typed;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folders of experiments, as `nextpair run` made them; several that differ in their seeds
    /// alone are pooled
    #[arg(required = true, value_name = "EXPERIMENT")]
    experiments: Vec<PathBuf>,
    /// Put the experiments side by side instead
    #[arg(long)]
    compare: bool,
    /// Where to write [default: EXPERIMENT/report]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    page: PageArgs,
    /// Only these seeds, such as 0..20 or 0,1,2: choose a strategy by some seeds, judge it by others
    #[arg(long, value_name = "LIST")]
    seeds: Option<Seeds>,
    /// Only the first rounds, such as those that all strategies of an experiment have finished
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Print results.json
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Settings of the page, shared with `watch`.
#[derive(clap::Args)]
pub(crate) struct PageArgs {
    /// The dataset, if it is not where the experiment says
    #[arg(long, value_name = "DIR")]
    pub(crate) dataset: Option<PathBuf>,
    /// What it costs to pair an item, for stop or go
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    price: Option<f64>,
    /// The currency of the price: EUR, €
    #[arg(long, value_name = "CODE")]
    currency: Option<String>,
    /// Count only test queries that have one of these words: captions with one, and images with such
    /// a caption
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    words: Vec<String>,
    /// The most pictures of items on the page
    #[arg(long, value_name = "N", default_value_t = crate::report::PICTURES)]
    pictures: usize,
}

impl PageArgs {
    /// Returns the settings of a report of one experiment.
    pub(crate) fn options(&self, device: Device) -> Options {
        Options {
            compare: false,
            dataset: self.dataset.clone(),
            price: self.price,
            words: self.words.clone(),
            currency: self.currency.clone(),
            pictures: self.pictures,
            device,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    interrupt::on_stop(|| {
        let again = typed::command_line();
        format!("the experiments are as they were. Begin the report again with: {again}")
    });
    ensure!(
        args.out.is_some() || args.experiments.len() == 1,
        "--out is missing: several experiments have no folder of their own for a report"
    );
    let mut studies =
        args.experiments.iter().map(|path| Study::open(path)).collect::<Result<Vec<_>, _>>()?;
    if let Some(Seeds(seeds)) = &args.seeds {
        studies.iter_mut().for_each(|study| study.keep_seeds(seeds));
        let is_empty = studies.iter().all(|study| study.experiment.seeds.is_empty());
        ensure!(!is_empty, "--seeds: no experiment has any of them");
    }
    if let Some(rounds) = args.rounds {
        studies.iter_mut().for_each(|study| study.keep_rounds(rounds));
    }
    let out = args.out.clone().unwrap_or_else(|| args.experiments[0].join("report"));
    let options = Options { compare: args.compare, ..args.page.options(args.device.device()) };
    let bar = Bar::new();
    let written = write(&studies, &options, &out, &bar);
    bar.finish();
    let written = written?;
    for left_out in &written.left_out {
        alert!("left out: {left_out}");
    }
    let mut text = String::new();
    if args.json {
        text = serde_json::to_string_pretty(&written.analysis)? + "\n";
    } else {
        for run in &written.analysis.runs {
            text += &format!("{}\n{}\n", run.summary(), run.table());
            text += &format!("{} {}\n", run.headline(), run.because());
        }
    }
    print(&text)?;
    say!("report: {}", written.page.display());
    if let ([path], [run], false) = (&args.experiments[..], &written.analysis.runs[..], args.json)
        && args.rounds.is_none()
        && args.seeds.is_none()
    {
        let next =
            run.recommendation.as_ref().map_or(Some("--resume"), |found| found.go_on.as_deref());
        next.into_iter().for_each(|flags| Next::new("run").path(path).words(flags).say());
    }
    Ok(ExitCode::SUCCESS)
}
