//! A run that waits for people, as the annotation app takes it.

use std::error::Error;

use nextpair_annotate::{Batch, HandOver, Source};
use nextpair_data::queue::Answer;
use nextpair_scenario::{Asked, Inbox};

/// Batches come from the queue of the run, answers go to its log.
pub(super) struct HumanRun {
    inbox: Inbox,
}

impl HumanRun {
    pub(super) fn new(inbox: Inbox) -> Self {
        HumanRun { inbox }
    }
}

impl Source for HumanRun {
    fn batch(&self) -> Result<Option<Batch>, Box<dyn Error + Send + Sync>> {
        let batch = |Asked { round, tasks }| Batch { round, tasks };
        Ok(self.inbox.batch()?.map(batch))
    }

    fn hand_over(
        &self,
        batch: &Batch,
        answers: &[Answer],
    ) -> Result<HandOver, Box<dyn Error + Send + Sync>> {
        Ok(match self.inbox.hand_over(batch.round, answers)? {
            true => HandOver::Taken,
            false => HandOver::TooLate,
        })
    }
}
