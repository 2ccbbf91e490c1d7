//! Lengths of captions, and how many of their words a vocabulary knows.

use std::fmt::Write;

use crate::data::text::{SplitWords, Vocabulary};
use serde::Serialize;

use crate::program::numbers::{grouped, in_usual_order};

/// The number of unknown words shown.
const SHOWN: usize = 8;

#[derive(Serialize)]
pub(crate) struct Words {
    /// Caption lengths in words: smallest, median, mean, 95th percentile, largest.
    length: [f64; 5],
    /// Size of the vocabulary, including the four special tokens.
    vocabulary: usize,
    /// The source of the vocabulary.
    vocabulary_of: String,
    splits: Vec<SplitCoverage>,
}

/// How many words of a split the vocabulary knows.
#[derive(Serialize)]
struct SplitCoverage {
    split: Option<String>,
    words: u64,
    unknown: u64,
    most_frequent_unknown: Vec<(String, u64)>,
}

impl Words {
    pub(crate) fn new(words: &SplitWords, vocabulary: &Vocabulary, vocabulary_of: String) -> Self {
        let mut splits: Vec<SplitCoverage> = Vec::new();
        for (split, counts) in words.splits() {
            let coverage = vocabulary.coverage(counts);
            splits.push(SplitCoverage {
                split: split.map(str::to_owned),
                words: coverage.tokens,
                unknown: coverage.unknown,
                most_frequent_unknown: coverage.unknown_words.into_iter().take(SHOWN).collect(),
            });
        }
        splits.retain(|split| split.words > 0);
        in_usual_order(&mut splits, |split| split.split.as_deref());
        let vocabulary = vocabulary.words().len();
        Words { length: distribution(words.lengths()), vocabulary, vocabulary_of, splits }
    }

    pub(crate) fn describe(&self, text: &mut String) -> std::fmt::Result {
        let [least, median, mean, most_are_below, most] = self.length;
        writeln!(
            text,
            "\nwords per caption: {least} to {most}, median {median}, mean {mean:.1}, 95 % have at \
             most {most_are_below}"
        )?;
        writeln!(text, "vocabulary: {} words ({})", grouped(self.vocabulary), self.vocabulary_of)?;
        for split in &self.splits {
            let share = 100.0 * (1.0 - split.unknown as f64 / split.words as f64);
            let unknown = split.most_frequent_unknown.iter();
            let unknown: Vec<String> = unknown.map(|(word, n)| format!("{word} ({n})")).collect();
            let name = split.split.as_deref().unwrap_or("(none)");
            let words = grouped(split.words as usize);
            let most = if unknown.is_empty() { "none" } else { &unknown.join(", ") };
            writeln!(text, "  {name:10} {words:>9} words, {share:.2} % known; unknown: {most}")?;
        }
        Ok(())
    }
}

fn distribution(lengths: &[u32]) -> [f64; 5] {
    if lengths.is_empty() {
        return [0.0; 5];
    }
    let mut lengths = lengths.to_vec();
    lengths.sort_unstable();
    let at = |share: f64| f64::from(lengths[(share * (lengths.len() - 1) as f64).round() as usize]);
    let mean = lengths.iter().map(|&l| f64::from(l)).sum::<f64>() / lengths.len() as f64;
    [at(0.0), at(0.5), mean, at(0.95), at(1.0)]
}
