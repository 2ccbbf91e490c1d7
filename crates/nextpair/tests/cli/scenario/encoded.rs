//! People and a model on text features: new captions are encoded like those of the dataset.

use std::fs;
use std::path::PathBuf;

use nextpair::data::Side;
use nextpair::data::dataset::Dataset;
use serde_json::json;

use super::Lab;
use super::people::{self, answer_in_two_parts, kills_change_nothing, whole_run};
use crate::datasets::tree;

pub(crate) const RUN: &str =
    "run heads.toml --annotator human --strategies hard-negative --budget 5";
const MODEL: [&str; 2] = ["text.onnx", "tokenizer.json"];

/// Returns the lab of people with text features, and an experiment `heads.toml` on them.
pub(crate) fn lab() -> Lab {
    let lab = people::lab();
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/fixtures");
    for name in MODEL {
        fs::copy(fixtures.join(name), lab.path(name)).unwrap();
    }
    lab.succeeds("embed ds --text-model text.onnx --name words");
    let heads = lab.read("e.toml").replace("\"vse\"", "\"heads\"").replace("word_dim = 8\n", "");
    lab.write("heads.toml", &heads);
    lab
}

/// Returns the stored rows of the captions of a dataset, `None` for a caption without one.
fn rows(dataset: &Dataset, set: &str) -> Vec<Option<Vec<u8>>> {
    let (_, features) = dataset.features(Side::Text, Some(set)).unwrap();
    let row = |caption| Some(features.matrix().row_bytes(features.row(caption)?).to_vec());
    (0..dataset.items().captions()).map(row).collect()
}

#[test]
fn captions_of_people_get_the_features_that_embed_would_give_them() {
    let lab = lab();
    whole_run(&lab, RUN);
    lab.succeeds("embed run/dataset --text-model text.onnx --name again");
    let dataset = Dataset::open(&lab.path("run/dataset")).unwrap();
    let made = rows(&dataset, "words");
    assert!(made.iter().all(Option::is_some));
    assert!(made == rows(&dataset, "again"), "other bits than embed makes");
    let rounds = lab.rounds("run");
    assert_eq!(rounds[0].get("batch"), None);
    for round in [1, 2] {
        let stored = lab.path(&format!("run/seed-0/hard-negative/captions-{round}.npy"));
        let print = nextpair::data::fingerprint_of(&stored).unwrap();
        assert_eq!(rounds[round]["batch"]["captions"], json!(print));
    }

    // Nothing is encoded twice: resuming works without the encoder.
    lab.succeeds("run run --resume");
    let before = tree(&lab.path("run"));
    for name in MODEL {
        fs::remove_file(lab.path(name)).unwrap();
    }
    lab.succeeds("run run --resume");
    assert!(tree(&lab.path("run")) == before, "a resume changed a byte");

    let stored = lab.path("run/seed-0/hard-negative/captions-1.npy");
    let mut bytes = fs::read(&stored).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&stored, bytes).unwrap();
    let says = "captions-1.npy: not what seed 0, hard-negative, round 1 was finished with";
    lab.refused("run run --resume", says);
}

#[test]
fn kills_while_captions_are_encoded_change_nothing() {
    let lab = lab();
    whole_run(&lab, RUN);
    kills_change_nothing(&lab, RUN);
}

#[test]
fn an_encoder_that_is_not_there_is_missed_in_time() {
    let lab = lab();
    let run = format!("{RUN} --rounds 1 --out run");
    lab.succeeds(&run.replace("--out run", "--out whole"));
    answer_in_two_parts(&lab, "whole");
    lab.succeeds("ingest whole sheet.csv rest.jsonl");

    // Refused before any training.
    let manifest = lab.read("ds/dataset.toml");
    let made_by = manifest.rfind("[features.made_by]").unwrap();
    lab.write("ds/dataset.toml", &manifest[..made_by]);
    let unknown = "heads takes text features, and new captions cannot get those of words: ";
    lab.refused(&run, unknown);
    lab.refused(&run, "it is not known how the text features words were made; `nextpair embed ");
    lab.write("ds/dataset.toml", &manifest);
    fs::rename(lab.path("text.onnx"), lab.path("away.onnx")).unwrap();
    lab.refused(&run, "text.onnx: is gone, with which the text features words were made; put it");
    assert!(!lab.path("run/seed-0").exists());
    fs::rename(lab.path("away.onnx"), lab.path("text.onnx")).unwrap();

    // Refused before people are asked.
    lab.succeeds(&run);
    let tokenizer = lab.read("tokenizer.json");
    lab.write("tokenizer.json", &format!("{tokenizer}\n"));
    let changed = "tokenizer.json: is another file than the text features words were made with";
    let queue = lab.read("run/queue.jsonl");
    fs::remove_file(lab.path("run/queue.jsonl")).unwrap();
    lab.refused("run run --resume", changed);
    assert!(!lab.path("run/queue.jsonl").exists());
    lab.write("run/queue.jsonl", &queue);

    // Refused when new captions need encoding. No answer is lost.
    lab.refused("ingest run sheet.csv rest.jsonl", changed);
    lab.refused("run run --resume", changed);
    lab.write("tokenizer.json", &tokenizer);
    lab.succeeds("run run --resume");
    lab.assert_same("run", &lab.results("whole"));
}
