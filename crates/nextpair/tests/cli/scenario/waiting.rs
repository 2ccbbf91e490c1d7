//! Runs that wait while people annotate.

use std::fs::{File, TryLockError};
use std::time::{Duration, Instant};

use nextpair::data::queue::{Answer, AnswerContent};
use nextpair::scenario::Inbox;
use serde_json::{Value, json};

use super::Lab;
use super::people::{RUN, answer_in_two_parts, lab, whole_run};
use crate::world::{Run, json_lines, nextpair};

/// Longer than any test here takes.
const PATIENCE: Duration = Duration::from_secs(300);

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}: waited for too long");
        std::thread::yield_now();
    }
}

fn is_held(lab: &Lab, lock: &str) -> bool {
    let file = File::open(lab.path(lock));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Takes answers as soon as the run releases its folder.
fn ingest(lab: &Lab, words: &str) -> Run {
    let began = Instant::now();
    loop {
        let run = nextpair(&lab.path(""), &format!("ingest {words}"));
        if run.code == Some(0) {
            return run;
        }
        assert!(run.stderr.contains("another process is at this experiment"), "{}", run.stderr);
        assert!(began.elapsed() < PATIENCE, "{words}: waited for too long");
    }
}

/// Answers the queue in COCO's layout, which names images by their files.
fn answer_in_coco(lab: &Lab, run: &str) {
    let items = json_lines(&lab.read("ds/items.jsonl"));
    let ids = lab.ids(&format!("{run}/queue.jsonl"), "id");
    let file = |id: &String| &items.iter().find(|item| item["id"] == **id).unwrap()["image"];
    let number = |(at, id): (usize, &String)| json!({ "id": at, "file_name": file(id) });
    let images: Vec<Value> = ids.iter().enumerate().map(number).collect();
    let said = |at: usize| {
        let caption = format!("A blue star and {at} squares.");
        json!({ "id": at, "image_id": at, "caption": caption, "annotator": "1" })
    };
    let annotations: Vec<Value> = (0..ids.len()).map(said).collect();
    let file = json!({ "images": images, "annotations": annotations });
    lab.write("coco.json", &file.to_string());
}

#[test]
fn a_run_that_waits_goes_on_by_itself() {
    let lab = lab();
    whole_run(&lab, RUN);
    let waits = || is_held(&lab, "waits/.waiting") && lab.path("waits/queue.jsonl").exists();
    let mut run = lab.start(&format!("{RUN} --out waits --wait"));
    until("round 1", waits);
    answer_in_two_parts(&lab, "waits");
    let some = ingest(&lab, "waits sheet.csv");
    assert_eq!(some.stdout, "2 new answers, 0 known before\n3 of 5 tasks wait\n");
    for words in ["run waits --resume", "run waits --resume --wait"] {
        lab.refused(words, "waits: another process waits for people, and goes on by itself");
    }

    // Kill the run while it waits, and start it again.
    assert!(run.try_wait().unwrap().is_none(), "it waits for the rest");
    run.kill().unwrap();
    run.wait().unwrap();
    let mut run = lab.start("run waits --resume --wait");
    until("round 1 again", waits);
    let rest = ingest(&lab, "waits rest.jsonl");
    assert!(rest.stdout.ends_with("every task of the queue has an answer\n"), "{}", rest.stdout);
    assert!(
        rest.stderr.contains("the experiment that waits for them goes on by itself"),
        "{}",
        rest.stderr
    );

    let picks = lab.path("waits/seed-0/hard-negative/picks-2.jsonl");
    until("round 2", || picks.exists() && waits());
    answer_in_coco(&lab, "waits");
    ingest(&lab, "waits coco.json");
    assert!(run.wait().unwrap().success());
    lab.assert_same("waits", &lab.results("run"));
    assert!(!lab.path("waits/queue.jsonl").exists());
}

#[test]
fn nobody_waits_for_programs() {
    let lab = Lab::new(80);
    lab.succeeds("run e.toml --strategies random --rounds 1 --out run --wait");
    lab.refused("annotate run", "run: the annotator of this experiment is not human");
}

#[test]
fn answers_are_handed_over_once_or_twice() {
    let lab = lab();
    lab.succeeds(&format!("{RUN} --rounds 1 --out run"));
    let inbox = Inbox::open(&lab.path("run")).unwrap();
    let batch = inbox.batch().unwrap().unwrap();
    assert_eq!((batch.round, batch.tasks.len()), (1, 5));
    let answer = |id: &str, caption: &str| {
        let said = AnswerContent::Caption(caption.into());
        Answer { id: id.into(), said, annotator: Some("eve".into()), provenance: None }
    };
    let answers: Vec<Answer> =
        batch.tasks.iter().map(|task| answer(&task.id, "A red star.")).collect();
    let stranger = [answers[0].clone(), answer("scene-000001", "A star.")];
    let refused = |round: usize, answers: &[Answer], says: &str| {
        let what = inbox.hand_over(round, answers, &[]).unwrap_err().to_string();
        assert!(what.contains(says), "{what}");
    };
    refused(1, &stranger, "answer 2: nobody was asked about \"scene-000001\"");
    refused(2, &answers, "round 2 is not waiting for people");
    assert!(!lab.path("run/answers.jsonl").exists(), "all or nothing");
    for _ in 0..2 {
        assert!(inbox.hand_over(1, &answers, &[]).unwrap());
        assert!(inbox.batch().unwrap().is_none(), "the batch is closed");
    }
    lab.succeeds("run run --resume");
    assert!(inbox.batch().unwrap().is_none());
    assert!(inbox.hand_over(1, &answers, &[]).unwrap());
    refused(1, &stranger, "nobody was asked about \"scene-000001\"");
    let late = [answers[0].clone(), answer(&batch.tasks[1].id, "A late star.")];
    for _ in 0..2 {
        assert!(!inbox.hand_over(1, &late, &[]).unwrap(), "closed without one of them");
        assert_eq!(lab.read("run/answers.jsonl").lines().count(), 6, "and kept, once");
    }
}

#[test]
fn items_of_a_batch_that_was_closed_early_stay_in_the_pool() {
    let lab = lab();
    // So many that the second round asks again.
    let words = RUN.replace("--budget 5", "--budget 7");
    lab.succeeds(&format!("{words} --rounds 3 --out run"));
    let inbox = Inbox::open(&lab.path("run")).unwrap();
    let batch = inbox.batch().unwrap().unwrap();
    let answer = |at: usize, said: AnswerContent| {
        let id = batch.tasks[at].id.clone();
        Answer { id, said, annotator: Some("eve".into()), provenance: None }
    };
    let caption =
        |at: usize| answer(at, AnswerContent::Caption(format!("A star and {at} squares.")));
    let some = [caption(0), caption(1), answer(2, AnswerContent::Skip("too dark".into()))];
    assert!(inbox.hand_over(1, &some, &[]).unwrap());
    let mut told = Vec::new();
    inbox.wait(|answered| told.push(answered)).unwrap();
    assert!(told.is_empty(), "nothing waits");
    lab.succeeds("run run --resume");
    let round = &lab.rounds("run")[1];
    let counts = ["picked", "skipped", "unanswered"].map(|key| round["batch"][key].clone());
    assert_eq!(counts, [json!(7), json!(1), json!(4)]);
    let before = &lab.rounds("run")[0];
    let grown = |key: &str| round[key].as_i64().unwrap() - before[key].as_i64().unwrap();
    assert_eq!((grown("paired"), grown("pool")), (2, -3));

    // They are picked again, and an answer that was reviewed meanwhile counts.
    let second = inbox.batch().unwrap().unwrap();
    let left = |at: &usize| second.tasks.iter().any(|task| task.id == batch.tasks[*at].id);
    let again: Vec<usize> = (3..7).filter(left).collect();
    assert!(!again.is_empty() && !(0..3).any(|at| left(&at)), "{again:?}");
    let late = [&some[..], &[caption(again[0])]].concat();
    assert!(!inbox.hand_over(1, &late, &[]).unwrap());
    assert_eq!(inbox.answered(&second).unwrap(), 1);
    assert!(inbox.hand_over(2, &[], &[]).unwrap());
    lab.succeeds("run run --resume");
    let last = &lab.rounds("run")[2];
    assert_eq!(last["paired"].as_i64().unwrap() - round["paired"].as_i64().unwrap(), 1);
    assert_eq!(last["batch"]["unanswered"], second.tasks.len() - 1);
    // A batch without any answer ends as well.
    assert!(inbox.hand_over(3, &[], &[]).unwrap());
    lab.succeeds("run run --resume");
    let (empty, last) = (&lab.rounds("run")[3], &lab.rounds("run")[2]);
    assert_eq!((&empty["paired"], &empty["pool"]), (&last["paired"], &last["pool"]));
    assert_eq!(empty["batch"]["unanswered"], empty["batch"]["picked"]);
    // A second look comes to the same.
    let whole = lab.results("run");
    lab.succeeds("run run --resume");
    lab.assert_same("run", &whole);
}
