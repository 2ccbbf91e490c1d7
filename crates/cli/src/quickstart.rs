//! `nextpair quickstart`: a small experiment on generated scenes, from training to report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use nextpair::data::import::import_scenes;
use nextpair::data::scenes;
use nextpair::kernels::{Aggregation, prepare_process};
use nextpair::models::{Config, Training};
use nextpair::report::Options;
use nextpair::scenario::{Experiment, ExperimentFolder, ExperimentKeys, Scenario, Study};

use crate::device::DeviceArgs;
use crate::import::stops_with_scenes;
use crate::next::Next;
use crate::progress::Bar;
use crate::run::{Watch, options, stops_with};
use crate::streams::print;
use crate::typed;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Less of everything: under a minute instead of a few, and less to be told from chance
    #[arg(long)]
    fast: bool,
    /// The folder for the scenes, the experiment and its report. What is there already is not done
    /// again
    #[arg(long, value_name = "DIR", default_value = "quickstart")]
    out: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Sizes of the experiment.
struct Size {
    images: usize,
    seeds: u64,
    epochs: usize,
    decay_every: usize,
}

const WHOLE: Size = Size { images: 2500, seeds: 5, epochs: 30, decay_every: 22 };
const FAST: Size = Size { images: 1000, seeds: 2, epochs: 24, decay_every: 18 };

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    prepare_process();
    let (size, name) = if args.fast { (FAST, "fast") } else { (WHOLE, "run") };
    let dataset = args.out.join(format!("scenes-{}", size.images));
    stops_with_scenes(&dataset, size.images);
    make_scenes(&dataset, size.images)?;
    let folder = args.out.join(name);
    stops_with(&folder, typed::command_line());
    let watch = Watch::new();
    let experiment = size.experiment(&dataset)?;
    let scenario = if ExperimentFolder::new(&folder).manifest().exists() {
        Scenario::resume(&folder, Some(experiment), &options(args.device.device()))?
    } else {
        Scenario::create(&folder, experiment, &options(args.device.device()), &watch)?
    };
    watch.begin(&scenario);
    let ended = scenario.run(scenario.jobs(), &watch);
    watch.end();
    ended?;
    drop(scenario);
    show(&folder)
}

fn make_scenes(dataset: &Path, images: usize) -> Result<()> {
    if dataset.join("dataset.toml").exists() {
        return Ok(());
    }
    if let Some(folder) = dataset.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let bar = Bar::new();
    let settings = scenes::Settings { images, ..scenes::Settings::default() };
    let made = import_scenes(&settings, dataset, &bar);
    bar.finish();
    made?;
    Ok(())
}

impl Size {
    /// Returns an experiment with a model small enough for two cores: text-to-image SCAN in 32
    /// dimensions.
    fn experiment(&self, dataset: &Path) -> Result<Experiment> {
        let mut model = Config::named("scan-t2i").context("scan-t2i is a published model")?;
        if let Config::Scan(scan) = &mut model {
            scan.aggregation = Aggregation::Mean;
            scan.encoders.dim = 32;
            scan.encoders.word_dim = 64;
        }
        let training = Training {
            epochs: self.epochs,
            batch: 16,
            rate: 3e-3,
            decay_every: self.decay_every,
            validate_last: 0,
            captions: Experiment::default_captions(),
            ..Training::default()
        };
        let strategies = ["random", "core-set", "hard-negative", "coverage"];
        let keys = ExperimentKeys {
            dataset: Some(dataset.to_path_buf()),
            strategies: Some(strategies.map(str::to_owned).to_vec()),
            seeds: Some((0..self.seeds).collect()),
            ..ExperimentKeys::default()
        };
        Ok(Experiment::resolve(keys, model, training)?)
    }
}

/// Writes the report and prints its summary.
fn show(folder: &Path) -> Result<ExitCode> {
    let bar = Bar::new();
    let options = Options::default();
    let written =
        nextpair::report::write(&[Study::open(folder)?], &options, &folder.join("report"), &bar);
    bar.finish();
    let written = written?;
    let mut text = String::new();
    for run in &written.analysis.runs {
        text += &format!("\n{}\n{}", run.summary(), run.table());
    }
    text += "\nScenes are synthetic, made up by a program: this shows what the software does, not \
             which strategy is best for photographs.\n";
    print(&text)?;
    say!(
        "report: {}\n\nNow with your own data: import it, then `nextpair run` with a file such as {}",
        written.page.display(),
        folder.join("experiment.toml").display()
    );
    Next::new("import --help").say();
    Ok(ExitCode::SUCCESS)
}
