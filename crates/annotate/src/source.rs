//! Where batches come from and answers go.

use std::error::Error;

use nextpair_data::queue::Answer;
pub use nextpair_data::queue::Batch;

/// The other side of the desk: a run that waits for people, or a file of picks.
pub trait Source: Send + Sync {
    /// The batch that waits for people, if one does. Asked again and again: the next batch of a run
    /// comes when it has learned from the last one.
    fn batch(&self) -> Result<Option<Batch>, Box<dyn Error + Send + Sync>>;

    /// Takes the answers to a round that was closed, for good: every task has at least one. After
    /// an error, or a kill at the wrong moment, it is called again with the same answers.
    fn hand_over(
        &self,
        batch: &Batch,
        answers: &[Answer],
    ) -> Result<Taken, Box<dyn Error + Send + Sync>>;
}

/// What became of answers that were handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// They are where they belong, now or since an earlier time.
    Yes,
    /// The round was finished with other answers before.
    TooLate,
}
