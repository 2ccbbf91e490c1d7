//! Selections without pairs: from a file, and from a dataset without a model.

use serde_json::{Value, json};

use crate::world::files::{Numbers, npy};
use crate::world::{Vectors, World};

/// Strategies that compare nothing with pairs.
const ALONE: [&str; 6] = ["v-optimal", "core-set", "herding", "typical", "stratified", "random"];

/// A world with the dataset `ds`, whose items are the pool.
fn world() -> World {
    let world = World::small();
    succeeds(&world, "import embeddings pool.npy ds");
    world
}

fn succeeds(world: &World, words: &str) -> String {
    let run = world.run(words);
    assert_eq!(run.code, Some(0), "{words}: {}", run.stderr);
    run.stderr
}

/// The places and scores of the picks of a selection.
fn picks(world: &World, words: &str) -> Vec<(u64, Value)> {
    succeeds(world, &format!("select {words} --out out/picks.jsonl"));
    let pick = |pick: Value| (pick["index"].as_u64().unwrap(), pick["score"].clone());
    world.picks("out/picks.jsonl").into_iter().map(pick).collect()
}

/// Writes some rows of the pool.
fn write_rows(world: &World, name: &str, rows: &[usize]) {
    let all = world.pool.rows();
    let values = rows.iter().flat_map(|&row| all[row].clone()).collect();
    world.write(name, &npy(&Vectors { dim: world.pool.dim, values }, Numbers::F32));
}

#[test]
fn a_pool_alone_and_a_dataset_have_the_same_picks() {
    let world = world();
    world.write("none.npy", &npy(&world.pool.first(0), Numbers::F32));
    for strategy in ALONE {
        for budget in [1, 9, 40] {
            let how = format!("--budget {budget} --strategy {strategy}");
            let of_pool = picks(&world, &format!("--pool pool.npy {how}"));
            assert_eq!(of_pool.len(), budget);
            for other in ["ds", "ds --pool-side image", "--pool pool.npy --paired-images none.npy"]
            {
                assert_eq!(picks(&world, &format!("{other} {how}")), of_pool, "{other} {how}");
            }
        }
    }
    // Who is asked is found by the ids of the dataset.
    let said = succeeds(&world, "select ds --budget 9 --strategy v-optimal --out out/b.jsonl");
    assert!(said.contains("40 pool items, 0 pairs, 6 dimensions"), "{said}");
    assert!(said.ends_with("next        nextpair annotate out/b.jsonl --dataset ds\n"), "{said}");
    let is_row = |pick: &Value| pick["id"].as_str() == Some(&pick["index"].to_string());
    assert!(world.picks("out/b.jsonl").iter().all(is_row));
}

#[test]
fn one_item_is_picked() {
    let world = World::small();
    write_rows(&world, "one.npy", &[7]);
    succeeds(&world, "import embeddings one.npy one");
    for strategy in ALONE {
        for from in ["--pool one.npy", "one"] {
            let found = picks(&world, &format!("{from} --budget 1 --strategy {strategy}"));
            assert_eq!(found.len(), 1, "{strategy}");
        }
    }
}

#[test]
fn answers_leave_the_pool_and_captions_make_pairs() {
    let world = world();
    // Every third is captioned, and the next one refused.
    let said = |id: usize| match id % 3 {
        0 => Some(json!({ "id": id.to_string(), "caption": format!("A heron {id} .") })),
        1 => Some(json!({ "id": id.to_string(), "skip": "dark" })),
        _ => None,
    };
    world.write_lines("answers.jsonl", (0..40).filter_map(said));
    succeeds(&world, "add ds answers.jsonl --out ds-2");
    let of = |rest: usize| (0..40).filter(|id| id % 3 == rest).collect::<Vec<usize>>();
    let [captioned, refused, open] = [0, 1, 2].map(of);
    write_rows(&world, "paired.npy", &captioned);
    write_rows(&world, "open.npy", &open);
    world.write_lines("ids.txt", &open);
    world.write_lines("paired.txt", &captioned);
    for strategy in ALONE {
        for flags in ["", "--dedupe 0.9"] {
            let how = format!("--budget 5 --strategy {strategy} {flags}");
            let files = format!(
                "--pool open.npy --paired-images paired.npy --ids ids.txt --paired-ids paired.txt {how}"
            );
            assert_eq!(picks(&world, &format!("ds-2 {how}")), picks(&world, &files), "{how}");
            let of_files = world.picks("out/picks.jsonl");
            picks(&world, &format!("ds-2 {how}"));
            assert_eq!(world.picks("out/picks.jsonl"), of_files, "{how}");
        }
    }
    // What is refused teaches what else is.
    let both: Vec<usize> = (0..40).filter(|id| id % 3 > 0).collect();
    write_rows(&world, "both.npy", &both);
    world.write_lines("ids.txt", &both);
    let skips = |id: &usize| json!({ "id": id.to_string(), "skip": "dark" });
    world.write_lines("skips.jsonl", refused.iter().map(skips));
    let how = "--budget 5 --strategy herding --usable";
    let files = "--pool both.npy --paired-images paired.npy --ids ids.txt";
    let expected = picks(&world, &format!("{files} {how} skips.jsonl"));
    assert_eq!(picks(&world, &format!("ds-2 {how}")), expected);
    for pick in world.picks("out/picks.jsonl") {
        assert_eq!(pick["id"].as_str().unwrap().parse::<usize>().unwrap() % 3, 2);
    }
    // Everything that can be answered is.
    world.write_lines("rest.jsonl", open.iter().map(skips));
    succeeds(&world, "add ds-2 rest.jsonl --out ds-3");
    let words = "select ds-3 --budget 1 --strategy random --out out/picks.jsonl";
    std::fs::remove_file(world.path("out/picks.jsonl")).unwrap();
    world.refused(words, &["ds-3: the pool is empty: no image with features lacks its captions"]);
}

