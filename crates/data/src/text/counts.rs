//! How often each word occurs.

use std::collections::HashMap;

use super::tokenize;

/// The words of some captions with their counts, in order of first appearance.
#[derive(Clone, Debug, Default)]
pub struct WordCounts {
    words: Vec<(String, u64)>,
    places: HashMap<String, usize>,
}

impl WordCounts {
    /// Counts the tokens of a caption.
    pub fn add(&mut self, caption: &str) {
        for token in tokenize(caption) {
            match self.places.get(&token) {
                Some(&place) => self.words[place].1 += 1,
                None => {
                    self.places.insert(token.clone(), self.words.len());
                    self.words.push((token, 1));
                }
            }
        }
    }

    /// Every word and its count, in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.words.iter().map(|(word, count)| (word.as_str(), *count))
    }
}

impl<S: AsRef<str>> FromIterator<S> for WordCounts {
    fn from_iter<I: IntoIterator<Item = S>>(captions: I) -> Self {
        let mut counts = WordCounts::default();
        captions.into_iter().for_each(|caption| counts.add(caption.as_ref()));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_in_order_of_first_appearance() {
        let counts: WordCounts = ["A dog.", "", "a CAT"].into_iter().collect();
        let found: Vec<_> = counts.iter().collect();
        assert_eq!(found, [("a", 2), ("dog", 1), (".", 1), ("cat", 1)]);
    }
}
