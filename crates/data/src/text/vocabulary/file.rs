//! `*_vocab.json`, the vocabulary files of the reference implementations: one object with
//! `word2idx` (word to id), `idx2word` (id, as a string, to word) and `idx` (the number of words).

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::marker::PhantomData;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};

use super::Vocabulary;
use crate::{AtomicFile, Error, ordinary};

/// The file's layout for reading; other keys are ignored.
#[derive(serde::Deserialize)]
struct Raw {
    word2idx: Entries<u64>,
    idx2word: Entries<String>,
    idx: u64,
}

/// The file's layout for writing: ids in ascending order.
#[derive(Serialize)]
struct SortedWords<'a> {
    #[serde(serialize_with = "word_to_id")]
    word2idx: &'a [String],
    #[serde(serialize_with = "id_to_word")]
    idx2word: &'a [String],
    idx: usize,
}

impl Vocabulary {
    /// Reads a `*_vocab.json` with the ids of the file. Both directions must agree and use every id
    /// from 0 once.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = ordinary::read(path)?;
        let raw = serde_json::from_slice(&bytes)
            .map_err(|e| Error::format(path, format!("not a vocabulary: {e}")))?;
        check(raw).map_err(|what| Error::format(path, what))
    }

    /// Writes a `*_vocab.json` that the reference implementations can read, words in order of their
    /// ids. It appears whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let mut file = AtomicFile::create(path)?;
        let words = self.words();
        let sorted = SortedWords { word2idx: words, idx2word: words, idx: words.len() };
        serde_json::to_writer(&mut file, &sorted).map_err(|e| Error::io(path, e.into()))?;
        file.write_all(b"\n").map_err(|e| Error::io(path, e))?;
        file.commit()
    }
}

fn check(raw: Raw) -> Result<Vocabulary, String> {
    let count = raw.word2idx.0.len();
    let place = |id: u64| usize::try_from(id).ok().filter(|&place| place < count);
    let mut words: Vec<Option<String>> = vec![None; count];
    let mut ids = HashMap::with_capacity(count);
    for (word, id) in raw.word2idx.0 {
        let (Some(place), Ok(short)) = (place(id), u32::try_from(id)) else {
            return Err(format!("word2idx: '{word}' has id {id}, but there are {count} words"));
        };
        if let Some(other) = words[place].replace(word.clone()) {
            return Err(format!("word2idx: '{other}' and '{word}' both have id {id}"));
        }
        if ids.insert(word.clone(), short).is_some() {
            return Err(format!("word2idx: '{word}' is there twice"));
        }
    }
    // There are as many distinct ids below `count` as words, so none is left out.
    let words: Vec<String> = words.into_iter().flatten().collect();

    let mut seen = vec![false; count];
    for (id, word) in raw.idx2word.0 {
        // `007` and `+7` are numbers, but no reader would look them up.
        let number = id.parse().ok().filter(|number: &u64| number.to_string() == id);
        let Some(place) = number.and_then(place) else {
            return Err(format!("idx2word: '{id}' ('{word}') is no id of one of {count} words"));
        };
        if words[place] != word {
            let expected = &words[place];
            return Err(format!("idx2word: id {id} is '{word}', but in word2idx '{expected}'"));
        }
        if std::mem::replace(&mut seen[place], true) {
            return Err(format!("idx2word: id {id} is there twice"));
        }
    }
    if let Some(id) = seen.iter().position(|seen| !seen) {
        return Err(format!("idx2word: id {id} ('{}') is missing", words[id]));
    }
    if raw.idx != count as u64 {
        return Err(format!("idx is {}, but there are {count} words", raw.idx));
    }
    Vocabulary::new(words, ids).map_err(|marker| format!("no word '{marker}'"))
}

/// The entries of an object in order, including repeated keys.
struct Entries<V>(Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for EntriesVisitor<V> {
    type Value = Entries<V>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
    }
}

fn word_to_id<S: Serializer>(words: &&[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(words.iter().zip(0_u32..))
}

fn id_to_word<S: Serializer>(words: &&[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map((0_u32..).map(|id| id.to_string()).zip(words.iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file of this content.
    fn read(content: &str) -> Result<Vocabulary, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.json");
        std::fs::write(&path, content).unwrap();
        Vocabulary::read(&path)
    }

    const SHUFFLED: &str = r#"{"idx": 5, "note": [{}], "idx2word":
        {"4": "<pad>", "1": "<unk>", "0": "d\u00f6g", "2": "<end>", "3": "<start>"},
        "word2idx": {"<start>": 3, "dög": 0, "<end>": 2, "<pad>": 4, "<unk>": 1}}"#;

    #[test]
    fn ids_are_those_of_the_file() {
        let vocabulary = read(SHUFFLED).unwrap();
        assert_eq!(vocabulary.words(), ["dög", "<unk>", "<end>", "<start>", "<pad>"]);
        assert_eq!(vocabulary.encode("DÖG cat"), [3, 0, 1, 2]);
        assert_eq!(vocabulary.id("<pad>"), Some(4));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.json");
        let vocabulary = Vocabulary::build(["a \"b\" \\ é"], 1);
        vocabulary.write(&path).unwrap();
        assert_eq!(Vocabulary::read(&path).unwrap(), vocabulary);
        let text = std::fs::read_to_string(&path).unwrap();
        let start = r#"{"word2idx":{"<pad>":0,"<start>":1,"<end>":2,"<unk>":3,"a":4,"``":5,"#;
        assert!(text.starts_with(start), "{text}");
        assert!(text.ends_with("\"9\":\"é\"},\"idx\":10}\n"), "{text}");
    }

    #[test]
    fn disagreements_are_named() {
        for (from, to, expected) in [
            ("\"<end>\": 2", "\"<end>\": 7", "word2idx: '<end>' has id 7, but there are 5 words"),
            ("\"<end>\": 2", "\"<end>\": 3", "word2idx: '<start>' and '<end>' both have id 3"),
            ("\"<end>\": 2", "\"dög\": 2", "word2idx: 'dög' is there twice"),
            ("\"<end>\": 2", "\"<end>\": -2", "invalid value: integer `-2`, expected u64"),
            ("\"<end>\": 2", "\"<end>\": 2.5", "expected u64"),
            ("\"2\": \"<end>\"", "\"2\": \"end\"", "id 2 is 'end', but in word2idx '<end>'"),
            ("\"2\": \"<end>\"", "\"02\": \"<end>\"", "'02' ('<end>') is no id of one of 5 words"),
            ("\"2\": \"<end>\"", "\"5\": \"<end>\"", "'5' ('<end>') is no id of one of 5 words"),
            ("\"2\": \"<end>\"", "\"1\": \"<unk>\"", "idx2word: id 1 is there twice"),
            ("\"2\": \"<end>\", ", "", "idx2word: id 2 ('<end>') is missing"),
            ("\"idx\": 5", "\"idx\": 6", "idx is 6, but there are 5 words"),
            ("<end>", "end", "no word '<end>'"),
            ("\"idx\": 5, ", "", "missing field `idx`"),
            ("{\"idx\"", "[\"idx\"", "not a vocabulary"),
        ] {
            let what = read(&SHUFFLED.replace(from, to)).unwrap_err().to_string();
            assert!(what.contains("v.json: ") && what.contains(expected), "{what}");
        }
        assert!(matches!(Vocabulary::read(Path::new("none")), Err(Error::Io { .. })));
    }
}
