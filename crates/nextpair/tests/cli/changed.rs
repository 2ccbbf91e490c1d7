//! Inputs that change while they are read: exit code 2, the error names the file, nothing is
//! written.

#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::scenario::Lab;
use crate::trained::heads_on;
use crate::world::files::{self, Numbers};
use crate::world::{World, listed};

/// Default capacity of a pipe.
const PIPE: usize = 1 << 16;

/// Runs the program in `folder` and calls `change` when it first writes to standard error: by then
/// it has opened its inputs but read none of their numbers. Returns the exit code and the output.
fn changed(folder: &Path, words: &str, change: impl FnOnce()) -> (Option<i32>, String) {
    let (mut reader, mut writer) = io::pipe().unwrap();
    // Fill the pipe, so that the first write blocks.
    writer.write_all(&[b'\n'; PIPE]).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_nextpair"))
        .current_dir(folder)
        .args(words.split_whitespace())
        .stdout(Stdio::null())
        .stderr(writer)
        .spawn()
        .unwrap();
    wait_for_a_word(&mut child, words);
    change();
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said.trim_start().to_owned())
}

/// Waits until the main thread is in a system call whose first argument is standard error.
fn wait_for_a_word(child: &mut Child, words: &str) {
    let call = format!("/proc/{}/syscall", child.id());
    loop {
        let call = fs::read_to_string(&call).unwrap_or_default();
        if call.split_whitespace().nth(1) == Some("0x2") {
            return;
        }
        assert!(child.try_wait().unwrap().is_none(), "{words}: ended without a word");
        std::thread::yield_now();
    }
}

fn refused((code, said): (Option<i32>, String), file: &str, case: &str) {
    assert_eq!(code, Some(2), "{case}: {said}");
    let named = said.contains(&format!("error: {file}: changed while it was read: "));
    assert!(named && said.ends_with("; nothing was made of it\n"), "{case}: {said}");
}

const SELECT: &str = "--paired-images images.npy --paired-texts texts.npy --pool pool.npy \
                      --pool-side image --budget 9";
const SPLITS: &str = "--strategy hard-negative";

/// A change of a file: its name, and the function that makes it.
type Change = (&'static str, Box<dyn Fn()>);

/// Returns ways to replace the numbers of a file by others that are as valid.
fn changes(world: &World, file: &str) -> Vec<Change> {
    let (path, other) = (world.path(file), world.path("other"));
    let bytes = world.read(file);
    let at = bytes.len() - 4;
    let written = [&bytes[..at], &0.75f32.to_le_bytes()].concat();
    let set_len = |len: usize| {
        let path = path.clone();
        move || File::options().write(true).open(&path).unwrap().set_len(len as u64).unwrap()
    };
    let (same, place, gone) = (path.clone(), path.clone(), path.clone());
    let replacing = written.clone();
    vec![
        ("emptied", Box::new(set_len(0))),
        ("cut", Box::new(set_len(at))),
        ("written to", Box::new(move || fs::write(&same, &written).unwrap())),
        (
            "replaced",
            Box::new(move || {
                fs::write(&other, &replacing).unwrap();
                fs::rename(&other, &place).unwrap();
            }),
        ),
        ("deleted", Box::new(move || fs::remove_file(&gone).unwrap())),
    ]
}

#[test]
fn files_of_a_selection() {
    let world = World::small();
    let tensors = files::safetensors(&[("x", &world.pool)], Numbers::F32);
    world.write("pool.safetensors", &tensors);
    for (file, flags) in [
        ("pool.npy", SPLITS),
        ("images.npy", SPLITS),
        ("texts.npy", SPLITS),
        ("pool.npy", ""),
        ("pool.npy", "--strategy random"),
        ("images.npy", "--strategy random"),
        ("texts.npy", "--strategy core-set"),
        ("pool.safetensors", "--pool pool.safetensors --strategy coverage"),
    ] {
        let select = if flags.contains("--pool ") {
            SELECT.replace("--pool pool.npy", "")
        } else {
            SELECT.to_owned()
        };
        let bytes = world.read(file);
        for (how, change) in changes(&world, file) {
            let words = format!("select {select} {flags} --out out/picks.jsonl");
            refused(changed(&world.path(""), &words, change), file, &format!("{words}, {how}"));
            let words = format!("score {select} {flags} --shard 0/2 --out out/part");
            world.write(file, &bytes);
            if flags == SPLITS {
                let (_, change) = changes(&world, file).into_iter().find(|c| c.0 == how).unwrap();
                refused(changed(&world.path(""), &words, change), file, &format!("{words}, {how}"));
                world.write(file, &bytes);
            }
            assert!(listed(&world.path("out")).is_empty(), "{words}, {how}");
        }
    }
    // Nothing changed.
    let words = format!("select {SELECT} --out out/picks.jsonl");
    let (code, said) = changed(&world.path(""), &words, || ());
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn features_of_a_dataset() {
    let world = World::new(5, 100, 1, 6);
    heads_on(&world);
    let select = "select --model run ds --pool-side image --budget 3 --out out/picks.jsonl";
    for (file, flags) in [("images.npy", ""), ("texts.npy", "--strategy random")] {
        let bytes = world.read(file);
        for (how, change) in changes(&world, file) {
            let words = format!("{select} {flags}");
            let (code, said) = changed(&world.path(""), &words, change);
            let named = said.contains(&format!("{file}: changed while it was read: "));
            assert!(code == Some(2) && named, "{words}, {how}: {said}");
            world.write(file, &bytes);
        }
    }
    assert!(listed(&world.path("out")).is_empty());
}

/// Returns whether a file of this name is anywhere below a folder.
fn holds(folder: &Path, name: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        path.ends_with(name) || (path.is_dir() && holds(&path, name))
    })
}

#[test]
fn items_of_a_dataset() {
    let lab = Lab::new(40);
    let train = "train ds --model vse++ --dim 8 --word-dim 8 --epochs 2 --share 0.6 \
                 --validate-last 0 --out";
    lab.succeeds(&format!("{train} run"));
    let items = lab.read("ds/items.jsonl");
    let named = "ds/items.jsonl: changed while it was read: it was written to";
    let broken = "x".repeat(items.len());
    for (at, changes) in [items.replace(" a ", " A "), broken].iter().enumerate() {
        for words in [
            format!("{train} new{at}"),
            format!("select --model run ds --pool-side text --budget 3 --out p{at}.jsonl"),
            format!("run e.toml --out lab{at}"),
        ] {
            let change = || lab.write("ds/items.jsonl", changes);
            let (code, said) = changed(&lab.path(""), &words, change);
            assert!(code == Some(2) && said.contains(named), "{words}: {code:?}, {said}");
            lab.write("ds/items.jsonl", &items);
        }
        assert!(!lab.path(&format!("p{at}.jsonl")).exists());
        for folder in ["new", "lab"] {
            let folder = lab.path(&format!("{folder}{at}"));
            assert!(!holds(&folder, "model.safetensors"), "{}", folder.display());
        }
    }
}
