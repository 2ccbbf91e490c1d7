//! Splits dev and test drawn by the ids of items.

use std::io::Write;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::enlarged::{write_file, write_line};
use super::{DEV, Dataset, Draft, ITEMS, Manifest, TEST, TRAIN};
use crate::Error;

/// The file that marks a dataset made by [`Dataset::with_splits`].
const MARK: &str = "splits.txt";

/// The shares of the paired training items that become dev and test.
///
/// Whether an item is drawn depends on its id alone: it stays where it is when others are added, and a
/// larger share contains a smaller one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DrawnSplits {
    dev: f64,
    test: f64,
}

impl DrawnSplits {
    /// Checks the shares: each is at least 0, and something is left to train on.
    pub fn new(dev: f64, test: f64) -> Result<Self, Error> {
        for (name, share) in [("dev", dev), ("test", test)] {
            if !(0.0..1.0).contains(&share) {
                let what = format!("{share} is not a share, such as 0.1 for a tenth of the items");
                return Err(Error::Argument { name, what });
            }
        }
        if dev + test >= 1.0 {
            let what = format!("{dev} for dev and {test} for test leave nothing to train on");
            return Err(Error::Argument { name: "dev", what });
        }
        Ok(DrawnSplits { dev, test })
    }

    /// Returns the shares with their names.
    pub(crate) fn shares(&self) -> [(&'static str, f64); 2] {
        [(DEV, self.dev), (TEST, self.test)]
    }

    /// Returns the split that a paired item of `split` is drawn for.
    pub fn split_of(&self, id: &str, split: Option<&str>) -> Option<&'static str> {
        // Evaluation data stays what its source says.
        if split.is_some_and(|split| split != TRAIN) {
            return None;
        }
        let draw = draw(id);
        // From both ends, so that either share can change without the other.
        match () {
            () if draw < self.dev => Some(DEV),
            () if draw >= 1.0 - self.test => Some(TEST),
            () => None,
        }
    }
}

impl Dataset {
    /// Writes the dataset `out`: this one with splits drawn from its training items that have both halves.
    /// Images and feature files stay where they are. `out` may replace an earlier dataset of this kind.
    pub fn with_splits(&self, out: &Path, splits: DrawnSplits) -> Result<Dataset, Error> {
        let old = self.folder.canonicalize().map_err(|e| Error::io(&self.folder, e))?;
        let draft = Draft::replacing(out, &[MARK])?;
        draft.clear()?;
        let images = self.image_features()?;
        let sets = self.manifest.features.iter();
        let manifest = Manifest {
            images: self.manifest.images.as_ref().map(|images| old.join(images)),
            brought: self.manifest.brought.iter().map(|folder| old.join(folder)).collect(),
            features: sets.map(|set| set.seen_from_elsewhere(&old)).collect(),
            ..self.manifest.clone()
        };
        write_file(&draft.folder().join(ITEMS), |file| {
            (0..self.items.len()).try_for_each(|index| {
                let mut item = self.items.get(index);
                let has_row = || images.iter().any(|images| images.row(index).is_some());
                let is_whole = !item.captions.is_empty() && (item.image.is_some() || has_row());
                match splits.split_of(&item.id, item.split.as_deref()).filter(|_| is_whole) {
                    None => file.write_all(self.items.line(index)),
                    Some(split) => {
                        item.split = Some(split.to_owned());
                        write_line(file, &item)
                    }
                }
            })
        })?;
        let text = splits.shares().map(|(split, share)| format!("{split} {share}\n")).concat();
        write_file(&draft.folder().join(MARK), |file| file.write_all(text.as_bytes()))?;
        draft.finish(&manifest)?;
        Dataset::open(out)
    }
}

/// A number of the id, uniform in `0..1`.
fn draw(id: &str) -> f64 {
    let digest = Sha256::digest(id.as_bytes());
    let bits = digest.iter().take(8).fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_drawn_by_id_and_contain_smaller_ones() {
        let ids: Vec<String> = (0..10_000).map(|id| format!("{id}.jpg")).collect();
        let splits = |dev, test| {
            let drawn = DrawnSplits::new(dev, test).unwrap();
            ids.iter().map(|id| drawn.split_of(id, Some(TRAIN))).collect::<Vec<_>>()
        };
        let (few, more) = (splits(0.1, 0.1), splits(0.2, 0.1));
        for (split, share) in [(DEV, 0.1), (TEST, 0.1)] {
            let count = few.iter().filter(|drawn| **drawn == Some(split)).count();
            assert!((count as f64 - share * 10_000.0).abs() < 150.0, "{split}: {count}");
        }
        for (few, more) in few.iter().zip(&more) {
            assert!(few.is_none() || few == more);
        }
        let drawn = DrawnSplits::new(0.5, 0.0).unwrap();
        assert!(ids.iter().all(|id| drawn.split_of(id, Some(TEST)).is_none()));
        assert!(ids.iter().any(|id| drawn.split_of(id, None) == Some(DEV)));
    }

    #[test]
    fn impossible_shares_are_refused() {
        for (dev, test, says) in [
            (1.0, 0.0, "dev: 1 is not a share"),
            (0.0, -0.1, "test: -0.1 is not a share"),
            (f64::NAN, 0.0, "dev: NaN is not a share"),
            (0.5, 0.5, "leave nothing to train on"),
        ] {
            let error = DrawnSplits::new(dev, test).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
