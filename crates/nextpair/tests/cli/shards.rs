//! `score` and `merge`: any number of shards gives the same bytes as `select`.

use nextpair::engine::{BuiltIn, Draws};
use safetensors::SafeTensors;

use crate::world::files::{self, Numbers};
use crate::world::{World, listed};

/// Returns a world with ids for pool and pairs.
fn world() -> World {
    let world = World::new(3, 30, 50, 5);
    world.write_lines("ids.txt", (0..50).map(|item| format!("item {item}")));
    world.write_lines("paired.txt", (0..30).map(|pair| format!("pair {pair}")));
    world
}

fn shardable() -> impl Iterator<Item = BuiltIn> {
    BuiltIn::all().filter(|s| s.check_shardable().is_ok())
}

/// Scores one shard into `part-NAME`.
fn score(world: &World, flags: &str, shard: &str, part: &str) {
    let run = world.ask("score", &format!("{flags} --shard {shard} --out {part}"));
    assert_eq!(run.code, Some(0), "{flags} {shard}: {}", run.stderr);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("predicted peak memory"), "{}", run.stderr);
}

/// Scores all shards, numbered from `first`. Returns the names of the parts, shuffled.
fn score_all(world: &World, flags: &str, count: usize, first: usize) -> String {
    let mut draws = Draws::new(count as u64);
    let mut parts: Vec<(u64, String)> = (first..first + count)
        .map(|shard| {
            let part = format!("part-{shard}-of-{count}");
            score(world, flags, &format!("{shard}/{count}"), &part);
            (draws.bits(), part)
        })
        .collect();
    parts.sort();
    parts.into_iter().map(|(_, part)| part + " ").collect()
}

fn merge(world: &World, parts: &str, out: &str) {
    let run = world.run(&format!("merge {parts} --out {out}"));
    assert_eq!(run.code, Some(0), "{parts}: {}", run.stderr);
}

