//! Image search by words, for finding an image that fits a text.

use std::collections::{BTreeSet, HashMap};

use crate::catalog::Catalog;
use crate::word_overlap::words;

/// An index of the words in the captions and names of images.
pub(crate) struct Search {
    /// Images that a text can be paired with, by id: those of the dataset in its order, then
    /// others.
    images: Vec<String>,
    /// Ascending indices of `images`, by word.
    by_word: HashMap<String, Vec<u32>>,
}

impl Search {
    /// Builds the index, reading all captions once.
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let images: Vec<String> = catalog.candidates().collect();
        let mut by_word: HashMap<String, Vec<u32>> = HashMap::new();
        for (at, id) in images.iter().enumerate() {
            let captions = catalog.item(id).map(|item| item.captions).unwrap_or_default();
            let texts = captions.iter().chain([id]);
            let found: BTreeSet<String> = texts.flat_map(|text| words(text)).collect();
            for word in found {
                by_word.entry(word).or_default().push(at as u32);
            }
        }
        Search { images, by_word }
    }

    /// The images that match most of these words, with more weight on rare words; without words,
    /// the first images.
    pub(crate) fn find(&self, query: &str, limit: usize) -> Vec<&str> {
        let asked: BTreeSet<String> = words(query).into_iter().collect();
        if asked.is_empty() {
            return self.images.iter().take(limit).map(String::as_str).collect();
        }
        let mut weights: HashMap<u32, f64> = HashMap::new();
        for places in asked.iter().filter_map(|word| self.by_word.get(word)) {
            let rarity = (1.0 + self.images.len() as f64 / places.len() as f64).ln();
            for &at in places {
                *weights.entry(at).or_default() += rarity;
            }
        }
        let mut found: Vec<(u32, f64)> = weights.into_iter().collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.into_iter().take(limit).map(|(at, _)| self.images[at as usize].as_str()).collect()
    }
}
