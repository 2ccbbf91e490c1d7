//! `NEXTPAIR_WITHOUT`: vector instructions switched off.

use std::process::{Command, Output};

use crate::world::World;

/// Runs `select` without some instructions.
fn select(world: &World, flags: &str, without: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nextpair"))
        .current_dir(world.path(""))
        .env("NEXTPAIR_WITHOUT", without)
        .args("select --paired-images images.npy --paired-texts texts.npy".split(' '))
        .args("--pool pool.npy --pool-side image --budget 7 --out out/picks.jsonl".split(' '))
        .args(flags.split(' '))
        .output()
        .unwrap()
}

#[test]
fn picks_have_the_same_bytes() {
    let world = World::new(5, 60, 200, 96);
    // With fewer dimensions than the vectors have, principal axes are computed.
    for flags in
        ["--strategy hard-negative", "--strategy v-optimal", "--strategy v-optimal --dimensions 24"]
    {
        let picks = |without| {
            let output = select(&world, flags, without);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{without}: {said}");
            world.read("out/picks.jsonl")
        };
        let all = picks("");
        for without in ["vnni", "avx512", "avx512,vnni", "avx2", "i8mm", "dotprod"] {
            assert_eq!(picks(without), all, "{flags} {without}");
        }
    }
}

#[test]
fn a_name_that_means_nothing_is_refused() {
    let world = World::small();
    let output = select(&world, "--strategy v-optimal", "avx512,sse9");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("NEXTPAIR_WITHOUT: 'sse9' is none of avx2, avx512"), "{said}");
}
