//! Captions of training items that no model learns from, because features are missing.

use std::collections::HashSet;

use nextpair_data::Side;

use crate::Corpus;

/// Captions that make no pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// What lacks features: their images, or they themselves.
    pub side: Side,
    /// The features that are used on this side.
    pub set: String,
    /// Whether the dataset says with which encoder those were made.
    pub has_encoder: bool,
    /// The number of captions.
    pub captions: usize,
    /// The number of their items.
    pub items: usize,
}

impl Corpus {
    /// Returns the captions of these items that make no pairs although the item has an image, by what is missing.
    pub fn unused(&self, items: &[usize]) -> Vec<Unused> {
        let all = self.dataset().items();
        let (mut images, mut texts) = ((0, HashSet::new()), (0, HashSet::new()));
        for &item in items.iter().filter(|item| !all.captions_of(**item).is_empty()) {
            let captions = all.captions_of(item);
            if self.has_image(item) {
                let without = captions.filter(|&caption| !self.has_text(caption)).count();
                texts.0 += without;
                texts.1.extend((without > 0).then_some(item));
            } else if all.get(item).image.is_some() {
                images.0 += captions.len();
                images.1.insert(item);
            }
        }
        let sets = [Some(self.image_features()), self.text_features()];
        let found =
            sets.into_iter().zip([images, texts]).filter(|(_, (captions, _))| *captions > 0);
        let unused = found.filter_map(|(set, (captions, items))| {
            let (set, _) = set?;
            let (name, has_encoder) = (set.name.clone(), set.made_by.is_some());
            Some(Unused { side: set.side, set: name, has_encoder, captions, items: items.len() })
        });
        unused.collect()
    }
}
