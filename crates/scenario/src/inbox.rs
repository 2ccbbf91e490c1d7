//! The inbox of an experiment: the batch that waits for annotators, and the log of their answers.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use nextpair_data::dataset::{Dataset, FOLDER, FeatureSource, NewImages};
use nextpair_data::queue::{self, Answer, AnswerContent, AnswerLog, AppendCounts, Batch, Task};
use nextpair_data::{AtomicFile, FolderLock, Side};

use crate::{Annotator, Error, Experiment, ExperimentFolder, Study};

/// Polling interval while waiting for answers.
const EVERY: Duration = Duration::from_millis(500);

/// The inbox of an experiment with human annotators. It may be open while the experiment runs:
/// every call reads the current state of the folder.
pub struct Inbox {
    folder: ExperimentFolder,
    experiment: Experiment,
    dataset: Dataset,
    /// Encoders of new images.
    source: Option<Arc<dyn FeatureSource>>,
    /// Cache of the last queue, so that polling is cheap.
    last: Mutex<Option<(Stamp, Batch)>>,
}

/// Counts of new answers and of unanswered tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Counts of new and of known answers.
    pub taken: AppendCounts,
    /// Number of tasks in the batch.
    pub tasks: usize,
    /// Number of tasks without an answer.
    pub waiting: usize,
}

/// Size and modification time: identifies a queue.
type Stamp = (u64, Option<SystemTime>);

/// The state of the queue in the folder of an experiment.
enum State {
    /// There is no queue.
    Nothing,
    /// The queue of a closed batch: the process was killed before removing it.
    Closed(usize),
    Waiting(Batch),
}

