//! The same numbers in every input format.

use crate::world::files::{self, Numbers};
use crate::world::{Asked, Vectors, World};

/// Returns the picks with pool items named `item-N` and pairs named `pair-N`.
fn named(world: &World) -> Vec<serde_json::Value> {
    let mut rows = world.expected(&Asked::usual());
    for row in &mut rows {
        row["id"] = format!("item-{}", row["index"]).into();
        for why in row["why"].as_array_mut().unwrap() {
            why["anchor_id"] = format!("pair-{}", why["anchor"]).into();
        }
    }
    rows
}

fn names(kind: &str, vectors: &Vectors) -> Vec<String> {
    (0..vectors.len()).map(|row| format!("{kind}-{row}")).collect()
}

#[test]
fn npy_of_every_precision() {
    let world = World::small();
    let expected = world.expected(&Asked::usual());
    for numbers in [Numbers::F16, Numbers::F32, Numbers::F64] {
        // The paired files have another precision: types may be mixed.
        world.write("other.NPY", &files::npy(&world.pool, numbers));
        world.select("--pool other.NPY");
        assert_eq!(world.picks("out/picks.jsonl"), expected, "pool {numbers:?}");
        world.write("a.npy", &files::npy(&world.images, numbers));
        world.write("b.npy", &files::npy(&world.texts, numbers));
        world.select("--paired-images a.npy --paired-texts b.npy");
        assert_eq!(world.picks("out/picks.jsonl"), expected, "pairs {numbers:?}");
    }
}

#[test]
fn safetensors_by_tensor() {
    let world = World::small();
    let expected = world.expected(&Asked::usual());
    let tensors = [("images", &world.images), ("texts", &world.texts), ("a:pool", &world.pool)];
    for numbers in [Numbers::F16, Numbers::Bf16, Numbers::F32, Numbers::F64] {
        world.write("all.safetensors", &files::safetensors(&tensors, numbers));
        world.write("one.safetensors", &files::safetensors(&tensors[2..], numbers));
        for pool in ["all.safetensors:a:pool", "one.safetensors"] {
            world.select(&format!(
                "--paired-images all.safetensors:images --paired-texts all.safetensors:texts \
                 --pool {pool}"
            ));
            assert_eq!(world.picks("out/picks.jsonl"), expected, "{pool} {numbers:?}");
        }
    }
}

#[test]
fn parquet_brings_its_ids() {
    let world = World::small();
    let pool = files::parquet(&names("item", &world.pool), Some(&world.pool));
    world.write("pool.parquet", &pool);
    let texts = files::parquet(&names("pair", &world.texts), Some(&world.texts));
    world.write("texts.parquet", &texts);
    world.select("--pool pool.parquet --paired-texts texts.parquet");
    assert_eq!(world.picks("out/picks.jsonl"), named(&world));

    // A file of ids overrides those of the table.
    world.write_lines("ids.txt", 0..40);
    world.write_lines("paired.txt", 0..24);
    world.select(
        "--pool pool.parquet --paired-texts texts.parquet --ids ids.txt --paired-ids paired.txt",
    );
    assert_eq!(world.picks("out/picks.jsonl"), world.expected(&Asked::usual()));
}

#[test]
fn clip_retrieval_folders_of_two_shards() {
    let world = World::small();
    let halves = |vectors: &Vectors, first: usize| {
        let rest = vectors.values[first * vectors.dim..].to_vec();
        [vectors.first(first), Vectors { dim: vectors.dim, values: rest }]
    };
    let items = names("item", &world.pool);
    let pairs = names("pair", &world.texts);
    for (shard, pool) in halves(&world.pool, 13).iter().enumerate() {
        world.write(&format!("pool/img_emb/img_emb_{shard}.npy"), &files::npy(pool, Numbers::F16));
        let ids = if shard == 0 { &items[..13] } else { &items[13..] };
        let path = format!("pool/metadata/metadata_{shard}.parquet");
        world.write(&path, &files::parquet(ids, None));
    }
    for (kind, vectors) in [("img", &world.images), ("text", &world.texts)] {
        for (shard, half) in halves(vectors, 10).iter().enumerate() {
            let path = format!("paired/{kind}_emb_{shard}.npy");
            world.write(&path, &files::npy(half, Numbers::F32));
        }
    }
    world.write("paired/metadata_0.parquet", &files::parquet(&pairs[..10], None));
    world.write("paired/metadata_1.parquet", &files::parquet(&pairs[10..], None));
    world.select("--pool pool --paired-images paired --paired-texts paired");
    assert_eq!(world.picks("out/picks.jsonl"), named(&world));
}
