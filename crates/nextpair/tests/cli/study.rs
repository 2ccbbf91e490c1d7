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
    for part in ["synthetic", "2 seeds", "v-optimal |", "vs random"] {
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

/// JSON cannot hold such a name, so the results have it as people read it.
#[cfg(target_os = "linux")]
#[test]
fn an_experiment_whose_name_is_not_utf8_is_reported() {
    use std::os::unix::ffi::OsStrExt;
    let folder = world();
    let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"one\xff"));
    fs::rename(folder.path().join("one"), &odd).unwrap();
    let mut report = std::process::Command::new(env!("CARGO_BIN_EXE_nextpair"));
    let output = report.arg("report").arg(&odd).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = results["runs"][0]["folders"][0].as_str().unwrap();
    assert!(name.ends_with("one\u{fffd}"), "{name}");
    assert!(odd.join("report/report.html").exists());
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
    assert!(
        page.contains("<li class=\"pick\"><blockquote>")
            && !page.contains("<blockquote></blockquote>")
    );
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
    assert!(without.stderr.contains("left out: What was picked, and why"), "{}", without.stderr);
}

#[test]
fn a_report_can_be_about_queries_with_some_words() {
    let folder = world();
    let path = folder.path();
    let json = |words: &str| -> Value {
        let run = succeeds(path, &format!("report one --json --out about {words}"));
        serde_json::from_str(&run.stdout).unwrap()
    };
    let about = json("--words Red,blue");
    assert_eq!(about["runs"][0]["test"]["words"], serde_json::json!(["blue", "red"]));

    // The same by hand, from the dataset and the stored ranks.
    let items: Vec<Value> = fs::read_to_string(path.join("ds/items.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let has_word = |caption: &Value| {
        let text = caption.as_str().unwrap().to_lowercase();
        text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "red" || word == "blue")
    };
    let bytes = fs::read(path.join("one/seed-0/ranks-0.npy")).unwrap();
    let numbers = bytes[10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]))..].chunks(4);
    let numbers: Vec<usize> =
        numbers.map(|four| u32::from_le_bytes(four.try_into().unwrap()) as usize).collect();
    let (of_item, ranks) = numbers.split_at(numbers.len() / 2);
    let images = items.iter().filter(|item| item["split"] == "test").count();
    let (mut queries, mut first) = ([0, 0], [0, 0]);
    let mut count = |side: usize, rank: usize| {
        queries[side] += 1;
        first[side] += usize::from(rank == 1);
    };
    let mut at = images;
    for (&item, &rank) in of_item.iter().zip(ranks).take(images) {
        let captions: Vec<bool> =
            items[item]["captions"].as_array().unwrap().iter().map(has_word).collect();
        if captions.contains(&true) {
            count(0, rank);
        }
        for has_word in captions {
            assert_eq!(of_item[at], item);
            if has_word {
                count(1, ranks[at]);
            }
            at += 1;
        }
    }
    assert!(0 < queries[0] && queries[0] < images, "{queries:?} of {images} images");
    let test = &about["runs"][0]["test"];
    assert_eq!([&test["images"], &test["captions"]], [queries[0], queries[1]]);
    let alone = json("--words red,blue --seeds 0");
    assert_eq!(alone["runs"][0]["seeds"], serde_json::json!([0]));
    let round = &alone["runs"][0]["arms"][0]["recall"][0]["rounds"][0];
    for (side, name) in ["text", "image"].into_iter().enumerate() {
        let recall = 100.0 * first[side] as f64 / queries[side] as f64;
        assert!((round[name]["mean"].as_f64().unwrap() - recall).abs() < 1e-9, "{name}: {round}");
    }
    let page = fs::read_to_string(path.join("about/report.html")).unwrap();
    assert!(page.contains("only queries with blue, red"));

    refused(path, "report one --words red,,blue", "\"\" is not one word");
    refused(path, "report one --seeds 2..5", "--seeds: no experiment has any of them");
    refused(path, "report one --words xyzzy", "not one test caption has any of the words xyzzy");
    fs::remove_file(path.join("one/seed-1/ranks-0.npy")).unwrap();
    refused(path, "report one --words red", "the ranks of the queries of a round is gone");
}
