//! Selection on similarities in files, of any model.

use std::fs::File;
use std::io::Write;

use nextpair::engine::{BuiltIn, Metric, Strategy, reference};

use crate::world::files::{Numbers, npy};
use crate::world::{Vectors, World};

/// The similarities of some rows to the other half of the pairs.
fn table(rows: &Vectors, columns: &Vectors) -> Vectors {
    let columns = columns.rows();
    let row = |x: &Vec<f64>| -> Vec<f64> {
        columns.iter().map(|y| reference::similarity(Metric::Cosine, x, y)).collect()
    };
    Vectors { dim: columns.len(), values: rows.rows().iter().flat_map(row).collect() }
}

/// A world with its similarities for both pool sides, in `image-pairs.npy` and so on.
fn world() -> World {
    let world = World::new(4, 80, 300, 12);
    for (side, own, other) in
        [("image", &world.images, &world.texts), ("text", &world.texts, &world.images)]
    {
        world.write(&format!("{side}-pairs.npy"), &npy(&table(own, other), Numbers::F64));
        world.write(&format!("{side}-pool.npy"), &npy(&table(&world.pool, other), Numbers::F64));
    }
    world
}

/// Runs `select` on similarities alone.
fn ask(world: &World, side: &str, flags: &str) -> crate::world::Run {
    world.run(&format!(
        "select --pair-similarities {side}-pairs.npy --pool-similarities {side}-pool.npy \
         --pool-side {side} --budget 20 --out out/picks.jsonl {flags}"
    ))
}

#[test]
fn picks_are_those_of_the_embeddings() {
    let world = world();
    for side in ["image", "text"] {
        for strategy in BuiltIn::all().filter(|strategy| strategy.needs().features.is_none()) {
            world.select(&format!("--pool-side {side} --strategy {strategy} --budget 20"));
            let expected = world.read("out/picks.jsonl");
            let run = ask(&world, side, &format!("--strategy {strategy}"));
            assert_eq!(run.code, Some(0), "{strategy}: {}", run.stderr);
            assert!(world.read("out/picks.jsonl") == expected, "{side} {strategy}");
            assert!(run.stderr.contains("known similarities"), "{}", run.stderr);
        }
        // Strategies that measure distances take vectors too.
        for strategy in ["hybrid", "core-set", "herding"] {
            let own = if side == "image" {
                "--paired-images images.npy"
            } else {
                "--paired-texts texts.npy"
            };
            world.select(&format!("--pool-side {side} --strategy {strategy} --budget 20"));
            let expected = world.read("out/picks.jsonl");
            let run = ask(&world, side, &format!("--strategy {strategy} --pool pool.npy {own}"));
            assert_eq!(run.code, Some(0), "{strategy}: {}", run.stderr);
            assert!(world.read("out/picks.jsonl") == expected, "{side} {strategy}");
            let run = ask(&world, side, &format!("--strategy {strategy}"));
            assert!(run.stderr.contains("looks at vectors of the items"), "{}", run.stderr);
            assert_eq!(run.code, Some(2));
        }
        // The default is one of them.
        let run = ask(&world, side, "");
        let fix = "or name a strategy that needs none, such as --strategy hard-negative";
        assert!(run.code == Some(2) && run.stderr.contains(fix), "{}", run.stderr);
    }
}

#[test]
fn several_files_and_every_format_are_one_matrix() {
    let world = world();
    ask(&world, "image", "--strategy hard-negative");
    let expected = world.read("out/picks.jsonl");
    let pool = table(&world.pool, &world.texts);
    let rows = |from: usize, to: usize| Vectors {
        values: pool.values[from * 80..to * 80].to_vec(),
        dim: 80,
    };
    // In the order of the numbers in their names.
    for (name, from, to) in [("p-2", 0, 100), ("p-10", 100, 299), ("p-11", 299, 300)] {
        world.write(&format!("tiles/{name}.npy"), &npy(&rows(from, to), Numbers::F64));
    }
    let run = |pool: &str| {
        let run = world.run(&format!(
            "select --pair-similarities image-pairs.npy --pool-similarities {pool} \
             --pool-side image --strategy hard-negative --budget 20 --out out/picks.jsonl"
        ));
        assert_eq!(run.code, Some(0), "{pool}: {}", run.stderr);
        world.read("out/picks.jsonl")
    };
    assert!(run("tiles") == expected);
    assert!(run("tiles/p-2.npy tiles/p-10.npy tiles/p-11.npy") == expected);
    // Shards give the same.
    for shard in 0..3 {
        let scored = world.run(&format!(
            "score --pair-similarities image-pairs.npy --pool-similarities tiles --pool-side image \
             --strategy hard-negative --budget 20 --shard {shard}/3 --out out/part-{shard}"
        ));
        assert_eq!(scored.code, Some(0), "{}", scored.stderr);
    }
    let merged = world.run("merge out/part-2 out/part-0 out/part-1 --out out/picks.jsonl");
    assert_eq!(merged.code, Some(0), "{}", merged.stderr);
    assert!(world.read("out/picks.jsonl") == expected);
    // Types may not differ between files, and lower precision is read as it is.
    world.write("tiles/p-12.npy", &npy(&rows(0, 1), Numbers::F32));
    let refused = world.run(
        "select --pair-similarities image-pairs.npy --pool-similarities tiles --pool-side image \
         --strategy hard-negative --budget 20 --out out/picks.jsonl",
    );
    assert!(refused.stderr.contains("80 columns of F64, but"), "{}", refused.stderr);
    let rounded = |table: &Vectors| Vectors {
        values: table.values.iter().map(|value| (value * 1024.0).round() / 1024.0).collect(),
        dim: table.dim,
    };
    let (pool, pairs) = (rounded(&pool), rounded(&table(&world.images, &world.texts)));
    for numbers in [Numbers::F64, Numbers::F16, Numbers::F32] {
        for (name, vectors) in [("half-pool.npy", &pool), ("half-pairs.npy", &pairs)] {
            world.write(name, &npy(vectors, numbers));
        }
        let run = world.run(
            "select --pair-similarities half-pairs.npy --pool-similarities half-pool.npy \
             --pool-side image --strategy hard-negative --budget 20 --out out/half.jsonl",
        );
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let found = world.read("out/half.jsonl");
        if let Numbers::F64 = numbers {
            world.write("out/whole.jsonl", &found);
        }
        assert!(found == world.read("out/whole.jsonl"));
    }
}

