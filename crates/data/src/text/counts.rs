//! Word counts.

use std::collections::HashMap;

use super::tokenize;

/// The words of some captions with their counts, in order of first appearance.
#[derive(Clone, Debug, Default)]
pub struct WordCounts {
    words: Vec<(String, u64)>,
    places: HashMap<String, usize>,
}

impl WordCounts {
    /// Counts the tokens of a caption and returns their number.
    pub fn add(&mut self, caption: &str) -> usize {
        let tokens = tokenize(caption);
        let length = tokens.len();
        tokens.into_iter().for_each(|token| self.add_word(token, 1));
        length
    }

    /// Adds other counts after these.
    pub fn add_all(&mut self, other: &WordCounts) {
        other.iter().for_each(|(word, count)| self.add_word(word.to_owned(), count));
    }

    fn add_word(&mut self, word: String, count: u64) {
        match self.places.get(&word) {
            Some(&place) => self.words[place].1 += count,
            None => {
                self.places.insert(word.clone(), self.words.len());
                self.words.push((word, count));
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
        for caption in captions {
            counts.add(caption.as_ref());
        }
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
        let mut both: WordCounts = ["the cat"].into_iter().collect();
        both.add_all(&counts);
        let found: Vec<_> = both.iter().collect();
        assert_eq!(found, [("the", 1), ("cat", 2), ("a", 2), ("dog", 1), (".", 1)]);
    }
}
