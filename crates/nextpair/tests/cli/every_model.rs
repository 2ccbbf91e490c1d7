//! Every model goes through every command that takes one. A new model is here because it has a name.

use std::fs;
use std::path::Path;

use nextpair::models::Config;
use serde_json::Value;

use crate::train::{assert_same_run, succeeds, trained_through_kills};

const EXPERIMENT: &str = r#"dataset = "ds"
initial = 0.4
budget = 0.1
rounds = 1
strategies = ["random", "hard-negative"]

[training]
epochs = 1
batch = 8
validate_last = 0
"#;

/// All models that read words. Heads take vectors: `trained.rs` and `scenario/vectors.rs` go through
/// the commands with them.
fn models() -> Vec<&'static str> {
    let reads = |name: &&str| Config::named(name).unwrap().reads_words();
    let (words, others): (Vec<_>, Vec<_>) = Config::names().into_iter().partition(reads);
    assert_eq!(others, ["heads"]);
    words
}

fn small(model: &str) -> String {
    format!("--model {model} --dim 8 --word-dim 8")
}

fn json(path: &Path, words: &str) -> Value {
    serde_json::from_str(&succeeds(path, words, &[]).stdout).unwrap()
}

#[test]
fn every_model_trains_answers_and_selects() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    succeeds(path, "import scenes ds --images 50", &[]);
    fs::write(path.join("e.toml"), EXPERIMENT).unwrap();
    let mut kills = 0;
    for model in models() {
        let words = format!(
            "{} --batch 8 --epochs 3 --share 0.6 --captions first --validate-last 2 --seed 5",
            small(model)
        );
        succeeds(path, &format!("train ds {words} --out {model}"), &["epoch 3/3"]);
        let killed = format!("{model}-killed");
        kills += trained_through_kills(path, &words, &killed, 2);
        assert_same_run(&path.join(model), &path.join(&killed));

        let found = json(path, &format!("eval {model} ds --json"));
        assert!(found["rsum"].as_f64().unwrap() > 0.0, "{model}: {found}");
        let found = json(path, &format!("search {model} ds circle --json --top 4"));
        let scores: Vec<f64> = found["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|result| result["score"].as_f64().unwrap())
            .collect();
        assert_eq!(scores.len(), 4, "{model}");
        assert!(scores.is_sorted_by(|a, b| a >= b), "{model}: {scores:?}");
        for side in ["image", "text"] {
            let words = format!("select --model {model} ds --pool-side {side} --budget 3 --json");
            let found = json(path, &format!("{words} --out {model}-{side}.csv"));
            assert_eq!(found["picks"], 3, "{model}: {found}");
        }
    }
    assert!(kills > 0, "no process was killed in the middle");
}

#[test]
fn every_model_learns_in_experiments_and_rehearsals() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    succeeds(path, "import scenes ds --images 50", &[]);
    fs::write(path.join("e.toml"), EXPERIMENT).unwrap();
    for model in models() {
        let small = small(model);
        succeeds(path, &format!("run e.toml {small} --seeds 0 --out run-{model}"), &[]);
        let train = format!("train ds {small} --batch 8 --epochs 1 --captions first --out {model}");
        succeeds(path, &format!("{train} --validate-last 0"), &[]);
        let words = "--budget 8 --seeds 4 --strategies hard-negative --epochs 1";
        let out = format!("rehearsed-{model}");
        succeeds(path, &format!("rehearse ds --model {model} {words} --out {out}"), &[]);
    }
}
