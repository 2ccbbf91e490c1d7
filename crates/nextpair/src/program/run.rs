//! `nextpair run EXPERIMENT.toml`: rounds of training, selecting and pairing, for several
//! strategies and seeds.

mod auto;
mod keys;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::data::dataset::FeatureSource;
use crate::encode::DatasetEncoders;
use crate::engine::{Progress, QUERIES_CAVEAT};
use crate::kernels::prepare_process;
use crate::models::{Device, Mixing};
use crate::scenario::{
    Analysis, Experiment, ExperimentFolder, Inbox, Options, Scenario, Study, Waiting,
    read_experiment,
};
use anyhow::{Context, Result, bail, ensure};

use crate::program::device::DeviceArgs;
use crate::program::interrupt;
use crate::program::logs::LogArgs;
use crate::program::next::Next;
use crate::program::numbers::grouped;
use crate::program::selection::note_hard_negatives;
use crate::program::settings::{self, ModelArgs, TrainingArgs};
use crate::program::streams::print;
use crate::program::typed;
use crate::program::unused;
use keys::KeyArgs;
pub(crate) use watch::Watch;

/// Time between attempts to open an experiment that another process has locked.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The experiment in TOML, or with --resume its folder
    experiment: PathBuf,
    /// The folder of the experiment [default: runs/NAME of NAME.toml]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue where an experiment was stopped, to the same results. Strategies, seeds and rounds
    /// may be added
    #[arg(long)]
    resume: bool,
    /// Continue what another version or another vector unit has worked on. The results are those of
    /// neither then, and the experiment says so
    #[arg(long, requires = "resume")]
    mixed: bool,
    /// Where people annotate: stay until their answers are there, and go on by itself
    #[arg(long)]
    wait: bool,
    /// Trainings side by side [default: as many as there are threads and memory]. The results do
    /// not depend on it
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    training: TrainingArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    prepare_process();
    if let Some(jobs) = args.jobs {
        ensure!(jobs > 0, "--jobs is 0; at least one is needed");
    }
    detail!("device: {}", args.device.device().describe());
    interrupt::on_stop(interrupt::nothing_kept);
    let watch = Watch::new();
    let folder = args.folder()?;
    let place = ExperimentFolder::new(&folder);
    let (mut experiment, auto) = args.resolve(&folder)?;
    ensure!(
        !place.is_waited_at()?,
        "{}: another process waits for people, and goes on by itself when they are done",
        folder.display()
    );
    let mixing = if args.mixed { Mixing::Accept } else { Mixing::Refuse };
    let options = Options { mixing, ..options(args.device.device()) };
    let known = args.resume && place.manifest().exists();
    let advice = match auto && !known {
        true => Some(auto::choose(&mut experiment, &folder, args.jobs, &options)?),
        false => None,
    };
    stops_with(&folder, format!("nextpair run {} --resume", typed::path(&folder)));
    // A rehearsal has none.
    let options = Options { logs: args.log.formats.clone(), ..options };
    let scenario = if known {
        Scenario::resume(&folder, Some(experiment), &options)?
    } else {
        Scenario::create(&folder, experiment, &options, &watch)?
    };
    if let Some(advice) = advice {
        advice.write(&folder)?;
    }
    unused::warn(&scenario.unused(), scenario.corpus().dataset().folder());
    note_hard_negatives(scenario.experiment().strategies.iter().map(|arm| arm.strategy));
    if args.wait {
        go_on_with_people(scenario, options, args.jobs, &watch)
    } else {
        go_on(&scenario, args.jobs, &watch)
    }
}

/// From now on Ctrl-C says how many rounds of an experiment are kept, and the command that goes on.
pub(crate) fn stops_with(folder: &Path, go_on: String) {
    let folder = folder.to_path_buf();
    interrupt::on_stop(move || kept(&folder, &go_on));
}

fn kept(folder: &Path, go_on: &str) -> String {
    let Ok(study) = Study::open(folder) else { return interrupt::nothing_kept() };
    let (experiment, folder) = (&study.experiment, typed::path(folder));
    let rounds = study.rounds.iter().filter(|round| experiment.asks_for(round)).count();
    let all = experiment.seeds.len() * (1 + experiment.rounds * experiment.strategies.len());
    format!(
        "{} of {} rounds are kept in {folder}. Go on with: {go_on}",
        grouped(rounds),
        grouped(all)
    )
}

/// Returns the options for experiments: a device, and the encoders of datasets.
pub(crate) fn options(device: Device) -> Options {
    Options { device, source: Some(encoders()), ..Options::default() }
}

/// Returns the encoders that datasets name in their manifests.
pub(crate) fn encoders() -> Arc<dyn FeatureSource> {
    Arc::new(DatasetEncoders)
}

/// Runs the rest of an experiment and reports how it ended.
pub(crate) fn go_on(scenario: &Scenario, jobs: Option<usize>, watch: &Watch) -> Result<ExitCode> {
    watch.begin(scenario);
    match advance(scenario, jobs, watch)? {
        Some(waiting) => {
            wait_for_people(scenario.folder().path(), &waiting);
            Ok(ExitCode::SUCCESS)
        }
        None => finish(scenario.folder()),
    }
}

