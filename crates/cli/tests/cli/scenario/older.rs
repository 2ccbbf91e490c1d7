//! Experiments of older versions, whose picks had fewer fields.

use std::fs;

use nextpair::data::{fingerprint, queue};

use super::people::{answer_in_two_parts, lab as people_lab};
use super::{Lab, files_below};
use crate::datasets::tree;

/// Rewrites the picks of an experiment as older versions wrote them, and the journal with their
/// fingerprints.
fn make_older(lab: &Lab, run: &str) {
    let mut journal = lab.read(&format!("{run}/rounds.jsonl"));
    let mut rewritten = 0;
    for path in files_below(&lab.path(run)) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if !(name.starts_with("picks-") && name.ends_with(".jsonl") || name == "queue.jsonl") {
            continue;
        }
        let before = fs::read(&path).unwrap();
        let older = queue::older_lines(&queue::read(&path).unwrap());
        assert!(older != before, "{name} has nothing that older versions did not know");
        assert!(!String::from_utf8_lossy(&older).contains("anchor"));
        journal = journal.replace(&fingerprint(&before), &fingerprint(&older));
        fs::write(&path, older).unwrap();
        rewritten += 1;
    }
    assert!(rewritten > 0);
    write_sealed(lab, run, &journal);
}

/// Writes the journal of an experiment with the seals of its lines.
fn write_sealed(lab: &Lab, run: &str, journal: &str) {
    let (mut sealed, mut seal) = (String::new(), String::new());
    for line in journal.lines() {
        let round = line.strip_prefix("{\"round\":").unwrap().rsplit_once(",\"seal\":").unwrap().0;
        seal = fingerprint(format!("{seal}{round}").as_bytes());
        sealed += &format!("{{\"round\":{round},\"seal\":\"{seal}\"}}\n");
    }
    lab.write(&format!("{run}/rounds.jsonl"), &sealed);
}

#[test]
fn folders_of_older_versions_open_and_go_on() {
    let lab = Lab::new(60);
    lab.succeeds("run e.toml --out new");
    lab.copy("new", "old");
    make_older(&lab, "old");
    lab.succeeds("run old --resume");
    let before = tree(&lab.path("old"));
    lab.succeeds("run old --resume");
    assert!(tree(&lab.path("old")) == before, "a resume changed a byte");
    lab.succeeds("report old");
    // What was lost is picked again, with more fields, and is what it was.
    let lost = "old/seed-0/hard-negative/picks-1.jsonl";
    fs::remove_file(lab.path(lost)).unwrap();
    lab.succeeds("run old --resume");
    assert_eq!(lab.read(lost), lab.read("new/seed-0/hard-negative/picks-1.jsonl"));
    // Another round is what it would have been.
    for run in ["old", "new"] {
        lab.succeeds(&format!("run {run} --resume --rounds 3"));
    }
    for name in ["random/picks-3.jsonl", "hard-negative/picks-3.jsonl"] {
        assert_eq!(
            lab.read(&format!("old/seed-0/{name}")),
            lab.read(&format!("new/seed-0/{name}"))
        );
    }
    // An edit is an edit in every form.
    let edited = lab.read(lost).replacen("\"score\":", "\"score\":1", 1);
    lab.write(lost, &edited);
    lab.refused("run old --resume", "picks-1.jsonl: not what seed 0, hard-negative, round 1");
}

#[test]
fn what_another_program_picks_does_not_pass_for_what_was_lost() {
    let lab = Lab::new(60);
    lab.succeeds("run e.toml --out run");
    let lost = "run/seed-0/hard-negative/picks-1.jsonl";
    let picks = fingerprint(lab.read(lost).as_bytes());
    let other = lab.read("run/rounds.jsonl").replace(&picks, "0123456789abcdef");
    write_sealed(&lab, "run", &other);
    fs::remove_file(lab.path(lost)).unwrap();
    let says = "picks-1.jsonl: was lost, and what is picked now is not what seed 0, hard-negative, round 1";
    for _ in 0..2 {
        lab.refused("run run --resume", says);
        assert!(!lab.path(lost).exists());
    }
}

#[test]
fn queues_of_older_versions_are_answered() {
    let lab = people_lab();
    lab.succeeds(&format!("{} --rounds 1 --out run", super::people::RUN));
    lab.copy("run", "old");
    make_older(&lab, "old");
    answer_in_two_parts(&lab, "old");
    for run in ["run", "old"] {
        lab.succeeds(&format!("ingest {run} sheet.csv rest.jsonl"));
    }
    assert_eq!(lab.read("old/dataset/items.jsonl"), lab.read("run/dataset/items.jsonl"));
    assert!(!lab.path("old/queue.jsonl").exists());
}
