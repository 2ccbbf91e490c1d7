//! Several random strategies, stored ranks, and splits that every seed draws anew.

use std::collections::BTreeSet;
use std::fs;

use nextpair::data::dataset::Dataset;
use nextpair::scenario::{Round, RoundRanks, Study};
use serde_json::Value;

use super::Lab;

fn ranks(study: &Study, round: &Round) -> RoundRanks {
    study.ranks(round).unwrap().expect("every round has ranks")
}

#[test]
fn random_strategies_draw_apart_and_are_each_others_control() {
    let lab = Lab::new(80);
    let run = |strategies: &str, out: &str| {
        lab.succeeds(&format!("run e.toml --strategies {strategies} --seeds 0..3 --out {out}"))
    };
    let said = run("random,random-2,random-3,hard-negative", "many").stdout;
    for part in ["random-2, null control", "vs random (mean of 3)", "95 % simultaneous intervals"] {
        assert!(said.contains(part), "no '{part}' in {said}");
    }
    run("random", "one");
    let picks = |of: &str| lab.read(&format!("{of}/picks-1.jsonl"));
    // One random strategy draws as it always did, whoever else is there.
    assert_eq!(picks("many/seed-0/random"), picks("one/seed-0/random"));
    let ids = |of: &str| lab.ids(&format!("many/seed-0/{of}/picks-1.jsonl"), "id");
    assert_ne!(ids("random"), ids("random-2"));
    assert_ne!(ids("random-2"), ids("random-3"));
    lab.refused("run e.toml --strategies random,random-1 --out no", "random-2");
    lab.succeeds("report many --out report");
    let results: Value = serde_json::from_str(&lab.read("report/results.json")).unwrap();
    let arms = results["runs"][0]["arms"].as_array().unwrap();
    let controls: Vec<&Value> = arms.iter().map(|arm| &arm["difference"]["null_control"]).collect();
    assert_eq!(controls, [true, true, true, false]);
    for arm in arms {
        let difference = &arm["difference"];
        let narrow = difference["sum"]["high"].as_f64().unwrap();
        let wide = difference["by_sum"]["new_images"]["high"].as_f64().unwrap();
        assert!(wide >= narrow, "{difference}");
        assert_eq!(arm["log_rank"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn the_rank_of_every_query_is_stored() {
    let lab = Lab::new(80);
    lab.succeeds("run e.toml --folds 1,2 --seeds 0..3 --out run");
    let study = Study::open(&lab.path("run")).unwrap();
    assert_eq!(study.rounds.len(), 15);
    for round in &study.rounds {
        let ranks = ranks(&study, round);
        for (at, test) in round.test.iter().enumerate() {
            let (text, image) = ranks.of_test(at).unwrap();
            assert_eq!((text.len(), image.len()), (test.images, test.captions));
            let first = text.iter().filter(|&&rank| rank == 1).count();
            let r1 = 100.0 * first as f64 / text.len() as f64;
            assert!((r1 - test.text.r1).abs() < 1e-9, "{r1} {}", test.text.r1);
            let mean: f64 = image.iter().map(|&rank| f64::from(rank).ln()).sum();
            let mean = mean / image.len() as f64;
            assert!((mean - test.image.mean_log_rank).abs() < 1e-9, "{mean}");
        }
    }
    // Without the files a report tells less; with other ones it is refused.
    fs::remove_file(lab.path("run/seed-0/random/ranks-1.npy")).unwrap();
    lab.succeeds("report run --out report");
    let results: Value = serde_json::from_str(&lab.read("report/results.json")).unwrap();
    let difference = &results["runs"][0]["arms"][1]["difference"];
    assert!(difference["by_sum"]["new_images"].is_null() && !difference["sum"]["low"].is_null());
    let path = lab.path("run/seed-1/random/ranks-1.npy");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    lab.copy("run/seed-1/random", "run/seed-0/random");
    lab.refused("report run --out report", "not the ranks that its round was finished with");
}

#[test]
fn every_seed_may_draw_its_own_splits() {
    let lab = Lab::new(80);
    let redraw = "run e.toml --splits redraw --min-count 1 --seeds 0..3";
    lab.succeeds(&format!("{redraw} --out run"));
    let expected = lab.results("run");
    let study = Study::open(&lab.path("run")).unwrap();
    let dataset = Dataset::open(&lab.path("ds")).unwrap();
    let id = |item: &u32| dataset.items().get(*item as usize).id;
    let mut tests = BTreeSet::new();
    for round in &study.rounds {
        let tested: BTreeSet<String> = ranks(&study, round).images().iter().map(id).collect();
        let model = study.folder.model(round.seed, round.strategy.as_ref(), round.round);
        let model = model.strip_prefix(lab.path("")).unwrap().to_str().unwrap().to_owned();
        let paired: BTreeSet<String> =
            lab.ids(&format!("{model}/pairs.jsonl"), "item").into_iter().collect();
        assert_eq!((tested.len(), round.pool + round.paired), (8, 64));
        assert!(tested.is_disjoint(&paired), "{model}: an image is learned and tested");
        tests.insert((round.seed, tested));
    }
    // One test a seed, all of them different.
    assert_eq!(tests.len(), 3);
    let distinct: BTreeSet<&BTreeSet<String>> = tests.iter().map(|(_, test)| test).collect();
    assert_eq!(distinct.len(), 3);
    // The words are those of the seed's own train and dev.
    assert!(!lab.path("run/vocabulary.json").exists());
    assert!(lab.path("run/seed-1/vocabulary.json").exists());
    lab.succeeds(&format!("{redraw} --rounds 1 --out resumed"));
    lab.succeeds(&format!("{redraw} --out resumed --resume --jobs 2"));
    lab.assert_same("resumed", &expected);
    let said = lab.succeeds("report run --out report");
    assert!(said.stdout.contains("every seed drew its own"), "{}", said.stdout);
    lab.refused(
        "run e.toml --splits redraw --split dev --out no",
        "the test is on dev; it needs a split of its own",
    );
    let human = "run e.toml --splits redraw --annotator human --strategies random --out no";
    lab.refused(human, "redraw is for simulated annotators");
}
