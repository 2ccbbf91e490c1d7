//! `ranks-R.npy`: the rank of every test query after a round.
//!
//! A NumPy array of 32-bit numbers with a column per query: first every test image looking for its
//! captions, then every caption looking for its image. Row 0 is the number of the query's item in the
//! dataset, so that an image and its captions can be told to belong together. Then there is a row
//! of ranks, from 1, for every test of the experiment (one for each number of folds).

use std::path::Path;

use nextpair_data::{AtomicFile, fingerprint, npy, ordinary};
use nextpair_models::{Corpus, QueryRanks};

use crate::Error;

/// The ranks of all test queries after a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundRanks {
    /// The item of every query: the images, then the captions.
    items: Vec<u32>,
    /// Number of images.
    images: usize,
    /// The ranks by test, from 1.
    tests: Vec<Vec<u32>>,
}

impl RoundRanks {
    /// Collects the ranks of test items, by test.
    pub(crate) fn new(corpus: &Corpus, test: &[usize], ranks: &[QueryRanks]) -> Self {
        let captions = |&item: &usize| corpus.captions_of(item).map(move |_| item as u32);
        let images = test.iter().map(|&item| item as u32);
        let of_test = |ranks: &QueryRanks| -> Vec<u32> {
            ranks.text.iter().chain(&ranks.image).map(|rank| rank + 1).collect()
        };
        RoundRanks {
            items: images.chain(test.iter().flat_map(captions)).collect(),
            images: test.len(),
            tests: ranks.iter().map(of_test).collect(),
        }
    }

    /// Returns the item of every test image.
    pub fn images(&self) -> &[u32] {
        &self.items[..self.images]
    }

    /// Returns the item of every test caption.
    pub fn captions(&self) -> &[u32] {
        &self.items[self.images..]
    }

    /// Returns the ranks of images looking for captions and of captions looking for images, from 1, in
    /// one of the tests.
    pub fn of_test(&self, test: usize) -> Option<(&[u32], &[u32])> {
        self.tests.get(test).map(|ranks| ranks.split_at(self.images))
    }

    /// Returns the ranks of some queries: of every image, then of every caption, whether it stays.
    pub(crate) fn only(&self, stays: &[bool]) -> Self {
        let chosen = |all: &Vec<u32>| -> Vec<u32> {
            all.iter().zip(stays).filter(|(_, stays)| **stays).map(|(value, _)| *value).collect()
        };
        RoundRanks {
            items: chosen(&self.items),
            images: stays.iter().take(self.images).filter(|stays| **stays).count(),
            tests: self.tests.iter().map(chosen).collect(),
        }
    }

    /// Writes the file and returns its fingerprint.
    pub(crate) fn write(&self, path: &Path) -> Result<String, Error> {
        let rows: Vec<u32> =
            std::iter::once(&self.items).chain(&self.tests).flatten().copied().collect();
        let mut bytes = Vec::new();
        npy::write_u32(&mut bytes, self.items.len(), &rows).map_err(|e| Error::io(path, e))?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        }
        AtomicFile::write_whole(path, &bytes)?;
        Ok(fingerprint(&bytes))
    }

    /// Reads the file that a round was finished with.
    pub(crate) fn read(path: &Path, print: &str) -> Result<Self, Error> {
        let bytes = ordinary::read(path)?;
        if fingerprint(&bytes) != print {
            return Err(Error::file(path, "not the ranks that its round was finished with"));
        }
        let (queries, rows) = npy::read_u32(bytes).map_err(|what| Error::file(path, what))?;
        let mut rows = rows.chunks(queries.max(1)).map(<[u32]>::to_vec);
        let items = rows.next().unwrap_or_default();
        // The captions begin where the first image comes up again.
        let again = items.iter().skip(1).position(|item| Some(item) == items.first());
        let images = again.map(|at| at + 1);
        let images = images.ok_or_else(|| Error::file(path, "no ranks of images and captions"))?;
        Ok(RoundRanks { items, images, tests: rows.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_read_back_and_a_change_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seed-0/ranks-0.npy");
        let items = vec![4, 7, 9, 4, 4, 7, 9, 9];
        let tests = vec![vec![1, 2, 3, 4, 5, 6, 7, 8], vec![1; 8]];
        let ranks = RoundRanks { items, images: 3, tests };
        let print = ranks.write(&path).unwrap();
        let read = RoundRanks::read(&path, &print).unwrap();
        assert_eq!(read, ranks);
        assert_eq!((read.images(), read.captions()), (&[4, 7, 9][..], &[4, 4, 7, 9, 9][..]));
        assert_eq!(read.of_test(0), Some((&[1, 2, 3][..], &[4, 5, 6, 7, 8][..])));
        assert_eq!(read.of_test(2), None);
        let what = RoundRanks::read(&path, "other").unwrap_err().to_string();
        assert!(what.contains("ranks-0.npy: not the ranks"), "{what}");
    }
}