/// Runs the rest of an experiment and waits whenever human answers are missing.
fn go_on_with_people(
    mut scenario: Scenario,
    options: Options,
    jobs: Option<usize>,
    watch: &Watch,
) -> Result<ExitCode> {
    let options = Options { mixing: Mixing::Refuse, ..options };
    let folder = scenario.folder().clone();
    let _promise = folder.promise_to_go_on()?;
    watch.begin(&scenario);
    while let Some(waiting) = advance(&scenario, jobs, watch)? {
        // Release the folder: commands that take answers need it.
        drop(scenario);
        wait_here(&folder, &waiting, watch)?;
        scenario = resume_in_turn(&folder, &options)?;
    }
    finish(&folder)
}

fn advance(scenario: &Scenario, jobs: Option<usize>, watch: &Watch) -> Result<Option<Waiting>> {
    let jobs = jobs.unwrap_or_else(|| scenario.jobs());
    let ended = scenario.run(jobs, watch);
    watch.end();
    Ok(ended?)
}

/// Prints the results of a finished experiment.
fn finish(folder: &ExperimentFolder) -> Result<ExitCode> {
    let folder = folder.path();
    let found = Analysis::of(&[Study::open(folder)?], false, None)?;
    if found.runs.iter().flat_map(|run| &run.arms).any(|arm| arm.strategy.queries) {
        say!("+queries: {QUERIES_CAVEAT}");
    }
    for run in &found.runs {
        print(&format!("{}\n{}", run.summary(), run.table()))?;
    }
    say!("done: {}", folder.display());
    Next::new("report").path(folder).say();
    Ok(ExitCode::SUCCESS)
}

/// Tells the user how to get answers.
fn wait_for_people(folder: &Path, waiting: &Waiting) {
    let shown = folder.display();
    say!(
        "\n{}\n\
         `nextpair annotate {shown}` serves it to them, and `nextpair ingest {shown} ANSWERS` takes \
         answers from elsewhere; when all are there, `ingest` or `nextpair run {shown} --resume` goes \
         on. With --wait an experiment goes on by itself.",
        what_waits(waiting)
    );
    Next::new("annotate").path(folder).say();
}

/// Tells the user how to get answers, and returns when all are there.
fn wait_here(folder: &ExperimentFolder, waiting: &Waiting, watch: &Watch) -> Result<()> {
    let folder_shown = folder.path().display();
    say!(
        "\n{}\n\
         `nextpair annotate {folder_shown}` serves it to them, and `nextpair ingest {folder_shown} ANSWERS` takes answers \
         from elsewhere; when all are there, this one goes on by itself. It may be stopped meanwhile.",
        what_waits(waiting)
    );
    Next::new("annotate").path(folder.path()).say();
    watch.start("answers", waiting.picked as u64);
    let mut before = 0;
    Inbox::open(folder.path())?.wait(|answered| {
        watch.advance(answered.saturating_sub(before) as u64);
        before = answered;
    })?;
    watch.end();
    Ok(())
}

fn what_waits(waiting: &Waiting) -> String {
    let Waiting { round, picked, answered, queue } = waiting;
    format!(
        "round {round} waits for people: {} of {} items have an answer.\n\
         The queue is {} (also as .csv, and as .label-studio.json with its labelling .xml).",
        grouped(*answered),
        grouped(*picked),
        queue.display()
    )
}

/// Resumes an experiment as soon as no other process has it open: answers may still be coming in.
fn resume_in_turn(folder: &ExperimentFolder, options: &Options) -> Result<Scenario> {
    loop {
        match Scenario::resume(folder.path(), None, options) {
            Err(error) if error.is_busy() => thread::sleep(PAUSE),
            opened => return Ok(opened?),
        }
    }
}

impl Args {
    /// Returns the folder of the experiment.
    fn folder(&self) -> Result<PathBuf> {
        if self.experiment.is_dir() {
            if !self.resume {
                bail!(
                    "{} is a folder; name a file, or continue an experiment with --resume",
                    self.experiment.display()
                );
            }
            let same = self.out.as_ref().is_none_or(|out| *out == self.experiment);
            ensure!(same, "--out: the experiment is {}", self.experiment.display());
            return Ok(self.experiment.clone());
        }
        if let Some(out) = &self.out {
            return Ok(out.clone());
        }
        let name = self.experiment.file_stem().context("the experiment has no name; give --out")?;
        Ok(Path::new("runs").join(name))
    }

    /// Resolves the file and the flags into an experiment. Flags override the file. Also returns
    /// whether a rehearsal is to choose the strategy.
    fn resolve(&self, folder: &Path) -> Result<(Experiment, bool)> {
        let file = if self.experiment.is_dir() {
            let file = ExperimentFolder::new(folder).experiment();
            ensure!(
                file.exists(),
                "{}: there is no experiment.toml in it; begin an experiment with `nextpair run FILE --out {}`",
                folder.display(),
                typed::path(folder)
            );
            file
        } else {
            self.experiment.clone()
        };
        let (keys, settings) = read_experiment(&file)?;
        let says_captions = settings.says("captions") || self.training.says_captions();
        let (model, mut training) =
            settings::resolve(settings, &self.model, &self.training, "a file")?;
        if !says_captions {
            training.captions = Experiment::default_captions();
        }
        let mut keys = self.keys.given(&keys)?.or(keys);
        let auto = auto::is_asked(&mut keys, folder)?;
        Ok((Experiment::resolve(keys, model, training)?, auto))
    }
}
