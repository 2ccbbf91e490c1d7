//! The source of batches, which also receives the answers.

use std::error::Error;

use nextpair_data::queue::Answer;
pub use nextpair_data::queue::Batch;

/// Supplies batches and receives their answers: a run that waits for people, a file of picks, or an
/// implementation of the host.
pub trait Source: Send + Sync {
    /// The current batch, if there is one. The app calls this repeatedly: the next batch of a run
    /// comes after training on the last one.
    fn batch(&self) -> Result<Option<Batch>, Box<dyn Error + Send + Sync>>;

    /// Whether there will be no more batches, so that people need not wait for one.
    fn is_finished(&self) -> bool {
        false
    }

    /// Receives the finished answers to a closed round. A round that was closed early has tasks
    /// without one: nobody answered them, or their answers wait for review. When these are reviewed,
    /// the app calls this again with all answers. After an error, or if the app ends at the wrong
    /// moment, it calls this again with the same answers.
    fn hand_over(
        &self,
        batch: &Batch,
        answers: &[Answer],
    ) -> Result<HandOver, Box<dyn Error + Send + Sync>>;
}

/// The result of a hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOver {
    /// The source has the answers, now or since an earlier call.
    Taken,
    /// The round was finished earlier without some of these answers.
    TooLate,
}
