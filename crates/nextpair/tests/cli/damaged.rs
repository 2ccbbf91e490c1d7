//! Damaged files, and files with the wrong extension.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::train::succeeds;
use crate::world::files::{self, Numbers};
use crate::world::{Run, World, nextpair};

/// Asserts that every flag that takes this kind of file refuses a damaged one.
fn refused_everywhere(world: &World, file: &str, expected: &[&str]) {
    for flag in ["--pool", "--paired-images", "--paired-texts"] {
        world.select_refused(&format!("{flag} {file}"), expected);
    }
}

#[test]
fn npy_that_cannot_be_read() {
    let world = World::small();
    let data = Numbers::F32.encode(&world.pool.values);
    let raw = |descr, fortran, shape| files::npy_raw(descr, fortran, shape, &data);
    let whole = files::npy(&world.pool, Numbers::F32);
    let longer = [&whole[..], b"x"].concat();
    for (name, bytes, expected) in [
        ("cut.npy", whole[..whole.len() - 5].to_vec(), "the data is cut off: shape (40, 6) takes"),
        ("header.npy", whole[..20].to_vec(), "the header is cut off"),
        ("longer.npy", longer, "there are bytes after the data"),
        ("empty.npy", vec![], "the file is empty"),
        ("garbage.npy", b"PK\x03\x04 not numpy at all".to_vec(), "not a .npy file"),
        ("version.npy", b"\x93NUMPY\x09\x00\x00\x00".to_vec(), "version 9.0"),
        ("integers.npy", raw("<i4", false, "(40, 6)"), "dtype '<i4'; accepted are '<f2', '<f4'"),
        ("bool.npy", raw("|b1", false, "(40, 24)"), "dtype '|b1'"),
        ("objects.npy", raw("|O", false, "(40, 3)"), "dtype '|O'"),
        ("complex.npy", raw("<c8", false, "(40, 3)"), "dtype '<c8'"),
        ("fortran.npy", raw("<f4", true, "(40, 6)"), "Fortran order; save np.ascontiguousarray"),
        ("big.npy", raw(">f4", false, "(40, 6)"), "'>f4' is big-endian; save array.astype('<f4')"),
        ("flat.npy", raw("<f4", false, "(240,)"), "shape (240,) has 1 dimensions"),
        ("deep.npy", raw("<f4", false, "(4, 10, 3, 2)"), "has 4 dimensions"),
        ("thin.npy", raw("<f4", false, "(40, 0)"), "rows without numbers"),
        ("huge.npy", raw("<f4", false, "(9223372036854775807, 6)"), "larger than any file"),
    ] {
        world.write(name, &bytes);
        refused_everywhere(&world, name, &[name, expected]);
    }
    world.write("locals.npy", &raw("<f4", false, "(20, 2, 6)"));
    world.select_refused("--pool locals.npy", &["the pool items have 2 vectors per item"]);
}

#[test]
fn safetensors_that_cannot_be_read() {
    let world = World::small();
    let tensors = [("a", &world.pool), ("b", &world.images)];
    let whole = files::safetensors(&tensors, Numbers::F32);
    let integers = [("i".to_string(), safetensors::Dtype::I64, vec![40, 6], vec![0; 40 * 6 * 8])];
    let flat = [("f".to_string(), safetensors::Dtype::F32, vec![6], vec![0; 24])];
    world.write("two.safetensors", &whole);
    world.write("cut.safetensors", &whole[..whole.len() - 3]);
    world.write("header.safetensors", &whole[..30]);
    world.write("tiny.safetensors", &whole[..5]);
    world.write("empty.safetensors", b"");
    world.write("garbage.safetensors", b"this is not a tensor file at all");
    world.write("integers.safetensors", &files::safetensors_raw(&integers, None));
    world.write("flat.safetensors", &files::safetensors_raw(&flat, None));
    for (name, expected) in [
        ("two.safetensors", "holds the tensors a, b; name one as FILE:TENSOR"),
        ("two.safetensors:c", "no tensor 'c'; it holds the tensors a, b"),
        ("cut.safetensors:a", "cut.safetensors: not a whole safetensors file"),
        ("header.safetensors", "not a whole safetensors file"),
        ("tiny.safetensors", "not a whole safetensors file"),
        ("empty.safetensors", "the file is empty"),
        ("garbage.safetensors", "not a whole safetensors file"),
        ("integers.safetensors", "tensor 'i' has dtype I64; accepted are F16, BF16, F32 and F64"),
        ("flat.safetensors:f", "tensor 'f': shape (6,) has 1 dimensions"),
        ("none.safetensors:a", "none.safetensors:a: No such file"),
    ] {
        refused_everywhere(&world, name, &[expected]);
    }
}

