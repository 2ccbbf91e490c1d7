//! Reference cases of the tokenizer, the vocabulary and padded batches.

use std::collections::HashMap;
use std::path::Path;

use crate::data::ordinary;
use crate::data::text::{PaddedBatch, Vocabulary, WordCounts, tokenize, words_of_sentence};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Outcome;

/// Checks a case of text. Returns whether the file is one.
pub(super) fn check(path: &Path, outcome: &mut Outcome) -> Result<bool> {
    let value: Value = serde_json::from_slice(&ordinary::read(path)?).context("not JSON")?;
    if value["cases"][0].get("caption").is_some() {
        tokenizer(read(value)?, outcome)?;
    } else if value.get("word2idx").is_some() && value.get("captions").is_some() {
        let stated = Vocabulary::read(path)?;
        vocabulary(&read(value)?, &stated, outcome)?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).context("not laid out like a reference case")
}

/// Captions with their tokens, by the word tokenizer alone and with sentences split first.
#[derive(Deserialize)]
struct TokenizerCases {
    cases: Vec<TokenizerCase>,
}

#[derive(Deserialize)]
struct TokenizerCase {
    caption: String,
    lower: String,
    word_tokenizer_only: Vec<String>,
    untrained_punkt_then_word_tokenizer: Vec<String>,
}

fn tokenizer(file: TokenizerCases, outcome: &mut Outcome) -> Result<()> {
    for case in file.cases {
        let mut compare = |what, found: Vec<String>, expected: &[String]| {
            let place = || format!("caption {:?}", case.caption);
            outcome.equal(what, &found, expected).with_context(place)
        };
        let lower = case.caption.to_lowercase();
        compare("lower", vec![lower], std::slice::from_ref(&case.lower))?;
        compare("words", words_of_sentence(&case.lower), &case.word_tokenizer_only)?;
        let expected = &case.untrained_punkt_then_word_tokenizer;
        compare("tokens", tokenize(&case.caption), expected)?;
    }
    Ok(())
}

/// A vocabulary built from captions, and the captions encoded with it. The file is also a valid
/// vocabulary file.
#[derive(Deserialize)]
struct VocabularyCase {
    captions: Vec<String>,
    threshold: u64,
    counts: HashMap<String, u64>,
    encoded: Vec<Vec<u32>>,
    batch: BatchCase,
}

#[derive(Deserialize)]
struct BatchCase {
    order: Vec<usize>,
    lengths: Vec<usize>,
    targets: Vec<Vec<u32>>,
}

fn vocabulary(case: &VocabularyCase, stated: &Vocabulary, outcome: &mut Outcome) -> Result<()> {
    let counts: WordCounts = case.captions.iter().collect();
    let mut found: Vec<(&str, u64)> = counts.iter().collect();
    let mut expected: Vec<(&str, u64)> =
        case.counts.iter().map(|(word, count)| (word.as_str(), *count)).collect();
    found.sort_unstable();
    expected.sort_unstable();
    outcome.equal("counts", &found, &expected)?;

    let built = Vocabulary::from_counts(&counts, case.threshold);
    outcome.equal("words", built.words(), stated.words())?;
    let encoded: Vec<Vec<u32>> = case.captions.iter().map(|text| built.encode(text)).collect();
    let (count, stated) = (encoded.len(), case.encoded.len());
    ensure!(count == stated, "{stated} encoded captions of {count}");
    for (row, (found, expected)) in encoded.iter().zip(&case.encoded).enumerate() {
        outcome.equal(&format!("encoded[{row}]"), found, expected)?;
    }

    let batch = PaddedBatch::new(&encoded);
    outcome.equal("order", &batch.order, &case.batch.order)?;
    outcome.equal("lengths", &batch.lengths, &case.batch.lengths)?;
    let rows = batch.ids.chunks_exact(batch.width.max(1)).map(<[u32]>::to_vec);
    outcome.equal("targets", &rows.collect::<Vec<_>>(), &case.batch.targets)
}
