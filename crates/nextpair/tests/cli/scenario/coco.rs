//! `experiments/coco.toml` on a small download in COCO's layout: the paper's sizes and splits, both
//! tests, and the temperature.

use std::fs;
use std::path::Path;

use nextpair::engine::Draws;
use serde_json::{Value, json};

use super::Lab;
use crate::world::files::npy_locals;
use crate::world::{Run, Vectors, json_lines, nextpair};

const EXPERIMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/coco.toml");
/// Sizes small enough for a test. None of them belongs to the protocol.
const SMALL: &str = "--dim 8 --word-dim 8 --epochs 2 --batch 16 --validate-last 1 --seeds 0 \
                     --strategies random,hard-negative+mini-50%";
const REGIONS: usize = 3;

/// Returns COCO's id of an image by its index.
fn number(at: usize) -> usize {
    1000 + 37 * at
}

/// Returns the images of one of Karpathy's splits. Train and restval are mixed, as in the download.
fn images(split: &str) -> Vec<usize> {
    let of = |at: &usize| match at {
        0..80 if at % 4 == 3 => split == "restval",
        0..80 => split == "train",
        80..90 => split == "val",
        _ => split == "test",
    };
    (0..110).filter(of).collect()
}

fn ids(images: &[usize]) -> Vec<String> {
    images.iter().map(|&at| number(at).to_string()).collect()
}

/// Writes a split of `coco_precomp`, with so many rows and ids per image.
fn write_split(folder: &Path, split: &str, images: &[usize], (rows, lines): (usize, usize)) {
    let write = |name: &str, content: Vec<u8>| {
        fs::write(folder.join(format!("{split}_{name}")), content).unwrap();
    };
    let repeated = |times: usize| images.iter().flat_map(move |&at| std::iter::repeat_n(at, times));
    let row = |at: usize| Vectors::drawn(&mut Draws::new(at as u64), REGIONS, 6).values;
    let vectors = Vectors { dim: 6, values: repeated(rows).flat_map(row).collect() };
    write("ims.npy", npy_locals(&vectors, REGIONS));
    let caption = |(line, at): (usize, usize)| {
        format!("A {} seen from the {} side .\n", ["dog", "cat", "bus"][at % 3], line % 5)
    };
    write("caps.txt", repeated(5).enumerate().map(caption).collect::<String>().into_bytes());
    let id = |at: usize| format!("{}\n", number(at));
    write("ids.txt", repeated(lines).map(id).collect::<String>().into_bytes());
}

/// Returns a lab with the downloads of SCAN and of Karpathy.
fn lab() -> Lab {
    let lab = Lab { folder: tempfile::tempdir().unwrap() };
    let folder = lab.path("coco_precomp");
    fs::create_dir(&folder).unwrap();
    let mut train = [images("train"), images("restval")].concat();
    train.sort_unstable();
    write_split(&folder, "train", &train, (1, 1));
    write_split(&folder, "dev", &images("val"), (5, 5));
    write_split(&folder, "test", &images("test")[..4], (5, 5));
    write_split(&folder, "testall", &images("test"), (1, 5));
    let mut entries = Vec::new();
    for (split, year) in
        [("train", "train2014"), ("restval", "val2014"), ("val", "val2014"), ("test", "val2014")]
    {
        entries.extend(images(split).into_iter().map(|at| {
            let file = format!("COCO_{year}_{:012}.jpg", number(at));
            json!({ "filepath": year, "filename": file, "cocoid": number(at), "imgid": at,
                    "split": split, "sentids": [], "sentences": [{ "raw": "A dog ." }] })
        }));
    }
    lab.write("dataset_coco.json", &json!({ "dataset": "coco", "images": entries }).to_string());
    lab
}

/// Returns a command from the comments of the experiment file.
fn documented(command: &str) -> String {
    let text = fs::read_to_string(EXPERIMENT).unwrap();
    let line = text.lines().find_map(|line| {
        let words = line.strip_prefix("#   nextpair ")?;
        words.starts_with(command).then(|| words.to_owned())
    });
    line.unwrap_or_else(|| panic!("no '{command}' in {text}"))
}

fn run_it(lab: &Lab, flags: &str) -> Run {
    let words = documented("run").replace("experiments/coco.toml", EXPERIMENT);
    nextpair(&lab.path(""), &format!("{words} --out run {SMALL} {flags}"))
}