impl Inbox {
    /// Opens the inbox of an experiment with human annotators.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let Study { folder, experiment, .. } = Study::open(path)?;
        if experiment.annotator != Annotator::Human {
            return Err(Error::file(path, "the annotator of this experiment is not human"));
        }
        let dataset = Dataset::open(&experiment.dataset)?;
        Ok(Inbox { folder, experiment, dataset, source: None, last: Mutex::new(None) })
    }

    /// Takes new images as well, if the source can encode them.
    pub fn with_source(self, source: Arc<dyn FeatureSource>) -> Self {
        Inbox { source: Some(source), ..self }
    }

    /// Returns the dataset of the tasks.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Returns the side of the picked items.
    pub fn pool(&self) -> Side {
        self.experiment.pool
    }

    /// Returns the folder of the experiment.
    pub fn folder(&self) -> &ExperimentFolder {
        &self.folder
    }

    /// Returns an error if images that the dataset does not have cannot take part, because they
    /// cannot get the features that the models take.
    pub fn check_new_images(&self) -> Result<(), Error> {
        let name = self.experiment.features.as_deref();
        let (set, _) = self.dataset.features(Side::Image, name)?;
        let checked = match &self.source {
            Some(source) => source.check(&self.dataset, set),
            None => Err("nobody is there who encodes them".into()),
        };
        checked.map_err(|why| self.experiment.no_features(set, why))
    }

    /// Returns the batch that waits for answers. There is none while the experiment trains or after
    /// it has finished.
    pub fn batch(&self) -> Result<Option<Batch>, Error> {
        let path = self.folder.queue();
        let Ok(stamp) = fs::metadata(&path).map(|metadata| stamp(&metadata)) else {
            return Ok(None);
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, batch)) = &*last
            && *known == stamp
        {
            return Ok(Some(batch.clone()).filter(|batch| !self.is_closed(batch.round)));
        }
        let State::Waiting(batch) = self.look()? else { return Ok(None) };
        *last = Some((stamp, batch.clone()));
        Ok(Some(batch))
    }

    /// Returns whether the last batch is closed: people are asked nothing more.
    pub fn is_finished(&self) -> bool {
        self.is_closed(self.experiment.rounds)
    }

    /// Takes answers to the waiting batch, all or none, with the new images that they name. The
    /// experiment keeps copies of these. Taking an answer twice has no effect. [`Error::Answer`]
    /// names an answer that is invalid.
    pub fn take(&self, answers: &[Answer], images: &NewImages) -> Result<Received, Error> {
        // Keep the batch open while its answers are taken.
        let _lock = self.lock()?;
        let run = self.folder.path().display();
        match self.look()? {
            State::Nothing => {
                let what = format!(
                    "no queue is waiting for people; `nextpair run {run} --resume` does what is left"
                );
                Err(Error::file(&self.folder.queue(), what))
            }
            State::Closed(round) => {
                let what = format!(
                    "round {round} is closed; `nextpair run {run} --resume` goes on with it"
                );
                Err(Error::file(self.folder.path(), what))
            }
            State::Waiting(batch) => self.write_down(&batch, answers, images),
        }
    }

    /// Takes the answers to a round and closes it: tasks without an answer go back to the pool. A
    /// repeated call with the same answers has no effect. New images are looked for in `places`; see
    /// [`NewImages::find`].
    ///
    /// Returns `false` if the round was closed without some of these answers. The log keeps them, and
    /// a later round that picks their items again has them.
    pub fn hand_over(
        &self,
        round: usize,
        answers: &[Answer],
        places: &[PathBuf],
    ) -> Result<bool, Error> {
        if self.is_closed(round) {
            let closed = AnswerLog::open(&self.closed(round))?;
            let is_late = |answer: &&Answer| !is_among(answer, &closed);
            let late: Vec<Answer> = answers.iter().filter(is_late).cloned().collect();
            if !late.is_empty() {
                // The log has a lock of its own, and the batch is closed: no need to wait while the
                // experiment trains.
                let tasks = queue::read(&self.picks(round))?;
                self.find_and_write_down(&Batch { round, tasks }, &late, places)?;
            }
            return Ok(late.is_empty());
        }
        let _lock = self.lock()?;
        match self.look()? {
            State::Waiting(batch) if batch.round == round => {
                self.find_and_write_down(&batch, answers, places)?;
                let log = AnswerLog::open(&self.folder.answers())?;
                close(&self.closed(round), &batch.tasks, &log).map(|()| true)
            }
            _ => {
                let what = format!("round {round} is not waiting for people");
                Err(Error::file(self.folder.path(), what))
            }
        }
    }

    /// Writes down answers, with the new images that they name.
    fn find_and_write_down(
        &self,
        batch: &Batch,
        answers: &[Answer],
        places: &[PathBuf],
    ) -> Result<(), Error> {
        let mut answers = answers.to_vec();
        let images = NewImages::find(&self.dataset, &mut answers, places).map_err(of_answer)?;
        self.write_down(batch, &answers, &images).map(drop)
    }

    /// Returns the number of tasks of a batch that have an answer.
    pub fn answered(&self, batch: &Batch) -> Result<usize, Error> {
        let log = AnswerLog::open(&self.folder.answers())?;
        Ok(batch.tasks.len() - waiting(batch, &log))
    }

    /// Waits until every task of the batch has an answer or the batch is closed, or returns at once
    /// without a batch. Calls `told` with the number of answered tasks, first and after every change.
    pub fn wait(&self, mut told: impl FnMut(usize)) -> Result<(), Error> {
        let Some(batch) = self.batch()? else { return Ok(()) };
        let path = self.folder.answers();
        let size = || fs::metadata(&path).map_or(0, |metadata| metadata.len());
        loop {
            let seen = size();
            let waiting = waiting(&batch, &AnswerLog::open(&path)?);
            told(batch.tasks.len() - waiting);
            if waiting == 0 || self.is_closed(batch.round) {
                return Ok(());
            }
            while size() == seen && !self.is_closed(batch.round) {
                thread::sleep(EVERY);
            }
        }
    }

    fn lock(&self) -> Result<FolderLock, Error> {
        Ok(FolderLock::take(
            self.folder.path(),
            "another process is at this experiment; try again",
        )?)
    }

    fn closed(&self, round: usize) -> PathBuf {
        // Experiments with human annotators have one strategy and one seed.
        self.folder.closed(self.experiment.seeds[0], &self.experiment.strategies[0], round)
    }

    fn picks(&self, round: usize) -> PathBuf {
        self.folder.picks(self.experiment.seeds[0], &self.experiment.strategies[0], round)
    }

    fn is_closed(&self, round: usize) -> bool {
        self.closed(round).exists()
    }

    /// Finds the round whose picks are in the queue.
    fn look(&self) -> Result<State, Error> {
        let path = self.folder.queue();
        let tasks = match queue::read(&path) {
            Ok(tasks) => tasks,
            Err(nextpair_data::Error::Io { error, .. }) if error.kind() == ErrorKind::NotFound => {
                return Ok(State::Nothing);
            }
            Err(error) => return Err(error.into()),
        };
        let rounds = (1..).take_while(|&round| self.picks(round).exists()).count();
        for round in (1..=rounds).rev() {
            if queue::read(&self.picks(round))? == tasks {
                return Ok(if self.is_closed(round) {
                    State::Closed(round)
                } else {
                    State::Waiting(Batch { round, tasks })
                });
            }
        }
        let what = "not the picks of any round; delete it, and the experiment writes it again";
        Err(Error::file(&path, what))
    }

    /// Checks all answers, keeps their images, then appends them: the log cannot be undone.
    fn write_down(
        &self,
        batch: &Batch,
        answers: &[Answer],
        images: &NewImages,
    ) -> Result<Received, Error> {
        self.dataset.check_answers(answers, images).map_err(of_answer)?;
        let mut log = AnswerLog::open(&self.folder.answers())?;
        let ids: HashSet<&str> = batch.tasks.iter().map(|task| task.id.as_str()).collect();
        for (at, answer) in answers.iter().enumerate() {
            if ids.contains(answer.id.as_str()) || log.of(&answer.id).any(|a| a == answer) {
                continue;
            }
            let id = &answer.id;
            let what = match log.of(id).next() {
                Some(_) => format!("the round of {id:?} is closed"),
                None => format!("nobody was asked about {id:?} in this experiment"),
            };
            return Err(Error::Answer { at, what });
        }
        if !images.files.is_empty() {
            self.check_new_images()?;
            images.kept_in(&self.folder.images())?;
        }
        let taken = log.append(answers)?;
        Ok(Received { taken, tasks: batch.tasks.len(), waiting: waiting(batch, &log) })
    }
}

