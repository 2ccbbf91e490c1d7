//! Item vectors for distances: their sources and their size on disk.

use nextpair::data::fingerprint;

use super::Lab;

/// Strategies based on distances, with and without visual words.
const DISTANT: &str = "--strategies core-set,core-set+bow,hybrid+bow";

/// Returns the fingerprints of the picks of every strategy and round of seed 0, without what is near them.
fn picked(lab: &Lab, run: &str) -> Vec<(String, u64, String)> {
    let rounds = lab.rounds(run).into_iter().filter(|round| round["batch"].is_object());
    let told = |round: serde_json::Value| {
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let number = round["round"].as_u64().unwrap();
        let strategy = text(&round["strategy"]);
        let path = lab.path(&format!("{run}/seed-0/{strategy}/picks-{number}.jsonl"));
        let lines = std::fs::read_to_string(path).unwrap();
        let picks = lines.lines().map(|line| match line.split_once(",\"near\":") {
            Some((pick, _)) => format!("{pick}}}\n"),
            None => format!("{line}\n"),
        });
        (strategy, number, fingerprint(picks.collect::<String>().as_bytes()))
    };
    rounds.map(told).collect()
}

#[test]
fn picks_by_distance_stay_what_they_are() {
    let lab = Lab::new(80);
    lab.succeeds("run e.toml --strategies core-set,core-set+bow --out run --jobs 2");
    let mut picked = picked(&lab, "run");
    picked.sort();
    let expected = [
        ("core-set", 1, "16d5a186b8300dcb"),
        ("core-set", 2, "9950d6d9fb37eba3"),
        ("core-set+bow", 1, "5d612a63ab4e1f53"),
        ("core-set+bow", 2, "4bda52232df709b1"),
    ];
    let expected = expected.map(|(arm, round, print)| (arm.to_owned(), round, print.to_owned()));
    assert_eq!(picked, expected);
}

/// Limits files to 512 kB. Means or bags of the 240 images take less; a copy of the regions of the
/// pool, at 4.6 kB an image, takes more.
#[cfg(unix)]
#[test]
fn no_selection_copies_regions() {
    let lab = Lab::new(240);
    let program = env!("CARGO_BIN_EXE_nextpair");
    let limited = |words: &str| {
        let command = format!("ulimit -f 512; exec \"$0\" {words}");
        let run = std::process::Command::new("sh")
            .args(["-c", &command, program])
            .current_dir(lab.path("."))
            .output()
            .unwrap();
        assert!(run.status.success(), "{words}: {run:?}");
    };
    limited(&format!("run e.toml {DISTANT} --rounds 1 --out run"));
    limited(&format!("run e.toml {DISTANT} --rounds 1 --bow-once --out once"));
    for features in ["mean", "bow"] {
        limited(&format!(
            "select ds --model run/seed-0/round-0 --pool-side image --strategy core-set \
             --features {features} --budget 9 --out picks-{features}.jsonl"
        ));
    }
}

#[test]
fn words_that_are_found_once_are_the_same_for_everybody() {
    let lab = Lab::new(80);
    let run = |out: &str, words: &str| {
        lab.succeeds(&format!("run e.toml {DISTANT} --bow-once --seeds 0,1 --out {out} {words}"));
        lab.results(out)
    };
    let expected = run("one", "--jobs 1 --threads 1");
    run("two", "--jobs 2 --threads 2");
    lab.assert_same("two", &expected);
    // Run a part now and the rest in another process, as after a kill.
    lab.succeeds("run e.toml --strategies hybrid+bow --bow-once --rounds 1 --seeds 1 --out three");
    run("three", "--resume --jobs 3");
    lab.assert_same("three", &expected);
    assert!(lab.read("three/experiment.toml").contains("once = true"));
    // Not the words that every selection finds for itself.
    lab.succeeds(&format!("run e.toml {DISTANT} --seeds 0,1 --out each"));
    let each = lab.results("each");
    let name = "seed-0/core-set/picks-1.jsonl";
    assert_eq!(each[name], expected[name], "means do not depend on it");
    let name = "seed-0/core-set+bow/picks-1.jsonl";
    assert_ne!(each[name], expected[name]);
}

#[test]
fn how_words_are_found_is_a_setting() {
    let lab = Lab::new(80);
    let run = |out: &str, words: &str| {
        lab.succeeds(&format!(
            "run e.toml --strategies core-set+bow --rounds 1 --out {out} {words}"
        ));
        picked(&lab, out)
    };
    let usual = run("usual", "");
    assert_eq!(run("same", "--bow-sample 30000 --bow-iterations 20"), usual);
    assert_ne!(run("few", "--bow-sample 400"), usual);
    assert_ne!(run("short", "--bow-iterations 1"), usual);
    assert!(!lab.read("same/experiment.toml").contains("[bow]"), "the default is not written");
    assert!(lab.read("few/experiment.toml").contains("sample = 400\niterations = 20\n"));
    lab.refused("run few --resume --bow-sample 500", "bow.sample is 500 and not 400");
    lab.refused("run e.toml --bow-sample 0 --out x", "bow: sample is 0; at least 1 is needed");

    let select = |words: &str| {
        format!(
            "select ds --model usual/seed-0/round-0 --pool-side image --strategy core-set \
             --budget 5 --out picks.jsonl {words}"
        )
    };
    let picks = |words: &str| {
        lab.succeeds(&select(words));
        lab.read("picks.jsonl")
    };
    let usual = picks("--features bow");
    assert_eq!(picks("--features bow --bow-sample 30000 --bow-iterations 20"), usual);
    assert_ne!(picks("--features bow --bow-iterations 1 --bow-sample 400"), usual);
    lab.refused(&select("--bow-sample 9"), "--bow-sample is for --features bow");
    lab.refused(&select("--features bow --bow-iterations 0"), "--bow-iterations is 0");
}
