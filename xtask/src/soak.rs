//! Kills long work at random moments, many times, and compares the results.

mod annotate;
mod disk;
mod faults;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nextpair_engine::Draws;

use crate::bench::build_nextpair;
use crate::{networks, succeed};

pub(crate) use annotate::{run as run_annotate, run_disk};

/// The job that kills the annotation app while people answer.
const ANNOTATE: &str = "annotate";
/// The job with disk faults, at every call or at a given number of calls.
const DISK: &str = "disk";
/// The job that compares random networks with ONNX Runtime.
const NETWORKS: &str = "networks";
const FOLDER: &str = "target/soak";
const PREPROCESS: &str = "size = 8\nresize = \"squash\"\nscale = 1\nmean = [127, 127, 127]\n\
                          std = [128, 128, 128]\n";
const EXPERIMENT: &str = r#"dataset = "world"
initial = 160
budget = 40
rounds = 2
strategies = ["random", "hard-negative", "core-set"]
seeds = [0, 1]

[model]
architecture = "vse"
dim = 16
word_dim = 16

[training]
epochs = 4
batch = 16
validate_last = 2
validate_images = 40
"#;

/// A job to kill. It makes the folder `out`.
struct Job {
    name: &'static str,
    /// Its command.
    words: &'static str,
    /// The folder that `out` is a copy of before it starts, if it changes one.
    begins_as: Option<&'static str>,
    /// The command that resumes it, if it differs.
    again: Option<&'static str>,
    /// Default number of kills.
    kills: usize,
    when: When,
}

const JOBS: [Job; 5] = [
    Job {
        name: "import scenes",
        words: "import scenes out --images 6000",
        begins_as: None,
        again: None,
        kills: 50,
        when: When::Often,
    },
    Job {
        name: "import webdataset",
        words: "import webdataset world.tar out",
        begins_as: None,
        again: None,
        kills: 50,
        when: When::Often,
    },
    Job {
        name: "embed",
        words: "embed out --image-model image.onnx --regions 9 --pca 3 --text-model text.onnx",
        begins_as: Some("world"),
        again: None,
        kills: 50,
        when: When::Often,
    },
    Job {
        name: "train",
        words: "train world --model text-imram --dim 32 --word-dim 16 --batch 32 --epochs 4 \
                --captions random --share 0.2 --validate-last 2 --validate-images 40 --out out",
        begins_as: None,
        again: Some("train world --resume --out out"),
        kills: 50,
        when: When::Often,
    },
    Job {
        name: "scenario",
        words: "run experiment.toml --out out",
        begins_as: None,
        again: Some("run out --resume"),
        kills: 200,
        when: When::Once,
    },
];

/// When to kill a job.
#[derive(Clone, Copy, PartialEq)]
enum When {
    /// At random times, until it finishes.
    Often,
    /// Once per round. The time moves through as many equal parts as there are kills.
    Once,
}

/// Runs one job, or all of them, with this number of kills, or its own.
pub(crate) fn run(chosen: Option<&str>, kills: Option<usize>) -> Result<()> {
    let names: Vec<&str> =
        JOBS.iter().map(|job| job.name).chain([ANNOTATE, DISK, NETWORKS]).collect();
    let wanted = |name: &str| chosen.is_none_or(|chosen| chosen == name);
    ensure!(names.iter().any(|name| wanted(name)), "no such job; there are {}", names.join(", "));
    let jobs: Vec<&Job> = JOBS.iter().filter(|job| wanted(job.name)).collect();
    if !jobs.is_empty() {
        let binary = prepare()?;
        jobs.iter().try_for_each(|job| soak(&binary, job, kills.unwrap_or(job.kills)))?;
    }
    if wanted(ANNOTATE) {
        let kills = kills.unwrap_or(50);
        run_annotate(kills, (kills * 2).div_ceil(5))?;
    }
    if wanted(DISK) {
        run_disk(kills)?;
    }
    if wanted(NETWORKS) {
        networks::run(kills.unwrap_or(500))?;
    }
    Ok(())
}

/// Makes what the jobs begin with, and returns the program.
fn prepare() -> Result<PathBuf> {
    let binary = build_nextpair()?.canonicalize()?;
    let folder = Path::new(FOLDER);
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    for name in ["image.onnx", "text.onnx", "tokenizer.json"] {
        std::fs::copy(Path::new("crates/encode/tests/fixtures").join(name), folder.join(name))?;
    }
    std::fs::write(folder.join("image.toml"), PREPROCESS)?;
    std::fs::write(folder.join("experiment.toml"), EXPERIMENT)?;
    let world = start(&binary, "import scenes world --images 2000")?.wait()?;
    ensure!(world.success(), "the world could not be made");
    let mut tar = Command::new("tar");
    tar.args(["cf", "world.tar", "-C", "world/images", "000", "001"]).current_dir(folder);
    succeed(&mut tar)?;
    Ok(binary)
}