#[test]
fn parquet_that_cannot_be_read() {
    let world = World::small();
    let ids: Vec<String> = (0..40).map(|item| item.to_string()).collect();
    let whole = files::parquet(&ids, Some(&world.pool));
    let mut scrambled = whole.clone();
    let footer = whole.len() - 40;
    scrambled[footer - 200..footer].fill(0xff);
    for (name, bytes, expected) in [
        ("cut.parquet", whole[..whole.len() - 9].to_vec(), "cut.parquet: "),
        ("start.parquet", whole[..300].to_vec(), "start.parquet: "),
        ("empty.parquet", vec![], "empty.parquet: "),
        (
            "garbage.parquet",
            b"PAR1 and then nothing of the kind PAR1".to_vec(),
            "garbage.parquet: ",
        ),
        ("ids.parquet", files::parquet(&ids, None), "no column embedding; its columns are id"),
    ] {
        world.write(name, &bytes);
        refused_everywhere(&world, name, &[expected]);
    }
    // The Parquet decoder may panic on this. The program must not.
    world.write("scrambled.parquet", &scrambled);
    let run = world.ask("select", "--pool scrambled.parquet");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("error: scrambled.parquet: "), "{}", run.stderr);
}

#[test]
fn paths_that_lead_nowhere() {
    let world = World::small();
    world.write("pool.txt", b"1 2 3");
    world.write("pool", b"1 2 3");
    world.write("folder/other_0.npy", b"");
    world.write("gap/img_emb_0.npy", &files::npy(&world.pool, Numbers::F32));
    world.write("gap/img_emb_2.npy", &files::npy(&world.pool, Numbers::F32));
    for (pool, expected) in [
        ("none.npy", "none.npy: No such file"),
        ("none/none.npy", "none/none.npy: No such file"),
        ("pool.txt", "pool.txt: unknown extension .txt; read are .npy, .npz"),
        ("pool", "pool: no extension; read are .npy"),
        ("folder", "folder: a folder without img_emb_*.npy files"),
        ("gap", "gap: img_emb_1.npy is missing between 0 and 2"),
    ] {
        world.select_refused(&format!("--pool {pool}"), &[expected]);
    }
}

/// Asserts that a command refuses a file with any of `count` bits flipped, and names it, or gives what
/// it gives with the whole file.
fn refused_or_the_same<T: PartialEq>(path: &Path, count: usize, ask: impl Fn() -> (Run, T)) {
    let whole = fs::read(path).unwrap();
    let (_, expected) = ask();
    let file = path.file_name().unwrap().to_str().unwrap();
    for flip in 0..count {
        // Everywhere in the file, and every bit of a byte.
        let (at, bit) = (flip * whole.len() / count, flip % 8);
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << bit;
        fs::write(path, damaged).unwrap();
        let (run, found) = ask();
        match run.code {
            Some(0) => assert!(found == expected, "{file}: bit {bit} of byte {at}"),
            _ => {
                assert_eq!(run.code, Some(2), "{file}: {}", run.stderr);
                assert!(run.stderr.contains(file), "{file}: {}", run.stderr);
            }
        }
    }
    fs::write(path, whole).unwrap();
}

#[test]
fn a_flipped_bit_in_a_part_shows() {
    let world = World::small();
    assert_eq!(world.ask("score", "--budget 9 --shard 0/1 --out part").code, Some(0));
    refused_or_the_same(&world.path("part"), 60, || {
        let _ = fs::remove_file(world.path("out/merged.jsonl"));
        let run = world.run("merge part --out out/merged.jsonl");
        (run, fs::read(world.path("out/merged.jsonl")).ok())
    });
}

#[test]
fn a_flipped_bit_in_a_model_or_in_features_shows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    succeeds(path, "import scenes ds --images 30", &[]);
    let small = "--model vse++ --dim 8 --word-dim 4 --batch 16 --epochs 1";
    succeeds(path, &format!("train ds {small} --out run"), &[]);
    let evaluated = || {
        let run = nextpair(path, "eval run ds --json");
        let result: Option<Value> = serde_json::from_str(&run.stdout).ok();
        let result = result.map(|all| ["text", "image", "rsum"].map(|key| all[key].clone()));
        (run, result)
    };
    assert!(evaluated().1.is_some());
    let features = fs::read_dir(path.join("ds/features")).unwrap().next().unwrap().unwrap().path();
    for (file, flips) in [
        (path.join("run/model.safetensors"), 24),
        (path.join("run/model.json"), 24),
        (path.join("run/vocabulary.json"), 8),
        (features, 8),
    ] {
        refused_or_the_same(&file, flips, evaluated);
    }
}
