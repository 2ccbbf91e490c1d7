//! Progress and summary of a selection, as text and as JSON.

use serde_json::Value;

use crate::world::{Asked, World, json_lines};

#[test]
fn standard_output_holds_nothing_but_the_picks() {
    let world = World::small();
    world.select("");
    let picks = String::from_utf8(world.read("out/picks.jsonl")).unwrap();
    let run = world.select("--out -");
    assert_eq!(run.stdout, picks);
    assert!(run.stderr.contains("picked      9 of 40 by hard-negative"), "{}", run.stderr);

    let run = world.select("--out - --json");
    assert_eq!(run.stdout, picks);
    let summary: Value = serde_json::from_str(run.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(summary["out"], "-");
}

#[test]
fn the_summary_is_readable() {
    let world = World::small();
    let run = world.select("");
    assert_eq!(run.stdout, "");
    let places: Vec<usize> = [
        "40 pool items, 24 pairs, 6 dimensions; predicted peak memory ",
        "picked      9 of 40 by hard-negative",
        "thresholds  ",
        "hard neg.   ",
        "time        ",
        "written     out/picks.jsonl",
    ]
    .iter()
    .map(|part| run.stderr.find(part).unwrap_or_else(|| panic!("no {part} in {}", run.stderr)))
    .collect();
    assert!(places.is_sorted(), "{}", run.stderr);
    assert!(run.stderr.contains("peak ") && run.stderr.contains(" MB"), "{}", run.stderr);
}

#[test]
fn the_summary_is_machine_readable() {
    let world = World::small();
    let asked = Asked { budget: 40, ..Asked::usual() };
    let run = world.select("--budget 40 --json");
    let [summary] = &json_lines(&run.stdout)[..] else { panic!("{}", run.stdout) };
    let mut thresholds = world.thresholds(&asked);
    thresholds.sort_by(f64::total_cmp);
    assert_eq!(summary["thresholds"][0], thresholds[0]);
    assert_eq!(summary["thresholds"][1], thresholds[thresholds.len() / 2]);
    assert_eq!(summary["thresholds"][2], thresholds[thresholds.len() - 1]);

    let hit = world.expected(&asked).iter().filter(|pick| pick["hits"] != 0).count();
    assert!((1..40).contains(&hit), "some items have a hit and some have none");
    assert_eq!(summary["hard_negative_share"], 100.0 * hit as f64 / 40.0);
    assert_eq!(summary["picks_without_hit"], 40 - hit);
    assert_eq!(summary["strategy"], "hard-negative");
    assert_eq!((&summary["pool"], &summary["picks"]), (&40.into(), &40.into()));
    assert_eq!(summary["out"], "out/picks.jsonl");
    assert!(summary["seconds"].as_f64().unwrap() >= 0.0);
    let (predicted, peak) = (&summary["predicted_peak_bytes"], &summary["peak_bytes"]);
    assert!(predicted.as_u64().unwrap() > 0);
    assert!(!cfg!(target_os = "linux") || peak.as_u64().unwrap() > 0);
    assert!(run.stderr.contains("predicted peak memory"), "{}", run.stderr);
}

#[test]
fn picks_without_a_hit_are_mentioned() {
    let world = World::small();
    let indices = |flags: &str| -> Vec<Value> {
        let run = world.select(flags);
        let says = "warning     9 of 9 picks have no hit: fewer items have one than the budget asks for; ask";
        assert!(run.stderr.contains(says), "{}", run.stderr);
        let picks = world.picks("out/picks.jsonl");
        assert!(picks.iter().all(|pick| pick["hits"] == 0 && pick["why"] == Value::Array(vec![])));
        picks.iter().map(|pick| pick["index"].clone()).collect()
    };
    let in_order: Vec<Value> = (0..9).map(Value::from).collect();
    assert_eq!(indices("--max-score -2 --fill index"), in_order);
    assert_ne!(indices("--max-score -2"), in_order, "filled by nearest miss");
}

#[test]
fn strategies_without_hits_report_none() {
    let world = World::small();
    for strategy in ["random", "core-set"] {
        let run = world.select(&format!("--strategy {strategy} --json"));
        let [summary] = &json_lines(&run.stdout)[..] else { panic!("{}", run.stdout) };
        for field in ["thresholds", "hard_negative_share", "picks_without_hit"] {
            assert!(summary[field].is_null(), "{summary}");
        }
    }
}

#[test]
fn help_and_version_are_not_errors() {
    let world = World::small();
    for words in ["--help", "--version", "select --help", "score --help", "merge --help"] {
        let run = world.run(words);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{words}");
        assert!(!run.stdout.is_empty(), "{words}");
    }
    let help = world.run("--help").stdout;
    assert!(help.starts_with("Which unpaired item should we pay to pair next?\n"), "{help}");
    assert_eq!(world.run("").code, Some(2));
    assert_eq!(world.run("choose").code, Some(2));
}
