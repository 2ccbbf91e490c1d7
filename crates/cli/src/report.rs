//! `nextpair report EXPERIMENT...`: the results of experiments as a page, tables and charts.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use nextpair::report::{Options, write};
use nextpair::scenario::Study;

use crate::device::DeviceArgs;
use crate::progress::Bar;
use crate::streams::print;
use crate::threads;

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
    /// The dataset, if it is not where the experiment says
    #[arg(long, value_name = "DIR")]
    dataset: Option<PathBuf>,
    /// What it costs to pair an item, for stop or go
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    price: Option<f64>,
    /// The currency of the price: EUR, €
    #[arg(long, value_name = "CODE")]
    currency: Option<String>,
    /// The most pictures of items on the page
    #[arg(long, value_name = "N", default_value_t = nextpair::report::PICTURES)]
    pictures: usize,
    /// Print results.json
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    threads: Option<usize>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    threads::set(args.threads)?;
    ensure!(
        args.out.is_some() || args.experiments.len() == 1,
        "--out is missing: several experiments have no folder of their own for a report"
    );
    let studies =
        args.experiments.iter().map(|path| Study::open(path)).collect::<Result<Vec<_>, _>>()?;
    let out = args.out.clone().unwrap_or_else(|| args.experiments[0].join("report"));
    let options = Options {
        compare: args.compare,
        dataset: args.dataset.clone(),
        price: args.price,
        currency: args.currency.clone(),
        pictures: args.pictures,
        device: args.device.device,
    };
    let bar = Bar::new();
    let written = write(&studies, &options, &out, &bar);
    bar.finish();
    let written = written?;
    for left_out in &written.left_out {
        say!("left out: {left_out}");
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
    Ok(ExitCode::SUCCESS)
}
