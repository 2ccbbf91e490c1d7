//! Ctrl-C: what is kept, how to go on, and exit code 130.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use super::lab;
use crate::scenario::Lab;

/// Starts a command, sends interrupts when it has printed a line with `sign`, and returns all that
/// it printed on standard error.
fn interrupted(lab: &Lab, words: &str, sign: &str, times: usize) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nextpair"))
        .args(words.split_whitespace())
        .current_dir(lab.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut sent = false;
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if !sent && line.contains(sign) {
            for _ in 0..times {
                let id = child.id().to_string();
                assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
            }
            sent = true;
        }
        said += &line;
        said.push('\n');
    }
    let status = child.wait().unwrap();
    assert!(sent, "{words}: no '{sign}' in {said}");
    assert_eq!((status.code(), status.signal()), (Some(130), None), "{words}: {said}");
    said
}

/// Returns the command that the message recommends.
fn advised(said: &str) -> String {
    let (_, command) = said.split_once("with: nextpair ").unwrap_or_else(|| panic!("{said}"));
    command.lines().next().unwrap().to_owned()
}

#[test]
fn a_training_goes_on_where_it_was_stopped() {
    let lab = lab(60);
    let words = "train ds --model vse++ --dim 16 --epochs 3000 --validate-last 0 --out m";
    let said = interrupted(&lab, words, "epoch    3/", 1);
    assert!(said.contains("of 3000 epochs are kept in m. Go on with: "), "{said}");
    assert_eq!(advised(&said), "train ds --out m --resume");
    // The advised command goes on, and may be stopped as well; a second Ctrl-C does no harm.
    let said = interrupted(&lab, &advised(&said), "epoch ", 2);
    assert!(said.contains("epochs done before: "), "{said}");
}

#[test]
fn an_experiment_goes_on_where_it_was_stopped() {
    let lab = lab(60);
    let said = interrupted(&lab, "run e.toml --seeds 0..200", "seed 0  ", 1);
    assert!(said.contains("of 1,000 rounds are kept in runs/e."), "{said}");
    assert_eq!(advised(&said), "run runs/e --resume");
    let said = interrupted(&lab, &advised(&said), "seed ", 1);
    assert!(!said.contains(" 0 of them done before"), "{said}");
}

#[test]
fn rehearsals_scenes_and_embeddings_go_on() {
    let lab = lab(400);
    let words = "-v rehearse ds --model vse++ --budget 40 --epochs 200 --out r";
    let said = interrupted(&lab, words, "rehearsal, at most...", 1);
    assert!(said.contains("rounds are kept in r. Go on with: "), "{said}");
    assert_eq!(advised(&said), words);
    let words = "-v import scenes more --images 100000";
    let said = interrupted(&lab, words, "making scenes", 1);
    assert!(said.contains(" of 100,000 scenes are kept for more."), "{said}");
    assert_eq!(advised(&said), words);
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../encode/tests/fixtures/image.onnx");
    fs::copy(fixtures, lab.path("image.onnx")).unwrap();
    lab.write(
        "image.toml",
        "size = 8\nresize = \"squash\"\nscale = 1\nmean = [127, 127, 127]\nstd = [128, 128, 128]\n",
    );
    let words = "-v embed ds --image-model image.onnx --name x --pooled";
    let said = interrupted(&lab, words, "images...", 1);
    assert!(said.contains("images are embedded and kept in ds."), "{said}");
    assert_eq!(advised(&said), words);
    lab.succeeds(words);
}

#[test]
fn what_makes_one_file_makes_none() {
    let lab = lab(40);
    lab.succeeds("example world");
    let files = "--paired-images world/paired_images.npy --paired-texts world/paired_texts.npy --pool \
                 world/pool.npy --pool-side image";
    let words = format!("select {files} --strategy core-set --budget 19000 --out p.jsonl");
    let said = interrupted(&lab, &words, "predicted peak memory", 1);
    assert!(
        said.contains("stopped; nothing was written. Begin again with: nextpair select"),
        "{said}"
    );
    assert!(!lab.path("p.jsonl").exists());
    // An import clears away what it has begun.
    let rows: String = (0..500_000).map(|row| format!("{row}.jpg,caption {row}\n")).collect();
    lab.write("t.csv", &format!("filepath,title\n{rows}"));
    let before = crate::world::listed(&lab.path(""));
    let said = interrupted(&lab, "-v import table t.csv new --no-images", "reading...", 1);
    assert!(said.contains("stopped; nothing was written. Begin again with: "), "{said}");
    assert_eq!(crate::world::listed(&lab.path("")), before);
}

#[test]
fn a_quickstart_goes_on_where_it_was_stopped() {
    let lab = lab(20);
    let said = interrupted(&lab, "quickstart --fast --out q", "trainings of a small model", 1);
    assert!(said.contains("rounds are kept in q/run. Go on with: "), "{said}");
    assert_eq!(advised(&said), "quickstart --fast --out q");
}
