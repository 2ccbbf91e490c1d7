//! A small random world in a temporary folder, and the program run in it.

mod expected;
pub mod files;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nextpair::engine::Draws;
use serde_json::Value;

pub use expected::Asked;
use files::Numbers;

/// Rows of vectors with equal dimensions.
#[derive(Clone)]
pub struct Vectors {
    pub dim: usize,
    pub values: Vec<f64>,
}

impl Vectors {
    /// Draws numbers that half precision holds exactly. No vector is zero.
    pub fn drawn(draws: &mut Draws, rows: usize, dim: usize) -> Self {
        let mut values: Vec<f64> = (0..rows * dim)
            .map(|_| (draws.normal().clamp(-7.0, 7.0) * 32.0).round() / 32.0)
            .collect();
        values.chunks_mut(dim).for_each(|row| row[0] += f64::from(row.iter().all(|&v| v == 0.0)));
        Vectors { dim, values }
    }

    pub fn rows(&self) -> Vec<Vec<f64>> {
        self.values.chunks(self.dim).map(<[f64]>::to_vec).collect()
    }

    pub fn len(&self) -> usize {
        self.values.len() / self.dim
    }

    /// Returns the first `rows` vectors.
    pub fn first(&self, rows: usize) -> Self {
        Vectors { dim: self.dim, values: self.values[..rows * self.dim].to_vec() }
    }

    /// Returns a copy with one number replaced.
    pub fn with(&self, row: usize, dimension: usize, value: f64) -> Self {
        let mut changed = self.clone();
        changed.values[row * self.dim + dimension] = value;
        changed
    }
}

/// Pairs and a pool, in `images.npy`, `texts.npy` and `pool.npy`. Picks go to `out/`.
pub struct World {
    folder: tempfile::TempDir,
    pub images: Vectors,
    pub texts: Vectors,
    pub pool: Vectors,
}

/// The result of a command.
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl World {
    pub fn new(seed: u64, pairs: usize, items: usize, dim: usize) -> Self {
        let mut draws = Draws::new(seed);
        let images = Vectors::drawn(&mut draws, pairs, dim);
        let mut texts = images.clone();
        // A text resembles its image, up to a multiple of 1/32.
        for value in &mut texts.values {
            *value += (draws.normal().clamp(-3.0, 3.0) * 16.0).round() / 32.0;
        }
        let pool = Vectors::drawn(&mut draws, items, dim);
        let world = World { folder: tempfile::tempdir().unwrap(), images, texts, pool };
        for (name, vectors) in
            [("images.npy", &world.images), ("texts.npy", &world.texts), ("pool.npy", &world.pool)]
        {
            world.write(name, &files::npy(vectors, Numbers::F32));
        }
        fs::create_dir(world.path("out")).unwrap();
        world
    }

    /// Returns a world of the size that most tests need.
    pub fn small() -> Self {
        World::new(1, 24, 40, 6)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, content: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Writes one line per entry.
    pub fn write_lines<T: ToString>(&self, name: &str, lines: impl IntoIterator<Item = T>) {
        let text: String = lines.into_iter().map(|line| line.to_string() + "\n").collect();
        self.write(name, text.as_bytes());
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Reads the picks of a JSONL file.
    pub fn picks(&self, name: &str) -> Vec<Value> {
        json_lines(std::str::from_utf8(&self.read(name)).unwrap())
    }

    /// Runs the program in the folder. Words are separated by blanks.
    pub fn run(&self, words: &str) -> Run {
        nextpair(self.folder.path(), words)
    }

    /// Runs `select` or `score` on the files of the world, with some flags added or changed.
    pub fn ask(&self, command: &str, changes: &str) -> Run {
        self.run(&format!("{command} {}", flags(changes)))
    }

    /// Runs `select` and asserts that it succeeds.
    pub fn select(&self, changes: &str) -> Run {
        let run = self.ask("select", changes);
        assert_eq!(run.code, Some(0), "{changes}: {}", run.stderr);
        run
    }

    /// Asserts that a command fails with code 2, prints all of `expected`, and leaves `out/` as it
    /// was, both without picks and with older ones.
    pub fn refused(&self, words: &str, expected: &[&str]) {
        const OLD: &[(&str, &[u8])] = &[("picks.jsonl", b"old"), ("picks.npy", b"old")];
        for before in [&[], OLD] {
            before.iter().for_each(|(name, old)| self.write(&format!("out/{name}"), old));
            let run = self.run(words);
            assert_eq!(run.code, Some(2), "{words}: {}{}", run.stdout, run.stderr);
            assert!(run.stderr.contains("error: "), "{words}: {}", run.stderr);
            assert!(!run.stderr.contains("panicked"), "{words}: {}", run.stderr);
            assert_eq!(run.stdout, "", "{words}");
            for part in expected {
                assert!(run.stderr.contains(part), "{words}: no '{part}' in {}", run.stderr);
            }
            let names: Vec<&str> = before.iter().map(|(name, _)| *name).collect();
            assert_eq!(listed(&self.path("out")), names, "{words}");
            for (name, old) in before {
                assert_eq!(self.read(&format!("out/{name}")), *old, "{words}");
                fs::remove_file(self.path(&format!("out/{name}"))).unwrap();
            }
        }
    }

    /// Asserts that `select` is refused.
    pub fn select_refused(&self, changes: &str, expected: &[&str]) {
        self.refused(&format!("select {}", flags(changes)), expected);
    }
}

/// Runs the program in `folder`. Words are separated by blanks.
pub fn nextpair(folder: &Path, words: &str) -> Run {
    nextpair_with(folder, &words.split_whitespace().collect::<Vec<_>>())
}

/// Like [`nextpair`], with words that may contain blanks.
pub fn nextpair_with(folder: &Path, words: &[&str]) -> Run {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_nextpair"))
        .current_dir(folder)
        .args(words)
        .output()
        .unwrap();
    Run {
        code: status.code(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

pub fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the sorted names in a folder.
pub fn listed(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the usual flags with some replaced and some added.
fn flags(changes: &str) -> String {
    let mut flags: Vec<(&str, &str)> = vec![
        ("--paired-images", "images.npy"),
        ("--paired-texts", "texts.npy"),
        ("--pool", "pool.npy"),
        ("--pool-side", "image"),
        ("--strategy", "hard-negative"),
        ("--budget", "9"),
        ("--out", "out/picks.jsonl"),
    ];
    let mut words = changes.split_whitespace().peekable();
    while let Some(flag) = words.next() {
        let value = words.next_if(|word| !word.starts_with("--")).unwrap_or("");
        flags.retain(|&(known, _)| known != flag);
        flags.push((flag, value));
    }
    flags.iter().map(|(flag, value)| format!("{flag} {value} ")).collect()
}
