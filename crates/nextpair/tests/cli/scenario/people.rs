//! Runs with human annotators: queues go out, answers come in.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use nextpair::engine::Draws;
use serde_json::{Value, json};

use super::Lab;
use crate::world::{json_lines, nextpair};

const QUEUES: [&str; 3] = ["queue.jsonl", "queue.csv", "queue.label-studio.json"];
pub(super) const RUN: &str = "run e.toml --annotator human --strategies hard-negative --budget 5";

/// Returns a lab where every third training image has no captions.
pub(crate) fn lab() -> Lab {
    let lab = Lab::new(80);
    let mut items = json_lines(&lab.read("ds/items.jsonl"));
    let (mut left, mut text) = (0, String::new());
    for (number, item) in items.iter_mut().enumerate() {
        if item["split"] == "train" && number % 3 == 0 {
            item["captions"] = json!([]);
        }
        left += item["captions"].as_array().unwrap().len();
        text += &format!("{item}\n");
    }
    lab.write("ds/items.jsonl", &text);
    let manifest = lab.read("ds/dataset.toml");
    lab.write(
        "ds/dataset.toml",
        &manifest.replace("captions = 400", &format!("captions = {left}")),
    );
    // No initial share: with human annotators, all paired items count as paired.
    lab.write("e.toml", &lab.read("e.toml").replace("initial = 0.3\n", ""));
    lab
}

/// Answers a queue: the sheet with captions for the first two tasks, JSON lines for the other
/// three. One of them is a skip, one has two captions.
pub(super) fn answer_in_two_parts(lab: &Lab, run: &str) {
    let sheet = lab.read(&format!("{run}/queue.csv"));
    let mut lines: Vec<String> = sheet.lines().map(str::to_owned).collect();
    assert!(lines[0].ends_with("id,image,score,confused_with,caption,skip"), "{}", lines[0]);
    for (number, line) in lines.iter_mut().enumerate().skip(1).take(2) {
        let cells = line.strip_suffix(",,").expect("two empty cells");
        *line = format!("{cells},\"A star, seen by person {number}.\",");
    }
    lab.write("sheet.csv", &(lines.join("\n") + "\n"));
    let ids = lab.ids(&format!("{run}/queue.jsonl"), "id");
    let rest = [
        json!({ "id": ids[2], "caption": "There is a red circle." }),
        json!({ "id": ids[2], "caption": "A disk is red.", "annotator": "eve" }),
        json!({ "id": ids[3], "skip": "nothing to see" }),
        json!({ "id": ids[4], "caption": "A square above a triangle." }),
    ];
    lab.write("rest.jsonl", &rest.map(|line| format!("{line}\n")).concat());
}

/// Writes the answers to a queue as an export of Label Studio.
fn answer_in_label_studio(lab: &Lab, run: &str) {
    let text = lab.read(&format!("{run}/queue.label-studio.json"));
    let mut tasks: Value = serde_json::from_str(&text).unwrap();
    for (number, task) in tasks.as_array_mut().unwrap().iter_mut().enumerate() {
        let said = json!({ "text": [format!("A blue star and {number} squares.")] });
        let result = json!({ "type": "textarea", "from_name": "caption", "value": said });
        task["annotations"] = json!([{ "completed_by": 1, "result": [result] }]);
    }
    lab.write("export.json", &tasks.to_string());
}

pub(crate) fn captions(lab: &Lab, dataset: &str) -> HashMap<String, Vec<Value>> {
    let items = json_lines(&lab.read(&format!("{dataset}/items.jsonl")));
    let of = |item: &Value| item["captions"].as_array().unwrap().clone();
    items.iter().map(|item| (item["id"].as_str().unwrap().to_owned(), of(item))).collect()
}

/// Runs a whole experiment with people, without interruptions.
pub(super) fn whole_run(lab: &Lab, words: &str) {
    let run = lab.succeeds(&format!("{words} --out run"));
    for part in [
        "round 1 waits for people: 0 of 5 items have an answer",
        "`nextpair annotate run` serves it to them",
        "nextpair ingest run ANSWERS",
    ] {
        assert!(run.stderr.contains(part), "no '{part}' in {}", run.stderr);
    }
    let queues = || QUEUES.map(|name| lab.read(&format!("run/{name}")));
    let first = queues();
    lab.succeeds("run run --resume");
    assert_eq!(queues(), first, "whoever asks again is told the same");
    answer_in_two_parts(lab, "run");

    let some = lab.succeeds("ingest run sheet.csv");
    assert_eq!(some.stdout, "2 new answers, 0 known before\n3 of 5 tasks wait\n");
    let waits = lab.succeeds("run run --resume");
    assert!(
        waits.stderr.contains("waits for people: 2 of 5 items have an answer"),
        "{}",
        waits.stderr
    );
    let only = lab.succeeds("ingest run rest.jsonl --only");
    assert_eq!(
        only.stdout,
        "4 new answers, 0 known before\nevery task of the queue has an answer\n"
    );
    assert_eq!(lab.rounds("run").len(), 1, "--only takes answers and no more");
    let rest = lab.succeeds("ingest run sheet.csv rest.jsonl");
    assert!(rest.stdout.contains("0 new answers, 6 known before\nevery task"), "{}", rest.stdout);
    assert!(rest.stderr.contains("round 2 waits for people: 0 of 5"), "{}", rest.stderr);
    assert_ne!(queues(), first);

    let again = lab.succeeds("ingest run rest.jsonl sheet.csv");
    assert_eq!(again.stdout, "0 new answers, 6 known before\n5 of 5 tasks wait\n");
    refuse_what_nobody_asked(lab);
    answer_in_label_studio(lab, "run");
    let last = lab.succeeds("ingest run export.json");
    assert!(last.stdout.starts_with("5 new answers, 0 known before\n"), "{}", last.stdout);
    assert!(last.stderr.contains("done: run"), "{}", last.stderr);
}

