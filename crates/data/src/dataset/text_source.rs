//! Features for captions that are not in a dataset yet.

use std::collections::HashMap;
use std::error::Error;

use super::{Dataset, FeatureSet, Features};
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

impl NewCaptions {
    /// Joins earlier captions with more: `matrix` has a row for each of `texts`. Rows of NaN mark
    /// texts that could not be encoded.
    pub fn joined(earlier: Option<Self>, set: &str, texts: &[&str], matrix: Matrix) -> Self {
        let (before, mut rows) = match earlier {
            Some(earlier) => (Some(earlier.matrix), earlier.rows),
            None => (None, HashMap::new()),
        };
        let first = before.as_ref().map_or(0, Matrix::rows);
        let mut numbers = vec![0.0; matrix.dim()];
        for (row, text) in texts.iter().enumerate() {
            matrix.read_f32(row, &mut numbers);
            if !numbers.iter().any(|number| number.is_nan()) {
                rows.insert((*text).to_owned(), first + row);
            }
        }
        let parts = before.into_iter().chain([matrix]).collect();
        let matrix = Matrix::concatenate(parts).expect("there is at least the last one");
        NewCaptions { set: set.to_owned(), matrix, rows }
    }
}

impl Features {
    /// Returns whether a matrix holds `rows` more rows of these features.
    pub fn fits(&self, matrix: &Matrix, rows: usize) -> bool {
        let shape = |matrix: &Matrix| (matrix.locals(), matrix.dim(), matrix.dtype());
        matrix.rows() == rows && shape(matrix) == shape(self.matrix())
    }
}
