//! Readers of standard output or standard error that leave early: the command finishes, and its
//! result decides the exit code.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::world::{World, listed};

/// Returns a pipe whose reader is closed.
fn gone() -> Stdio {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Runs the program in `folder` with these streams and returns its exit code.
fn code(folder: &Path, words: &str, out: Stdio, err: Stdio) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nextpair"));
    command.current_dir(folder).args(words.split_whitespace()).stdout(out).stderr(err);
    command.status().unwrap().code()
}

/// Runs the program with both streams closed, as after `2>&1 | head -1`.
fn unheard(folder: &Path, words: &str) -> Option<i32> {
    code(folder, words, gone(), gone())
}

const SELECT: &str = "--paired-images images.npy --paired-texts texts.npy --pool pool.npy \
                      --pool-side image --strategy hard-negative --budget 9";

#[test]
fn selections_go_on() {
    let world = World::small();
    let folder = world.path("");
    world.select("--out out/heard.jsonl");
    for (words, written) in [
        (format!("select {SELECT} --out out/unheard.jsonl"), "out/unheard.jsonl"),
        (format!("select {SELECT} --json --out out/json.jsonl"), "out/json.jsonl"),
    ] {
        assert_eq!(unheard(&folder, &words), Some(0), "{words}");
        assert_eq!(world.read(written), world.read("out/heard.jsonl"), "{words}");
    }
    for shard in [0, 1] {
        let words = format!("score {SELECT} --shard {shard}/2 --out out/{shard}.part");
        assert_eq!(unheard(&folder, &words), Some(0), "{words}");
    }
    let merge = "merge out/0.part out/1.part --out out/merged.jsonl";
    assert_eq!(unheard(&folder, merge), Some(0));
    assert_eq!(world.read("out/merged.jsonl"), world.read("out/heard.jsonl"));
    // Picks to a closed standard output are no error.
    assert_eq!(unheard(&folder, &format!("select {SELECT} --out -")), Some(0));
    // Bad input still is.
    assert_eq!(unheard(&folder, &format!("select {SELECT} --top-k 0 --out out/no.jsonl")), Some(2));
    assert_eq!(unheard(&folder, "verify pool.npy"), Some(2));
    assert_eq!(unheard(&folder, "select --colour red"), Some(2));
}

#[test]
fn trainings_and_experiments_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(
        path.join("e.toml"),
        "dataset = \"ds\"\ninitial = 0.3\nbudget = 0.1\nrounds = 1\nstrategies = [\"random\"]\n\
         [model]\narchitecture = \"vse\"\ndim = 8\nword_dim = 8\n\
         [training]\nepochs = 1\nbatch = 8\nvalidate_last = 1\n",
    )
    .unwrap();
    for words in [
        "import scenes ds --images 40",
        "inspect ds",
        "vocab ds words.json",
        "train ds --model vse++ --dim 8 --epochs 1 --validate-last 1 --out run",
        "eval run ds --split dev",
        "search run ds circle",
        "select --model run ds --pool-side image --budget 1 --out no.jsonl",
        "run e.toml --out lab",
        "report lab",
    ] {
        let refused = words.contains("no.jsonl");
        assert_eq!(unheard(path, words), Some(if refused { 2 } else { 0 }), "{words}");
    }
    let rounds = fs::read_to_string(path.join("lab/rounds.jsonl")).unwrap();
    assert_eq!(rounds.lines().count(), 2, "{rounds}");
    assert!(path.join("run/model.safetensors").exists());
}

#[test]
fn a_failed_check_fails_unheard() {
    let world = World::small();
    let name = "oracle/selection.safetensors";
    super::verify::wrong_case(&world, name);
    let heard = world.run(&format!("verify {name}"));
    assert_eq!(heard.code, Some(1), "{}{}", heard.stdout, heard.stderr);
    assert_eq!(unheard(&world.path(""), &format!("verify {name}")), Some(1));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let world = World::small();
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let picks = format!("select {SELECT} --out -");
    assert_eq!(code(&world.path(""), &picks, full(), Stdio::null()), Some(2));
    // Standard error reports on the work and is not its result.
    let file = format!("select {SELECT} --out out/picks.jsonl");
    assert_eq!(code(&world.path(""), &file, Stdio::null(), full()), Some(0));
    assert_eq!(listed(&world.path("out")), ["picks.jsonl"]);
}
