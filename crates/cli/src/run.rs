//! `nextpair run EXPERIMENT.toml`: rounds of training, selecting and pairing, for several strategies
//! and seeds.

mod keys;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use nextpair_engine::prepare_process;
use nextpair_scenario::{Analysis, Experiment, Scenario, Study, Waiting, read_experiment};

use crate::evaluate::write_out;
use crate::numbers::grouped;
use crate::settings::{self, ModelArgs, TrainingArgs};
use crate::threads;
use keys::KeyArgs;
pub(crate) use watch::Watch;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The experiment in TOML, or with --resume the folder of a run
    experiment: PathBuf,
    /// The folder of the run [default: runs/NAME of NAME.toml]
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// Continue where a run was stopped, to the same results. Strategies, seeds and rounds may be
    /// added
    #[arg(long)]
    resume: bool,
    /// Trainings side by side [default: as many as there are threads and memory]. The results do
    /// not depend on it
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Threads; all cores by default. The results do not depend on them
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    training: TrainingArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    prepare_process();
    threads::set(args.threads)?;
    if let Some(jobs) = args.jobs {
        ensure!(jobs > 0, "--jobs is 0; at least one is needed");
    }
    let watch = Watch::new();
    let folder = args.folder()?;
    let experiment = args.resolve(&folder)?;
    let scenario = match args.resume && folder.join("run.json").exists() {
        true => Scenario::resume(&folder, Some(experiment))?,
        false => Scenario::create(&folder, experiment, &watch)?,
    };
    go_on(&scenario, args.jobs, &watch)
}

/// Does what is left of a run, and says how it ended.
pub(crate) fn go_on(scenario: &Scenario, jobs: Option<usize>, watch: &Watch) -> Result<ExitCode> {
    watch.begin(scenario);
    let jobs = jobs.unwrap_or_else(|| scenario.jobs());
    let ended = scenario.run(jobs, watch);
    watch.end();
    match ended? {
        Some(waiting) => wait_for_people(scenario.folder().path(), &waiting),
        None => {
            let folder = scenario.folder().path();
            let found = Analysis::of(&[Study::open(folder)?], false, None)?;
            for run in &found.runs {
                write_out(&format!("{}\n{}", run.summary(), run.table()))?;
            }
            let folder = folder.display();
            eprintln!("done: {folder}; `nextpair report {folder}` shows what it found");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What people have to do now.
fn wait_for_people(folder: &Path, waiting: &Waiting) {
    let Waiting { round, picked, answered, queue } = waiting;
    let folder = folder.display();
    eprintln!(
        "\nround {round} waits for people: {} of {} items have an answer.\n\
         The queue is {} (also as .csv, and as .label-studio.json with its labelling .xml).\n\
         Take their answers with `nextpair ingest {folder} ANSWERS`; when all are there, the run goes \
         on by itself.",
        grouped(*answered),
        grouped(*picked),
        queue.display()
    );
}

impl Args {
    /// The folder of the run.
    fn folder(&self) -> Result<PathBuf> {
        if self.experiment.is_dir() {
            if !self.resume {
                bail!(
                    "{} is a folder; name a file, or continue a run with --resume",
                    self.experiment.display()
                );
            }
            ensure!(self.out.is_none(), "--out: the run is {}", self.experiment.display());
            return Ok(self.experiment.clone());
        }
        if let Some(out) = &self.out {
            return Ok(out.clone());
        }
        let name = self.experiment.file_stem().context("the experiment has no name; give --out")?;
        Ok(Path::new("runs").join(name))
    }

    /// What the file and the flags mean together.
    fn resolve(&self, folder: &Path) -> Result<Experiment> {
        let file = match self.experiment.is_dir() {
            true => folder.join("experiment.toml"),
            false => self.experiment.clone(),
        };
        let (keys, settings) = read_experiment(&file)?;
        let says_captions = settings.says_captions || self.training.says_captions();
        let (model, mut training) =
            settings::resolve(settings, &self.model, &self.training, "a file")?;
        if !says_captions {
            training.captions = Experiment::default_captions();
        }
        Ok(Experiment::resolve(self.keys.given(&keys)?.or(keys), model, training)?)
    }
}
