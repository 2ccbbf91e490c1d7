//! `nextpair ingest EXPERIMENT ANSWERS...`: takes human answers to the queue of an experiment.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::data::Side;
use crate::data::dataset::PlacedAnswers;
use crate::kernels::prepare_process;
use crate::scenario::{Error, Inbox, Received, Scenario};
use anyhow::{Result, ensure};

use crate::program::device::DeviceArgs;
use crate::program::next::Next;
use crate::program::numbers::grouped;
use crate::program::run::{Watch, encoders, go_on, options};
use crate::program::streams::print;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the experiment
    experiment: PathBuf,
    /// What people said: JSON lines, the sheet (.csv) they filled in, or as .json Label Studio's
    /// export or captions in COCO's layout
    #[arg(required = true)]
    answers: Vec<PathBuf>,
    /// For picked texts: where image files lie that answers name and the dataset does not have.
    /// They are also looked for beside the answers
    #[arg(long, value_name = "FOLDER")]
    images: Option<PathBuf>,
    /// Only take the answers; `nextpair run EXPERIMENT --resume` goes on
    #[arg(long)]
    only: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    prepare_process();
    let inbox = Inbox::open(&args.experiment)?.with_source(encoders());
    if let Some(folder) = &args.images {
        ensure!(folder.is_dir(), "{}: not a folder", folder.display());
        ensure!(inbox.pool() == Side::Text, "--images is for texts; images get captions");
    }
    let kept = inbox.folder().images();
    let folders: Vec<PathBuf> = [kept].into_iter().chain(args.images.clone()).collect();
    let said = PlacedAnswers::read(inbox.dataset(), &args.answers, inbox.pool(), &folders)?;
    let received = inbox.take(&said.answers, &said.images).map_err(|error| match error {
        Error::Answer { at, what } => said.error(at, what).into(),
        other => anyhow::Error::from(other),
    })?;
    print(&summary(&received))?;
    if received.waiting > 0 {
        Next::new("annotate").path(&args.experiment).say();
        return Ok(ExitCode::SUCCESS);
    }
    if inbox.folder().is_waited_at()? {
        say!("{}: the experiment that waits for them goes on by itself", args.experiment.display());
        return Ok(ExitCode::SUCCESS);
    }
    if args.only {
        Next::new("run").path(&args.experiment).words("--resume").say();
        return Ok(ExitCode::SUCCESS);
    }
    go_on(
        &Scenario::resume(&args.experiment, None, &options(args.device.device()))?,
        None,
        &Watch::new(),
    )
}

fn summary(received: &Received) -> String {
    let Received { taken, tasks, waiting } = *received;
    let known = grouped(taken.known);
    let waiting = match waiting {
        0 => "every task of the queue has an answer".to_owned(),
        _ => format!("{} of {} tasks wait", grouped(waiting), grouped(tasks)),
    };
    format!("{} new answers, {known} known before\n{waiting}\n", grouped(taken.new))
}