fn refuse_what_nobody_asked(lab: &Lab) {
    let closed = lab.ids("run/seed-0/hard-negative/picks-1.jsonl", "id").swap_remove(0);
    let (book, open) = (lab.read("run/answers.jsonl"), lab.ids("run/queue.jsonl", "id"));
    let refused = |name: &str, line: Value, says: &str| {
        let good = json!({ "id": open[0], "caption": "A star." });
        lab.write(name, &format!("{good}\n{line}\n"));
        lab.refused(&format!("ingest run {name}"), says);
    };
    let late = json!({ "id": closed, "caption": "Something better." });
    refused("late.jsonl", late, &format!("late.jsonl:2: the round of \"{closed}\" is closed"));
    let stranger = json!({ "id": "scene-x", "caption": "A star." });
    refused(
        "stranger.jsonl",
        stranger,
        "stranger.jsonl:2: an answer about \"scene-x\": there is no item \"scene-x\"",
    );
    let paired = json!({ "id": "scene-000001", "caption": "A star." });
    refused("paired.jsonl", paired, "paired.jsonl:2: nobody was asked about \"scene-000001\"");
    let image = json!({ "id": open[0], "image": "scene-000001" });
    refused("image.jsonl", image, "image.jsonl:2: an image, but images are paired with a caption");
    refused("empty.jsonl", json!({ "id": open[0], "caption": " " }), "empty.jsonl:2: ");
    refused("answers.txt", json!({}), "answers are read from .jsonl, .csv and .json");
    assert_eq!(lab.read("run/answers.jsonl"), book, "nothing of a bad file is taken");
}

#[test]
fn people_are_asked_and_what_they_say_is_learned() {
    let lab = lab();
    whole_run(&lab, RUN);
    let rounds = lab.rounds("run");
    let start = rounds[0]["paired"].as_u64().unwrap();
    let counts = |round: usize| {
        let round = &rounds[round];
        ["paired", "pairs", "pool"].map(|key| round[key].as_u64().unwrap())
    };
    let pool = counts(0)[2];
    assert_eq!(counts(1), [start + 4, start + 5, pool - 5]);
    assert_eq!(counts(2), [start + 9, start + 10, pool - 10]);
    assert_eq!(
        (&rounds[1]["batch"]["skipped"], &rounds[2]["batch"]["skipped"]),
        (&json!(1), &json!(0))
    );
    assert!(QUEUES.iter().all(|name| !lab.path(&format!("run/{name}")).exists()));
    lab.refused("ingest run sheet.csv", "no queue is waiting for people");

    // The dataset has the new captions and is otherwise unchanged.
    let (before, after) = (captions(&lab, "ds"), captions(&lab, "run/dataset"));
    let picked =
        |round: usize| lab.ids(&format!("run/seed-0/hard-negative/picks-{round}.jsonl"), "id");
    let (first, second) = (picked(1), picked(2));
    assert_eq!(after[&first[0]], [json!("A star, seen by person 1.")]);
    assert_eq!(after[&first[2]], [json!("There is a red circle."), json!("A disk is red.")]);
    assert!(after[&first[3]].is_empty(), "it was skipped");
    assert_eq!(after[&second[4]], [json!("A blue star and 4 squares.")]);
    for (id, captions) in &before {
        assert!(after[id] == *captions || first.contains(id) || second.contains(id), "{id}");
    }
    lab.succeeds("inspect run/dataset");
}

#[test]
fn kills_between_people_change_nothing() {
    let lab = lab();
    whole_run(&lab, RUN);
    kills_change_nothing(&lab, RUN);
}

