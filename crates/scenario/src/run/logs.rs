//! Logs of an experiment for other tools, made of the journal and of the logs of its models.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use nextpair_models::{LogFormat, LogRow, Tested, evaluation_metrics};

use super::Scenario;
use super::learn::Place;
use crate::{Arm, Error, Round};

/// The shortest time between two logs of unfinished rounds: epochs may take milliseconds.
const EVERY: Duration = Duration::from_secs(1);

impl Scenario {
    /// Writes all logs.
    pub(super) fn write_logs(&self) -> Result<(), Error> {
        let _turn = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        self.experiment.seeds.iter().try_for_each(|&seed| self.write_logs_of(seed, None))?;
        self.write_table()
    }

    /// Writes the logs that a finished round belongs to.
    pub(super) fn log_round(&self, place: Place<'_>) -> Result<(), Error> {
        let _turn = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_logs_of(place.seed, place.strategy)?;
        self.write_table()
    }

    /// Writes the logs that an epoch belongs to, if it is time. What fails here fails again, and ends the
    /// experiment, when the round is finished: training is worth more than its logs.
    pub(super) fn log_epoch(&self, place: Place<'_>) {
        // If another lane writes them, it is too early anyway.
        let Ok(mut last) = self.logs.try_lock() else { return };
        if self.options.logs.is_empty() || last.is_some_and(|last| last.elapsed() < EVERY) {
            return;
        }
        let _ = self.write_logs_of(place.seed, place.strategy).and_then(|()| self.write_table());
        *last = Some(Instant::now());
    }

    /// Writes the event files of a strategy and a seed, or of all strategies: round 0 belongs to each.
    fn write_logs_of(&self, seed: u64, strategy: Option<&Arm>) -> Result<(), Error> {
        if !self.options.logs.contains(&LogFormat::Tensorboard) {
            return Ok(());
        }
        let asked = |arm: &&Arm| strategy.is_none_or(|strategy| strategy == *arm);
        for arm in self.experiment.strategies.iter().filter(asked) {
            let mut rows = self.rows(seed, None, 0)?;
            rows.extend(self.rows_after_first(seed, arm)?);
            let name = format!("{arm}-seed{seed}");
            LogFormat::Tensorboard.write(self.folder.path(), &name, &rows)?;
        }
        Ok(())
    }

    /// Writes the table of all strategies and seeds.
    fn write_table(&self) -> Result<(), Error> {
        if !self.options.logs.contains(&LogFormat::Csv) {
            return Ok(());
        }
        let mut rows = Vec::new();
        for &seed in &self.experiment.seeds {
            rows.extend(self.rows(seed, None, 0)?);
            for arm in &self.experiment.strategies {
                rows.extend(self.rows_after_first(seed, arm)?);
            }
        }
        Ok(LogFormat::Csv.write(self.folder.path(), "", &rows)?)
    }

    fn rows_after_first(&self, seed: u64, arm: &Arm) -> Result<Vec<LogRow>, Error> {
        let mut rows = Vec::new();
        for round in 1..=self.experiment.rounds {
            let next = self.rows(seed, Some(arm), round)?;
            if next.is_empty() {
                break;
            }
            rows.extend(next);
        }
        Ok(rows)
    }

    /// Returns the epochs of a round, the last one with the test if the round is finished.
    fn rows(&self, seed: u64, strategy: Option<&Arm>, round: usize) -> Result<Vec<LogRow>, Error> {
        let folder = self.folder.model(seed, strategy, round);
        let epochs = self.experiment.training.epochs;
        let mut rows = LogRow::of_model(&folder, seed)?;
        let finished = self.finished(Place { seed, strategy, round, device: self.options.device });
        if rows.is_empty() && finished.is_some() {
            // The model was deleted.
            rows.push(LogRow { step: epochs, seed, ..LogRow::default() });
        }
        for row in &mut rows {
            row.step += round * epochs;
            row.round = Some(round);
            row.strategy = strategy.map(ToString::to_string);
        }
        if let (Some(last), Some(round)) = (rows.last_mut(), finished) {
            last.tested = Some(tested(&round));
        }
        Ok(rows)
    }
}

/// Returns all tests of a round. The first one decides, and is called `test`.
fn tested(round: &Round) -> Tested {
    let mut metrics = Vec::new();
    for (at, test) in round.test.iter().enumerate() {
        let name = if at == 0 { "test".to_owned() } else { format!("test-{}-folds", test.folds) };
        metrics.extend(evaluation_metrics(&name, test));
    }
    let share = round.batch.as_ref().and_then(|batch| batch.hard_negative_share());
    metrics.extend(share.map(|share| ("hard_negatives".to_owned(), share)));
    Tested { paired: round.paired, metrics }
}
