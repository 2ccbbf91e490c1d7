//! Vocabularies from the initial pairs alone.

use std::collections::BTreeSet;

use nextpair::data::dataset::Dataset;
use nextpair::data::text::{Vocabulary, tokenize};
use serde_json::Value;

use super::Lab;
use crate::world::json_lines;

const PAIRED: &str = "--vocabulary paired --min-count 1";

fn words(lab: &Lab, file: &str) -> BTreeSet<String> {
    let vocabulary = Vocabulary::read(&lab.path(file)).unwrap();
    vocabulary.words().iter().filter(|word| !word.starts_with('<')).cloned().collect()
}

/// Returns the words of the captions that a model was trained on.
fn learned(lab: &Lab, run: &str) -> BTreeSet<String> {
    let dataset = Dataset::open(&lab.path("ds")).unwrap();
    let caption = |pair: &Value| {
        let id = pair["item"].as_str().unwrap();
        let item = dataset.items().iter().find(|item| item.id == id).unwrap();
        item.captions[pair["caption"].as_u64().unwrap() as usize].clone()
    };
    let pairs = json_lines(&lab.read(&format!("{run}/pairs.jsonl")));
    pairs.iter().flat_map(|pair| tokenize(&caption(pair))).collect()
}

#[test]
fn models_know_the_words_that_are_paired_from_the_start() {
    let lab = Lab::new(80);
    let run = |out: &str, more: &str| {
        lab.succeeds(&format!("run e.toml --initial 6 --seeds 0,1 {PAIRED} --out {out} {more}"));
        lab.results(out)
    };
    let expected = run("one", "--jobs 1");
    assert!(!lab.path("one/vocabulary.json").exists());
    for seed in ["seed-0", "seed-1"] {
        let own = words(&lab, &format!("one/{seed}/vocabulary.json"));
        assert_eq!(own, learned(&lab, &format!("one/{seed}/round-0")), "{seed}");
        // Later rounds add captions with unknown words. The models keep their size.
        let later = format!("one/{seed}/random/round-2");
        assert_eq!(words(&lab, &format!("{later}/vocabulary.json")), own);
        assert!(learned(&lab, &later).difference(&own).next().is_some(), "{seed}");
    }
    let [zero, one] =
        ["0", "1"].map(|seed| words(&lab, &format!("one/seed-{seed}/vocabulary.json")));
    assert_ne!(zero, one);
    run("two", "--jobs 3 --threads 2");
    lab.assert_same("two", &expected);
    // Adding a seed later or losing a file makes no difference.
    lab.succeeds(&format!("run e.toml --initial 6 --seeds 1 --rounds 1 {PAIRED} --out three"));
    std::fs::remove_file(lab.path("three/seed-1/vocabulary.json")).unwrap();
    run("three", "--resume");
    lab.assert_same("three", &expected);
    assert!(lab.read("three/experiment.toml").contains("vocabulary = \"paired\""));
    lab.succeeds("report three --out report");
}

#[test]
fn words_of_the_start_are_checked() {
    let lab = Lab::new(80);
    lab.succeeds(&format!("run e.toml --rounds 1 {PAIRED} --out run"));
    lab.refused("run run --resume --vocabulary v.json", "and not \"paired\"");
    let path = lab.path("run/seed-0/vocabulary.json");
    Vocabulary::build(["a dog"], 1).write(&path).unwrap();
    lab.refused(
        "run run --resume",
        "vocabulary.json: not the words of the captions that are paired from the start",
    );
    lab.refused(
        "run e.toml --vocabulary paired --min-count 9999 --out none",
        "vocabulary: no word is in the captions that are paired from the start 9999 times",
    );
    lab.refused("run e.toml --vocabulary ./paired --out file", "paired: No such file");
    lab.refused("run e.toml --model heads --vocabulary paired --out heads", "takes text features");
}

#[test]
fn one_model_can_know_the_words_that_it_learns_from() {
    let lab = Lab::new(80);
    let train =
        |words: &str| format!("train ds --model vse++ --dim 8 --word-dim 8 --epochs 1 {words}");
    lab.succeeds(&train(
        "--share 0.1 --captions first --vocabulary paired --min-count 1 --out run",
    ));
    assert_eq!(words(&lab, "run/vocabulary.json"), learned(&lab, "run"));
    lab.succeeds(&train("--share 0.1 --captions first --min-count 1 --out usual"));
    assert!(words(&lab, "usual/vocabulary.json").len() > learned(&lab, "run").len());
    lab.succeeds("train ds --out run --resume");
    lab.refused(&train("--vocabulary run/vocabulary.json --min-count 2 --out x"), "--min-count: ");
}
