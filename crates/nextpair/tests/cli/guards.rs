//! Warnings before picks are written, and `--strict`.

use nextpair::engine::Draws;
use serde_json::Value;

use crate::world::files::{Numbers, npy};
use crate::world::{Vectors, World, listed};

/// A world that no guard minds: many dimensions, and a model of use.
fn clean() -> World {
    World::new(3, 120, 600, 32)
}

/// The kinds of the warnings of a selection, which its summary has too.
fn kinds(world: &World, flags: &str) -> Vec<String> {
    let run = world.select(&format!("{flags} --json"));
    let summary: Value = serde_json::from_str(run.stdout.trim()).unwrap();
    let warnings = summary["warnings"].as_array().unwrap().clone();
    let printed = run.stderr.lines().filter(|line| line.starts_with("warning     "));
    assert_eq!(printed.count(), warnings.len(), "{}", run.stderr);
    for warning in &warnings {
        let (text, fix) = (warning["text"].as_str().unwrap(), warning["fix"].as_str().unwrap());
        assert!(run.stderr.contains(&format!("warning     {text}; {fix}\n")), "{}", run.stderr);
    }
    warnings.iter().map(|warning| warning["kind"].as_str().unwrap().to_owned()).collect()
}

/// Asserts that there is such a warning, that it is an error with `--strict`, and that the same
/// selection from clean data has none.
fn guards(world: &World, flags: &str, kind: &str, fix: &str) {
    let found = kinds(world, flags);
    assert!(found.iter().any(|found| found == kind), "{kind}: {found:?}");
    std::fs::remove_file(world.path("out/picks.jsonl")).unwrap();
    world.select_refused(&format!("{flags} --strict"), &["--strict: there ", fix]);
    assert!(kinds(world, &format!("{flags} --unguarded")).is_empty());
    let clean = clean();
    assert!(kinds(&clean, "--strict").is_empty());
}

#[test]
fn pairs_in_the_wrong_order() {
    let world = clean();
    let mut texts = world.texts.clone();
    texts.values.rotate_left(32);
    world.write("texts.npy", &npy(&texts, Numbers::F32));
    guards(&world, "", "near-chance", "row j of --paired-images and --paired-texts is pair j");
    // Who pays looks at the page, not at the terminal.
    let page = world.path("page.html");
    world.select(&format!("--html {}", page.display()));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("Check this first.") && page.contains("is pair j, and the model"));
}

#[test]
fn a_pool_of_the_other_side() {
    let world = clean();
    let shift = |vectors: &Vectors, by: f64| {
        let values = vectors.values.iter().map(|value| value + by).collect();
        npy(&Vectors { values, ..vectors.clone() }, Numbers::F32)
    };
    for (name, by) in [("images.npy", -1.0), ("texts.npy", 1.0), ("pool.npy", -1.0)] {
        let vectors = match name {
            "images.npy" => &world.images,
            "texts.npy" => &world.texts,
            _ => &world.pool,
        };
        world.write(name, &shift(vectors, by));
    }
    assert!(!kinds(&world, "").contains(&"other-side".to_owned()));
    guards(&world, "--pool-side text", "other-side", "check --pool-side");
}

#[test]
fn duplicates() {
    let world = clean();
    let mut pool = world.pool.clone();
    let mut draws = Draws::new(1);
    // Copies of each other, of what is picked, and of paired images.
    pool.values.extend_from_slice(&world.pool.values[..64]);
    let best: Vec<usize> = {
        world.select("--budget 20");
        let picks = world.picks("out/picks.jsonl");
        picks.iter().map(|pick| pick["index"].as_u64().unwrap() as usize).collect()
    };
    let near = |values: &[f64], draws: &mut Draws| -> Vec<f64> {
        values.iter().map(|value| value + 0.02 * draws.normal()).collect()
    };
    for &item in &best {
        pool.values.extend(near(&world.pool.values[item * 32..][..32], &mut draws));
    }
    for pair in 0..10 {
        pool.values.extend(near(&world.images.values[pair * 32..][..32], &mut draws));
    }
    world.write("pool.npy", &npy(&pool, Numbers::F32));
    guards(&world, "--budget 40", "copies", "--dedupe leaves them out");
    guards(&world, "--budget 40", "picks-alike", "--dedupe 0.98");
    guards(&world, "--budget 40", "picks-paired", "--dedupe 0.98");
    // What is advised helps.
    let left = kinds(&world, "--budget 40 --dedupe 0.98");
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn hubs_no_hits_and_false_negatives() {
    let world = clean();
    guards(&world, "--budget 600", "no-hit", "a smaller --budget");

    let blank: Vec<f64> = vec![1.0; 32];
    let mut draws = Draws::new(2);
    let mut pool = world.pool.clone();
    for item in 0..20 {
        let blank = blank.iter().map(|value| value + 0.1 * draws.normal());
        pool.values.splice(item * 32..(item + 1) * 32, blank);
    }
    world.write("pool.npy", &npy(&pool, Numbers::F32));
    let texts = Vectors {
        values: world.texts.values.iter().map(|value| value + 1.0).collect(),
        ..world.texts.clone()
    };
    world.write("texts.npy", &npy(&texts, Numbers::F32));
    guards(&world, "--budget 20", "hubs", "--strategy coverage");

    let world = clean();
    let twins = world.images.values.iter().zip(&world.texts.values).take(60 * 32);
    let mut pool = world.pool.clone();
    pool.values.extend(twins.map(|(image, text)| 0.4 * image + 0.6 * text));
    world.write("pool.npy", &npy(&pool, Numbers::F32));
    guards(&world, "--budget 40", "false-negatives", "--relative-margin 0.05");
    let left = kinds(&world, "--budget 40 --relative-margin 0.05");
    assert!(!left.contains(&"false-negatives".to_owned()), "{left:?}");
}

#[test]
fn parts_are_looked_at_where_they_are_made_and_merged() {
    let world = clean();
    let twins = world.images.values.iter().zip(&world.texts.values).take(60 * 32);
    let mut pool = world.pool.clone();
    pool.values.extend(twins.map(|(image, text)| 0.4 * image + 0.6 * text));
    pool.values.extend_from_slice(&world.pool.values[..32]);
    world.write("pool.npy", &npy(&pool, Numbers::F32));
    for shard in 0..2 {
        let run = world.ask("score", &format!("--budget 40 --shard {shard}/2 --out out/p{shard}"));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(!run.stderr.contains("warning"), "copies are in two shards: {}", run.stderr);
    }
    let run = world.run("merge out/p0 out/p1 --out out/picks.jsonl --json");
    let summary: Value = serde_json::from_str(run.stdout.trim()).unwrap();
    let kinds: Vec<&str> = summary["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["kind"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"false-negatives"), "{kinds:?}");
    std::fs::remove_file(world.path("out/picks.jsonl")).unwrap();
    let run = world.run("merge out/p0 out/p1 --out out/picks.jsonl --strict");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("nothing is written"), "{}", run.stderr);
    assert_eq!(listed(&world.path("out")), ["p0", "p1"]);
    // What is wrong with the pairs is seen in every shard.
    let mut texts = world.texts.clone();
    texts.values.rotate_left(32);
    world.write("texts.npy", &npy(&texts, Numbers::F32));
    let run = world.ask("score", "--budget 40 --shard 0/2 --out out/p2 --strict");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("hardly find each other"), "{}", run.stderr);
    assert_eq!(listed(&world.path("out")), ["p0", "p1"]);
}
