//! Images by words, for people who look for one that fits a text.

use std::collections::{BTreeSet, HashMap};

use crate::gallery::Gallery;
use crate::words::words;

/// Which images have which words in their captions or in their names.
pub(crate) struct Search {
    /// Items by word, ascending.
    by_word: HashMap<String, Vec<u32>>,
    /// Images that a text can be paired with, in the order of the dataset.
    images: Vec<u32>,
}

impl Search {
    /// Reads all captions once.
    pub(crate) fn new(gallery: &Gallery) -> Self {
        let mut search = Search { by_word: HashMap::new(), images: Vec::new() };
        for (at, item) in gallery.dataset().items().iter().enumerate() {
            if gallery.check_image(&item.id).is_err() {
                continue;
            }
            search.images.push(at as u32);
            let texts = item.captions.iter().chain([&item.id]);
            let found: BTreeSet<String> = texts.flat_map(|text| words(text)).collect();
            for word in found {
                search.by_word.entry(word).or_default().push(at as u32);
            }
        }
        search
    }

    /// The items that have most of these words, rare words counting more; without words, the first.
    pub(crate) fn find(&self, query: &str, limit: usize) -> Vec<usize> {
        let asked: BTreeSet<String> = words(query).into_iter().collect();
        if asked.is_empty() {
            return self.images.iter().take(limit).map(|&at| at as usize).collect();
        }
        let mut weights: HashMap<u32, f64> = HashMap::new();
        for items in asked.iter().filter_map(|word| self.by_word.get(word)) {
            let rarity = (1.0 + self.images.len() as f64 / items.len() as f64).ln();
            for &at in items {
                *weights.entry(at).or_default() += rarity;
            }
        }
        let mut found: Vec<(u32, f64)> = weights.into_iter().collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.into_iter().take(limit).map(|(at, _)| at as usize).collect()
    }
}
