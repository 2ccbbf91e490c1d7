//! Invalid selections: exit code 2, an error that names the problem and its place, nothing written.

use crate::world::files::{self, Numbers};
use crate::world::{Vectors, World};

fn npy(vectors: &Vectors) -> Vec<u8> {
    files::npy(vectors, Numbers::F32)
}

#[test]
fn flags_that_ask_the_impossible() {
    let world = World::small();
    world.write("empty.npy", &npy(&world.texts.first(0)));
    for (flags, expected) in [
        ("--budget 0", "the budget is 0; ask for at least one item"),
        ("--budget 41", "the budget is 41 but the pool has only 40 items"),
        ("--budget -1", "invalid value '-1' for '--budget <N>'"),
        ("--budget many", "invalid value 'many' for '--budget <N>'"),
        ("--top-k 0", "top-k is 0"),
        ("--top-k 24", "anchor 0 has 23 rival groups, fewer than top-k = 24"),
        ("--sample 5 --top-k 5", "has 4 rival groups, fewer than top-k = 5"),
        ("--sample 25", "the sample of 25 is larger than the paired set of 24"),
        ("--sample 0", "the sampled pairs are empty"),
        ("--scope full --sample 5", "--scope full takes all pairs"),
        ("--scope mini", "--scope mini needs --sample M or --sample-indices FILE"),
        ("--scope half", "'half'"),
        ("--threads 0", "--threads is 0"),
        ("--strategy best", "hard-negative, random, core-set, coverage, hybrid"),
        ("--similarity euclid", "cosine, dot"),
        ("--weight both", "surplus, count"),
        ("--features max", "mean, bow, encoded"),
        ("--pool-side audio", "image, text"),
        ("--max-score nan", "max-score is NaN; a finite number is needed"),
        ("--absolute-margin inf", "absolute-margin is inf"),
        ("--relative-margin=-inf", "relative-margin is -inf"),
        ("--seed -1", "invalid value '-1' for '--seed <SEED>'"),
        ("--top-k -2", "invalid value '-2' for '--top-k <K>'"),
        ("--colour red", "unexpected argument '--colour'"),
        (
            "--strategy core-set --queries texts.npy",
            "--queries is for herding, novelty and v-optimal",
        ),
        ("--strategy herding --queries texts.npy --pool-side text", "is for pools of images"),
        ("--strategy v-optimal --queries empty.npy", "the queries are empty; give at least one"),
        ("--strategy v-optimal --prior 0.04", "prior is 0.04; it must be at least 0.05"),
        ("--usable nowhere.jsonl", "nowhere.jsonl"),
        ("--device gpu", "there are cpu, cuda, cuda:N and auto"),
        ("--device cuda:4096", "--device cuda:4096: "),
    ] {
        world.select_refused(flags, &[expected]);
    }
    for (strategy, flags, expected) in [
        ("random", "--budget 0", "the budget is 0"),
        ("core-set", "--prior 2", "--prior is for v-optimal"),
        ("hard-negative", "--dimensions 8", "--dimensions is for v-optimal"),
        ("herding", "--top-k 2", "--top-k is for hard-negative, coverage and hybrid"),
        ("core-set", "--budget 41", "the budget is 41 but the pool has only 40 items"),
        ("coverage", "--top-k 24", "anchor 0 has 23 rival groups"),
        ("hybrid", "--sample 25", "the sample of 25 is larger"),
    ] {
        world.select_refused(&format!("--strategy {strategy} {flags}"), &[expected]);
    }
}

