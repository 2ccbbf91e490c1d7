//! `select --config FILE` and `score --config FILE`.

use std::fs;

use super::lab;

const FLAGS: &str = "paired-images = \"../world/paired_images.npy\"\n\
                     paired-texts = \"../world/paired_texts.npy\"\n\
                     pool = \"../world/pool.npy\"\n\
                     pool-side = \"image\"\nbudget = 5\nrelative-margin = 0.05\n\
                     strategy = \"hard-negative\"\nstrict = false\n";

#[test]
fn flags_come_from_a_file_and_win_over_it() {
    let lab = lab(20);
    lab.succeeds("example world");
    fs::create_dir(lab.path("jobs")).unwrap();
    lab.write("jobs/a.toml", &format!("{FLAGS}out = \"picks.jsonl\"\nunguarded = true\n"));
    lab.succeeds("select --config jobs/a.toml");
    lab.succeeds("select --config jobs/a.toml --budget 7 --out seven.jsonl");
    let typed = "select --paired-images world/paired_images.npy --paired-texts world/paired_texts.npy \
                 --pool world/pool.npy --pool-side image --budget 5 --relative-margin 0.05 \
                 --strategy hard-negative --out \
                 typed.jsonl";
    lab.succeeds(typed);
    let read = |name: &str| fs::read_to_string(lab.path(name)).unwrap();
    assert_eq!(read("jobs/picks.jsonl"), read("typed.jsonl"));
    assert_eq!(read("seven.jsonl").lines().count(), 7);
    lab.write("jobs/s.toml", &format!("{FLAGS}out = \"part\"\nshard = \"0/2\"\n"));
    lab.succeeds("score --config jobs/s.toml");
    assert!(lab.path("jobs/part").exists());
}

#[test]
fn lists_and_positions_are_taken() {
    let lab = lab(60);
    lab.succeeds("train ds --model vse++ --dim 8 --epochs 1 --share 0.5 --validate-last 0 --out m");
    lab.write(
        "m.toml",
        "model = \"m\"\ndataset = \"ds\"\npool-side = \"image\"\nbudget = 3\nout = \"p.jsonl\"\n",
    );
    lab.succeeds("select --config m.toml");
    assert_eq!(fs::read_to_string(lab.path("p.jsonl")).unwrap().lines().count(), 3);
}

#[test]
fn mistakes_are_told_with_key_and_line() {
    let lab = lab(20);
    lab.succeeds("example world");
    fs::create_dir(lab.path("jobs")).unwrap();
    for (more, says) in [
        ("budgt = 3\n", "jobs/x.toml:9: unknown key budgt; the keys are the flags of"),
        ("top-k = \"many\"\n", "jobs/x.toml:9: invalid value 'many' for '--top-k <K>'"),
        ("similarity = \"best\"\n", "jobs/x.toml:9: invalid value 'best' for '--similarity"),
        ("unguarded = 3\n", "jobs/x.toml:9: unguarded is true or false"),
        ("seed = [1, 2]\n", "jobs/x.toml:9: seed takes one value, not a list"),
        ("seed = 2020-01-01\n", "jobs/x.toml:9: seed takes a text or a number"),
        ("config = \"y\"\n", "jobs/x.toml:9: unknown key config"),
        ("budget = 3\n", "jobs/x.toml:9: duplicate key"),
        ("seed 3\n", "jobs/x.toml:9: "),
        ("", "--out <PICKS>"),
    ] {
        lab.write("jobs/x.toml", &format!("{FLAGS}{more}"));
        lab.refused("select --config jobs/x.toml", says);
    }
    lab.refused("select --config jobs/none.toml", "jobs/none.toml: ");
}
