//! Features for captions and images that are not in a dataset yet.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use super::{Dataset, FeatureSet};
use crate::{Matrix, Progress};

/// Makes the features that new captions and new images would have in a dataset. An implementation
/// wraps the encoders that made the dataset's features.
///
/// A row has the shape and type of the rows of its feature set. The row of a text or an image that
/// cannot be encoded is all NaN, and a remark to `progress` gives the reason.
pub trait FeatureSource: Send + Sync {
    /// Returns an error if nothing can be encoded for this set: the manifest does not say how the
    /// set was made, or the encoder is gone.
    fn check(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
    ) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// Encodes each text as one row of a text feature set.
    fn text_rows(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
        texts: &[&str],
        progress: &dyn Progress,
    ) -> Result<Matrix, Box<dyn Error + Send + Sync>>;

    /// Encodes each image file as one row of an image feature set. A file that cannot be read is an
    /// error.
    fn image_rows(
        &self,
        dataset: &Dataset,
        set: &FeatureSet,
        images: &[&Path],
        progress: &dyn Progress,
    ) -> Result<Matrix, Box<dyn Error + Send + Sync>>;
}

/// More rows for a feature set: of captions, by their text, or of images, by the ids of their
/// items.
#[derive(Clone, Debug)]
pub struct NewRows {
    /// The name of the feature set.
    pub set: String,
    /// The rows.
    pub matrix: Matrix,
    /// The row of each caption or image. One that is not named here gets no features.
    pub rows: HashMap<String, usize>,
}

impl NewRows {
    /// Names the rows of a matrix. Rows with NaN are those of what could not be encoded, and get no
    /// name.
    pub fn new(set: &str, names: &[&str], matrix: Matrix) -> Self {
        let mut numbers = vec![0.0; matrix.locals() * matrix.dim()];
        let mut rows = HashMap::new();
        for (row, name) in names.iter().enumerate() {
            matrix.read_f32(row, &mut numbers);
            if !numbers.iter().any(|number| number.is_nan()) {
                rows.insert((*name).to_owned(), row);
            }
        }
        NewRows { set: set.to_owned(), matrix, rows }
    }

    /// Puts the rows of `later` after these. Both are of the same feature set.
    pub fn followed_by(mut self, later: NewRows) -> Self {
        let first = self.matrix.rows();
        self.rows.extend(later.rows.into_iter().map(|(name, row)| (name, first + row)));
        let parts = vec![self.matrix, later.matrix];
        self.matrix = Matrix::concatenate(parts).expect("there are two parts");
        self
    }

    /// Returns whether a matrix has rows like those of another one.
    pub(crate) fn fits(&self, stored: &Matrix) -> bool {
        let shape = |matrix: &Matrix| (matrix.locals(), matrix.dim(), matrix.dtype());
        shape(&self.matrix) == shape(stored)
    }
}
