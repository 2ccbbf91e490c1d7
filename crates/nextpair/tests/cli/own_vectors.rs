//! Vectors of people's own encoders: imported with captions, added with answers, filled in later; and what is
//! bought without them is never ignored silently.

use crate::world::files::{Numbers, npy};
use crate::world::{Run, Vectors, World};

fn succeeds(world: &World, words: &str) -> Run {
    let run = world.run(words);
    assert_eq!(run.code, Some(0), "{words}: {}", run.stderr);
    run
}

fn refused(world: &World, words: &str, says: &str) {
    let run = world.run(words);
    assert_eq!(run.code, Some(2), "{words}: {}", run.stdout);
    assert!(run.stderr.contains(says), "{words}: no '{says}' in {}", run.stderr);
}

fn pairs(world: &World, model: &str) -> usize {
    let pairs = world.read(&format!("{model}/pairs.jsonl"));
    pairs.iter().filter(|&&byte| byte == b'\n').count()
}

fn rows(vectors: &Vectors, rows: std::ops::Range<usize>) -> Vec<u8> {
    let values = vectors.values[rows.start * vectors.dim..rows.end * vectors.dim].to_vec();
    npy(&Vectors { dim: vectors.dim, values }, Numbers::F32)
}

/// Answers about the images with these numbers.
fn answers(world: &World, name: &str, images: std::ops::Range<usize>) {
    let line = |image| format!("{{\"id\":\"i{image}\",\"caption\":\"a thing, number {image}\"}}");
    world.write_lines(name, images.map(line));
}

const TRAIN: &str = "--model heads --dim 4 --epochs 1 --validate-last 0";

#[test]
fn imported_embeddings_with_captions_are_trained_on_and_rehearsed() {
    let world = World::new(3, 120, 1, 6);
    world.write_lines("captions.txt", (0..120).map(|pair| format!("a thing, number {pair}")));
    let import = "import embeddings images.npy ds --other texts.npy --captions captions.txt";
    succeeds(&world, &format!("{import} --dev 0.2"));
    let run = succeeds(&world, &format!("train ds {TRAIN} --out model"));
    assert!(!run.stderr.contains("not learned from"), "{}", run.stderr);
    let rehearse = "--model heads --budget 20 --seeds 4 --strategies herding --epochs 1";
    succeeds(&world, &format!("rehearse ds {rehearse} --out rehearsal"));

    // Without captions there is nothing to pay for, and the refusal names the flag.
    succeeds(&world, "import embeddings images.npy bare --other texts.npy");
    refused(&world, &format!("train bare {TRAIN} --out x"), "--captions FILE");

    // Some captions have no vectors: every command that learns says so.
    succeeds(&world, "import embeddings images.npy some --captions captions.txt --dev 0.2");
    world.write("few.npy", &rows(&world.texts, 0..100));
    world.write_lines("few.txt", 0..100);
    let run = succeeds(&world, "embed some --text-vectors few.npy --ids few.txt --name mine");
    assert!(run.stderr.contains("20 captions have none"), "{}", run.stderr);
    let says = "are not learned from: they have no vectors in the text features mine. \
                `nextpair embed some --text-vectors FILE --ids IDS --name mine` adds them";
    let run = succeeds(&world, &format!("rehearse some {rehearse} --out other"));
    assert!(run.stderr.contains(says), "{}", run.stderr);
    world.write(
        "e.toml",
        b"strategies = [\"random\"]\ninitial = 0.5\nbudget = 0.1\nrounds = 1\n\
        evaluation = { split = \"dev\", folds = [1] }\n[model]\narchitecture = \"heads\"\n\
        [training]\nepochs = 1\nvalidate_last = 0\n",
    );
    let run = succeeds(&world, "run e.toml --dataset some --out run");
    assert!(run.stderr.contains("no vectors in the text features mine"), "{}", run.stderr);
}

#[test]
fn vectors_come_with_answers_or_later_and_what_lacks_them_is_named() {
    let world = World::new(4, 24, 1, 6);
    world.write_lines("ids.txt", (0..24).map(|image| format!("i{image}")));
    succeeds(&world, "import embeddings images.npy ds --ids ids.txt");
    answers(&world, "a.jsonl", 0..6);
    world.write("a.npy", &rows(&world.texts, 0..6));
    // The dataset has no vectors of captions yet.
    let run = succeeds(&world, "add ds a.jsonl --features a.npy --name mine --out two");
    assert!(run.stdout.contains("features    mine: 6 encoded\n"), "{}", run.stdout);
    let run = succeeds(&world, &format!("train two {TRAIN} --out model"));
    assert!(!run.stderr.contains("not learned from"), "{}", run.stderr);
    assert_eq!(pairs(&world, "model"), 6);

    answers(&world, "b.jsonl", 6..10);
    world.write("b.npy", &rows(&world.texts, 6..10));
    let run = succeeds(&world, "add two b.jsonl --features b.npy --out three");
    assert!(run.stdout.contains("features    mine: 4 encoded\n"), "{}", run.stdout);
    succeeds(&world, &format!("train three {TRAIN} --out with"));
    assert_eq!(pairs(&world, "with"), 10);

    // Bought without vectors.
    let run = succeeds(&world, "add two b.jsonl --out bare");
    assert!(run.stderr.contains("4 captions have no text features mine"), "{}", run.stderr);
    assert!(run.stderr.contains("--features FILE"), "{}", run.stderr);
    let run = succeeds(&world, &format!("train bare {TRAIN} --out without"));
    let says = "4 captions of 4 items are not learned from: they have no vectors in the text features mine. \
                `nextpair embed bare --text-vectors FILE --ids IDS --name mine` adds them";
    assert!(run.stderr.contains(says), "{}", run.stderr);
    assert_eq!(pairs(&world, "without"), 6);
    world.write_lines("b.txt", (6..10).map(|image| format!("i{image}")));
    succeeds(&world, "embed bare --text-vectors b.npy --ids b.txt --name mine");
    let run = succeeds(&world, &format!("train bare {TRAIN} --out later"));
    assert!(!run.stderr.contains("not learned from"), "{}", run.stderr);
    assert_eq!(pairs(&world, "later"), 10);

    world.write("narrow.npy", &npy(&Vectors { dim: 2, values: vec![1.0; 8] }, Numbers::F32));
    for (words, says) in [
        ("add two b.jsonl --features a.npy --out x", "6 rows for 4 texts in 4 answers"),
        ("add two b.jsonl --features narrow.npy --out x", "text features mine have 6 numbers"),
        ("embed two --text-vectors a.npy --name mine", "text features mine exist already; --ids"),
        (
            "embed two --text-vectors b.npy",
            "4 rows for 6 captions; --ids names the item of each row",
        ),
        ("embed two --text-vectors b.npy --pca 2", "--pca: vectors are taken as they are"),
        ("embed two --name x", "--image-vectors or --text-vectors"),
    ] {
        refused(&world, words, says);
    }
    assert!(!world.path("x").exists());
}
