//! Features for captions that are not in a dataset yet.

use std::collections::HashMap;
use std::error::Error;

use super::{Dataset, FeatureSet};
use crate::{Matrix, Progress};

/// Makes the features that new captions would have in a dataset. An implementation wraps the
/// encoder that made the dataset's text features.
pub trait TextSource: Send + Sync {
    /// Returns an error if [`rows`](Self::rows) cannot encode any text: the manifest does not say
    /// how the feature set was made, or the encoder is gone.
    fn check(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
    ) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// Encodes each text as one row, with the dimensions and type of the feature set. The row of a
    /// text that cannot be encoded is all NaN, and a remark to `progress` gives the reason.
    fn rows(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
        texts: &[&str],
        progress: &dyn Progress,
    ) -> Result<Matrix, Box<dyn Error + Send + Sync>>;
}

/// Captions that are not in a dataset yet, with their rows for one of its text feature sets.
#[derive(Clone, Debug)]
pub struct NewCaptions {
    /// The name of the text feature set.
    pub set: String,
    /// The additional rows.
    pub matrix: Matrix,
    /// The row of each caption. A caption without a row gets no features.
    pub rows: HashMap<String, usize>,
}
