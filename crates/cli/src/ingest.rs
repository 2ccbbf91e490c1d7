//! `nextpair ingest EXPERIMENT ANSWERS...`: takes human answers to the queue of an experiment.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use nextpair::data::dataset::NewImages;
use nextpair::data::queue::{self, Answer, Place};
use nextpair::data::{self, Side};
use nextpair::kernels::prepare_process;
use nextpair::scenario::{Error, Inbox, Received, Scenario};

use crate::device::DeviceArgs;
use crate::numbers::grouped;
use crate::run::{Watch, encoders, go_on, options};
use crate::streams::print;
use crate::threads;

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
    /// Threads; all cores by default
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    prepare_process();
    threads::set(args.threads)?;
    let inbox = Inbox::open(&args.experiment)?.with_source(encoders());
    if let Some(folder) = &args.images {
        ensure!(folder.is_dir(), "{}: not a folder", folder.display());
        ensure!(inbox.pool() == Side::Text, "--images is for texts; images get captions");
    }
    let (mut places, mut answers) = (Vec::new(), Vec::new());
    let mut images = NewImages::default();
    for path in &args.answers {
        let placed = queue::read_placed_answers(path, inbox.pool(), inbox.dataset())?;
        let (own_places, mut own): (Vec<Place>, Vec<Answer>) = placed.into_iter().unzip();
        let found = NewImages::find(inbox.dataset(), &mut own, &args.image_folders(&inbox, path));
        let found = found.map_err(|error| match error {
            data::Error::Row { row, what, .. } => own_places[row].error(path, what),
            other => other,
        })?;
        images.files.extend(found.files);
        places.extend(own_places.into_iter().map(|place| (path, place)));
        answers.append(&mut own);
    }
    let received = inbox.take(&answers, &images).map_err(|error| match error {
        Error::Answer { at, what } => {
            let (path, place) = places[at];
            place.error(path, what).into()
        }
        other => anyhow::Error::from(other),
    })?;
    print(&summary(&received))?;
    if received.waiting > 0 || args.only {
        return Ok(ExitCode::SUCCESS);
    }
    if inbox.folder().is_waited_at()? {
        say!("{}: the experiment that waits for them goes on by itself", args.experiment.display());
        return Ok(ExitCode::SUCCESS);
    }
    go_on(
        &Scenario::resume(&args.experiment, None, &options(args.device.device))?,
        None,
        &Watch::new(),
    )
}

impl Args {
    /// Returns the folders of the image files that a file of answers may name.
    fn image_folders(&self, inbox: &Inbox, answers: &Path) -> Vec<PathBuf> {
        if inbox.pool() == Side::Image {
            return Vec::new();
        }
        let beside = match answers.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let kept = inbox.folder().images();
        [kept].into_iter().chain(self.images.clone()).chain([beside.to_path_buf()]).collect()
    }
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
