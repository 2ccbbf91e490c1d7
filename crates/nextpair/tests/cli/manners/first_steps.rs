//! What new users type: a first search, and mistakes.

use std::fs;

use serde_json::Value;

use super::lab;

/// The commands of the book's page on training.
fn book() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/train.md");
    let page = fs::read_to_string(page).unwrap();
    let block = page.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    block.replace("\\\n", " ").lines().map(|line| line.replace("nextpair ", "")).collect()
}

/// The first search of the book finds what it asks for.
#[test]
fn the_first_search_finds_red_circles() {
    let lab = lab(300);
    fs::rename(lab.path("ds"), lab.path("scenes")).unwrap();
    let commands = book();
    let command = |name: &str| commands.iter().find(|words| words.starts_with(name)).unwrap();
    lab.succeeds(command("train"));
    let search = command("search");
    let (before, after) = search.split_once("\"a red circle\"").expect("a search for red circles");
    let words: Vec<&str> = before.split_whitespace().chain(["a red circle"]).collect();
    let words = words.into_iter().chain(after.split_whitespace());
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_nextpair"))
        .args(words)
        .arg("--json")
        .current_dir(lab.path(""))
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let said = String::from_utf8(run.stdout).unwrap();
    let items = fs::read_to_string(lab.path("scenes/items.jsonl")).unwrap();
    let items = crate::world::json_lines(&items);
    let found: Vec<&Value> = items
        .iter()
        .filter(|item| said.contains(&format!("\"{}\"", item["id"].as_str().unwrap())))
        .collect();
    assert_eq!(found.len(), 3, "{said}");
    for item in found {
        let captions = item["captions"].to_string().to_lowercase();
        let is_red = ["red", "crimson", "scarlet"].iter().any(|word| captions.contains(word));
        let is_round = ["circle", "disc", "disk"].iter().any(|word| captions.contains(word));
        assert!(is_red && is_round, "{item}");
    }
}

#[test]
fn mistakes_are_told_with_what_helps() {
    let lab = lab(60);
    lab.write("seeds.toml", "dataset = \"ds\"\nseeds = 3\n[model]\narchitecture = \"vse++\"\n");
    let select = "select --paired-images a.npy --paired-texts b.npy --pool c.npy --pool-side image";
    let no_dataset = "nope: not a dataset; make one with `nextpair import`";
    for (words, says) in [
        ("inspect nope".to_owned(), no_dataset),
        (
            "inspect e.toml".to_owned(),
            "e.toml: not a dataset: it is a file, and a dataset is a folder",
        ),
        ("search nope ds dog".to_owned(), "nope: not a model; make one with `nextpair train`"),
        ("search ds ds dog".to_owned(), "ds: a dataset, not a model: the model is named first"),
        ("report nope".to_owned(), "nope: not an experiment; make one with `nextpair run`"),
        ("vocab nope v.json".to_owned(), no_dataset),
        ("embed nope --image-model x.onnx --preprocess clip".to_owned(), no_dataset),
        ("rehearse nope --model vse++ --budget 5".to_owned(), no_dataset),
        ("run e.toml --dataset nope --out x".to_owned(), "not a dataset; make one with"),
        (
            format!("{select} --budget -5 --out p.jsonl"),
            "a budget is how many items are to be paired",
        ),
        ("rehearse ds --model vse++ --budget -5".to_owned(), "a budget is how many items"),
        ("run e.toml --budget -5 --out x".to_owned(), "write how many items, such as 500, or"),
        (
            "run seeds.toml --out x".to_owned(),
            "seeds.toml:2: seeds is a list: write seeds = [0, 1, 2], or give --seeds 0..3",
        ),
    ] {
        lab.refused(&words, says);
    }
}

#[test]
fn a_training_that_learns_nothing_says_so() {
    let lab = lab(60);
    let run = lab.succeeds("train ds --model vse++ --dim 8 --epochs 2 --rate 99 --out a");
    let says = "hardly anything was learned; take a smaller rate than 99, such as 2e-4";
    assert!(run.stderr.contains(says), "{}", run.stderr);
    let run = lab.succeeds("run e.toml --rounds 1 --rate 99 --out x");
    assert!(run.stderr.contains(says), "{}", run.stderr);
    let learned = "train ds --model vse++ --dim 32 --epochs 30 --rate 3e-3 --batch 16 --out b";
    let run = lab.succeeds(learned);
    assert!(!run.stderr.contains("hardly anything was learned"), "{}", run.stderr);
}

#[test]
fn models_have_the_same_names_in_flags_and_files() {
    let lab = lab(60);
    for (name, written) in [("imram", "text-imram"), ("scan-i2t", "scan-i2t"), ("vse", "vse++")] {
        let file = format!("{name}.toml");
        lab.write(&file, &format!("[model]\narchitecture = \"{name}\"\n"));
        let flags = "--dim 8 --epochs 1 --validate-last 0";
        lab.succeeds(&format!("train ds --model {name} {flags} --out by-flag-{name}"));
        lab.succeeds(&format!("train ds --config {file} {flags} --out by-file-{name}"));
        let model = |by: &str| {
            let text = fs::read_to_string(lab.path(&format!("by-{by}-{name}/model.json"))).unwrap();
            serde_json::from_str::<Value>(&text).unwrap()["model"].clone()
        };
        assert_eq!(model("flag"), model("file"));
        assert_eq!(model("flag")["architecture"], written);
    }
}
