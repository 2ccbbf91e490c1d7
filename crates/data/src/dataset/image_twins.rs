//! Images of a dataset with the same bytes as another file.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::{Dataset, Item};
use crate::import::same_bytes;

/// The images of a dataset by the lengths of their files.
#[derive(Clone, Debug, Default)]
pub struct ImageTwins {
    by_length: HashMap<u64, Vec<usize>>,
}

impl ImageTwins {
    /// Asks for the length of every image file of a dataset. Files that are missing have no twins.
    pub fn of(dataset: &Dataset) -> Self {
        let mut by_length: HashMap<u64, Vec<usize>> = HashMap::new();
        for (index, item) in dataset.items().iter().enumerate() {
            let file = dataset.image_file(&item).and_then(|file| fs::metadata(file).ok());
            if let Some(file) = file.filter(|file| file.is_file()) {
                by_length.entry(file.len()).or_default().push(index);
            }
        }
        ImageTwins { by_length }
    }

    /// Returns the first item of the dataset whose image has the bytes of this file.
    pub fn find(&self, dataset: &Dataset, path: &Path) -> Option<Item> {
        let length = fs::metadata(path).ok()?.len();
        let items = self.by_length.get(&length)?.iter().map(|&index| dataset.items().get(index));
        // A file that is gone by now is no twin.
        let is_twin = |file: &Path| same_bytes(file, path).unwrap_or(false);
        items.into_iter().find(|item| dataset.image_file(item).is_some_and(|file| is_twin(&file)))
    }
}