/// Closes a batch with the answers of the log: later ones do not change what is trained on.
pub(crate) fn close(path: &Path, tasks: &[Task], log: &AnswerLog) -> Result<(), Error> {
    let mut lines = Vec::new();
    for answer in tasks.iter().flat_map(|task| log.of(&task.id)) {
        serde_json::to_writer(&mut lines, answer).map_err(|e| Error::file(path, e.to_string()))?;
        lines.push(b'\n');
    }
    Ok(AtomicFile::write_whole(path, &lines)?)
}

/// Returns the number of tasks without an answer.
fn waiting(batch: &Batch, log: &AnswerLog) -> usize {
    batch.tasks.iter().filter(|task| log.of(&task.id).next().is_none()).count()
}

/// Returns whether an answer is among those of a closed round. An image of a folder has got another
/// name there, and its file may be gone by now.
fn is_among(answer: &Answer, closed: &AnswerLog) -> bool {
    let is_same = |other: &Answer| match (&answer.said, &other.said) {
        (AnswerContent::Image(one), AnswerContent::Image(_)) if one.starts_with(FOLDER) => true,
        (one, other) => one == other,
    };
    closed.of(&answer.id).any(|other| other.annotator == answer.annotator && is_same(other))
}

/// Returns an error about a row as one about an answer.
fn of_answer(error: nextpair_data::Error) -> Error {
    match error {
        nextpair_data::Error::Row { row, what, .. } => Error::Answer { at: row, what },
        other => other.into(),
    }
}

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.len(), metadata.modified().ok())
}
