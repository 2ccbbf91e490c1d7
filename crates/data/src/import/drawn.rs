//! Sources whose paired items are divided into train, dev and test.

use super::{Importer, Sink};
use crate::Error;
use crate::dataset::DrawnSplits;

/// A source with splits that are drawn from its training items.
pub struct SplitSource {
    /// The source of the items.
    pub source: Box<dyn Importer>,
    /// The shares of dev and test.
    pub splits: DrawnSplits,
}

impl Importer for SplitSource {
    fn source(&self) -> String {
        let shares = self.splits.shares().into_iter().filter(|(_, share)| *share > 0.0);
        let words: String = shares.map(|(split, share)| format!(", {split} {share}")).collect();
        self.source.source() + &words
    }

    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        sink.draw(self.splits);
        self.source.read(sink)
    }
}
