//! `--dedupe`: pools without duplicates.

use nextpair::engine::{Draws, reference};

use crate::world::files::{Numbers, npy};
use crate::world::{Vectors, World};

/// A world whose pool has copies and near copies of its items, and of paired images.
fn world() -> World {
    let mut world = World::new(5, 24, 60, 6);
    let mut draws = Draws::new(9);
    for item in 20..50 {
        let source = match item % 3 {
            0 => world.images.rows()[draws.below(24)].clone(),
            _ => world.pool.rows()[draws.below(20)].clone(),
        };
        for (dimension, value) in source.into_iter().enumerate() {
            // Half precision holds it.
            let jitter = if item % 2 == 0 { 0.0 } else { (draws.normal() * 2.0).round() / 32.0 };
            world.pool = world.pool.with(item, dimension, value + jitter);
        }
    }
    world.write("pool.npy", &npy(&world.pool, Numbers::F32));
    world
}

/// The pool items that the plain version keeps.
fn kept(world: &World, cosine: Option<f64>) -> Vec<usize> {
    reference::distinct(&world.pool.rows(), &world.images.rows(), cosine)
}

#[test]
fn picks_are_those_from_a_pool_without_duplicates() {
    let world = world();
    for (flag, cosine) in
        [("--dedupe", None), ("--dedupe 0.98", Some(0.98)), ("--dedupe exact", None)]
    {
        let kept = kept(&world, cosine);
        assert!(kept.len() < 50);
        let rows = world.pool.rows();
        let values = kept.iter().flat_map(|&item| rows[item].clone()).collect();
        world.write("kept.npy", &npy(&Vectors { dim: 6, values }, Numbers::F32));
        for strategy in
            ["hard-negative", "random", "coverage", "hybrid", "core-set", "herding", "v-optimal"]
        {
            world.select(&format!("--pool kept.npy --strategy {strategy}"));
            let expected: Vec<(usize, f64)> = world
                .picks("out/picks.jsonl")
                .iter()
                .map(|pick| {
                    (
                        kept[pick["index"].as_u64().unwrap() as usize],
                        pick["score"].as_f64().unwrap(),
                    )
                })
                .collect();
            for threads in [1, 3] {
                let run =
                    world.select(&format!("{flag} --strategy {strategy} --threads {threads}"));
                let left_out = format!("duplicates  {} left out", 60 - kept.len());
                assert!(run.stderr.contains(&left_out), "{}", run.stderr);
                let found: Vec<(usize, f64)> = world
                    .picks("out/picks.jsonl")
                    .iter()
                    .map(|pick| {
                        (pick["index"].as_u64().unwrap() as usize, pick["score"].as_f64().unwrap())
                    })
                    .collect();
                assert_eq!(found, expected, "{flag} {strategy}");
            }
        }
    }
    let run = world.select("--dedupe 0.98 --json");
    let summary: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(summary["duplicates"], 60 - kept(&world, Some(0.98)).len());
}

#[test]
fn what_cannot_be_done_is_said() {
    let world = world();
    for (flags, says) in [
        ("--dedupe 1.5", "a cosine above 0 and at most 1"),
        ("--dedupe nan", "a cosine above 0 and at most 1"),
        ("--dedupe near", "'near' is not a number"),
        ("--dedupe 0.001 --budget 40", "without its duplicates the pool has only"),
    ] {
        world.select_refused(flags, &[says]);
    }
    let run = world.ask("score", "--dedupe --shard 0/2 --out out/p");
    assert!(run.code == Some(2) && run.stderr.contains("not in a shard"), "{}", run.stderr);
}
