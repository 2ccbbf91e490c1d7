//! `--resume` with the whole command line again.

use super::lab;

#[test]
fn equal_settings_are_let_on_and_others_named() {
    let lab = lab(60);
    lab.write("names.txt", "scene-000000\nscene-000001\nscene-000002\nscene-000003\n");
    lab.write("c.toml", "[model]\narchitecture = \"vse++\"\ndim = 8\n[training]\nepochs = 2\n");
    for (name, flags) in [
        ("a", "--model vse++ --dim 8 --epochs 2 --share 0.5 --seed 3 --min-count 2"),
        (
            "b",
            "--config c.toml --rate 3e-4 --paired names.txt --vocabulary paired --features regions",
        ),
    ] {
        let words = format!("train ds {flags} --out {name}");
        lab.succeeds(&words);
        lab.succeeds(&format!("{words} --resume"));
        lab.succeeds(&format!("train ds --out {name} --resume"));
    }
    let again = "train ds --out a --resume";
    for (flags, says) in [
        ("--model vse++ --dim 9", "a: model.dim is 9 and not 8; a training keeps its settings"),
        ("--model vse0", "model.architecture is \"vse0\" and not \"vse++\""),
        ("--epochs 3", "training.epochs is 3 and not 2"),
        ("--seed 4", "training.seed is 4 and not 3"),
        ("--share 0.25", "share makes other pairs"),
        ("--min-count 1", "min-count makes other words"),
        ("--features other", "features is other and not regions"),
        ("--config c.toml", "training.seed is 0 and not 3"),
    ] {
        lab.refused(&format!("{again} {flags}"), says);
    }
    lab.refused("train ds --out b --resume --config c.toml", "training.rate is ");
}

#[test]
fn experiments_take_it_too_and_rehearsals_go_on_without() {
    let lab = lab(60);
    let words = "run e.toml --rounds 1 --seeds 0,1 --model vse++ --dim 8 --word-dim 8 --out x";
    lab.succeeds(words);
    lab.succeeds(&format!("{words} --resume"));
    lab.succeeds("run x --out x --resume");
    lab.refused("run x --out y --resume", "--out: the experiment is x");
    lab.refused(&format!("{words} --resume --initial 0.4"), "initial is 0.4 and not 0.3");
    lab.write("c.toml", "[model]\narchitecture = \"vse++\"\ndim = 8\nword_dim = 8\n");
    let words =
        "rehearse ds --config c.toml --budget 5 --epochs 1 --seeds 4 --strategies novelty --out r";
    lab.succeeds(words);
    lab.succeeds(words);
    lab.refused(&format!("{words} --rate 0.5"), "training.rate is 0.5 and not ");
}
