//! Kills long work at random moments, many times, and compares what it ends with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nextpair_engine::Draws;

use crate::bench::build_nextpair;
use crate::succeed;

const FOLDER: &str = "target/soak";
const PREPROCESS: &str = "size = 8\nresize = \"squash\"\nscale = 1\nmean = [127, 127, 127]\n\
                          std = [128, 128, 128]\n";

/// Work that is stopped: its command, the folder that it makes or changes, and how that begins.
struct Job {
    name: &'static str,
    words: Vec<&'static str>,
    result: &'static str,
    begins_as: Option<&'static str>,
    /// How it is continued, where that is said otherwise than how it is begun.
    again: Option<&'static str>,
}

/// `cargo xtask soak [KILLS]`: that many kills of every kind of long work, 50 unless told otherwise.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let kills: usize = match arguments {
        [] => 50,
        [kills] => kills.parse().with_context(|| format!("'{kills}' kills"))?,
        _ => anyhow::bail!("cargo xtask soak takes one number of kills"),
    };
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
    let world = ["import", "scenes", "world", "--images", "2000"];
    ensure!(start(&binary, &world)?.wait()?.success(), "the world could not be made");
    succeed(
        Command::new("tar")
            .args(["cf", "world.tar", "-C", "world/images", "000", "001"])
            .current_dir(folder),
    )?;

    let jobs = [
        Job {
            name: "import scenes",
            words: vec!["import", "scenes", "out", "--images", "6000"],
            result: "out",
            begins_as: None,
            again: None,
        },
        Job {
            name: "import webdataset",
            words: vec!["import", "webdataset", "world.tar", "out"],
            result: "out",
            begins_as: None,
            again: None,
        },
        Job {
            name: "embed",
            words: "embed out --image-model image.onnx --regions 9 --pca 3 --text-model text.onnx"
                .split(' ')
                .collect(),
            result: "out",
            begins_as: Some("world"),
            again: None,
        },
        Job {
            name: "train",
            words: "train world --model text-imram --dim 32 --word-dim 16 --batch 32 --epochs 4 \
                    --captions random --share 0.2 --validate-last 2 --validate-images 40 --out out"
                .split_whitespace()
                .collect(),
            result: "out",
            begins_as: None,
            again: Some("train world --resume --out out"),
        },
    ];
    for job in &jobs {
        soak(&binary, job, kills)?;
    }
    Ok(())
}

impl Job {
    /// Starts the work, or goes on with it.
    fn start(&self, binary: &Path, result: &Path) -> Result<std::process::Child> {
        match self.again {
            Some(again) if result.join("run.json").exists() => {
                start(binary, &again.split(' ').collect::<Vec<_>>())
            }
            _ => start(binary, &self.words),
        }
    }
}

fn soak(binary: &Path, job: &Job, kills: usize) -> Result<()> {
    let result = Path::new(FOLDER).join(job.result);
    reset(job, &result)?;
    let began = Instant::now();
    ensure!(start(binary, &job.words)?.wait()?.success(), "{} does not end well", job.name);
    let whole = began.elapsed();
    let expected = tree(&result)?;
    let mut draws = Draws::new(kills as u64);
    let (mut done, mut rounds) = (0, 0);
    while done < kills {
        reset(job, &result)?;
        rounds += 1;
        loop {
            let mut child = job.start(binary, &result)?;
            let until = Instant::now() + whole.mul_f64(0.9 * draws.unit());
            while Instant::now() < until && child.try_wait()?.is_none() {
                std::thread::sleep(Duration::from_micros(200));
            }
            if let Some(status) = child.try_wait()? {
                ensure!(status.success(), "{} failed after {done} kills", job.name);
                break;
            }
            child.kill()?;
            child.wait()?;
            done += 1;
            if done >= kills {
                ensure!(job.start(binary, &result)?.wait()?.success(), "{} failed", job.name);
                break;
            }
        }
        ensure!(tree(&result)? == expected, "{}: other bytes after {done} kills", job.name);
    }
    println!("{}: {done} kills in {rounds} rounds, the same {} files", job.name, expected.len());
    Ok(())
}

/// Removes the result, or puts its beginning in its place.
fn reset(job: &Job, result: &Path) -> Result<()> {
    for left in [result.to_path_buf(), result.with_file_name(format!(".{}.partial", job.result))] {
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

fn start(binary: &Path, words: &[&str]) -> Result<std::process::Child> {
    let mut command = Command::new(binary);
    command.args(words).current_dir(FOLDER).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.spawn()?)
}

/// Every file below a folder with its bytes.
fn tree(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).with_context(|| next.display().to_string())? {
            let path = entry?.path();
            match path.is_dir() {
                true => folders.push(path),
                // Its lines tell how long everything took.
                false if path.ends_with("log.jsonl") => {}
                false => drop(files.insert(path.clone(), std::fs::read(&path)?)),
            }
        }
    }
    Ok(files)
}
