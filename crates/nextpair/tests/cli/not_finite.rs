//! NaN and infinity are refused in every input and by every strategy, also where the strategy does
//! not read them.

use std::fs;

use nextpair::engine::{BuiltIn, Strategy};

use crate::trained::heads_on;
use crate::world::files::{self, Numbers};
use crate::world::{Vectors, World, listed};

const BAD: [(f64, &str); 3] =
    [(f64::NAN, "NaN"), (f64::INFINITY, "inf"), (f64::NEG_INFINITY, "-inf")];

/// Returns one matrix in every file format.
fn kinds(vectors: &Vectors) -> [(&'static str, Vec<u8>); 4] {
    let ids: Vec<String> = (0..vectors.len()).map(|row| format!("id-{row}")).collect();
    [
        ("bad.npy", files::npy(vectors, Numbers::F32)),
        ("bad64.npy", files::npy(vectors, Numbers::F64)),
        ("bad.safetensors", files::safetensors(&[("x", vectors)], Numbers::F32)),
        ("bad.parquet", files::parquet(&ids, Some(vectors))),
    ]
}

/// The files of a selection: flag, name in errors, numbers.
fn inputs(world: &World) -> [(&'static str, &'static str, &Vectors); 3] {
    [
        ("--pool", "the pool items", &world.pool),
        ("--paired-images", "the paired images", &world.images),
        ("--paired-texts", "the paired texts", &world.texts),
    ]
}

fn refused(world: &World, words: &str, expected: &str) {
    let (command, flags) = words.split_once(' ').unwrap();
    let run = world.ask(command, flags);
    assert_eq!(run.code, Some(2), "{words}: {}", run.stderr);
    assert!(run.stderr.contains(expected), "{words}: no '{expected}' in {}", run.stderr);
    assert!(listed(&world.path("out")).is_empty(), "{words}");
}

#[test]
fn in_any_file_for_any_strategy() {
    let world = World::small();
    let mut bad = BAD.iter().cycle();
    let mut metrics = ["cosine", "dot"].iter().cycle();
    for (flag, what, vectors) in inputs(&world) {
        for kind in 0..4 {
            for side in ["image", "text"] {
                for strategy in BuiltIn::all().map(|strategy| strategy.name()) {
                    let (value, name) = bad.next().unwrap();
                    let (file, bytes) = &kinds(&vectors.with(7, 2, *value))[kind];
                    world.write(file, bytes);
                    let metric = metrics.next().unwrap();
                    let words = format!(
                        "select --strategy {strategy} --pool-side {side} --similarity {metric} \
                         {flag} {file}"
                    );
                    refused(&world, &words, &format!("{what}: row 7, dimension 2 is {name}"));
                }
            }
        }
    }
}

#[test]
fn in_shards() {
    let world = World::small();
    for (flag, what, vectors) in inputs(&world) {
        for strategy in ["hard-negative", "random", "coverage", "hybrid"] {
            // In the second half of the pool, outside the first shard.
            let row = vectors.len() - 2;
            world.write("bad.npy", &files::npy(&vectors.with(row, 1, f64::NAN), Numbers::F32));
            let score = format!("score --strategy {strategy} {flag} bad.npy --shard");
            let expected = format!("{what}: row {row}, dimension 1 is NaN");
            refused(&world, &format!("{score} 1/2"), &expected);
            if flag != "--pool" {
                refused(&world, &format!("{score} 0/2"), &expected);
            }
        }
    }
}

#[test]
fn in_what_was_good_when_it_was_scored() {
    let world = World::small();
    for shard in ["0/2", "1/2"] {
        let part = format!("out/{}.part", &shard[..1]);
        let words = format!("--strategy hybrid --shard {shard} --out {part}");
        assert_eq!(world.ask("score", &words).code, Some(0));
    }
    let parts = ["out/0.part", "out/1.part"].map(|part| (part, world.read(part)));
    let merge = "merge out/0.part out/1.part --out picks.jsonl";
    for (file, vectors) in [("pool.npy", &world.pool), ("images.npy", &world.images)] {
        for row in 0..vectors.len() {
            world.write(file, &files::npy(&vectors.with(row, 1, f64::NAN), Numbers::F32));
            let run = world.run(merge);
            assert_eq!(run.code, Some(2), "{file}, row {row}");
            let expected = format!("row {row}, dimension 1 is NaN");
            assert!(run.stderr.contains(&expected), "{file}, row {row}: {}", run.stderr);
        }
        world.write(file, &files::npy(vectors, Numbers::F32));
    }
    // The floats follow the header.
    let (part, bytes) = &parts[0];
    let at = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let bad = [&bytes[..at], &f64::NAN.to_le_bytes(), &bytes[at + 8..]].concat();
    world.write(part, &bad);
    let run = world.run(merge);
    assert!(run.code == Some(2) && run.stderr.contains("its bytes are not"), "{}", run.stderr);
    world.write(part, bytes);
    assert_eq!(world.run(merge).code, Some(0));
}

#[test]
fn in_one_of_several_vectors() {
    let world = World::new(3, 24, 40, 6);
    world.write("regions.npy", &files::npy_locals(&world.images, 4));
    for (value, name) in BAD {
        world.write("bad.npy", &files::npy_locals(&world.pool.with(13, 5, value), 4));
        world.write("paired.npy", &files::npy_locals(&world.images.with(9, 0, value), 4));
        for strategy in ["random", "core-set", "core-set --features bow"] {
            let select = format!("select --paired-texts regions.npy --strategy {strategy}");
            let pool = format!("{select} --pool bad.npy --paired-images regions.npy");
            let expected = format!("the pool items: row 3, vector 1, dimension 5 is {name}");
            refused(&world, &pool, &expected);
            let paired = format!("{select} --pool regions.npy --paired-images paired.npy");
            let expected = format!("the paired images: row 2, vector 1, dimension 0 is {name}");
            refused(&world, &format!("{paired} --budget 3"), &expected);
        }
    }
}

#[test]
fn in_guards_that_a_strategy_does_not_look_at() {
    let world = World::small();
    let guarded = ["hard-negative", "coverage", "hybrid"];
    for strategy in BuiltIn::all().map(|strategy| strategy.name()) {
        for guard in ["max-score", "absolute-margin", "relative-margin"] {
            for (_, value) in BAD {
                let words = format!("select --strategy {strategy} --{guard}={value}");
                let says = match guarded.contains(&strategy) {
                    true => format!("{guard} is {value}; a finite number is needed"),
                    false => format!("--{guard} is for hard-negative, coverage and hybrid"),
                };
                refused(&world, &words, &says);
            }
        }
    }
}

#[test]
fn in_a_dataset_for_a_model() {
    let world = World::new(5, 100, 1, 6);
    // Opening a model samples every second pair of this many, so row 1 is not among them.
    heads_on(&world);
    let (paired, unpaired) = (1, 95);
    let mut bad = BAD.iter().cycle();
    for (file, vectors, what) in
        [("images.npy", &world.images, "image"), ("texts.npy", &world.texts, "text")]
    {
        for (row, side) in [(paired, "image"), (paired, "text"), (unpaired, what)] {
            let (value, _) = bad.next().unwrap();
            world.write(file, &files::npy(&vectors.with(row, 2, *value), Numbers::F32));
            for strategy in BuiltIn::all() {
                let draws: &[&str] = match strategy.needs().matching {
                    Some(_) => &["", "--sample 10 --seed 3", "--sample 10 --seed 4"],
                    None => &["", "--seed 3"],
                };
                let strategy = strategy.name();
                for flags in draws {
                    let run = world.run(&format!(
                        "select --model run ds --strategy {strategy} --pool-side {side} \
                         --budget 3 --out out/p.jsonl {flags}"
                    ));
                    let half = if what == "image" { "image" } else { "caption" };
                    let expected =
                        format!("the {half} features of item {row} hold NaN or infinity");
                    let case = format!("{file}, row {row}, {strategy} {flags} of {side}s");
                    assert_eq!(run.code, Some(2), "{case}: {}", run.stderr);
                    assert!(run.stderr.contains(&expected), "{case}: {}", run.stderr);
                    assert!(fs::metadata(world.path("out/p.jsonl")).is_err(), "{case}");
                }
            }
        }
        world.write(file, &files::npy(vectors, Numbers::F32));
    }
}
