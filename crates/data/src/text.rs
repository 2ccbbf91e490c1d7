//! Text input of models: tokens, a vocabulary, and padded batches of word ids.
//!
//! [`tokenize`] gives the tokens that the reference implementations get from NLTK 3.10, with one
//! difference: the sentence splitter knows no abbreviations. The references load a trained list, so
//! within a caption they keep the period of `mr. smith` with its word, and we split it off. A
//! caption whose only period is its last character cannot differ. (Letters and their lower case
//! depend on each side's version of Unicode.)
//!
//! A [`Vocabulary`] numbers the words of [`WordCounts`], and a [`PaddedBatch`] holds captions as
//! the ids of their words.

mod batch;
mod characters;
mod counts;
mod endings;
mod sentences;
mod splits;
#[cfg(test)]
mod tests;
mod vocabulary;
mod words;

pub use batch::{PADDING, PaddedBatch};
pub use counts::WordCounts;
pub use splits::SplitWords;
pub use vocabulary::{Coverage, DEFAULT_MIN_COUNT, Vocabulary};

/// Tokenizes a caption: lower-cases it, splits it into sentences, and those into words and
/// punctuation.
///
/// The time is linear in the length of the caption.
///
/// ```
/// let tokens = nextpair_data::text::tokenize("Two dogs can't reach the 3.5m \"bar\".");
/// let expected = ["two", "dogs", "ca", "n't", "reach", "the", "3.5m", "``", "bar", "''", "."];
/// assert_eq!(tokens, expected);
/// ```
pub fn tokenize(caption: &str) -> Vec<String> {
    let text: Vec<char> = caption.to_lowercase().chars().collect();
    let sentences = sentences::sentences(&text);
    sentences.into_iter().flat_map(|sentence| words::words(&text[sentence])).collect()
}

/// Tokenizes a lower-case text as one sentence: only its last period is split off.
pub fn words_of_sentence(sentence: &str) -> Vec<String> {
    words::words(&sentence.chars().collect::<Vec<_>>())
}
