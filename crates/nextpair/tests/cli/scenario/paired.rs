//! The paired design of experiments: sizes of rounds, shared initial pairs, and annotators.

use std::collections::HashSet;

use nextpair::engine::{BuiltIn, Strategy};
use serde_json::Value;

use super::Lab;
use crate::world::json_lines;

/// Asserts that rounds have the given sizes, share their initial pairs over all strategies, and
/// grow by the picks alone.
fn assert_paired(lab: &Lab, run: &str, strategies: &[&str], sizes: &[usize]) {
    let rounds = lab.rounds(run);
    assert_eq!(rounds.len(), 1 + strategies.len() * (sizes.len() - 1));
    let shared: Vec<&Value> = rounds.iter().filter(|round| round["round"] == 0).collect();
    assert!(shared.len() == 1 && shared[0]["strategy"].is_null() && shared[0]["batch"].is_null());
    let start = lab.ids(&format!("{run}/seed-0/round-0/pairs.jsonl"), "item");
    assert_eq!((start.len(), &shared[0]["paired"]), (sizes[0], &sizes[0].into()));
    for strategy in strategies {
        let lane = format!("{run}/seed-0/{strategy}");
        let mut paired: HashSet<String> = start.iter().cloned().collect();
        for (number, &size) in sizes.iter().enumerate().skip(1) {
            let round = rounds.iter().find(|r| r["strategy"] == *strategy && r["round"] == number);
            let round = round.unwrap_or_else(|| panic!("no round {number} of {strategy}"));
            let picks = lab.ids(&format!("{lane}/picks-{number}.jsonl"), "id");
            assert_eq!(picks.len(), size - sizes[number - 1], "{lane} {number}");
            assert_eq!(round["batch"]["picked"], picks.len());
            assert_eq!(round["batch"]["pool"], 64 - paired.len());
            for id in &picks {
                assert!(paired.insert(id.clone()), "{lane}: {id} was paired before");
            }
            assert_eq!((&round["paired"], &round["pool"]), (&size.into(), &(64 - size).into()));
            let pairs = lab.ids(&format!("{lane}/round-{number}/pairs.jsonl"), "item");
            assert_eq!(pairs.into_iter().collect::<HashSet<_>>(), paired, "{lane} {number}");
        }
    }
}

#[test]
fn all_strategies_begin_alike_and_grow_by_floors() {
    let lab = Lab::new(80);
    let names = ["random", "hard-negative", "hard-negative+mini-50%+top-3+count"];
    lab.succeeds(&format!("run e.toml --strategies {} --out run --rounds 3", names.join(",")));
    // 64 images to train on: floor(19.2), floor(25.6), floor(32.0), floor(38.4).
    assert_paired(&lab, "run", &names, &[19, 25, 32, 38]);
    lab.succeeds("run e.toml --strategies random --out counts --initial 10 --budget 7");
    assert_paired(&lab, "counts", &["random"], &[10, 17, 24]);
}

#[test]
fn every_strategy_selects_images_and_texts() {
    let lab = Lab::new(80);
    let mut names: Vec<&str> = BuiltIn::all().map(|strategy| strategy.name()).collect();
    let count = names.len();
    names.push("core-set+bow");
    for (pool, out) in [("image", "images"), ("text", "texts")] {
        names.truncate(count + usize::from(pool == "image"));
        let list = names.join(",");
        lab.succeeds(&format!("run e.toml --pool {pool} --strategies {list} --out {out}"));
        assert_paired(&lab, out, &names, &[19, 25, 32]);
    }
    let refused = "run e.toml --pool text --strategies core-set+bow --out no";
    lab.refused(refused, "core-set+bow: bow is for images, and the pool is of texts");
}

#[test]
fn the_twelve_conditions_of_the_paper_have_one_name() {
    let lab = Lab::new(80);
    // Enough pairs that every draw has ten rivals: two captions of the scenes are equal.
    lab.succeeds("run e.toml --strategies all-conditions --initial 0.75 --rounds 1 --out run");
    assert_eq!(lab.rounds("run").len(), 13);
    assert!(lab.path("run/seed-0/hard-negative+mini-29.4%+top-10+count/round-1").is_dir());
}

#[test]
fn a_noisy_annotator_makes_the_mistakes_it_was_asked_for() {
    let lab = Lab::new(500);
    let noisy = "--strategies random --rounds 1 --initial 100 --budget 300 --annotator noisy";
    for (pool, mistakes) in [("image", "--wrong 0.4"), ("text", "--swapped 0.4")] {
        let out = format!("noisy-{pool}");
        lab.succeeds(&format!("run e.toml {noisy} {mistakes} --pool {pool} --out {out}"));
        let pairs = json_lines(&lab.read(&format!("{out}/seed-0/random/round-1/pairs.jsonl")));
        assert_eq!(pairs.len(), 400);
        let wrong = |pair: &&Value| pair.get("caption_of").is_some();
        assert!(pairs[..100].iter().filter(wrong).count() == 0, "nobody asked about these");
        let count = pairs.iter().filter(wrong).count();
        assert!((90..150).contains(&count), "{count} of 300 with {mistakes}");
        let round = &lab.rounds(&out)[1];
        assert_eq!(round["batch"]["wrong"], count);
        if mistakes.contains("swapped") {
            // Exchanged halves: each item has what another one lost.
            let of = |key: &str| -> HashSet<&str> {
                pairs.iter().filter(wrong).map(|pair| pair[key].as_str().unwrap()).collect()
            };
            assert_eq!(of("item"), of("caption_of"));
            assert_eq!(of("item").len(), count);
        }
    }
    let swaps = "--wrong 0.7 --swapped 0.7";
    lab.refused(&format!("run e.toml {noisy} {swaps} --out no"), "are not shares of one");
}
