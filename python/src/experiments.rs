//! Experiments: run, read, rehearsed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nextpair::encode::DatasetEncoders;
use nextpair::models::{Config, Device, Training};
use nextpair::report;
use nextpair::scenario::{
    Analysis, Experiment, ExperimentKeys, Observer, Options, Rehearsal, RehearsalSettings, Round,
    Scenario, Study, Waiting, parse_experiment,
};
use nextpair::{Progress, scenario};
use pyo3::prelude::*;

use crate::errors::{self, Failure};
use crate::work::How;

/// What people are waited for: the round, picks, answers, and the file of the queue.
type RawWaiting = (usize, usize, usize, PathBuf);

/// Settings of an experiment, the text of a TOML file, and what errors call it.
#[derive(FromPyObject)]
pub(crate) struct Given(String, PathBuf);

/// Where it runs: its folder, how many trainings side by side, and their device.
#[derive(FromPyObject)]
pub(crate) struct Place(PathBuf, Option<usize>, String);

impl Given {
    fn resolve(&self) -> Result<Experiment, Failure> {
        let (keys, (model, training)) = self.read()?;
        Ok(Experiment::resolve(keys, model, training)?)
    }

    /// Returns the keys of the experiment, and its model and training, which are valid.
    fn read(&self) -> Result<(ExperimentKeys, (Config, Training)), Failure> {
        let Given(text, place) = self;
        let (keys, settings) = parse_experiment(text, place)?;
        let says_captions = settings.says("captions");
        let Some((model, mut training)) = settings.with_published() else {
            let what = "model: an experiment needs a table [model] with an architecture";
            return Err(Failure::Setting(what.to_owned()));
        };
        if !says_captions {
            training.captions = Experiment::default_captions();
        }
        model.check()?;
        training.check()?;
        Ok((keys, (model, training)))
    }
}

/// Settings of Python, which came as JSON, as TOML.
#[pyfunction]
pub(crate) fn to_toml(py: Python<'_>, json: &str) -> PyResult<String> {
    let wrong = |said: String| errors::setting(py, said);
    let table: toml::Table =
        serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
    toml::to_string(&table).map_err(|error| wrong(error.to_string()))
}

/// Runs an experiment in its folder, or what is left of it. Returns what people are waited for, if any.
#[pyfunction]
pub(crate) fn run_experiment(
    py: Python<'_>,
    given: Given,
    place: Place,
    resume: bool,
    how: How<'_>,
) -> PyResult<Option<RawWaiting>> {
    let Place(folder, jobs, device) = place;
    let waiting = how.work(py, move |progress| {
        let experiment = given.resolve()?;
        let options = options(&device)?;
        let scenario = match resume {
            true => Scenario::resume(&folder, Some(experiment), &options)?,
            false => Scenario::create(&folder, experiment, &options, progress)?,
        };
        let jobs = jobs.unwrap_or_else(|| scenario.jobs());
        Ok(scenario.run(jobs, &ObservedProgress(progress))?)
    })?;
    let raw = |Waiting { round, picked, answered, queue }| (round, picked, answered, queue);
    Ok(waiting.map(raw))
}

/// Reads experiments: their finished rounds, and their analysis, both as JSON, and the table that the
/// program prints.
#[pyfunction]
pub(crate) fn read_experiments(
    py: Python<'_>,
    folders: Vec<PathBuf>,
    price: Option<f64>,
) -> PyResult<(String, String, String)> {
    let read = py.detach(|| {
        let studies = open_all(&folders)?;
        let rounds: Vec<&Round> = studies.iter().flat_map(|study| &study.rounds).collect();
        let analysis = Analysis::of(&studies, false, price)?;
        let text = analysis.runs.iter().map(|run| format!("{}\n{}", run.summary(), run.table()));
        Ok((json(&rounds)?, json(&analysis.runs)?, text.collect::<String>()))
    });
    read.map_err(|failure: Failure| errors::raise(py, failure))
}

/// Writes the report of experiments into a folder, and returns its page.
#[pyfunction]
pub(crate) fn write_report(
    py: Python<'_>,
    folders: Vec<PathBuf>,
    out: PathBuf,
    how: How<'_>,
) -> PyResult<PathBuf> {
    how.work(py, move |progress| {
        let options = report::Options::default();
        Ok(report::write(&open_all(&folders)?, &options, &out, progress)?.page)
    })
}

/// Rehearses in a folder, or what is left of it. Returns the advice as JSON, the strategy to take, a
/// sentence, and the text that the program prints.
#[pyfunction]
pub(crate) fn rehearse(
    py: Python<'_>,
    given: Given,
    budget: usize,
    seeds: usize,
    dev: Option<f64>,
    place: Place,
    how: How<'_>,
) -> PyResult<(String, String, String, String)> {
    let Place(folder, jobs, device) = place;
    how.work(py, move |progress| {
        let (keys, model) = given.read()?;
        let settings = RehearsalSettings::new(keys, model, budget, seeds)?;
        let settings = match dev {
            Some(share) => settings.with_dev(share, &folder)?,
            None => settings,
        };
        let mut rehearsal = Rehearsal::open(&folder, settings, &options(&device)?)?;
        while let Some(scenario) = rehearsal.next(progress)? {
            scenario.run(jobs.unwrap_or_else(|| scenario.jobs()), &ObservedProgress(progress))?;
        }
        let advice = rehearsal.advice()?;
        report::write_rehearsal(&advice, &folder, progress)?;
        advice.write(&folder)?;
        let strategy = advice.strategy.to_string();
        Ok((json(&advice)?, strategy, advice.sentence(), advice.text()))
    })
}

/// The device of models, and the encoders that datasets name.
fn options(device: &str) -> Result<Options, Failure> {
    let device: Device =
        device.parse().map_err(|error| Failure::Setting(format!("device: {error}")))?;
    Ok(Options { device, source: Some(Arc::new(DatasetEncoders)), ..Options::default() })
}

fn open_all(folders: &[PathBuf]) -> Result<Vec<Study>, scenario::Error> {
    folders.iter().map(|folder| Study::open(Path::new(folder))).collect()
}

fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::Setting(error.to_string()))
}

/// Progress alone: rounds are read afterwards.
struct ObservedProgress<'a>(&'a dyn Progress);

impl Progress for ObservedProgress<'_> {
    fn start(&self, phase: &'static str, total: u64) {
        self.0.start(phase, total);
    }

    fn advance(&self, steps: u64) {
        self.0.advance(steps);
    }

    fn stopped(&self) -> bool {
        self.0.stopped()
    }
}

impl Observer for ObservedProgress<'_> {
    fn finished(&self, _: &Round, _: &[Round]) {}
}
