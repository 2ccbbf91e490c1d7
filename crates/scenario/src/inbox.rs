//! Where people's answers come in: the batch of an experiment that waits for them, and the log
//! that takes what they say.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use nextpair_data::dataset::Dataset;
use nextpair_data::queue::{self, Answer, AnswerLog, Appended, Batch};
use nextpair_data::{FolderLock, Side};

use crate::{Annotator, Error, Experiment, ExperimentFolder, Study};

/// Between looks at the log, for whoever waits.
const EVERY: Duration = Duration::from_millis(500);

/// The inbox of an experiment whose annotators are people. It may be open while the experiment is
/// running: all of it goes by what is in the folder at the moment.
pub struct Inbox {
    folder: ExperimentFolder,
    experiment: Experiment,
    dataset: Dataset,
    /// The queue that was looked at last: asking again and again is cheap.
    last: Mutex<Option<(Stamp, Batch)>>,
}

/// How many answers were new, and how much of the batch is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// New answers, and those known before.
    pub taken: Appended,
    /// Tasks of the batch.
    pub tasks: usize,
    /// Tasks that have no answer.
    pub waiting: usize,
}

/// By which a queue is told from the next.
type Stamp = (u64, Option<SystemTime>);

/// The queue in the folder of an experiment.
enum State {
    /// Not there.
    Nothing,
    /// Left over by an experiment that was killed after it had closed the batch.
    Closed(usize),
    Waiting(Batch),
}

impl Inbox {
    /// Opens the inbox of an experiment, which must be for people.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let Study { folder, experiment, .. } = Study::open(path)?;
        if experiment.annotator != Annotator::Human {
            return Err(Error::file(path, "the annotator of this experiment is not human"));
        }
        let dataset = Dataset::open(&experiment.dataset)?;
        Ok(Inbox { folder, experiment, dataset, last: Mutex::new(None) })
    }

    /// The dataset that the tasks are about.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The side of the items that people are asked about.
    pub fn pool(&self) -> Side {
        self.experiment.pool
    }

    /// The folder of the experiment.
    pub fn folder(&self) -> &ExperimentFolder {
        &self.folder
    }

    /// The batch that waits for people now, if one does: an experiment that trains or that is
    /// finished has none.
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

    /// Takes answers to the batch that waits, all or none; what is known already is taken again.
    /// [`Error::Answer`] says which one cannot be.
    pub fn take(&self, answers: &[Answer]) -> Result<Received, Error> {
        // A batch must not be closed while its answers are taken.
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
            State::Waiting(batch) => self.write_down(&batch, answers),
        }
    }

    /// Takes all answers to a round, once and for all: when this is done again with the same
    /// answers, the round may be closed by then. `false` if it was closed with other answers.
    pub fn hand_over(&self, round: usize, answers: &[Answer]) -> Result<bool, Error> {
        if self.is_closed(round) {
            let closed = AnswerLog::open(&self.closed(round))?;
            let known: HashSet<&Answer> = closed.all().iter().collect();
            return Ok(answers.iter().all(|answer| known.contains(answer)));
        }
        let _lock = self.lock()?;
        match self.look()? {
            State::Waiting(batch) if batch.round == round => {
                self.write_down(&batch, answers).map(|_| true)
            }
            _ => {
                let what = format!("round {round} is not waiting for people");
                Err(Error::file(self.folder.path(), what))
            }
        }
    }

    /// How many tasks of a batch have an answer already.
    pub fn answered(&self, batch: &Batch) -> Result<usize, Error> {
        let log = AnswerLog::open(&self.folder.answers())?;
        Ok(batch.tasks.len() - waiting(batch, &log))
    }

    /// Returns when every task of the batch has an answer, or there is no batch. `told` hears how
    /// many have one, at first and whenever it changes.
    pub fn wait(&self, mut told: impl FnMut(usize)) -> Result<(), Error> {
        let Some(batch) = self.batch()? else { return Ok(()) };
        let path = self.folder.answers();
        let size = || fs::metadata(&path).map_or(0, |metadata| metadata.len());
        loop {
            let seen = size();
            let waiting = waiting(&batch, &AnswerLog::open(&path)?);
            told(batch.tasks.len() - waiting);
            if waiting == 0 {
                return Ok(());
            }
            while size() == seen {
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

    fn closed(&self, round: usize) -> std::path::PathBuf {
        // People have one strategy and one seed.
        self.folder.closed(self.experiment.seeds[0], &self.experiment.strategies[0], round)
    }

    fn is_closed(&self, round: usize) -> bool {
        self.closed(round).exists()
    }

    /// Finds the round whose picks the queue in the folder holds.
    fn look(&self) -> Result<State, Error> {
        let path = self.folder.queue();
        let tasks = match queue::read(&path) {
            Ok(tasks) => tasks,
            Err(nextpair_data::Error::Io { error, .. }) if error.kind() == ErrorKind::NotFound => {
                return Ok(State::Nothing);
            }
            Err(error) => return Err(error.into()),
        };
        let (seed, arm) = (self.experiment.seeds[0], &self.experiment.strategies[0]);
        let picks = |round: usize| self.folder.picks(seed, arm, round);
        let rounds = (1..).take_while(|&round| picks(round).exists()).count();
        for round in (1..=rounds).rev() {
            if queue::read(&picks(round))? == tasks {
                return Ok(match self.is_closed(round) {
                    true => State::Closed(round),
                    false => State::Waiting(Batch { round, tasks }),
                });
            }
        }
        let what = "not the picks of any round; delete it, and the experiment writes it again";
        Err(Error::file(&path, what))
    }

    /// Everything is looked at before anything is written: the log keeps what it takes.
    fn write_down(&self, batch: &Batch, answers: &[Answer]) -> Result<Received, Error> {
        self.dataset.check_answers(answers).map_err(|error| match error {
            nextpair_data::Error::Row { row, what, .. } => Error::Answer { at: row, what },
            other => other.into(),
        })?;
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
        let taken = log.append(answers)?;
        Ok(Received { taken, tasks: batch.tasks.len(), waiting: waiting(batch, &log) })
    }
}

/// How many tasks have no answer.
fn waiting(batch: &Batch, log: &AnswerLog) -> usize {
    batch.tasks.iter().filter(|task| log.of(&task.id).next().is_none()).count()
}

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.len(), metadata.modified().ok())
}