#[test]
fn a_shard_needs_the_memory_of_its_items() {
    let world = World::new(3, 30, 200_000, 5);
    let predicted = |command: &str, of: &str| {
        let run = world.ask(command, "--out out/x.jsonl");
        let (sizes, rest) = run.stderr.split_once("; predicted peak memory ").unwrap();
        assert!(sizes.contains(of), "{sizes}");
        rest.split(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let whole = predicted("select", "200000 pool items, 30 pairs");
    let part = predicted("score --shard 0/8", "25000 of 200000 pool items, 30 pairs");
    assert!(part < whole - 4.0, "{part} of {whole} MB");
}

#[test]
fn any_split_gives_the_same_bytes() {
    let world = world();
    for strategy in shardable() {
        let flags = format!("--strategy {strategy} --ids ids.txt --paired-ids paired.txt --seed 2");
        world.select(&flags);
        world.select(&format!("{flags} --out out/picks.parquet"));
        for (count, first) in [(1, 0), (2, 0), (3, 1), (7, 0), (64, 1)] {
            let parts = score_all(&world, &flags, count, first);
            for format in ["jsonl", "parquet"] {
                merge(&world, &parts, &format!("out/merged.{format}"));
                let merged = world.read(&format!("out/merged.{format}"));
                let whole = world.read(&format!("out/picks.{format}"));
                assert!(merged == whole, "{strategy} in {count} shards as {format}");
            }
        }
    }
}

#[test]
fn settings_travel_with_the_parts() {
    let world = world();
    world.write_lines("groups.txt", (0..30).map(|pair| pair / 2));
    world.write_lines("sample.txt", (0..30).step_by(2));
    for flags in [
        "--weight count --explain 5",
        "--weight count --strategy coverage --explain 0",
        "--pool-side text --top-k 3 --groups groups.txt --strategy coverage",
        "--similarity dot --sample 12 --seed 9 --budget 50",
        "--pool-side text --strategy hybrid --sample-indices sample.txt --max-score 0.8",
        "--strategy random --seed 11 --budget 50",
    ] {
        world.select(flags);
        let parts = score_all(&world, flags, 3, 0);
        merge(&world, &parts, "out/merged.jsonl");
        assert!(world.read("out/merged.jsonl") == world.read("out/picks.jsonl"), "{flags}");
        let run = world.run(&format!("merge {parts} --out - --json"));
        assert_eq!(run.stdout.as_bytes(), world.read("out/picks.jsonl"), "{flags}");
        let summary = run.stderr.lines().last().unwrap();
        let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
        assert_eq!(summary["pool"], 50, "{flags}");
    }
}

#[test]
fn thresholds_are_taken_from_another_part() {
    let world = world();
    world.write_lines("groups.txt", (0..30).map(|pair| pair / 2));
    for flags in
        ["--strategy coverage --groups groups.txt", "--top-k 3 --explain 5", "--strategy margin"]
    {
        world.select(flags);
        score(&world, flags, "0/3", "part-0");
        for shard in [1, 2] {
            let told = format!("{flags} --thresholds part-0");
            score(&world, &told, &format!("{shard}/3"), &format!("part-{shard}"));
        }
        merge(&world, "part-0 part-1 part-2", "out/merged.jsonl");
        assert!(world.read("out/merged.jsonl") == world.read("out/picks.jsonl"), "{flags}");
    }
    let before = listed(&world.path("out"));
    let other = "was made with different settings or files";
    score(&world, "--top-k 2", "0/3", "part-0");
    for flags in ["", "--top-k 2 --budget 3", "--top-k 2 --groups groups.txt"] {
        let words = format!("{flags} --shard 1/3 --thresholds part-0 --out out/part");
        let run = world.ask("score", &words);
        assert_eq!(run.code, Some(2), "{flags}");
        assert!(run.stderr.contains(other), "{}", run.stderr);
    }
    assert_eq!(listed(&world.path("out")), before);
}

#[test]
fn ids_of_a_table_travel_too() {
    let world = world();
    let ids: Vec<String> = (0..50).map(|item| format!("{item:032x}")).collect();
    world.write("pool.parquet", &files::parquet(&ids, Some(&world.pool)));
    for strategy in shardable() {
        let flags = format!("--strategy {strategy} --pool pool.parquet");
        world.select(&format!("{flags} --out out/picks.npy"));
        let parts = score_all(&world, &flags, 4, 0);
        merge(&world, &parts, "out/merged.npy");
        assert_eq!(world.read("out/merged.npy"), world.read("out/picks.npy"), "{strategy}");
    }
}

#[test]
fn bad_items_are_named_by_their_place_in_the_pool() {
    let world = world();
    let mut zero = world.pool.clone();
    zero.values[41 * zero.dim..42 * zero.dim].fill(0.0);
    for (pool, expected) in [
        (world.pool.with(41, 2, f64::NAN), "the pool items: row 41, dimension 2 is NaN"),
        (zero, "the pool items: row 41 is a zero vector"),
    ] {
        world.write("pool.npy", &files::npy(&pool, Numbers::F32));
        let run = world.ask("score", "--shard 3/4 --out out/part");
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        assert!(run.stderr.contains(expected), "{}", run.stderr);
        assert!(listed(&world.path("out")).is_empty());
    }
}

#[test]
fn core_set_says_why_it_is_not_split() {
    let world = world();
    let words = "score --paired-images images.npy --pool pool.npy --pool-side image --budget 3 \
                 --strategy core-set --shard 0/2 --out out/part";
    let reason = "every pick depends on the distances of the whole pool";
    world.refused(words, &["core-set cannot be split into shards", reason]);
}

#[test]
fn shards_that_there_are_not() {
    let world = world();
    for shard in ["3/2", "0/0", "1", "a/b", "1/2/3", "0.5/2"] {
        let run = world.ask("score", &format!("--shard {shard} --out out/part"));
        assert_eq!(run.code, Some(2), "{shard}");
        assert!(run.stderr.contains(&format!("'{shard}'")), "{}", run.stderr);
    }
    let run = world.ask("score", "--shard 60/64 --out part");
    assert!(run.stderr.contains("scored      items 46 to 46 of 50"), "{}", run.stderr);
    let run = world.ask("score", "--shard 0/64 --out part");
    assert!(run.stderr.contains("scored      no items: "), "{}", run.stderr);
}

#[test]
fn parts_that_do_not_make_a_whole() {
    let world = world();
    let parts = score_all(&world, "", 4, 0);
    let without = |missing: &str| parts.replace(missing, "");
    let refused = |parts: &str, expected: &[&str]| {
        world.refused(&format!("merge {parts} --out out/picks.jsonl"), expected);
    };
    refused(&without("part-0-of-4"), &["items 0 to 11 of 50 are in none of them"]);
    refused(&without("part-2-of-4"), &["items 25 to 36 of 50 are in none of them"]);
    refused(&without("part-3-of-4"), &["items 37 to 49 of 50 are in none of them"]);
    refused("part-1-of-4", &["items 0 to 11 of 50 are in none of them"]);
    refused(&format!("{parts} part-2-of-4"), &["part-2-of-4: ", "item 25 is in more than one"]);
    score(&world, "", "1/2", "half");
    refused(
        &format!("{} half", without("part-3-of-4")),
        &["half: ", "item 25 is in more than one"],
    );
    refused("", &["<PART>..."]);

    world.write_lines("ids.txt", 0..50);
    world.write("narrow.npy", &files::npy(&world.pool.first(49), Numbers::F32));
    for (at, flags) in [
        "--budget 8",
        "--top-k 2",
        "--weight count",
        "--similarity dot",
        "--explain 1",
        "--seed 1",
        "--strategy coverage",
        "--pool-side text",
        "--sample 9",
        "--pool narrow.npy",
        "--ids ids.txt",
        "--paired-ids paired.txt",
    ]
    .iter()
    .enumerate()
    {
        let part = format!("other-{at}");
        score(&world, flags, "3/4", &part);
        let expected = ["part-0-of-4 and ", &part, "were made with different settings"];
        refused(&format!("part-0-of-4 part-1-of-4 {part} part-2-of-4"), &expected);
    }
    // The same settings with other pairs.
    score(&world, "--paired-images texts.npy", "3/4", "paired");
    refused(
        "part-0-of-4 paired",
        &["part-0-of-4 and paired were made with different settings or files"],
    );
}

#[test]
fn files_that_are_not_parts() {
    let world = world();
    let parts = score_all(&world, "--strategy coverage", 2, 0);
    let whole = world.read("part-0-of-2");
    world.write("cut", &whole[..whole.len() - 1]);
    world.write("header", &whole[..100]);
    world.write("empty", b"");
    world.write("garbage", b"{\"rank\":1}\n{\"rank\":2}\n");
    world.write("other", &files::safetensors(&[("a", &world.pool)], Numbers::F32));
    for (file, expected) in [
        ("cut", "not a whole safetensors file"),
        ("header", "not a whole safetensors file"),
        ("empty", "the file is empty"),
        ("garbage", "not a whole safetensors file"),
        ("other", "its format is not nextpair-part-4"),
        ("pool.npy", "pool.npy is not a part of `score`"),
        ("none", "No such file"),
    ] {
        let expected = [file, "is not a part of `score`", expected];
        world.refused(&format!("merge {parts} {file} --out out/picks.jsonl"), &expected);
        world.refused(&format!("merge {file} --out out/picks.jsonl"), &expected);
    }
    world.refused(&format!("merge {parts} --out out/picks.txt"), &["picks are written as"]);
    world.refused(
        &format!("merge {parts} --out none/picks.jsonl"),
        &["none: there is no such folder for picks.jsonl"],
    );
    world.refused(&format!("merge {parts} --out out/picks.npy"), &["is not a DataComp uid"]);
}

#[test]
fn damaged_parts_are_not_believed() {
    let world = world();
    let parts = score_all(&world, "--strategy hybrid", 2, 0);
    let bytes = world.read("part-1-of-2");
    let (length, header) = SafeTensors::read_metadata(&bytes).unwrap();
    for tensor in ["items", "best.index"] {
        // Raise its last number above the size of any pool.
        let (_, end) = header.info(tensor).unwrap().data_offsets;
        let mut damaged = bytes.clone();
        damaged[8 + length + end - 1] = 0x7f;
        world.write("part-1-of-2", &damaged);
        let words = format!("merge {parts} --out out/picks.jsonl");
        world.refused(&words, &["part-1-of-2 is not a part", "damaged: its bytes are not"]);
    }
}

#[test]
fn hybrid_reads_the_pool_it_scored() {
    let world = world();
    let parts = score_all(&world, "--strategy hybrid", 2, 0);
    let words = format!("merge {parts} --out out/picks.jsonl");
    world.write("pool.npy", &files::npy(&world.pool.first(20), Numbers::F32));
    world.refused(&words, &["pool.npy", "20 items", "50"]);
    std::fs::remove_file(world.path("pool.npy")).unwrap();
    world.refused(&words, &["pool.npy: No such file"]);
}
