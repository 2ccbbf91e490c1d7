//! Runs begun by another version or on another vector unit, and weights of finished rounds.

use std::fs;

use serde_json::Value;

use super::Lab;
use crate::world::json_lines;

/// Returns a run of one round and one strategy, with its manifest edited.
fn begun(edit: impl FnOnce(&mut Value)) -> Lab {
    let lab = Lab::new(80);
    lab.succeeds("run e.toml --strategies random --rounds 1 --out run");
    edit_manifest(&lab, edit);
    lab
}

fn edit_manifest(lab: &Lab, edit: impl FnOnce(&mut Value)) {
    let mut manifest: Value = serde_json::from_str(&lab.read("run/experiment.json")).unwrap();
    edit(&mut manifest);
    lab.write("run/experiment.json", &manifest.to_string());
}

fn resume(rounds: usize) -> String {
    format!("run e.toml --strategies random --rounds {rounds} --out run --resume")
}

/// Returns the versions that the journal lists as accepted.
fn let_in(lab: &Lab) -> Vec<Value> {
    let lines = json_lines(&lab.read("run/rounds.jsonl"));
    lines.into_iter().map(|mut line| line["continued_by"].take()).filter(|v| !v.is_null()).collect()
}

#[test]
fn another_version_or_vector_unit_is_refused_unless_it_is_accepted() {
    for (key, value, says) in [
        ("version", "0.0.9", "run: made by nextpair 0.0.9 on "),
        ("unit", "abacus", "run: made by nextpair OURS on abacus, and this is nextpair OURS on "),
    ] {
        let lab = begun(|head| head[key] = value.into());
        let before = lab.read("run/rounds.jsonl");
        lab.refused(&resume(2), &says.replace("OURS", env!("CARGO_PKG_VERSION")));
        lab.refused(&resume(2), "`--resume --mixed` goes on here all the same");
        assert_eq!(lab.read("run/rounds.jsonl"), before, "nothing was touched");
        // A finished run has nothing left to mix.
        lab.succeeds(&resume(1));
        assert_eq!(lab.read("run/rounds.jsonl"), before);
        let accepted = lab.succeeds(&format!("{} --mixed", resume(2)));
        assert!(accepted.stderr.contains("note: run: made by nextpair"), "{}", accepted.stderr);
        assert!(accepted.stderr.contains("the results are mixed"), "{}", accepted.stderr);
        assert_eq!(let_in(&lab).len(), 1);
        // An accepted version is not asked for again.
        let again = lab.succeeds(&resume(3));
        assert!(!again.stderr.contains("note: "), "{}", again.stderr);
        assert_eq!(let_in(&lab).len(), 1);
        let rounds: Vec<Value> = lab.rounds("run").into_iter().filter(|r| !r.is_null()).collect();
        assert_eq!(rounds.len(), 4);
        assert!(rounds.iter().all(|round| round["made_by"].as_array().unwrap().len() == 1));
        lab.succeeds("report run");
        assert!(lab.read("run/report/report.html").contains("mixed: nextpair "));
    }
    let lab = Lab::new(80);
    lab.refused("run e.toml --mixed --out run", "--resume");
}

#[test]
fn weights_of_every_finished_round_are_looked_at() {
    let lab = Lab::new(80);
    lab.succeeds("run e.toml --rounds 1 --out run");
    // The last rounds, whose weights no later round needs, and the first.
    for place in ["random/round-1", "hard-negative/round-1", "round-0"] {
        let weights = lab.path(&format!("run/seed-0/{place}/model.safetensors"));
        let good = fs::read(&weights).unwrap();
        let mut bad = good.clone();
        *bad.last_mut().unwrap() ^= 1;
        fs::write(&weights, &bad).unwrap();
        let says = format!("{place}/model.safetensors: not the weights that seed 0, ");
        for words in ["--rounds 1", "--rounds 1 --strategies random", "--rounds 2", "--seeds 1"] {
            lab.refused(&format!("run e.toml {words} --out run --resume"), &says);
        }
        assert!(fs::read(&weights).unwrap() == bad, "it was touched");
        fs::write(&weights, &good).unwrap();
    }
    lab.succeeds("run e.toml --rounds 1 --out run --resume");
}
