//! The other end of the app: gives batches, takes answers.

use std::error::Error;

use nextpair_data::queue::Answer;
pub use nextpair_data::queue::Batch;

/// Gives batches and takes their answers: a run that waits for people, a file of picks, or
/// whatever a host implements.
pub trait Source: Send + Sync {
    /// The batch that waits for people, if one does. Asked again and again: the next batch of a run
    /// comes when it has learned from the last one.
    fn batch(&self) -> Result<Option<Batch>, Box<dyn Error + Send + Sync>>;

    /// Takes the answers to a round that was closed, for good: every task has at least one. After
    /// an error, or an end of the app at the wrong moment, it is called again with the same answers.
    fn hand_over(
        &self,
        batch: &Batch,
        answers: &[Answer],
    ) -> Result<HandOver, Box<dyn Error + Send + Sync>>;
}

/// The outcome of handing answers over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOver {
    /// The source has the answers, now or since an earlier call.
    Taken,
    /// The round was finished with other answers before.
    TooLate,
}
