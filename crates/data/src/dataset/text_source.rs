//! Features for captions that a dataset does not have yet.

use std::collections::HashMap;
use std::error::Error;

use super::{Dataset, FeatureSet};
use crate::{Matrix, Progress};

/// Gives new captions the features that they would have in a dataset: the encoder that made its
/// text features, wherever that comes from.
pub trait TextSource: Send + Sync {
    /// An error if [`rows`](Self::rows) could not give a row to any text: nobody knows how the
    /// feature set was made, or what it was made with is gone.
    fn check(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
    ) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// One row for each text, of the same numbers and in the same type as the rows of the feature
    /// set. A text that cannot be encoded has NaN for all of them, and `progress` hears why.
    fn rows(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
        texts: &[&str],
        progress: &dyn Progress,
    ) -> Result<Matrix, Box<dyn Error + Send + Sync>>;
}

/// Captions that a dataset does not have yet, with their rows of one of its text feature sets.
#[derive(Clone, Debug)]
pub struct NewCaptions {
    /// The name of the text feature set.
    pub set: String,
    /// Its further rows.
    pub matrix: Matrix,
    /// The row of every caption. One without a row gets no features.
    pub rows: HashMap<String, usize>,
}
