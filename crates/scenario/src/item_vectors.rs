//! One vector per image, for strategies that use distances.

use std::sync::{Mutex, PoisonError};

use nextpair_data::dataset::{FeatureSet, Features};
use nextpair_data::{Matrix, Progress};
use nextpair_engine::{BagOfWords, bag_of_words, histograms, mean_features, visual_words};

use crate::{Bow, Error, ItemFeatures};

/// Features as a dataset has them.
type Stored<'a> = (&'a FeatureSet, &'a Features);

/// Vectors of the images of a dataset, shared by all who select from it.
///
/// Regions are read where they lie. Means, and bags whose words are found once, are made when
/// somebody first asks; who asks meanwhile waits for them. They lie in temporary files, and end
/// with this value.
pub struct ItemVectors {
    bow: Bow,
    /// Everything that is or can be paired, ascending.
    items: Vec<usize>,
    means: Mutex<Option<Matrix>>,
    bags: Mutex<Option<Matrix>>,
}

impl ItemVectors {
    /// Of `items`, ascending, which only matter where visual words are found once.
    pub fn new(bow: Bow, items: &[usize]) -> Self {
        let items = items.to_vec();
        ItemVectors { bow, items, means: Mutex::default(), bags: Mutex::default() }
    }

    /// The vectors of some items and of some others: views of the features themselves where an
    /// item has one vector, and of its mean or bag of words where it has several.
    ///
    /// The features may be those of a dataset that was enlarged: its images are the same.
    pub(crate) fn of(
        &self,
        features: Stored<'_>,
        kind: ItemFeatures,
        (pool, paired): (&[usize], &[usize]),
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<(Matrix, Matrix), Error> {
        let regions = features.1.matrix();
        let both =
            |matrix: &Matrix| Ok((rows(matrix, features, pool)?, rows(matrix, features, paired)?));
        match kind {
            _ if regions.locals() == 1 => both(regions),
            ItemFeatures::Mean => both(&kept(
                &self.means,
                |means| means.rows() == regions.rows(),
                || Ok(mean_features(regions, progress)?),
            )?),
            ItemFeatures::Bow if self.bow.once => {
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
            ItemFeatures::Bow => {
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

    /// The bags of some items.
    fn bags(&self, bags: &Matrix, which: &[usize]) -> Result<Matrix, Error> {
        let row = |item: &usize| {
            let what = || format!("item {item} is not one that can be paired");
            self.items.binary_search(item).map_err(|_| Error::setting("features", what()))
        };
        Ok(bags.view(which.iter().map(row).collect::<Result<Vec<_>, _>>()?))
    }
}

/// What is kept, made now if it is not there or does not fit.
fn kept(
    place: &Mutex<Option<Matrix>>,
    fits: impl FnOnce(&Matrix) -> bool,
    make: impl FnOnce() -> Result<Matrix, Error>,
) -> Result<Matrix, Error> {
    // Held while it is made: the others want the same. Whoever panicked left nothing there.
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    match place.take().filter(fits) {
        Some(matrix) => Ok(place.insert(matrix).clone()),
        None => Ok(place.insert(make()?).clone()),
    }
}

/// The rows of some items, without a copy.
fn rows(matrix: &Matrix, (set, features): Stored<'_>, which: &[usize]) -> Result<Matrix, Error> {
    let row = |&index: &usize| {
        let what = || format!("the features {} have no row {index}", set.name);
        features.row(index).ok_or_else(|| Error::setting("features", what()))
    };
    Ok(matrix.view(which.iter().map(row).collect::<Result<Vec<_>, _>>()?))
}
