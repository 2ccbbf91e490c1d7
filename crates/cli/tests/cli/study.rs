//! Reports of experiments.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::world::{Run, listed, nextpair};

const SMALL: &str = "--model vse++ --dim 16 --word-dim 8 --batch 16 --epochs 2 --validate-last 1";

fn succeeds(path: &Path, words: &str) -> Run {
    let run = nextpair(path, words);
    assert_eq!(run.code, Some(0), "{words}: {}", run.stderr);
    run
}

fn refused(path: &Path, words: &str, says: &str) {
    let run = nextpair(path, words);
    assert_eq!(run.code, Some(2), "{words}: {}", run.stdout);
    assert!(run.stderr.contains(says), "{words}: no '{says}' in {}", run.stderr);
}

/// Returns a folder with a dataset `ds` and a run `one` of two strategies and two seeds.
fn world() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("e.toml"), "dataset = \"ds\"\nrounds = 2\nprice = 0.25\n").unwrap();
    succeeds(path, "import scenes ds --images 120");
    succeeds(path, &format!("run e.toml {SMALL} --seeds 0,1 --out one"));
    folder
}

#[test]
fn a_run_is_reported_whole_and_alike_for_any_number_of_threads() {
    let folder = world();
    let path = folder.path();
    let run = succeeds(path, "report one");
    for part in ["synthetic", "2 seeds", "hard-negative |", "vs random"] {
        assert!(run.stdout.contains(part), "no '{part}' in {}", run.stdout);
    }
    let out = path.join("one/report");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    for part in ["Synthetic data.", "Stop or go", "placed by t-SNE", "against", "data:image/jpeg"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("Left out"), "{}", run.stderr);
    assert!(listed(&out).contains(&"picks.png".to_owned()), "{:?}", listed(&out));
    succeeds(path, "report one --out again --threads 3");
    for name in listed(&out) {
        let same =
            fs::read(out.join(&name)).unwrap() == fs::read(path.join("again").join(&name)).unwrap();
        assert!(same, "{name}");
    }
}

#[test]
fn a_pool_of_captions_is_shown_as_captions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let spec = "dataset = \"ds\"\npool = \"text\"\nrounds = 1\n\
                strategies = [\"hard-negative+mini-20+top-5\"]\n";
    fs::write(path.join("e.toml"), spec).unwrap();
    succeeds(path, "import scenes ds --images 120");
    succeeds(path, &format!("run e.toml {SMALL} --out one"));
    let run = succeeds(path, "report one");
    let page = fs::read_to_string(path.join("one/report/report.html")).unwrap();
    assert!(!page.contains("Left out"), "{}", run.stderr);
    assert!(page.contains("In a draw of the pairs (mini batch 20), each caption is more similar"));
    assert!(page.contains("<article><blockquote>") && !page.contains("<blockquote></blockquote>"));
}

#[test]
fn runs_are_pooled_or_put_side_by_side() {
    let folder = world();
    let path = folder.path();
    succeeds(path, &format!("run e.toml {SMALL} --seeds 2 --out two"));
    let larger = SMALL.replace("--dim 16", "--dim 24");
    succeeds(path, &format!("run e.toml {larger} --seeds 2 --out other"));
    let json =
        |words: &str| -> Value { serde_json::from_str(&succeeds(path, words).stdout).unwrap() };
    let pooled = json("report one two --out pooled --json");
    assert_eq!(pooled["runs"][0]["arms"][1]["difference"]["seeds"], 3);
    let compared = json("report one other --compare --out compared --json");
    assert_eq!(compared["runs"].as_array().unwrap().len(), 2);
    for (words, says) in [
        ("report one two", "--out is missing"),
        ("report one other --out o", "model.dim is 24 and not 16"),
        ("report ds", "not an experiment: there is no experiment.json in it"),
        ("report one/seed-0/round-0", "the folder of a model"),
        ("report one --price -1", "-1 is not a price"),
    ] {
        refused(path, words, says);
    }
    let without = succeeds(path, "report one --dataset nowhere --out without");
    assert!(without.stderr.contains("left out: Why these items"), "{}", without.stderr);
}
