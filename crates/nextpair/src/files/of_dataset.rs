//! The items of a dataset as what a selection chooses from, by features of its own.

use std::collections::HashSet;

use nextpair_core::Side;
use nextpair_data::dataset::{Dataset, Per, TRAIN};

use super::{Embedded, Files, counted};
use crate::Error;

impl Files {
    /// Opens the features that a dataset has on one side: those of the name, or the last that were added.
    ///
    /// The pool is what has no other half, among the items of the split train or without a split, and what
    /// people have not answered about, but for the items `asked_again`. The pairs are the items to train
    /// on that have both halves; there need not be any. An item with several captions has the vector of the
    /// first.
    ///
    /// # Errors
    /// If there are no such features, or if the pool is empty.
    pub fn of_dataset(
        dataset: &Dataset,
        pool_side: Side,
        features: Option<&str>,
        asked_again: &[String],
    ) -> Result<Self, Error> {
        let (set, features) = dataset.features(pool_side, features)?;
        let items = dataset.items();
        // Images may be known by their features alone.
        let images = match pool_side {
            Side::Image => None,
            Side::Text => dataset.features(Side::Image, None).ok(),
        };
        let row = |item: usize| match set.per {
            Per::Item => features.row(item),
            Per::Caption => items.captions_of(item).next().and_then(|first| features.row(first)),
        };
        let again = items.find(asked_again.iter().map(String::as_str));
        let again: HashSet<usize> = again.into_values().collect();
        let mut gone = dataset.answered()?;
        gone.retain(|item| !again.contains(item));
        let trains = items.splits().any(|split| split == Some(TRAIN)).then_some(TRAIN);
        let (mut pool, mut paired) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
        for item in 0..items.len() {
            let split = items.split_of(item);
            let Some(row) = row(item).filter(|_| split.is_none_or(|split| split == TRAIN)) else {
                continue;
            };
            let lacks_half = match pool_side {
                Side::Image => items.captions_of(item).is_empty(),
                Side::Text => {
                    let seen = images.as_ref().and_then(|(_, images)| images.row(item));
                    seen.is_none() && items.get(item).image.is_none()
                }
            };
            let to = match lacks_half {
                true if !gone.contains(&item) => &mut pool,
                false if split == trains => &mut paired,
                _ => continue,
            };
            to.0.push(row);
            to.1.push(items.get(item).id);
        }
        if pool.0.is_empty() {
            let (half, lacking) = pool_side.own_and_other("image", "captions");
            let what = format!(
                "{}: the pool is empty: no {half} with features lacks its {lacking}, among the items of the \
                 split train or without a split that nobody has answered about",
                dataset.folder().display()
            );
            return Err(Error::Files(what));
        }
        counted(pool.0.len())?;
        let matrix = features.matrix();
        let (pool, ids) = (matrix.view(pool.0), pool.1);
        let (paired, pair_ids) = (matrix.view(paired.0), paired.1);
        let vectors = Some(Embedded { paths: None, pool, paired, anchors: None });
        let (pool_ids, pair_ids) = (Some(ids), Some(pair_ids));
        Ok(Files { pool_ids, pair_ids, ..Files::of(pool_side, vectors, None) })
    }
}