#[test]
fn index_sets_that_name_no_pairs() {
    let world = World::small();
    world.write("empty.txt", b"");
    world.write_lines("far.txt", [0, 3, 24]);
    world.write_lines("twice.txt", [4, 7, 4]);
    world.write_lines("negative.txt", [1, -1]);
    world.write_lines("words.txt", ["1", "two"]);
    world.write("blank.txt", b"1\n\n2\n");
    world.write("floats.npy", &npy(&world.images));
    world.write("table.npy", &files::npy_raw("<i8", false, "(1, 1)", &[0; 8]));
    world.write("negative.npy", &files::npy_integers(&[1, -7]));
    for (file, expected) in [
        ("empty.txt", "indices are empty"),
        ("far.txt", "index 24 at position 2 is out of range, there are 24"),
        ("twice.txt", "index 4 appears twice"),
        ("negative.txt", "negative.txt:2: '-1' is not a row index"),
        ("words.txt", "words.txt:2: 'two' is not a row index"),
        ("blank.txt", "blank.txt:2: the line is empty"),
        ("floats.npy", "floats.npy: dtype '<f4'; accepted are integers"),
        ("table.npy", "table.npy: shape (1, 1), expected one dimension of integers"),
        ("negative.npy", "negative.npy: row 1: -7 is not a row index"),
        ("none.txt", "none.txt: No such file"),
    ] {
        for flag in ["--sample-indices", "--rival-indices"] {
            world.select_refused(&format!("{flag} {file}"), &[expected, file]);
        }
    }
    world.write_lines("sample.txt", [0, 1, 2]);
    for (flags, expected) in [
        ("--sample 3 --sample-indices sample.txt", "cannot be used with"),
        ("--scope full --sample-indices sample.txt", "--scope full takes all pairs"),
        ("--sample 3 --rival-indices sample.txt", "--rival-indices goes with --sample-indices"),
        // Pair 1 is not its own rival.
        ("--rival-indices sample.txt --top-k 3", "anchor 0 has 2 rival groups"),
    ] {
        world.select_refused(flags, &[expected]);
    }
}

#[test]
fn groups_that_leave_too_few_rivals() {
    let world = World::small();
    world.write_lines("one.txt", ["same"; 24]);
    world.write_lines("few.txt", ["a"; 5]);
    world.write_lines("two.txt", (0..24).map(|pair| pair % 2));
    for (flags, expected) in [
        ("--groups one.txt", "anchor 0 has 0 rival groups, fewer than top-k = 1"),
        ("--groups two.txt --top-k 2", "anchor 0 has 1 rival groups, fewer than top-k = 2"),
        ("--groups few.txt", "5 group labels for 24 pairs"),
        ("--groups none.txt", "none.txt: No such file"),
    ] {
        world.select_refused(flags, &[expected]);
    }
}

#[test]
fn vectors_that_have_no_similarity() {
    let world = World::small();
    let sides = [
        ("--pool", "the pool items", &world.pool),
        ("--paired-images", "the paired images", &world.images),
        ("--paired-texts", "the paired texts", &world.texts),
    ];
    for (flag, what, vectors) in sides {
        let mut zero = vectors.clone();
        zero.values[3 * zero.dim..4 * zero.dim].fill(0.0);
        world.write("zero.npy", &npy(&zero));
        let expected = format!("{what}: row 3 is a zero vector");
        world.select_refused(&format!("{flag} zero.npy"), &[&expected]);
        world.select(&format!("{flag} zero.npy --similarity dot"));
        std::fs::remove_file(world.path("out/picks.jsonl")).unwrap();
        world.write("large.npy", &files::npy(&vectors.with(1, 0, 1e200), Numbers::F64));
        let expected =
            format!("{what}: row 1 has a norm of inf, outside of what float64 can square");
        world.select_refused(&format!("{flag} large.npy"), &[&expected]);
    }
}

