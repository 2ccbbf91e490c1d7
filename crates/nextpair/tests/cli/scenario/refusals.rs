//! Invalid experiments.

use super::{EXPERIMENT, Lab};

#[test]
fn files_that_say_something_else() {
    let lab = Lab::new(80);
    for (from, to, says) in [
        ("rounds = 2", "laps = 2", "x.toml:4: unknown field `laps`"),
        ("rounds = 2", "rounds = -2", "x.toml:4: "),
        ("epochs = 2", "epoch = 2", "x.toml:13: unknown field `epoch`"),
        ("dim = 8", "dims = 8", "x.toml:9: unknown field `dims`"),
        ("epochs = 2", "seed = 7", "x.toml:13: seeds stand at the top of an experiment"),
        ("\"vse\"", "\"bert\"", "x.toml:8: [model] needs an architecture"),
        ("dataset = \"ds\"", "", "dataset: is missing"),
        ("dataset = \"ds\"", "dataset = 3", "x.toml:1: "),
        ("\"ds\"", "\"nowhere\"", "nowhere"),
        ("budget = 0.1", "budget = 0.36", "budget: 19 items are paired from the start, and 2"),
        ("budget = 0.1", "budget = 0.001", "budget: less than one item in round 1, of 64"),
        ("budget = 0.1", "budget = 1.5", "budget: 1.5 is not a share above 0"),
        ("initial = 0.3", "initial = 0.02", "initial: 1 items paired from the start"),
        ("initial = 0.3", "initial = 65", "initial: 65 items paired from the start"),
        ("\"random\"", "\"hardest\"", "strategies: no strategy 'hardest'"),
        ("\"random\"", "\"random+count\"", "'count' is not a setting of random"),
        ("\"random\"", "\"hard-negative\"", "strategies: hard-negative is there twice"),
        ("\"random\"", "\"coverage+mini-20\"", "strategies: coverage+mini-20, with 19 pairs"),
        ("\"random\"", "\"coverage+top-19\"", "strategies: coverage+top-19, with 19 pairs"),
        ("rounds", "annotator = \"human\"\nrounds", "2 strategies and 1 seeds would ask them"),
        ("rounds", "annotator = \"robot\"\nrounds", "x.toml:4: unknown variant `robot`"),
        ("rounds", "seeds = [1, 2, 1]\nrounds", "seeds: 1 is there twice"),
        ("rounds", "seeds = []\nrounds", "seeds: there is none"),
        ("rounds", "queries = \"no.txt\"\nrounds", "no.txt: "),
        ("\"random\"", "\"herding+queries\"", "queries: herding+queries needs a file"),
        ("[model]", "[world]\njunk = 2\n[model]", "world: junk: 2 is not a share"),
        ("[model]", "[world]\njunk_kind = \"odd\"\n[model]", "x.toml:8: unknown variant `odd`"),
        ("[model]", "[world]\njunk = 0.1\njunk_kind = { dataset = \"no\" }\n[model]", "no"),
        ("rounds", "pool = \"text\"\nworld = { junk = 0.1 }\nrounds", "world: it is for pools of"),
        ("rounds", "price = -0.5\nrounds", "price: -0.5 is not a price"),
        ("[model]", "[evaluation]\nfolds = [3]\n[model]", "8 images of test do not divide into 3"),
        ("[model]", "[evaluation]\nfolds = [0]\n[model]", "folds: at least one number"),
        ("[model]", "[evaluation]\nsplit = \"val\"\n[model]", "ds: nothing to evaluate in the"),
    ] {
        assert!(EXPERIMENT.contains(from), "{from}");
        lab.write("x.toml", &EXPERIMENT.replacen(from, to, 1));
        lab.refused("run x.toml --out x", says);
        assert!(!lab.path("x/experiment.json").exists(), "{says}");
    }
    // Refused experiments leave nothing behind.
    lab.write("x.toml", EXPERIMENT);
    lab.succeeds("run x.toml --out x");
}

#[test]
fn flags_that_cannot_be_meant() {
    let lab = Lab::new(80);
    for (words, says) in [
        ("run e.toml --jobs 0", "--jobs is 0"),
        ("run e.toml --threads 0", "--threads is 0"),
        ("run e.toml --seeds 5..5", "5..5 is not a range"),
        ("run e.toml --seeds 1,x", "invalid digit"),
        ("run e.toml --budget 0", "at least 1 is needed"),
        ("run e.toml --rounds 18446744073709551615", "rounds: 18446744073709551615 is more than"),
        ("run e.toml --rounds 9223372036854775807", "rounds: 9223372036854775807 is more than"),
        (
            "run e.toml --epochs 999999999999999999",
            "epochs: is 999999999999999999; at most 1000000",
        ),
        ("run e.toml --rounds 10001", "rounds: 10001 is more than 10000"),
        ("run e.toml --annotator oracle --wrong 0.1", "are for --annotator noisy"),
        ("run e.toml --strategies random+mini-4", "'mini-4' is not a setting of random"),
        ("run nothing.toml", "nothing.toml"),
        ("run ds --resume", "experiment.toml"),
        ("ingest ds answers.jsonl", "ds: not an experiment: there is no experiment.json in it"),
    ] {
        lab.refused(words, says);
    }
    assert!(!lab.path("runs").exists());
}

#[test]
fn flags_override_keys_one_by_one() {
    let lab = Lab::new(80);
    let noisy = "annotator = { noisy = { wrong = 0.5, swapped = 0.25 } }\nrounds";
    let test = "[evaluation]\nsplit = \"dev\"\nfolds = [1, 2]\n\n[model]";
    let text = EXPERIMENT.replacen("rounds", noisy, 1).replacen("[model]", test, 1);
    lab.write("e.toml", &text);
    let flags = "--wrong 0.125 --folds 4 --rounds 1 --seeds 3..5 --dim 12 --epochs 1 --price 2";
    lab.succeeds(&format!("run e.toml {flags}"));
    let resolved = lab.read("runs/e/experiment.toml");
    for line in [
        "wrong = 0.125",
        "swapped = 0.25",
        "split = \"dev\"",
        "folds = [4]",
        "rounds = 1",
        "seeds = [3, 4]",
        "dim = 12",
        "word_dim = 8",
        "epochs = 1",
        "batch = 8",
        "price = 2.0",
        "features = \"regions\"",
    ] {
        assert!(resolved.lines().any(|found| found == line), "no {line} in {resolved}");
    }
    // The resolved experiment is a valid experiment file.
    lab.succeeds("run runs/e/experiment.toml --out again");
    lab.assert_same("again", &lab.results("runs/e"));
}
