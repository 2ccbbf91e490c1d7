//! A pool that is large beside everything else: the same bytes on every route, memory that grows by a
//! few numbers per item, one reading. `cargo xtask bench scale` does the same with 10 GB.

use nextpair::engine::BuiltIn;
use serde_json::Value;

use crate::world::files::{self, Numbers};
use crate::world::{Asked, World};

const ITEMS: usize = 200_000;
const DIM: usize = 64;

/// Returns a pool of half precision in two forms, and pairs.
fn world() -> World {
    let world = World::new(5, 40, ITEMS, DIM);
    world.write("pool.npy", &files::npy(&world.pool, Numbers::F16));
    let few = world.pool.first(ITEMS / 4);
    world.write("few.npy", &files::npy(&few, Numbers::F16));
    world
}

/// Returns the predicted and the measured peak of anonymous memory.
fn memory(world: &World, flags: &str) -> (u64, Option<u64>) {
    let run = world.select(&format!("{flags} --out out/sized.jsonl --json --threads 2"));
    let summary: Value = serde_json::from_str(&run.stdout).unwrap();
    (summary["predicted_peak_bytes"].as_u64().unwrap(), summary["peak_bytes"].as_u64())
}

#[test]
fn all_routes_give_the_same_bytes() {
    let world = world();
    world.select("--budget 50");
    let whole = world.read("out/picks.jsonl");
    let expected = world.expected(&Asked { budget: 50, ..Asked::usual() });
    assert_eq!(world.picks("out/picks.jsonl"), expected);
    for (shards, first) in [(1, 0), (3, 1)] {
        let mut parts = String::new();
        for shard in first..first + shards {
            let part = format!("part-{shard}-of-{shards}");
            let known = if shard > first {
                format!("--thresholds part-{first}-of-{shards}")
            } else {
                String::new()
            };
            let flags = format!("--budget 50 --shard {shard}/{shards} {known} --out {part}");
            let run = world.ask("score", &flags);
            assert_eq!(run.code, Some(0), "{}", run.stderr);
            parts = format!("{parts} {part}");
        }
        let run = world.run(&format!("merge {parts} --out out/merged.jsonl"));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(world.read("out/merged.jsonl") == whole, "{shards} shards");
    }
}

#[test]
fn memory_grows_by_a_few_numbers_per_item() {
    let world = world();
    let (predicted, peak) = memory(&world, "--pool pool.npy");
    let (predicted_few, peak_few) = memory(&world, "--pool few.npy");
    let more = (ITEMS - ITEMS / 4) as u64;
    assert!(predicted - predicted_few <= 32 * more);
    // Other systems than Linux do not tell.
    let (Some(peak), Some(peak_few)) = (peak, peak_few) else { return };
    assert!(peak <= predicted, "{peak} bytes, {predicted} predicted");
    assert!(peak_few <= predicted_few, "{peak_few} bytes, {predicted_few} predicted");
    // The numbers themselves would be 128 bytes per item. Allocators round up to megabytes.
    let grown = peak.saturating_sub(peak_few);
    assert!(grown <= 40 * more + (4 << 20), "{grown} bytes for {more} items");
}

#[test]
fn no_strategy_takes_more_memory_than_it_predicts() {
    // Short vectors, so that what a strategy keeps per item outweighs all else.
    let world = World::new(6, 40, 800_000, 8);
    for strategy in BuiltIn::all() {
        let (predicted, peak) = memory(&world, &format!("--strategy {strategy}"));
        // Other systems than Linux do not tell.
        let Some(peak) = peak else { return };
        assert!(peak <= predicted, "{strategy}: {peak} bytes, {predicted} predicted");
    }
}

#[test]
fn a_bad_number_at_the_end_is_found() {
    let world = world();
    let row = ITEMS - 3;
    let mut bytes = world.read("pool.npy");
    let place = bytes.len() - ((ITEMS - row) * DIM - 7) * 2;
    for (bits, what) in [(0x7e00u16, "NaN"), (0x7c00, "inf")] {
        bytes[place..place + 2].copy_from_slice(&bits.to_le_bytes());
        world.write("pool.npy", &bytes);
        for flags in ["", "--strategy margin", "--strategy random"] {
            let place = format!("row {row}");
            world.select_refused(flags, &[&place, what]);
        }
        world.refused(
            "score --paired-images images.npy --paired-texts texts.npy --pool pool.npy --pool-side image \
             --strategy hard-negative --budget 9 --shard 3/4 --out out/part",
            &[&format!("row {row}"), what],
        );
    }
}