#[test]
fn shapes_that_do_not_fit() {
    let world = World::small();
    let narrow = Vectors { dim: 5, values: world.images.values[..24 * 5].to_vec() };
    world.write("narrow.npy", &npy(&narrow));
    world.write("fewer.npy", &npy(&world.texts.first(23)));
    world.write("none.npy", &npy(&world.pool.first(0)));
    let locals = files::npy_locals(&world.pool, 2);
    world.write("locals.npy", &locals);
    for (flags, expected) in [
        (
            "--pool narrow.npy",
            &["the pool items have 5 dimensions but the paired images have 6"][..],
        ),
        (
            "--paired-images narrow.npy",
            &["the pool items have 6 dimensions but the paired images have 5"],
        ),
        (
            "--paired-texts narrow.npy",
            &["the paired texts have 5", "`nextpair train --model heads`"],
        ),
        (
            "--pool narrow.npy --strategy core-set",
            &["the pool items have 5 dimensions but the paired images"],
        ),
        ("--paired-texts fewer.npy", &["24 paired images but 23 paired texts"]),
        ("--paired-texts fewer.npy --pool-side text", &["24 paired images but 23 paired texts"]),
        ("--paired-images fewer.npy", &["23 paired images but 24 paired texts"]),
        ("--pool none.npy", &["the pool is empty"]),
        ("--pool none.npy --strategy random", &["the pool is empty"]),
        ("--pool none.npy --strategy core-set", &["the pool is empty"]),
        ("--paired-images none.npy --paired-texts none.npy", &["the paired set is empty"]),
        ("--pool locals.npy", &["the pool items have 2 vectors per item; embeddings need one"]),
        ("--pool locals.npy --strategy hybrid", &["the pool items have 2 vectors per item"]),
        (
            "--pool locals.npy --strategy core-set --features bow",
            &["300 clusters need at least as many local vectors, there are 64"],
        ),
        ("--strategy core-set --features encoded", &["encoded features need a model"]),
    ] {
        world.select_refused(flags, expected);
    }
}

#[test]
fn ids_that_do_not_name_one_item_each() {
    let world = World::small();
    let ids = |count: usize| (0..count).map(|i| format!("id-{i}")).collect::<Vec<_>>();
    world.write_lines("short.txt", ids(23));
    let mut twice = ids(40);
    twice[30] = "id-4".into();
    world.write_lines("twice.txt", &twice);
    world.write("twice.parquet", &files::parquet(&twice, Some(&world.pool)));
    let texts = files::parquet(&twice[16..], Some(&world.texts));
    world.write("texts.parquet", &texts);
    world.write("latin.txt", b"caf\xe9\n");
    for (flags, expected) in [
        ("--ids short.txt", "short.txt: 23 ids for the 40 rows of pool.npy"),
        ("--paired-ids short.txt", "short.txt: 23 ids for the 24 rows of texts.npy"),
        ("--ids twice.txt", "twice.txt:31: id-4 is on line 5 already"),
        ("--paired-ids twice.txt", "twice.txt:31: id-4 is on line 5 already"),
        ("--pool twice.parquet", "twice.parquet: rows 4 and 30 have the same id 'id-4'"),
        ("--pool twice.parquet --strategy random", "rows 4 and 30 have the same id 'id-4'"),
        ("--ids latin.txt", "latin.txt:1: not UTF-8"),
        ("--ids none.txt", "none.txt: No such file"),
    ] {
        world.select_refused(flags, &[expected]);
    }
    world.select("--paired-texts texts.parquet");
}

#[test]
fn inputs_that_are_not_given() {
    let world = World::small();
    let start = "select --pool pool.npy --budget 3 --out out/picks.jsonl";
    for (flags, expected) in [
        (
            "--pool-side image --paired-images images.npy --strategy hard-negative",
            "--paired-texts is missing; hard-negative",
        ),
        (
            "--pool-side text --paired-texts texts.npy --strategy hard-negative",
            "--paired-images is missing; hard-negative",
        ),
        // What says that another strategy than the default was meant.
        (
            "--pool-side image --paired-images images.npy --top-k 5",
            "--top-k is for hard-negative, coverage and hybrid; name one with --strategy",
        ),
        (
            "--pool-side image --paired-images images.npy --sample-indices none.txt",
            "--sample-indices is for strategies that compare the pool with pairs; name one with",
        ),
        (
            "--pool-side image --paired-images images.npy --strategy coverage",
            "--paired-texts is missing; coverage needs it",
        ),
        ("--pool-side image --paired-texts texts.npy", "--paired-images is missing"),
        (
            "--pool-side text --strategy core-set --paired-images images.npy",
            "--paired-texts is missing",
        ),
    ] {
        world.refused(&format!("{start} {flags}"), &[expected]);
    }
}
