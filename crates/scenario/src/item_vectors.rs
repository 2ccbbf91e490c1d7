//! One vector per image, for strategies based on distances.

use std::sync::{Mutex, PoisonError};

use nextpair_data::dataset::{FeatureSet, Features};
use nextpair_data::{Matrix, Progress};
use nextpair_engine::{BagOfWords, bag_of_words, histograms, mean_features, visual_words};

use crate::{Bow, Error};

/// The features of a dataset.
type Stored<'a> = (&'a FeatureSet, &'a Features);

/// Vectors of the images of a dataset, shared by all selections from it.
///
/// Regions are read in place. Means, and bags of words that are found once, are computed on first
/// use, while other threads wait. They live in temporary files that are removed when this value is
/// dropped.
pub struct ItemVectors {
    bow: Bow,
    /// All items that are or can be paired, ascending.
    items: Vec<usize>,
    means: Mutex<Option<Matrix>>,
    bags: Mutex<Option<Matrix>>,
}

impl ItemVectors {
    /// Creates vectors for `items`, in ascending order. They only matter if visual words are found
    /// once.
    pub fn new(bow: Bow, items: &[usize]) -> Self {
        let items = items.to_vec();
        ItemVectors { bow, items, means: Mutex::default(), bags: Mutex::default() }
    }

    /// Returns the vectors of the pool and of the paired items. Items with one vector get views of
    /// their features; items with several get their mean, or their bag of words.
    ///
    /// The features may come from an enlarged dataset with the same images.
    pub(crate) fn of(
        &self,
        features: Stored<'_>,
        bags: bool,
        (pool, paired): (&[usize], &[usize]),
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<(Matrix, Matrix), Error> {
        let regions = features.1.matrix();
        let both =
            |matrix: &Matrix| Ok((rows(matrix, features, pool)?, rows(matrix, features, paired)?));
        match bags {
            _ if regions.locals() == 1 => both(regions),
            false => both(&kept(
                &self.means,
                |means| means.rows() == regions.rows(),
                || Ok(mean_features(regions, progress)?),
            )?),
            true if self.bow.once => {
                let bags = kept(
                    &self.bags,
                    |_| true,
                    || {
                        let regions = rows(regions, features, &self.items)?;
                        let words = visual_words(&regions, self.words(0), progress)?;
                        Ok(histograms(&words, &regions, progress)?)
                    },
                )?;
                Ok((self.bags(&bags, pool)?, self.bags(&bags, paired)?))
            }
            true => {
                let (pool, paired) = both(regions)?;
                let (paired, pool) = bag_of_words(&paired, &pool, self.words(seed), progress)?;
                Ok((pool, paired))
            }
        }
    }

    fn words(&self, seed: u64) -> BagOfWords {
        let Bow { sample, iterations, once: _ } = self.bow;
        BagOfWords { sample, iterations, seed, ..BagOfWords::default() }
    }

    /// Returns the bags of words of some items.
    fn bags(&self, bags: &Matrix, which: &[usize]) -> Result<Matrix, Error> {
        let row = |item: &usize| {
            let what = || format!("item {item} is not one that can be paired");
            self.items.binary_search(item).map_err(|_| Error::setting("features", what()))
        };
        Ok(bags.view(which.iter().map(row).collect::<Result<Vec<_>, _>>()?))
    }
}

/// Returns the cached matrix, computing it if it is missing or does not fit.
fn kept(
    place: &Mutex<Option<Matrix>>,
    fits: impl FnOnce(&Matrix) -> bool,
    make: impl FnOnce() -> Result<Matrix, Error>,
) -> Result<Matrix, Error> {
    // Hold the lock while computing: other threads want the same matrix. A panic leaves the cache
    // empty.
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    match place.take().filter(fits) {
        Some(matrix) => Ok(place.insert(matrix).clone()),
        None => Ok(place.insert(make()?).clone()),
    }
}

/// Returns the stored features of some items, without a copy.
pub(crate) fn rows_of(features: Stored<'_>, which: &[usize]) -> Result<Matrix, Error> {
    rows(features.1.matrix(), features, which)
}

/// Returns the rows of some items, without a copy.
fn rows(matrix: &Matrix, (set, features): Stored<'_>, which: &[usize]) -> Result<Matrix, Error> {
    let row = |&index: &usize| {
        let what = || format!("the features {} have no row {index}", set.name);
        features.row(index).ok_or_else(|| Error::setting("features", what()))
    };
    Ok(matrix.view(which.iter().map(row).collect::<Result<Vec<_>, _>>()?))
}