impl Job {
    /// Starts the job, or resumes it.
    fn start(&self, binary: &Path, result: &Path) -> Result<Child> {
        let begun = ["experiment.toml", "model.json"].iter().any(|name| result.join(name).exists());
        start(binary, self.again.filter(|_| begun).unwrap_or(self.words))
    }
}

fn soak(binary: &Path, job: &Job, kills: usize) -> Result<()> {
    let result = Path::new(FOLDER).join("out");
    reset(job, &result)?;
    let began = Instant::now();
    ensure!(start(binary, job.words)?.wait()?.success(), "{} does not end well", job.name);
    let mut whole = began.elapsed();
    let expected = tree(&result)?;
    let mut draws = Draws::new(kills as u64);
    let (mut done, mut rounds) = (0, 0);
    while done < kills {
        reset(job, &result)?;
        rounds += 1;
        let mut stopped = false;
        loop {
            let share = match job.when {
                _ if done == kills => f64::INFINITY,
                When::Often => draws.unit(),
                When::Once if stopped => f64::INFINITY,
                When::Once => (done as f64 + draws.unit()) / kills as f64,
            };
            let began = Instant::now();
            let mut child = job.start(binary, &result)?;
            while began.elapsed().as_secs_f64() < 0.9 * share * whole.as_secs_f64()
                && child.try_wait()?.is_none()
            {
                std::thread::sleep(Duration::from_micros(200));
            }
            if let Some(status) = child.try_wait()? {
                // A kill after the last step leaves a whole dataset, which the next import refuses to replace.
                let is_whole = || stopped && tree(&result).is_ok_and(|found| found == expected);
                ensure!(status.success() || is_whole(), "{} failed after {done} kills", job.name);
                if !stopped {
                    // It was faster than the first run.
                    whole = whole.min(began.elapsed());
                }
                break;
            }
            child.kill()?;
            child.wait()?;
            (done, stopped) = (done + 1, true);
        }
        compare(job, &tree(&result)?, &expected, done)?;
    }
    println!("{}: {done} kills in {rounds} rounds, the same {} files", job.name, expected.len());
    Ok(())
}

/// Compares files. The error names the first one that differs.
fn compare(job: &Job, found: &Tree, expected: &Tree, kills: usize) -> Result<()> {
    let paths = found.keys().chain(expected.keys());
    match paths.into_iter().find(|path| found.get(*path) != expected.get(*path)) {
        None => Ok(()),
        Some(path) => anyhow::bail!("{}: {} after {kills} kills", job.name, path.display()),
    }
}

/// Removes the result, or restores its initial state.
fn reset(job: &Job, result: &Path) -> Result<()> {
    for left in [result.to_path_buf(), result.with_file_name(".out.partial")] {
        if left.exists() {
            std::fs::remove_dir_all(left)?;
        }
    }
    match job.begins_as {
        Some(source) => {
            let source = Path::new(FOLDER).join(source);
            succeed(Command::new("cp").arg("-r").arg(source).arg(result))
        }
        None => Ok(()),
    }
}

fn start(binary: &Path, words: &str) -> Result<Child> {
    let mut command = Command::new(binary);
    command
        .args(words.split_whitespace())
        .current_dir(FOLDER)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(command.spawn()?)
}

/// Contents of files by path.
type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// Reads all files below a folder.
fn tree(folder: &Path) -> Result<Tree> {
    let mut files = Tree::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).with_context(|| next.display().to_string())? {
            let path = entry?.path();
            match path.is_dir() {
                true => folders.push(path),
                // Its lines hold times.
                false if path.ends_with("log.jsonl") => {}
                false => drop(files.insert(path.clone(), without_times(&path)?)),
            }
        }
    }
    Ok(files)
}

/// Reads a file without times and without the order in which rounds finished.
fn without_times(path: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name == "rounds.jsonl" {
        let mut rounds = Vec::new();
        for line in String::from_utf8(bytes)?.lines() {
            let mut line: serde_json::Value = serde_json::from_str(line)?;
            line["round"]["phases"].take();
            rounds.push(line["round"].to_string());
        }
        rounds.sort();
        return Ok(rounds.join("\n").into_bytes());
    }
    if name.starts_with("picks-") && name.ends_with(".json") {
        let mut facts: serde_json::Value = serde_json::from_slice(&bytes)?;
        facts["phase"].take();
        return Ok(facts.to_string().into_bytes());
    }
    Ok(bytes)
}
