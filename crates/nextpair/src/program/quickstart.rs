//! `nextpair quickstart`: an experiment on generated scenes whose truth is known and can be seen: most are near-copies
//! of others.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::data::import::import_scenes;
use crate::data::scenes;
use crate::kernels::prepare_process;
use crate::report::Options;
use crate::scenario::{
    Experiment, ExperimentFolder, ExperimentKeys, Observer, Round, Scenario, Study,
    parse_experiment,
};
use anyhow::{Context, Result};

use crate::program::device::DeviceArgs;
use crate::program::import::stops_with_scenes;
use crate::program::next::Next;
use crate::program::progress::Bar;
use crate::program::run::{options, stops_with};
use crate::program::streams::print;
use crate::program::typed;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A third of the seeds: half a minute instead of one and a half, and wider intervals
    #[arg(long)]
    fast: bool,
    /// The folder for the scenes, the experiment and its report. What is there already is not done
    /// again
    #[arg(long, value_name = "DIR", default_value = "quickstart")]
    out: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
}

const IMAGES: usize = 1500;
const SEEDS: u64 = 36;
const EXPERIMENT: &str = include_str!("quickstart.toml");

impl Observer for Bar {
    fn finished(&self, _: &Round, _: &[Round]) {}
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    prepare_process();
    let dataset = args.out.join("scenes");
    stops_with_scenes(&dataset, IMAGES);
    make_scenes(&dataset)?;
    let folder = args.out.join("run");
    stops_with(&folder, typed::command_line());
    let experiment = experiment(&dataset, if args.fast { SEEDS / 3 } else { SEEDS })?;
    let (options, bar) = (options(args.device.device()), Bar::new());
    let scenario = if ExperimentFolder::new(&folder).manifest().exists() {
        Scenario::resume(&folder, Some(experiment), &options)?
    } else {
        Scenario::create(&folder, experiment, &options, &bar)?
    };
    begin(&scenario);
    let ended = scenario.run(scenario.jobs(), &bar);
    bar.finish();
    ended?;
    drop(scenario);
    show(&folder)
}

fn make_scenes(dataset: &Path) -> Result<()> {
    if dataset.join("dataset.toml").exists() {
        return Ok(());
    }
    if let Some(folder) = dataset.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let bar = Bar::new();
    // All near-copies are those of the experiment's world.
    let settings =
        scenes::Settings { images: IMAGES, near_duplicates: 0.0, ..scenes::Settings::default() };
    let made = import_scenes(&settings, dataset, &bar);
    bar.finish();
    made?;
    Ok(())
}

fn experiment(dataset: &Path, seeds: u64) -> Result<Experiment> {
    let (keys, settings) = parse_experiment(EXPERIMENT, Path::new("quickstart.toml"))?;
    let (model, training) = settings.with_published().context("quickstart.toml has a model")?;
    let keys = ExperimentKeys {
        dataset: Some(dataset.to_path_buf()),
        seeds: Some((0..seeds).collect()),
        ..keys
    };
    Ok(Experiment::resolve(keys, model, training)?)
}

/// Says what is true of the pool, and what will be done.
fn begin(scenario: &Scenario) {
    let experiment = scenario.experiment();
    let copies = experiment.world.as_ref().map_or(0.0, |world| world.copies);
    let strategies: Vec<String> = experiment.strategies.iter().map(ToString::to_string).collect();
    say!(
        "{} scenes, made up by a program. {:.0} % of them are near-copies of others, as in bursts of photographs:\n\
         their captions teach a model little that is new. Which strategy buys them?\n\
         {} captions are there at first. {} buy {} more, with {} seeds: {} trainings of a small model.",
        scenario.manifest().items,
        100.0 * copies / (1.0 + copies),
        scenario.paired(0),
        strategies.join(", "),
        scenario.paired(experiment.rounds) - scenario.paired(0),
        experiment.seeds.len(),
        experiment.seeds.len() * (1 + experiment.rounds * strategies.len())
    );
}

/// Writes the report and prints its answer, where the pictures are, and how to go on.
fn show(folder: &Path) -> Result<ExitCode> {
    let (bar, out) = (Bar::new(), folder.join("report"));
    let written = crate::report::write(&[Study::open(folder)?], &Options::default(), &out, &bar);
    bar.finish();
    let written = written?;
    for run in &written.analysis.runs {
        let worths = run.worths_in_words().unwrap_or_default();
        print(&format!("{}\n{} {}\n{worths}\n", run.summary(), run.headline(), run.because()))?;
    }
    say!("pictures    {}", typed::path(&out.join("bought.png")));
    say!("report      {}", typed::path(&written.page));
    Next::new("select --pool POOL.npy --budget 100 --out picks.jsonl").say();
    Ok(ExitCode::SUCCESS)
}
