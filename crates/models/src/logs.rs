//! Logs for other tools: event files of TensorBoard, and tables.
//!
//! A log is made whole, of what is written down already: `log.jsonl` of a model, the journal of an experiment. So it
//! has every step once, whatever was killed and resumed, and can be made for what was trained without one.

mod event_file;
mod table;

use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::time::UNIX_EPOCH;

use crate::folder::{PAIRS, epochs_of};
use crate::{Epoch, Error, Evaluation, ModelFolder};

/// A form of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Event files, in the folder `tensorboard`.
    Tensorboard,
    /// A table with a line per epoch and a column per metric, `log.csv`.
    Csv,
}

impl LogFormat {
    /// The names of all forms.
    pub const NAMES: [&str; 2] = ["tensorboard", "csv"];
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "tensorboard" => Ok(LogFormat::Tensorboard),
            "csv" => Ok(LogFormat::Csv),
            other => Err(format!("no logs '{other}'; there are {}", Self::NAMES.join(", "))),
        }
    }
}

/// An epoch of a log, and the test after it if it was the last one of its round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogRow {
    /// Number of epochs of all rounds up to here.
    pub step: usize,
    /// The epoch within its training, from 1. Models that were deleted have none.
    pub epoch: Option<usize>,
    /// The round, in an experiment.
    pub round: Option<usize>,
    /// The strategy, in an experiment. All share round 0, which has none.
    pub strategy: Option<String>,
    /// The seed.
    pub seed: u64,
    /// When it was done, in seconds since 1970.
    pub time: f64,
    /// Metrics of the epoch.
    pub metrics: Vec<(String, f64)>,
    /// The test after the round.
    pub tested: Option<Tested>,
}

/// A test in a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tested {
    /// Number of paired items.
    pub paired: usize,
    /// Metrics of the test.
    pub metrics: Vec<(String, f64)>,
}

impl LogRow {
    /// The epochs of a model so far. The folder may be of a model that is trained by another process.
    pub fn of_model(folder: &Path, seed: u64) -> Result<Vec<Self>, Error> {
        // When training began: the pairs are written once, before it.
        let began = fs::metadata(folder.join(PAIRS)).and_then(|pairs| pairs.modified()).ok();
        let began = began.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let mut time = began.unwrap_or_default().as_secs_f64();
        let row = |epoch: Epoch| {
            time += epoch.seconds + epoch.dev_seconds;
            let (step, number) = (epoch.epoch, Some(epoch.epoch));
            LogRow { step, epoch: number, seed, time, metrics: metrics(&epoch), ..Self::default() }
        };
        Ok(epochs_of(folder)?.into_iter().map(row).collect())
    }
}

fn metrics(epoch: &Epoch) -> Vec<(String, f64)> {
    let mut metrics = vec![
        ("loss".to_owned(), epoch.loss),
        ("learning_rate".to_owned(), epoch.rate),
        ("active".to_owned(), epoch.active),
        ("gradient".to_owned(), epoch.gradient),
    ];
    metrics.extend(epoch.temperature.map(|value| ("temperature".to_owned(), value)));
    metrics.extend(epoch.dev.iter().flat_map(|dev| evaluation_metrics("dev", dev)));
    metrics
}

/// Returns recall and mean log ranks of an evaluation, with names that begin with that of the split.
pub fn evaluation_metrics(split: &str, found: &Evaluation) -> Vec<(String, f64)> {
    let mut metrics = Vec::new();
    for (side, of) in [("text", &found.text), ("image", &found.image)] {
        let numbers =
            [("r1", of.r1), ("r5", of.r5), ("r10", of.r10), ("mean_log_rank", of.mean_log_rank)];
        metrics.extend(numbers.map(|(name, value)| (format!("{split}/{side}_{name}"), value)));
    }
    metrics.push((format!("{split}/rsum"), found.rsum));
    metrics
}

impl LogFormat {
    /// Writes the log of one training or lane into a folder for logs, and of a table all of its rows. Event
    /// files go into a folder of this name.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(self, folder: &Path, name: &str, rows: &[LogRow]) -> Result<(), Error> {
        match self {
            LogFormat::Tensorboard => {
                event_file::write(&folder.join("tensorboard").join(name), rows)
            }
            LogFormat::Csv => table::write(&folder.join("log.csv"), rows),
        }
    }
}

impl ModelFolder {
    /// Writes the logs of the epochs so far.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn write_logs(&self, formats: &[LogFormat]) -> Result<(), Error> {
        if formats.is_empty() {
            return Ok(());
        }
        let rows = LogRow::of_model(self.folder(), self.spec().training.seed)?;
        formats.iter().try_for_each(|format| format.write(self.folder(), "", &rows))
    }
}