#[test]
fn copies_are_told_by_their_rows() {
    let world = world();
    let mut pool = table(&world.pool, &world.texts);
    let pairs = table(&world.images, &world.texts);
    pool.values.extend_from_within(..160);
    pool.values.extend_from_slice(&pairs.values[..80]);
    world.write("image-pool.npy", &npy(&pool, Numbers::F64));
    let run = ask(&world, "image", "--strategy hard-negative");
    assert!(run.stderr.contains("2 of 303 pool items have the same numbers"), "{}", run.stderr);
    let run = ask(&world, "image", "--strategy hard-negative --dedupe");
    assert!(run.stderr.contains("duplicates  3 left out"), "{}", run.stderr);
    let run = ask(&world, "image", "--strategy hard-negative --dedupe 0.9");
    assert!(
        run.code == Some(2) && run.stderr.contains("told by a cosine need vectors"),
        "{}",
        run.stderr
    );
}

#[test]
fn what_does_not_fit_is_said() {
    let world = world();
    let pool = table(&world.pool, &world.texts);
    let pairs = table(&world.images, &world.texts);
    let cut = |vectors: &Vectors, dim: usize, rows: usize| Vectors {
        values: vec![0.25; dim * rows.min(vectors.len())],
        dim,
    };
    let file = |name: &str, vectors: &Vectors| world.write(name, &npy(vectors, Numbers::F32));
    file("wide.npy", &cut(&pool, 81, 300));
    file("turned.npy", &Vectors { values: vec![0.5; 80 * 300], dim: 300 });
    file("oblong.npy", &cut(&pairs, 80, 79));
    file("nan-pool.npy", &pool.with(7, 5, f64::NAN));
    file("nan-pairs.npy", &pairs.with(2, 3, f64::INFINITY));
    for (pairs, pool, flags, says) in [
        ("image-pairs.npy", "wide.npy", "", "81 columns of the pool's similarities"),
        ("image-pairs.npy", "turned.npy", "", "transpose them, so that rows are pool items"),
        ("oblong.npy", "image-pool.npy", "", "79 rows of the paired similarities"),
        ("image-pairs.npy", "nan-pool.npy", "", "row 7, column 5 is NaN"),
        ("image-pairs.npy", "nan-pool.npy", "--strategy random", "row 7, column 5 is NaN"),
        ("nan-pairs.npy", "image-pool.npy", "", "row 2, column 3 is inf"),
        (
            "image-pairs.npy",
            "image-pool.npy",
            "--paired-texts texts.npy",
            "--paired-texts is not read",
        ),
        ("image-pairs.npy", "image-pool.npy", "--pool pool.npy", "--paired-images is missing"),
        ("image-pairs.npy", "image-pool.npy", "--similarity dot", "cannot be used with"),
        ("image-pairs.npy", "none.npy", "", "none.npy"),
    ] {
        let strategy = if flags.contains("--strategy") { "" } else { "--strategy hard-negative" };
        let words = format!(
            "select --pair-similarities {pairs} --pool-similarities {pool} --pool-side image \
             --budget 20 --out out/picks.jsonl {strategy} {flags}"
        );
        world.refused(&words, &[says]);
    }
}

/// Writes a file of zeros that takes no room on the disk.
fn sparse(path: &std::path::Path, rows: usize, columns: usize) {
    let mut header =
        format!("{{'descr': '<f2', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let padding = 127 - 10 - header.len();
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let mut file = File::create(path).unwrap();
    file.write_all(b"\x93NUMPY\x01\x00\x76\x00").unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.set_len(128 + (rows * columns * 2) as u64).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_matrix_larger_than_the_memory_allowed_is_selected_from() {
    // The whole takes 5 GB: NEXTPAIR_LARGE=1. A fifth tells the same of what is allocated.
    let large = std::env::var_os("NEXTPAIR_LARGE").is_some();
    let (items, pairs) = if large { (250_000, 10_000) } else { (100_000, 5_000) };
    let folder = tempfile::tempdir().unwrap();
    sparse(&folder.path().join("pool.npy"), items, pairs);
    sparse(&folder.path().join("pairs.npy"), pairs, pairs);
    let run = crate::world::nextpair(
        folder.path(),
        "select --pair-similarities pairs.npy --pool-similarities pool.npy --pool-side image \
         --strategy hard-negative --budget 100 --json --out picks.jsonl",
    );
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let summary: serde_json::Value = serde_json::from_str(run.stdout.trim()).unwrap();
    let peak = summary["peak_bytes"].as_u64().unwrap();
    assert!(peak < 300 << 20, "{peak} bytes");
}
