//! GPUs that run out of memory or are lost in the middle: one clear line, nothing half-written, and what
//! was begun goes on.
//!
//! The GPU is a library that `cc` builds: it has memory, computes nothing, and fails when it is told to.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Libraries;
use crate::world::{Run, World};

/// Calls that fail, with what; the last is of cuBLAS.
const FAULTS: [(&str, i32); 6] =
    [("alloc", 2), ("alloc", 700), ("launch", 719), ("wait", 700), ("copy", 700), ("product", 13)];

/// Runs a command with the blank GPU in `folder`.
fn with_gpu(folder: &Path, words: &str, fault: Option<&str>) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nextpair"));
    command.args(words.split_whitespace()).current_dir(folder);
    command.env("NEXTPAIR_CUDA_LIBS", folder.join("libraries"));
    command.env("XDG_CACHE_HOME", folder.join("cache"));
    if let Some(fault) = fault {
        command.env("FAULT", fault);
    }
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn build(folder: &Path) {
    fs::create_dir(folder.join("libraries")).unwrap();
    let libraries = Libraries::at(&folder.join("libraries"));
    for (name, list) in [
        ("libcuda.so.1", "DRIVER"),
        ("libnvrtc.so.12", "NVRTC"),
        ("libcublasLt.so.12", "NOTHING"),
        ("libcublas.so.12", "BLAS"),
    ] {
        libraries.build(name, list, include_str!("blank.c"));
    }
}

/// Whether a command failed, and if so, as it should.
fn failed(run: &Run, fault: &str) -> bool {
    assert!(!run.stderr.contains("panicked"), "{fault}: {}", run.stderr);
    if run.code == Some(0) {
        return false;
    }
    assert_eq!(run.code, Some(2), "{fault}: {}", run.stderr);
    let line = run.stderr.lines().find(|line| line.starts_with("error: "));
    let line = line.unwrap_or_else(|| panic!("{fault}: {}", run.stderr));
    let expected = match fault.ends_with(" 2") {
        true => "bytes of memory left",
        false => "failed on the GPU: ",
    };
    assert!(line.contains(expected), "{fault}: {line}");
    true
}

/// Every fault at some moments, the last of which never comes.
fn faults() -> impl Iterator<Item = String> {
    let moments = [1, 2, 5, 12, 30, 75, 190, 1_000_000];
    let of = move |(call, code)| moments.map(|first| format!("{call} {first} {code}"));
    FAULTS.into_iter().flat_map(of)
}

#[test]
fn a_training_goes_on_after_a_lost_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    build(path);
    assert_eq!(with_gpu(path, "import scenes ds --images 40", None).code, Some(0));
    let sizes = "--dim 16 --word-dim 8 --batch 16 --epochs 2 --validate-last 1 --device cuda";
    for model in ["text-imram", "vse++"] {
        let train = format!("train ds --model {model} {sizes} --out model");
        let mut lost = 0;
        for fault in faults() {
            let _ = fs::remove_dir_all(path.join("model"));
            if failed(&with_gpu(path, &train, Some(&fault)), &fault) {
                lost += 1;
                let again = match path.join("model").exists() {
                    true => "train ds --out model --resume --device cuda",
                    false => &train,
                };
                let run = with_gpu(path, again, None);
                assert_eq!(run.code, Some(0), "{model} {fault}: {}", run.stderr);
            }
            // Whole, whoever wrote it: another device reads it.
            let run = with_gpu(path, "eval model ds --split dev --device cpu", None);
            assert_eq!(run.code, Some(0), "{model} {fault}: {}", run.stderr);
        }
        assert!(lost >= 5 * FAULTS.len(), "{model}: {lost}");
    }
}

#[test]
fn a_selection_writes_nothing_of_a_lost_gpu() {
    let world = World::small();
    let path = world.path("");
    build(&path);
    for strategy in ["hard-negative", "core-set", "herding"] {
        let select = format!(
            "select --strategy {strategy} --pool pool.npy --paired-images images.npy --paired-texts \
             texts.npy --pool-side image --budget 5 --device cuda --out picks.jsonl"
        );
        let mut lost = 0;
        for fault in faults() {
            let _ = fs::remove_file(path.join("picks.jsonl"));
            let failed = failed(&with_gpu(&path, &select, Some(&fault)), &fault);
            assert_eq!(path.join("picks.jsonl").exists(), !failed, "{strategy} {fault}");
            lost += usize::from(failed);
        }
        // Some of them need less memory than was refused.
        assert!(lost >= 2 * FAULTS.len(), "{strategy}: {lost}");
    }
}
