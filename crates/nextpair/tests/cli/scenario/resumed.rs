//! Changes to an existing experiment that `--resume` allows or refuses.

use std::fs;

use nextpair::data::fingerprint;

use super::Lab;

#[test]
fn seeds_strategies_and_rounds_are_added() {
    let lab = Lab::new(80);
    let all = "--seeds 3,0 --strategies core-set,random,hard-negative --rounds 3";
    lab.succeeds(&format!("run e.toml {all} --out whole"));
    lab.succeeds("run e.toml --strategies random --rounds 1 --out run");
    for words in [
        "--strategies random --rounds 1 --seeds 0,3",
        "--strategies hard-negative,random --rounds 1 --seeds 0,3 --price 0.5",
        "--strategies hard-negative,random --rounds 3 --seeds 3",
    ] {
        lab.succeeds(&format!("run e.toml {words} --out run --resume"));
    }
    lab.succeeds(&format!("run run --resume {all}"));
    lab.assert_same("run", &lab.results("whole"));
    assert!(lab.read("run/experiment.toml").contains("\"core-set\", \"random\""));
}

#[test]
fn settings_cannot_be_changed() {
    let lab = Lab::new(80);
    lab.succeeds("run e.toml --rounds 1 --out run");
    let (before, files) = (lab.results("run"), lab.read("run/experiment.toml"));
    for (words, says) in [
        ("--budget 0.2", "budget is 0.2 and not 0.1"),
        ("--initial 9", "initial is 9 and not 0.3"),
        ("--epochs 3", "training.epochs is 3 and not 2"),
        ("--dim 9", "model.dim is 9 and not 8"),
        ("--captions all", "training.captions is \"all\" and not \"random\""),
        ("--pool text", "pool is \"text\" and not \"image\""),
        ("--wrong 0.1", "and not \"oracle\""),
        ("--folds 2", "evaluation.folds is [2] and not [1]"),
        ("--min-count 2", "min_count is 2 and not 4"),
        ("--features others", "features is \"others\" and not \"regions\""),
    ] {
        lab.refused(&format!("run run --resume {words}"), says);
        lab.refused(&format!("run e.toml --out run --resume {words}"), "name another folder");
    }
    lab.refused(
        "run e.toml --out run",
        "run: there is an experiment already; --resume continues it",
    );
    lab.refused("run run", "run is a folder; name a file, or continue an experiment with --resume");
    lab.refused("run e.toml --out ds", "which is not of an experiment; name a new folder");
    assert_eq!(lab.read("run/experiment.toml"), files);
    lab.assert_same("run", &before);
}

#[test]
fn one_process_at_a_time() {
    let lab = Lab::new(80);
    let long = "run e.toml --epochs 1000000 --out run";
    let mut first = lab.start(long);
    while !lab.path("run/seed-0/round-0/model.json").exists() {
        assert!(first.try_wait().unwrap().is_none(), "it ended");
        std::thread::yield_now();
    }
    lab.refused(&format!("{long} --resume"), "run: another process is at this experiment");
    assert!(first.try_wait().unwrap().is_none(), "the first goes on");
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn features_that_are_added_later_are_not_taken() {
    let lab = Lab::new(80);
    lab.succeeds("run e.toml --out whole");
    lab.succeeds("run e.toml --rounds 1 --out run");
    let manifest = lab.read("ds/dataset.toml");
    let others = "\n[[features]]\nname = \"others\"\nside = \"image\"\nper = \"item\"\n\
                  files = [\"features/others.npy\"]\n";
    std::fs::copy(lab.path("ds/features/regions.image.npy"), lab.path("ds/features/others.npy"))
        .unwrap();
    lab.write("ds/dataset.toml", &(manifest + others));
    lab.succeeds("run e.toml --out run --resume");
    lab.assert_same("run", &lab.results("whole"));
    assert!(lab.read("run/seed-0/random/round-2/model.json").contains("\"regions\""));
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
