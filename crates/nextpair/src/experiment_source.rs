//! An experiment that waits for human annotators, as a source of the annotation app.

use std::error::Error;
use std::path::PathBuf;

use nextpair_annotate::{Batch, HandOver, Source};
use nextpair_data::queue::Answer;
use nextpair_scenario::Inbox;

/// Gives the annotation app the batches of an experiment, and the experiment the answers of people.
/// Put it into an [`annotate::Project`](nextpair_annotate::Project).
pub struct ExperimentSource {
    inbox: Inbox,
    places: Vec<PathBuf>,
}

impl ExperimentSource {
    /// Takes batches from the queue of the experiment and appends answers to its log.
    pub fn new(inbox: Inbox) -> Self {
        ExperimentSource { inbox, places: Vec::new() }
    }

    /// Takes images that the dataset does not have from these folders, in this order: those that
    /// people brought to the app, and those beside the dataset that it offered.
    pub fn with_images(self, places: Vec<PathBuf>) -> Self {
        ExperimentSource { places, ..self }
    }
}

impl Source for ExperimentSource {
    fn batch(&self) -> Result<Option<Batch>, Box<dyn Error + Send + Sync>> {
        Ok(self.inbox.batch()?)
    }

    fn is_finished(&self) -> bool {
        self.inbox.is_finished()
    }

    fn hand_over(
        &self,
        batch: &Batch,
        answers: &[Answer],
    ) -> Result<HandOver, Box<dyn Error + Send + Sync>> {
        let taken = self.inbox.hand_over(batch.round, answers, &self.places)?;
        Ok(if taken { HandOver::Taken } else { HandOver::TooLate })
    }
}
