//! Experiments that begin with nothing paired: strategies choose the first batch too.

use super::{EXPERIMENT, Lab};

/// An experiment without a pair at first.
fn lab() -> Lab {
    let lab = Lab::new(120);
    let text = EXPERIMENT.replace("initial = 0.3", "initial = 0\nseeds = [0, 1]");
    lab.write(
        "e.toml",
        &text.replace("\"hard-negative\"]", "\"random-2\", \"v-optimal\", \"core-set+dedupe\"]"),
    );
    lab
}

#[test]
fn the_first_batch_is_chosen_without_pairs() {
    let lab = lab();
    lab.succeeds("run e.toml --out whole");
    let rounds = lab.rounds("whole");
    assert_eq!(rounds.len(), 2 * (1 + 4 * 2));
    for round in &rounds {
        let number = round["round"].as_u64().unwrap();
        assert_eq!(round["pairs"].as_u64().unwrap() > 0, number > 0, "{round}");
        if number == 0 {
            assert_eq!((&round["paired"], &round["epoch"]), (&0.into(), &0.into()), "{round}");
        }
    }
    // Nothing but the features tells what to pick, so that seeds agree where nothing is drawn.
    let picks =
        |seed: u32, arm: &str| lab.ids(&format!("whole/seed-{seed}/{arm}/picks-1.jsonl"), "id");
    for arm in ["v-optimal", "core-set+dedupe"] {
        assert_eq!(picks(0, arm), picks(1, arm), "{arm}");
    }
    assert_ne!(picks(0, "random"), picks(1, "random"));
    assert_ne!(picks(0, "random"), picks(0, "random-2"));
    lab.succeeds("report whole");

    // Stopped in the middle, and without the model that picks first.
    lab.succeeds("run e.toml --rounds 1 --out again");
    std::fs::remove_dir_all(lab.path("again/seed-0/round-0")).unwrap();
    lab.succeeds("run again --resume --rounds 2");
    assert!(
        lab.results("again")
            .iter()
            .filter(|(name, _)| !name.contains("round-0/"))
            .all(|(name, bytes)| lab.results("whole").get(name) == Some(bytes))
    );
    // The untrained model selects from what it does not know, which is all.
    let how = "--pool-side image --budget 3 --strategy v-optimal --out p.jsonl";
    lab.succeeds(&format!("select --model whole/seed-0/round-0 ds {how}"));
    assert_eq!(lab.ids("p.jsonl", "id"), picks(0, "v-optimal")[..3]);
}

#[test]
fn what_needs_pairs_is_refused_before_anything_is_trained() {
    let lab = lab();
    for (at, (flags, says)) in [
        (
            "--strategies random,hard-negative",
            "hard-negative compares the pool with pairs, and with initial = 0",
        ),
        ("--strategies novelty", "novelty compares the pool with pairs"),
        (
            "--strategies v-optimal+encoded",
            "v-optimal+encoded looks at what a trained model makes of items",
        ),
        ("--pool text --strategies core-set", "core-set measures distances"),
        ("--vocabulary paired", "no word is in the captions"),
        ("--initial 1", "at least 2 are needed, or none (0)"),
    ]
    .into_iter()
    .enumerate()
    {
        lab.refused(&format!("run e.toml {flags} --out refused-{at}"), says);
        assert!(!lab.path(&format!("refused-{at}/seed-0/round-0")).exists());
    }
    lab.succeeds("run e.toml --initial 0 --rounds 1 --strategies random --out one");
}
