//! Human annotators: the run writes a queue, stops, and goes on when the answers are there.

use std::path::PathBuf;

use nextpair_data::queue::Task;

use super::Scenario;
use super::lane::Known;
use crate::Error;

/// A batch that people have not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The round that it is for.
    pub round: usize,
    /// Items of the batch.
    pub picked: usize,
    /// Items that have an answer.
    pub answered: usize,
    /// What to give to people.
    pub queue: PathBuf,
}

impl Scenario {
    /// Takes what people said about a batch into what is known, or says that they are not done.
    pub(super) fn people(
        &self,
        _round: usize,
        _tasks: &[Task],
        _known: &mut Known,
    ) -> Result<Option<Waiting>, Error> {
        Err(Error::setting("annotator", "human: not wired yet"))
    }
}
