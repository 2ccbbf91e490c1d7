//! Rehearsals: what they find, refuse and resume.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::datasets::tree;
use crate::scenario::Lab;
use crate::world::json_lines;

const SETTINGS: &str = r#"[model]
architecture = "vse"
dim = 8
word_dim = 8

[training]
epochs = 2
batch = 8
rate = 2e-3
"#;

const REHEARSE: &str =
    "rehearse ds --config s.toml --budget 20 --seeds 4 --strategies herding,margin";

fn lab() -> Lab {
    let lab = Lab::new(120);
    lab.write("s.toml", SETTINGS);
    lab
}

fn advice(lab: &Lab, folder: &str) -> Value {
    serde_json::from_slice(&fs::read(lab.path(&format!("{folder}/rehearsal.json"))).unwrap())
        .unwrap()
}

#[test]
fn every_strategy_buys_on_paper_with_two_starts() {
    let lab = lab();
    let run = lab.succeeds(&format!("{REHEARSE} --price 0.5"));
    let found = advice(&lab, "rehearsal");
    // 96 training items: 24 and 48 at first, and what is asked for is bought.
    let scales = found["scales"].as_array().unwrap();
    let sizes = |scale: &Value| (scale["start"].clone(), scale["bought"].clone());
    assert_eq!(sizes(&scales[0]), (24.into(), 20.into()));
    assert_eq!(sizes(&scales[1]), (48.into(), 20.into()));
    // Where it stands is told while it runs, and what is said once is said once.
    let standing = "4 of at most 4 seeds: worth of ";
    assert_eq!(run.stderr.matches(standing).count(), 1, "{}", run.stderr);
    assert!(run.stderr.matches("(said once)").count() <= 2, "{}", run.stderr);
    for scale in scales {
        let names: Vec<&str> = (scale["strategies"].as_array().unwrap().iter())
            .map(|found| found["strategy"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["random", "random-2", "herding", "margin"]);
    }
    assert_eq!((&found["paired"], &found["budget"]), (&96.into(), &20.into()));
    assert!(
        run.stdout.contains("null control") && run.stdout.contains("start of 48"),
        "{}",
        run.stdout
    );
    let page = fs::read_to_string(lab.path("rehearsal/rehearsal.html")).unwrap();
    assert!(page.contains("Synthetic") && page.contains("herding"), "{page}");
    // Done before: nothing is trained again, and the answer is the same.
    let again = lab.succeeds(&format!("{REHEARSE} --price 0.5"));
    assert_eq!(again.stdout, run.stdout);
}

#[test]
fn what_is_not_bought_as_asked_says_why() {
    let lab = lab();
    let words = "rehearse ds --config s.toml --seeds 4 --strategies herding";
    for (budget, bought, says) in [
        (30, 24, "24 bought of 48, not 30: half of what is hidden at most"),
        (2, 5, "5 bought of 48, not 2: a tenth of the start at least"),
    ] {
        let out = format!("r-{budget}");
        let run = lab.succeeds(&format!("{words} --budget {budget} --out {out}"));
        assert_eq!(advice(&lab, &out)["scales"][1]["bought"], bought);
        assert!(run.stdout.contains(says), "{}", run.stdout);
    }
}

#[test]
fn models_that_are_not_done_are_warned_of_once_and_not_under_q() {
    let lab = lab();
    // Four epochs at a rate at which the loss has only begun to fall.
    let words = "rehearse ds --config s.toml --budget 20 --seeds 4 --strategies herding --epochs 4 --rate 1e-4";
    let run = lab.succeeds(&format!("{words} --out a"));
    for says in ["hardly anything was learned", "in the last quarter of the epochs: train for more"]
    {
        assert_eq!(run.stderr.matches(says).count(), 1, "{}", run.stderr);
    }
    let quiet = lab.succeeds(&format!("{words} --out b -q"));
    assert_eq!(quiet.stderr, "");
    assert_eq!(quiet.stdout, run.stdout);
    // An experiment says it once for all strategies, too.
    let words = "run e.toml --rounds 1 --strategies random,random-2 --rate 99";
    let run = lab.succeeds(&format!("{words} --out c"));
    assert_eq!(run.stderr.matches("(said once)").count(), 1, "{}", run.stderr);
    let quiet = lab.succeeds(&format!("{words} --out d -q"));
    assert_eq!(quiet.stderr, "");
}

#[test]
fn killed_and_resumed_it_says_the_same() {
    let lab = lab();
    lab.succeeds(&format!("{REHEARSE} --out whole"));
    let began = Instant::now();
    let mut kills = 0;
    loop {
        let mut child = lab.start(&format!("{REHEARSE} --out killed"));
        let until = Instant::now() + Duration::from_millis(150 + 200 * kills);
        while Instant::now() < until && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        assert!(began.elapsed() < Duration::from_secs(120));
    }
    assert!(kills > 0);
    assert_eq!(advice(&lab, "killed"), advice(&lab, "whole"));
}

#[test]
fn what_cannot_be_rehearsed_is_refused() {
    let lab = lab();
    lab.write("few.txt", "scene-00000\nscene-00001\n");
    lab.write("no.txt", "nothing\n");
    for (words, says) in [
        ("--strategies random", "compares others with random"),
        ("--strategies random,random-2", "compares others with random"),
        ("--strategies novel", "no strategy 'novel'"),
        ("--seeds 3", "seeds: 3 seeds; at least 4 are needed"),
        ("--budget 0", "budget: is 0"),
        ("--paired few.txt", "2 training items are paired; a rehearsal hides most of them"),
        ("--model bert", "bert is neither the folder of a model nor one of"),
        ("--jobs 0", "--jobs is 0"),
    ] {
        let flag = words.split(' ').next().unwrap();
        let usual =
            "rehearse ds --config s.toml --budget 20 --seeds 4 --strategies herding --out x";
        let usual: Vec<&str> = usual.split(' ').collect();
        let at = usual.iter().position(|word| *word == flag);
        let mut line = usual.clone();
        if let Some(at) = at {
            line.drain(at..at + 2);
        }
        lab.refused(&format!("{} {words}", line.join(" ")), says);
    }
    lab.refused("rehearse ds --budget 20", "give --model, or --config");
    // Without dev there is nothing to test on.
    let items = fs::read_to_string(lab.path("ds/items.jsonl")).unwrap();
    lab.write("ds/items.jsonl", &items.replace("\"dev\"", "\"other\""));
    lab.refused(&format!("{REHEARSE} --out y"), "there is no split dev");
    for way in ["`nextpair rehearse --dev 0.2`", "`nextpair import --dev 0.1`"] {
        lab.refused(&format!("{REHEARSE} --out y"), way);
    }
    lab.refused(&format!("{REHEARSE} --out y --dev 2"), "dev: 2 is not a share");
}

#[test]
fn a_rehearsal_makes_its_own_dev_and_leaves_the_dataset_alone() {
    let lab = lab();
    let items = lab.read("ds/items.jsonl").replace("\"dev\"", "\"train\"");
    lab.write("ds/items.jsonl", &items.replace("\"test\"", "\"train\""));
    let before = tree(&lab.path("ds"));
    lab.succeeds(&format!("{REHEARSE} --dev 0.2"));
    assert!(tree(&lab.path("ds")) == before);
    let made = json_lines(&lab.read("rehearsal/dataset/items.jsonl"));
    let dev = made.iter().filter(|item| item["split"] == "dev").count();
    assert!((12..36).contains(&dev), "{dev} of 120");
    assert_eq!(advice(&lab, "rehearsal")["paired"], 120 - dev);
    // The next one finds the same items, and goes on with the same rehearsal.
    let again = lab.succeeds(&format!("{REHEARSE} --dev 0.2"));
    assert!(
        !again.stdout.is_empty() && json_lines(&lab.read("rehearsal/dataset/items.jsonl")) == made
    );
}

#[test]
fn a_run_takes_what_its_rehearsal_finds() {
    let lab = Lab::new(200);
    let words = "run e.toml --strategies auto --initial 0.6 --rounds 1 --out run";
    let run = lab.succeeds(words);
    assert!(run.stderr.contains("auto: "), "{}", run.stderr);
    let found = advice(&lab, "run");
    assert_eq!(found["paired"], 96);
    let lines = fs::read_to_string(lab.path("run/rounds.jsonl")).unwrap();
    assert!(lines.contains("\"random\""));
    // Resumed, it keeps what was chosen.
    let again = lab.succeeds(&format!("{words} --resume"));
    assert!(!again.stderr.contains("auto: "), "{}", again.stderr);
    lab.refused("run e.toml --strategies auto,random --out y", "auto stands alone");
}

#[test]
fn what_pays_with_a_kind_of_model_is_tried() {
    let lab = lab();
    let sizes = "\"scan\"\n\n[model.encoders]\n";
    lab.write("scan.toml", &SETTINGS.replace("\"vse\"\n", sizes));
    for (config, tried) in [("s.toml", false), ("scan.toml", true)] {
        let out = config.trim_end_matches(".toml");
        let words = format!("rehearse ds --config {config} --budget 20 --seeds 4 --epochs 1");
        lab.succeeds(&format!("{words} --out {out}"));
        let found = advice(&lab, out);
        let strategies = found["scales"][1]["strategies"].as_array().unwrap();
        let is_there = strategies.iter().any(|one| one["strategy"] == "core-set+encoded");
        assert_eq!(is_there, tried, "{found}");
        // What is advised is written down: what was found, else what is expected, else random.
        let advised = found["choice"].get("strategy").or(found["expected"].get("strategy"));
        assert_eq!(found["strategy"], *advised.unwrap_or(&"random".into()), "{found}");
    }
}
