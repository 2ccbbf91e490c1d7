//! Experiments: rounds, strategies and seeds, kills, faults and annotators.

mod asked;
pub(crate) mod brought;
mod coco;
mod cold;
pub(crate) mod encoded;
mod faults;
mod killed;
mod mixed;
mod paired;
pub(crate) mod people;
mod refusals;
mod resumed;
mod same;
mod vectors;
mod verdicts;
mod waiting;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::world::{Run, json_lines, nextpair};

const EXPERIMENT: &str = r#"dataset = "ds"
initial = 0.3
budget = 0.1
rounds = 2
strategies = ["random", "hard-negative"]

[model]
architecture = "vse"
dim = 8
word_dim = 8

[training]
epochs = 2
batch = 8
rate = 2e-3
validate_last = 0
"#;

/// A folder with a dataset `ds` of generated scenes and an experiment `e.toml`.
pub(crate) struct Lab {
    folder: tempfile::TempDir,
}

/// The results of a run: rounds without their times, picks, pairs and weights, by name.
pub(crate) type Results = BTreeMap<String, Vec<u8>>;

impl Lab {
    pub(crate) fn new(images: usize) -> Self {
        let lab = Lab { folder: tempfile::tempdir().unwrap() };
        lab.succeeds(&format!("import scenes ds --images {images}"));
        lab.write("e.toml", EXPERIMENT);
        lab
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn succeeds(&self, words: &str) -> Run {
        let run = nextpair(self.folder.path(), words);
        assert_eq!(run.code, Some(0), "{words}: {}", run.stderr);
        run
    }

    /// Asserts that a command fails with code 2 and prints `says`.
    pub(crate) fn refused(&self, words: &str, says: &str) {
        let run = nextpair(self.folder.path(), words);
        assert_eq!(run.code, Some(2), "{words}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains("error: "), "{words}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{words}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{words}: no '{says}' in {}", run.stderr);
    }

    pub(crate) fn start(&self, words: &str) -> Child {
        Command::new(env!("CARGO_BIN_EXE_nextpair"))
            .args(words.split_whitespace())
            .current_dir(self.folder.path())
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Returns the rounds of a run.
    pub(crate) fn rounds(&self, run: &str) -> Vec<Value> {
        let lines = json_lines(&self.read(&format!("{run}/rounds.jsonl")));
        lines.into_iter().map(|mut line| line["round"].take()).collect()
    }

    /// Returns the ids in a file of JSON lines, such as picks or pairs.
    pub(crate) fn ids(&self, name: &str, key: &str) -> Vec<String> {
        let id = |line: &Value| line[key].as_str().unwrap().to_owned();
        json_lines(&self.read(name)).iter().map(id).collect()
    }

    pub(crate) fn results(&self, run: &str) -> Results {
        let mut results = Results::new();
        for mut round in self.rounds(run) {
            round["phases"].take();
            let name = format!("{} {} {}", round["seed"], round["strategy"], round["round"]);
            let twice = results.insert(name, round.to_string().into_bytes());
            assert!(twice.is_none(), "a round is there twice: {round}");
        }
        let root = self.path(run);
        for path in files_below(&root) {
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            assert!(!name.contains(".nextpair-") && !name.contains(".partial"), "{name} was left");
            assert!(!name.ends_with("state.safetensors"), "{name} was left");
            let picks = name.contains("/picks-") && name.ends_with(".jsonl");
            if picks || name.ends_with("model.safetensors") || name.ends_with("pairs.jsonl") {
                results.insert(name, fs::read(&path).unwrap());
            }
        }
        results
    }

    pub(crate) fn assert_same(&self, run: &str, expected: &Results) {
        let results = self.results(run);
        let names = |results: &Results| results.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&results), names(expected), "{run}");
        for (name, bytes) in &results {
            assert!(expected[name] == *bytes, "{run}: {name} differs");
        }
    }

    pub(crate) fn copy(&self, from: &str, to: &str) {
        let (from, to) = (self.path(from), self.path(to));
        for path in files_below(&from) {
            let target = to.join(path.strip_prefix(&from).unwrap());
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(&path, target).unwrap();
        }
    }
}

pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { &mut folders } else { &mut files }.push(path);
        }
    }
    files
}
