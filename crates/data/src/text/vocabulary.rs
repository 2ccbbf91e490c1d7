//! Words and their ids.

mod file;

use std::collections::HashMap;

use super::{WordCounts, tokenize};

/// Default for the least number of occurrences of a word in a vocabulary.
pub const DEFAULT_MIN_COUNT: u64 = 4;

/// Padding, start of a caption, end of a caption, and unknown words. The tokenizer cannot produce
/// them: it splits off `<` and `>`.
const MARKERS: [&str; 4] = ["<pad>", "<start>", "<end>", "<unk>"];

/// Words numbered from 0. Four of them are markers, whose ids a file may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    words: Vec<String>,
    ids: HashMap<String, u32>,
    markers: [u32; MARKERS.len()],
}

impl Vocabulary {
    /// Builds a vocabulary of the words that occur at least `min_count` times in these captions, in
    /// order of first appearance, after the markers.
    pub fn build<S: AsRef<str>>(captions: impl IntoIterator<Item = S>, min_count: u64) -> Self {
        Self::from_counts(&captions.into_iter().collect(), min_count)
    }

    /// Like [`build`](Self::build), for counted words.
    pub fn from_counts(counts: &WordCounts, min_count: u64) -> Self {
        let kept = counts.iter().filter(|&(_, count)| count >= min_count);
        let words = MARKERS.into_iter().chain(kept.map(|(word, _)| word)).map(str::to_owned);
        let words: Vec<String> = words.collect();
        let ids = words.iter().cloned().zip(0..).collect();
        Self::new(words, ids).expect("the markers are the first words")
    }

    /// `ids` must be the inverse of `words`. The error is a missing marker.
    fn new(words: Vec<String>, ids: HashMap<String, u32>) -> Result<Self, &'static str> {
        let mut markers = [0; MARKERS.len()];
        for (id, marker) in markers.iter_mut().zip(MARKERS) {
            *id = *ids.get(marker).ok_or(marker)?;
        }
        Ok(Vocabulary { words, ids, markers })
    }

    /// All words; the index of a word is its id.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The id of a word, if it has one.
    pub fn id(&self, word: &str) -> Option<u32> {
        self.ids.get(word).copied()
    }

    /// The id of `<start>`.
    pub fn start(&self) -> u32 {
        self.markers[1]
    }

    /// The id of `<end>`.
    pub fn end(&self) -> u32 {
        self.markers[2]
    }

    /// The id of `<unk>`.
    pub fn unknown(&self) -> u32 {
        self.markers[3]
    }

    /// Encodes a caption as ids: start, one per token, end.
    pub fn encode(&self, caption: &str) -> Vec<u32> {
        let tokens = tokenize(caption);
        let ids = tokens.iter().map(|token| self.id(token).unwrap_or(self.unknown()));
        std::iter::once(self.start()).chain(ids).chain([self.end()]).collect()
    }

    /// Computes how many of these words have an id.
    pub fn coverage(&self, counts: &WordCounts) -> Coverage {
        let mut coverage = Coverage::default();
        for (word, count) in counts.iter() {
            coverage.tokens += count;
            if self.id(word).is_none() {
                coverage.unknown += count;
                coverage.unknown_words.push((word.to_owned(), count));
            }
        }
        coverage.unknown_words.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        coverage
    }
}

/// The coverage of some captions by a vocabulary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Number of tokens, counting repeated ones.
    pub tokens: u64,
    /// Number of tokens that become `<unk>`.
    pub unknown: u64,
    /// The distinct unknown words with their counts, the most frequent first.
    pub unknown_words: Vec<(String, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTIONS: [&str; 4] = ["A dog runs.", "a dog sits.", "A cat", "the dog"];

    #[test]
    fn frequent_words_get_ids_in_order_of_first_appearance() {
        let vocabulary = Vocabulary::build(CAPTIONS, 2);
        let expected = ["<pad>", "<start>", "<end>", "<unk>", "a", "dog", "."];
        assert_eq!(vocabulary.words(), expected);
        assert_eq!(vocabulary.encode("The dog, a CAT."), [1, 3, 5, 3, 4, 3, 6, 2]);
        assert_eq!(vocabulary.encode(""), [1, 2]);
        assert_eq!(vocabulary.encode("<pad>"), [1, 3, 3, 3, 2]);
        assert_eq!(Vocabulary::build(CAPTIONS, DEFAULT_MIN_COUNT).words().len(), 4);
        assert_eq!(Vocabulary::build(CAPTIONS, 0), Vocabulary::build(CAPTIONS, 1));
    }

    #[test]
    fn unknown_words_are_counted() {
        let vocabulary = Vocabulary::build(CAPTIONS, 2);
        let counts = ["a zebra and a cat", "the cat"].into_iter().collect();
        let coverage = vocabulary.coverage(&counts);
        assert_eq!((coverage.tokens, coverage.unknown), (7, 5));
        let words: Vec<_> = coverage.unknown_words.iter().map(|(w, c)| (w.as_str(), *c)).collect();
        assert_eq!(words, [("cat", 2), ("and", 1), ("the", 1), ("zebra", 1)]);
    }
}
