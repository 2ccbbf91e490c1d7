//! The items that people are asked about, and the pairs that an answer makes.

use serde_json::{Value, json};

use super::{EXPERIMENT, Lab};
use crate::world::json_lines;

/// Rewrites the items of a dataset.
fn edit(lab: &Lab, edit: impl Fn(usize, &mut Value)) {
    let mut items = json_lines(&lab.read("ds/items.jsonl"));
    items.iter_mut().enumerate().for_each(|(at, item)| edit(at, item));
    let captions = |item: &Value| item["captions"].as_array().unwrap().len();
    let left: usize = items.iter().map(captions).sum();
    lab.write("ds/items.jsonl", &items.iter().map(|item| format!("{item}\n")).collect::<String>());
    let manifest =
        lab.read("ds/dataset.toml").replace("captions = 400", &format!("captions = {left}"));
    lab.write("ds/dataset.toml", &manifest);
}

/// A third of the training items has no captions; another third has captions and no split.
fn half_captioned() -> Lab {
    let lab = Lab::new(80);
    edit(&lab, |at, item| match at % 3 {
        0 if item["split"] == "train" => item["captions"] = json!([]),
        1 if item["split"] == "train" => item["split"] = Value::Null,
        _ => {}
    });
    lab.write("e.toml", &EXPERIMENT.replace("initial = 0.3\n", ""));
    lab
}

#[test]
fn people_are_not_asked_for_what_is_there() {
    let lab = half_captioned();
    let items = json_lines(&lab.read("ds/items.jsonl"));
    let lacking = items.iter().filter(|item| item["captions"].as_array().unwrap().is_empty());
    let lacking: Vec<&str> = lacking.map(|item| item["id"].as_str().unwrap()).collect();
    let without_split = items.iter().filter(|item| item["split"].is_null()).count();
    assert!(lacking.len() > 10 && without_split > 10);
    let words = "run e.toml --annotator human --strategies random --rounds 1";
    // The budget takes the whole pool.
    let run = lab.succeeds(&format!("{words} --budget {} --out run", lacking.len()));
    let says = format!("left out: {without_split} items without a split");
    assert!(run.stderr.contains(&says), "no '{says}' in {}", run.stderr);
    let mut asked = lab.ids("run/queue.jsonl", "id");
    asked.sort();
    assert_eq!(asked, lacking);
    assert_eq!(lab.rounds("run")[0]["pool"], lacking.len());
    let more = lacking.len() + 1;
    lab.refused(&format!("{words} --budget {more} --out more"), "budget: ");
}

/// Items that are left out are never asked about, not even if somebody writes them into a batch.
#[test]
fn batches_with_items_that_are_left_out_are_refused() {
    let lab = half_captioned();
    let words = "run e.toml --annotator human --strategies random --rounds 1 --budget 2";
    lab.succeeds(&format!("{words} --out run"));
    let items = json_lines(&lab.read("ds/items.jsonl"));
    let captioned = items.iter().find(|item| item["split"].is_null()).unwrap()["id"].clone();
    let picks = "run/seed-0/random/picks-1.jsonl";
    let mut tasks = json_lines(&lab.read(picks));
    tasks[0]["id"] = captioned.clone();
    let text: String = tasks.iter().map(|task| format!("{task}\n")).collect();
    lab.write(picks, &text);
    let says = format!("picks-1.jsonl:1: no item {} to pair", captioned.as_str().unwrap());
    lab.refused("run run --resume", &says);
}

/// If paired items count as unpaired, the program prints that people are asked about them again.
#[test]
fn asking_again_is_said() {
    let lab = Lab::new(80);
    let words = "run e.toml --annotator human --strategies random --rounds 1 --budget 5 --out run";
    let run = lab.succeeds(words);
    let says = "45 items of the pool have both halves: initial counts them as unpaired";
    assert!(run.stderr.contains(says), "no '{says}' in {}", run.stderr);
}

#[test]
fn a_text_buys_one_pair() {
    let lab = Lab::new(80);
    let words = "run e.toml --pool text --strategies random --rounds 1";
    for annotator in ["--annotator oracle", "--wrong 0.1"] {
        lab.refused(
            &format!("{words} --captions all {annotator} --out x"),
            "captions: all: the pool is of texts, and one that is bought would bring",
        );
    }
    assert!(!lab.path("x").exists());
    lab.succeeds(&format!("{words} --captions first --out run"));
    let rounds = lab.rounds("run");
    for round in &rounds {
        assert_eq!(round["paired"], round["pairs"]);
    }
    // Nor may it be written into the experiment.
    let resolved = lab.read("run/experiment.toml");
    assert!(resolved.contains("captions = \"first\""));
    lab.write("run/experiment.toml", &resolved.replace("\"first\"", "\"all\""));
    for command in ["report run", "run run --resume"] {
        lab.refused(command, "captions: all: the pool is of texts");
    }
}

#[test]
fn without_dev_the_last_epoch_is_kept_and_that_is_said() {
    let lab = Lab::new(80);
    let words = "run e.toml --strategies random --rounds 1 --validate-last 2";
    let with = lab.succeeds(&format!("{words} --out with"));
    assert!(with.stderr.contains("the last 2 epochs are evaluated on 8 images of dev"));
    edit(&lab, |_, item| {
        if item["split"] == "dev" {
            item["split"] = json!("other");
        }
    });
    let without = lab.succeeds(&format!("{words} --out without"));
    let says = "the split dev has nothing to evaluate: the weights of the last epoch are kept, not \
                the best of the last 2";
    assert!(without.stderr.contains(says), "{}", without.stderr);
    lab.succeeds("report without");
    let page = lab.read("without/report/report.html");
    assert!(page.contains("those of the last epoch; none were evaluated on dev"));
    let unasked = lab.succeeds("run e.toml --strategies random --rounds 1 --out unasked");
    assert!(!unasked.stderr.contains("dev"), "{}", unasked.stderr);
}

/// The five captions of an image make five pairs. None of them is a rival of another.
#[test]
fn draws_of_pairs_are_checked_before_anything_is_trained() {
    let lab = Lab::new(80);
    let words = "run e.toml --captions all --rounds 1 --strategies";
    // 19 items make 95 pairs.
    lab.succeeds(&format!("{words} hard-negative+mini-60 --out many"));
    assert_eq!(lab.rounds("many")[0]["pairs"], 95);
    // Two scenes share a caption, so ten pairs are one group.
    lab.succeeds(&format!("{words} hard-negative+mini-11 --out few"));
    for (strategy, says) in [
        ("hard-negative+mini-96", "with 95 pairs at first"),
        ("hard-negative+mini-10", "draw more than 10"),
        ("coverage+mini-15+top-2", "draw more than "),
        ("coverage+top-19", "with 95 pairs at first"),
    ] {
        lab.refused(&format!("{words} {strategy} --out x"), says);
        assert!(!lab.path("x/rounds.jsonl").exists(), "{strategy}");
    }
    lab.succeeds(&format!("{words} coverage+mini-30+top-2,coverage+top-15 --out top"));
}