#[test]
fn coco_is_run_as_the_paper_did() {
    let lab = lab();
    let import = lab.succeeds(&documented("import scan"));
    assert!(import.stderr.contains("20 x restval image, left out"), "{}", import.stderr);
    let items = json_lines(&lab.read("coco/items.jsonl"));
    for (split, of) in [("train", "train"), ("dev", "val"), ("testall", "test")] {
        let found: Vec<&Value> = items.iter().filter(|item| item["split"] == split).collect();
        let names: Vec<&str> = found.iter().map(|item| item["id"].as_str().unwrap()).collect();
        assert_eq!(names, ids(&images(of)), "{split}");
        assert!(found.iter().all(|item| item["captions"].as_array().unwrap().len() == 5));
    }
    assert_eq!(items.len(), 60 + 10 + 20);

    let run = run_it(&lab, "");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("is evaluated on 10 images of dev"), "{}", run.stderr);
    let resolved: toml::Table = lab.read("run/experiment.toml").parse().unwrap();
    assert_eq!(resolved["model"]["temperature"].as_float(), Some(11.0));
    assert_eq!(resolved["model"]["steps"].as_integer(), Some(3));
    assert_eq!(resolved["model"]["mode"].as_str(), Some("text"));
    assert_eq!(resolved["training"]["validate_images"].as_integer(), Some(5000));
    assert_eq!(resolved["training"]["captions"].as_str(), Some("random"));
    let model: Value = serde_json::from_str(&lab.read("run/seed-0/round-0/model.json")).unwrap();
    assert_eq!(model["model"]["temperature"], 11.0, "{model}");

    let rounds = lab.rounds("run");
    assert_eq!(rounds.len(), 1 + 2 * 3);
    for round in &rounds {
        let size = [18, 21, 24, 27][round["round"].as_u64().unwrap() as usize];
        assert_eq!((&round["paired"], &round["pairs"]), (&json!(size), &json!(size)));
        assert_eq!(round["pool"], 60 - size);
        assert_eq!(round["dev"]["images"], 10);
        let tests = round["test"].as_array().unwrap();
        let asked = |test: &Value| ["images", "captions", "folds"].map(|key| test[key].clone());
        let all: Vec<_> = tests.iter().map(asked).collect();
        assert_eq!(all, [[json!(20), json!(100), json!(1)], [json!(20), json!(100), json!(5)]]);
        // A part has four images, so every caption finds its image among the first five.
        assert_eq!(tests[1]["image"]["r5"], 100.0);
        assert!(tests[0]["image"]["r5"].as_f64().unwrap() < 100.0, "{tests:?}");
    }
    both_tests_are_reported(&lab, &run);
}

fn both_tests_are_reported(lab: &Lab, run: &Run) {
    for part in ["20 images at once\n", "5 parts of 4 images, averaged\n"] {
        assert!(run.stdout.contains(part), "{}", run.stdout);
    }
    lab.succeeds("report run");
    let results: Value = serde_json::from_str(&lab.read("run/report/results.json")).unwrap();
    let evidence = &results["runs"][0];
    for (test, folds) in [(evidence, 1), (&evidence["other_tests"][0], 5)] {
        let set = json!({ "split": "testall", "images": 20, "captions": 100, "folds": folds });
        assert_eq!(test["test"], set);
        assert!(test["arms"][1]["difference"]["sum"]["mean"].is_number());
    }
    let csv = lab.read("run/report/results.csv");
    for folds in [1, 5] {
        let ends = |line: &&str| line.contains(",text_r1,") && line.ends_with(&format!(",{folds}"));
        assert_eq!(csv.lines().filter(ends).count(), 7, "{csv}");
    }
    let page = lab.read("run/report/report.html");
    assert!(page.contains("Recall by round, 5 parts of 4 images, averaged"));
}

/// Without Karpathy's file, the import keeps images that the paper leaves out. It prints so, and
/// the experiment refuses the dataset.
#[test]
fn coco_imported_otherwise_is_not_run_as_the_papers() {
    let lab = lab();
    let import = lab.succeeds("import scan coco_precomp coco");
    for part in ["restval images, which the paper leaves out", "testall"] {
        assert!(import.stderr.contains(part), "{}", import.stderr);
    }
    let run = run_it(&lab, "");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("nothing to evaluate in the split testall"), "{}", run.stderr);
}