/// Kills every step of an experiment at random times. The results must equal those of `run`.
pub(super) fn kills_change_nothing(lab: &Lab, words_of_run: &str) {
    let expected = lab.results("run");
    let mut draws = Draws::new(3);
    let mut kills = 0;
    for attempt in 0..3 {
        let out = format!("killed-{attempt}");
        // Kill a command, resume, and repeat it: taking answers twice adds nothing.
        let mut step = |words: &str| {
            let began = Instant::now();
            nextpair(&lab.path(""), words.replace(&out, "measured").as_str());
            let mut child = lab.start(words);
            let until = Instant::now() + began.elapsed().mul_f64(draws.unit());
            while Instant::now() < until && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            if child.try_wait().unwrap().is_none() {
                child.kill().unwrap();
                kills += 1;
            }
            child.wait().unwrap();
            lab.succeeds(&format!("{words_of_run} --out {out} --resume"));
            if words.starts_with("ingest") && lab.path(&format!("{out}/queue.jsonl")).exists() {
                lab.succeeds(words);
            }
        };
        step(&format!("{words_of_run} --out {out} --resume"));
        answer_in_two_parts(lab, &out);
        step(&format!("ingest {out} sheet.csv rest.jsonl"));
        answer_in_label_studio(lab, &out);
        step(&format!("ingest {out} export.json"));
        lab.assert_same(&out, &expected);
        let items = |run: &str| fs::read(lab.path(&format!("{run}/dataset/items.jsonl"))).unwrap();
        assert!(items(&out) == items("run"));
        let _ = fs::remove_dir_all(lab.path("measured"));
    }
    assert!(kills > 0, "no process was killed in the middle");
}

#[test]
fn texts_are_paired_with_images() {
    let lab = Lab::new(80);
    let words = "run e.toml --pool text --strategies hard-negative --rounds 1 --budget 5";
    lab.succeeds(&format!("{words} --out oracle"));
    let run = lab.succeeds(&format!("{words} --annotator human --out run"));
    assert!(run.stderr.contains("round 1 waits for people: 0 of 5"), "{}", run.stderr);
    let picks = lab.ids("run/queue.jsonl", "id");
    assert_eq!(picks, lab.ids("oracle/seed-0/hard-negative/picks-1.jsonl", "id"));
    let sheet = lab.read("run/queue.csv");
    assert!(sheet.lines().next().unwrap().ends_with("id,text,score,confused_with,image,skip"));
    // The other splits are for tests.
    let tested = "scene-000070";
    let items = json_lines(&lab.read("ds/items.jsonl"));
    let free = |item: &&Value| {
        item["split"] == "train" && !picks.iter().any(|picked| item["id"] == **picked)
    };
    let unasked = items.iter().find(free).unwrap()["id"].as_str().unwrap();
    let bad = json!({ "id": picks[0], "caption": "A star." });
    lab.write("bad.jsonl", &format!("{bad}\n"));
    lab.refused(
        "ingest run bad.jsonl",
        "bad.jsonl:1: a caption, but texts are paired with an image",
    );
    let bad = json!({ "id": picks[0], "image": "scene-x" });
    lab.write("bad.jsonl", &format!("{bad}\n"));
    lab.refused("ingest run bad.jsonl", "there is no item \"scene-x\"");
    let bad = json!({ "id": picks[0], "image": tested });
    lab.write("bad.jsonl", &format!("{bad}\n"));
    lab.refused("ingest run bad.jsonl", "\"scene-000070\" is of the split dev, not train");
    // The first text gets the image of the second, which so has more captions.
    let answers = [
        json!({ "id": picks[0], "image": picks[1] }),
        json!({ "id": picks[1], "image": picks[1] }),
        json!({ "id": picks[2], "skip": "no such image" }),
        json!({ "id": picks[3], "image": unasked }),
        json!({ "id": picks[4], "image": picks[4] }),
    ];
    lab.write("answers.jsonl", &answers.map(|line| format!("{line}\n")).concat());
    let run = lab.succeeds("ingest run answers.jsonl");
    assert!(run.stderr.contains("done: run"), "{}", run.stderr);
    let round = &lab.rounds("run")[1];
    assert_eq!((&round["batch"]["skipped"], &round["paired"]), (&json!(1), &json!(19 + 4)));

    let pairs = |run: &str| {
        let name = format!("{run}/seed-0/hard-negative/round-1/pairs.jsonl");
        json_lines(&lab.read(&name)).split_off(19)
    };
    let (said, oracle) = (pairs("run"), pairs("oracle"));
    assert_eq!(said.len(), 4);
    // Texts with their own image keep the caption they were asked about.
    assert_eq!((&said[1], &said[3]), (&oracle[1], &oracle[4]));
    assert_eq!((&said[0]["item"], &said[2]["item"]), (&json!(picks[1]), &json!(unasked)));
    let (before, after) = (captions(&lab, "ds"), captions(&lab, "run/dataset"));
    for (pair, text) in [(&said[0], 0), (&said[2], 3)] {
        let at = |pair: &Value| pair["caption"].as_u64().unwrap() as usize;
        let item = pair["item"].as_str().unwrap();
        assert_eq!(after[item][at(pair)], before[&picks[text]][at(&oracle[text])]);
    }

    // A kill may leave a queue behind after its round.
    lab.write("run/queue.jsonl", &lab.read("run/seed-0/hard-negative/picks-1.jsonl"));
    lab.refused(
        "ingest run answers.jsonl",
        "round 1 is closed; `nextpair run run --resume` goes on",
    );
}