#[test]
fn pools_of_texts_are_named() {
    let world = World::small();
    world.write_lines("captions.txt", (0..40).map(|row| format!("text {row}")));
    succeeds(&world, "import embeddings pool.npy texts --side text --captions captions.txt");
    for strategy in ALONE {
        let how = format!("--budget 4 --strategy {strategy}");
        let found = picks(&world, &format!("texts --pool-side text {how}"));
        assert_eq!(found, picks(&world, &format!("--pool pool.npy {how}")), "{strategy}");
    }
    let page = "--budget 4 --strategy core-set --html out/page.html";
    succeeds(&world, &format!("select texts --pool-side text {page} --out out/p.jsonl"));
    let page = String::from_utf8(world.read("out/page.html")).unwrap();
    for pick in world.picks("out/p.jsonl") {
        let caption = format!("text {}", pick["id"].as_str().unwrap());
        assert!(page.contains(&caption), "no {caption} is on the page");
    }
    let said = succeeds(
        &world,
        "select texts --pool-side text --budget 2 --strategy random --out out/o.jsonl",
    );
    assert!(said.ends_with("--dataset texts --pool-side text\n"), "{said}");
}

#[test]
fn what_is_missing_is_named() {
    let world = world();
    succeeds(&world, "import scenes bare --images 10");
    let out = "--budget 3 --out out/picks.jsonl";
    for (words, expected) in [
        (
            "select --pool pool.npy --strategy hard-negative",
            "--paired-images and --paired-texts are missing: hard-negative compares the pool with pairs. \
             Without pairs, take random, core-set, herding, stratified, typical or v-optimal",
        ),
        (
            "select ds --strategy novelty",
            "novelty compares the pool with pairs by a model: give --model",
        ),
        ("select --strategy random", "--pool <FILE>"),
        (
            "select --pool pool.npy --paired-images images.npy --paired-texts texts.npy",
            "--pool-side is missing: is the pool of images (image) or of texts (text)?",
        ),
        (
            "select --pool pool.npy --paired-images images.npy --paired-texts texts.npy --strategy core-set",
            "there are vectors of both halves of the pairs",
        ),
        ("select ds --pool pool.npy", "cannot be used with"),
        ("select ds --ids ids.txt", "cannot be used with"),
        (
            "select ds --strategy random --pool-side text",
            "no text features; `nextpair embed` makes them with --text-model",
        ),
        ("select ds --strategy random --feature-set other", "no image features other; there are "),
        ("select ds --strategy core-set --features encoded", "encoded features need a model"),
        (
            "select ds --strategy random --budget 41",
            "the budget is 41 but the pool has only 40 items",
        ),
        ("select --pool pool.npy --strategy random --budget 0", "the budget is 0"),
        ("score ds --strategy random --shard 0/2", "shards are scored from files of embeddings"),
    ] {
        let budget = if words.contains("--budget") { "--out out/picks.jsonl" } else { out };
        world.refused(&format!("{words} {budget}"), &[expected]);
    }
    world.write("empty.npy", &npy(&world.pool.first(0), Numbers::F32));
    for strategy in ALONE {
        world.refused(
            &format!("select --pool empty.npy --strategy {strategy} {out}"),
            &["the pool is empty"],
        );
    }
}

#[test]
fn shards_need_no_pairs() {
    let world = World::small();
    let whole = picks(&world, "--pool pool.npy --budget 9 --strategy random");
    for shard in 0..2 {
        let words = "score --pool pool.npy --budget 9 --strategy random";
        succeeds(&world, &format!("{words} --shard {shard}/2 --out out/part-{shard}"));
    }
    succeeds(&world, "merge out/part-0 out/part-1 --out out/merged.jsonl");
    let merged = world.picks("out/merged.jsonl");
    let merged: Vec<(u64, Value)> = merged
        .iter()
        .map(|pick| (pick["index"].as_u64().unwrap(), pick["score"].clone()))
        .collect();
    assert_eq!(merged, whole);
}
