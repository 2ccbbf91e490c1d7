//! Worlds of generated scenes.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use nextpair_data::dataset::{Dataset, TRAIN};
use nextpair_data::import::import_scenes;
use nextpair_data::scenes::Settings;
use nextpair_models::{Config, Training, Vse};

use super::*;
use crate::plan::Plan;
use crate::{Amount, Analysis, ExperimentKeys, Options, Scenario, Splits, Study};

const IMAGES: usize = 200;

fn world() -> World {
    let rare = Rare { words: vec!["red".to_owned(), "Star".to_owned()], keep: 0.25 };
    World { copies: 0.5, rare: Some(rare), junk: 0.4, ..World::default() }
}

fn keys(dataset: &Path, world: World) -> ExperimentKeys {
    ExperimentKeys {
        dataset: Some(dataset.to_path_buf()),
        initial: Some(Amount::Share(0.3)),
        budget: Some(Amount::Share(0.2)),
        rounds: Some(2),
        strategies: Some(vec!["random".to_owned()]),
        world: Some(world),
        min_count: Some(1),
        ..ExperimentKeys::default()
    }
}

fn resolve(keys: ExperimentKeys) -> Result<Experiment, Error> {
    let model = Config::Vse(Vse { dim: 4, word_dim: 4, ..Vse::default() });
    let training = Training { epochs: 1, batch: 8, validate_last: 0, ..Training::default() };
    let captions = Experiment::default_captions();
    Experiment::resolve(keys, model, Training { captions, ..training })
}

fn scenes(path: &Path) {
    import_scenes(&Settings { images: IMAGES, ..Settings::default() }, path, &()).unwrap();
}

/// Returns every file of a folder but the manifest, which names the place of the source.
fn bytes(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for part in [folder.to_path_buf(), folder.join("features")] {
        for entry in fs::read_dir(&part).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_file() && !entry.ends_with("dataset.toml") {
                let name = entry.strip_prefix(folder).unwrap().display().to_string();
                files.insert(name, fs::read(entry).unwrap());
            }
        }
    }
    files
}

fn is_rare(dataset: &Dataset, item: usize) -> bool {
    let captions = dataset.items().get(item).captions;
    let words: Vec<String> = captions.iter().flat_map(|caption| tokenize(caption)).collect();
    words.iter().any(|word| ["red", "star"].contains(&word.as_str()))
}

#[test]
fn counts_are_those_that_were_asked_for_and_junk_costs_money() {
    let folder = tempfile::tempdir().unwrap();
    let (data, path) = (folder.path().join("ds"), folder.path().join("e"));
    scenes(&data);
    let experiment = resolve(keys(&data, world())).unwrap();
    let scenario = Scenario::create(&path, experiment, &Options::default(), &()).unwrap();
    let source = Dataset::open(&data).unwrap();
    let made = Dataset::open(&path.join("world")).unwrap();
    let train = source.items().in_split(Some(TRAIN));
    let rare = train.iter().filter(|&&item| is_rare(&source, item)).count();
    assert!(rare > 20 && rare < train.len(), "{rare}");
    let kept = train.len() - rare + (0.25 * rare as f64).round() as usize;
    let copies = made.items().in_split(Some(COPIES));
    let junk = made.items().in_split(Some(JUNK));
    assert_eq!(copies.len(), (0.5 * kept as f64).round() as usize);
    let captionable = kept + copies.len();
    let pool = captionable - (0.3 * captionable as f64 + 1e-9) as usize;
    assert_eq!(junk.len(), (pool as f64 * 0.4 / 0.6).round() as usize);
    assert_eq!(scenario.manifest().items, captionable);
    // Test and dev keep their rare items.
    for split in ["dev", "test"] {
        assert_eq!(made.items().in_split(Some(split)), source.items().in_split(Some(split)));
    }
    let plan = Plan::new(scenario.experiment(), scenario.corpus()).unwrap();
    let items = plan.items(0);
    assert_eq!(items.len(), captionable + junk.len());
    let left = items.iter().filter(|&&item| is_rare(&made, item) && item < IMAGES).count();
    assert_eq!(left, (0.25 * rare as f64).round() as usize);
    // Copies come in bursts, look nearly like their sources, and begin with another caption.
    let source_of = |copy: usize| {
        let id = made.items().get(copy).id;
        source.items().iter().position(|item| id.starts_with(&format!("{}~", item.id))).unwrap()
    };
    let mut bursts: BTreeMap<usize, usize> = BTreeMap::new();
    let (_, features) = scenario.corpus().image_features();
    let width = features.matrix().locals() * features.matrix().dim();
    let (mut one, mut other) = (vec![0.0; width], vec![0.0; width]);
    for &copy in &copies {
        let source = source_of(copy);
        *bursts.entry(source).or_default() += 1;
        assert!(items.contains(&source));
        let captions = |item: usize| made.items().get(item).captions;
        assert_ne!(captions(copy)[0], captions(source)[0]);
        assert_eq!(captions(copy).len(), captions(source).len());
        features.matrix().read_f64(features.row(copy).unwrap(), &mut one);
        features.matrix().read_f64(features.row(source).unwrap(), &mut other);
        let (mut dots, mut ones, mut others) = (0.0, 0.0, 0.0);
        for (a, b) in one.iter().zip(&other) {
            (dots, ones, others) = (dots + a * b, ones + a * a, others + b * b);
        }
        assert!(one != other && dots > 0.95 * f64::sqrt(ones * others), "{copy}");
    }
    assert!(*bursts.values().max().unwrap() >= 5, "{bursts:?}");

    scenario.run(1, &()).unwrap();
    let rounds = scenario.rounds();
    let last = rounds.last().unwrap();
    let skipped: usize = rounds.iter().filter_map(|r| r.batch.as_ref()).map(|b| b.skipped).sum();
    let picked: usize = rounds.iter().filter_map(|r| r.batch.as_ref()).map(|b| b.picked).sum();
    assert!(skipped > 0 && skipped < picked);
    assert_eq!(last.paired, rounds[0].paired + picked - skipped);
    assert_eq!(last.paid_for(), rounds[0].paired + picked);
    assert_eq!((last.pairs, last.pool), (last.paired, items.len() - last.paid_for()));
    drop(scenario);

    // The experiment goes on with the world that it has, and adds up the same.
    fs::rename(&data, folder.path().join("elsewhere")).unwrap();
    fs::rename(folder.path().join("elsewhere"), &data).unwrap();
    let again = Scenario::resume(&path, None, &Options::default()).unwrap();
    assert!(again.run(1, &()).unwrap().is_none());
    assert_eq!(again.rounds(), rounds);
    drop(again);
    let analysis = Analysis::of(&[Study::open(&path).unwrap()], false, None).unwrap();
    let arm = &analysis.runs[0].arms[0];
    assert_eq!((arm.refused.picks, arm.refused.refused), (picked, skipped));
    assert_eq!(arm.bought[2], last.paid_for() as f64);
    let said = format!("Warning: {skipped} of {picked} picks by random could not be captioned.");
    let table = analysis.runs[0].table();
    assert!(table.contains(&said), "{table}");
    assert!(analysis.runs[0].summary().contains("40 % of the first pool cannot be captioned"));

    // A changed world is found.
    let lines = fs::read_to_string(path.join("world/items.jsonl")).unwrap();
    fs::write(path.join("world/items.jsonl"), lines.replacen("junk-1\"", "junk-0\"", 1)).unwrap();
    let what = Scenario::resume(&path, None, &Options::default()).err().unwrap().to_string();
    assert!(what.contains("other items than those"), "{what}");
}

#[test]
fn the_same_settings_make_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("ds");
    scenes(&data);
    for kind in
        [JunkKind::Permuted, JunkKind::Shuffled, JunkKind::Diverse, JunkKind::Dataset(data.clone())]
    {
        let junk_kind = kind.clone();
        let experiment = || {
            let junk = if matches!(kind, JunkKind::Dataset(_)) { 0.1 } else { 0.3 };
            resolve(keys(&data, World { junk_kind: kind.clone(), junk, ..world() })).unwrap()
        };
        let make = |name: &str| {
            let path = folder.path().join(format!("{name}-{junk_kind:?}").replace('/', "_"));
            // What a killed process left is made again.
            drop(Scenario::create(&path, experiment(), &Options::default(), &()).unwrap());
            fs::remove_file(path.join("experiment.json")).unwrap();
            fs::write(path.join("world/features/added.npy"), "cut").unwrap();
            drop(Scenario::create(&path, experiment(), &Options::default(), &()).unwrap());
            bytes(&path.join("world"))
        };
        assert_eq!(make("one"), make("two"));
    }
}

#[test]
fn a_seed_never_trains_on_copies_of_what_it_is_tested_on() {
    let folder = tempfile::tempdir().unwrap();
    let (data, path) = (folder.path().join("ds"), folder.path().join("e"));
    scenes(&data);
    let redrawn = ExperimentKeys {
        splits: Some(Splits::Redraw),
        seeds: Some(vec![0, 1, 2]),
        ..keys(&data, world())
    };
    let experiment = resolve(redrawn).unwrap();
    let scenario = Scenario::create(&path, experiment, &Options::default(), &()).unwrap();
    let plan = Plan::new(scenario.experiment(), scenario.corpus()).unwrap();
    let items = scenario.corpus().dataset().items();
    let mut sizes = HashSet::new();
    for seed in 0..3 {
        let (dev, _) = plan.own_dev(seed).unwrap();
        let tested: HashSet<String> =
            plan.test(seed).iter().chain(&dev).map(|&item| items.get(item).id).collect();
        let mut copies = 0;
        for &item in &plan.items(seed)[..] {
            let id = items.get(item).id;
            copies += usize::from(id.contains('~'));
            assert!(!tested.contains(id.split('~').next().unwrap()), "{id}");
        }
        assert!(copies > 10);
        sizes.insert(copies);
        let start = plan.start(seed);
        assert_eq!(start.len(), plan.size(0));
        assert!(start.iter().all(|&item| items.split_of(item) != Some(JUNK)));
    }
    assert!(sizes.len() > 1, "seeds have other sources in train");
}

#[test]
fn usable_items_are_told_from_junk_by_what_was_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (data, path) = (folder.path().join("ds"), folder.path().join("e"));
    scenes(&data);
    let names = ["random", "random+usable"].map(str::to_owned);
    let keys = ExperimentKeys {
        strategies: Some(names.into()),
        budget: Some(Amount::Count(30)),
        rounds: Some(3),
        ..keys(&data, World { junk: 0.5, ..World::default() })
    };
    let experiment = resolve(keys).unwrap();
    let scenario = Scenario::create(&path, experiment, &Options::default(), &()).unwrap();
    scenario.run(1, &()).unwrap();
    let refused = |arm: &str, from: usize| -> usize {
        let arm = arm.parse().ok();
        let of_arm = |round: &&crate::Round| round.strategy == arm && round.round >= from;
        let rounds = scenario.rounds();
        let batches = rounds.iter().filter(of_arm).filter_map(|round| round.batch.as_ref());
        batches.map(|batch| batch.skipped).sum()
    };
    // Nobody has refused anything before the first batch.
    assert_eq!(
        refused("random", 1) - refused("random", 2),
        refused("random+usable", 1) - refused("random+usable", 2)
    );
    let (blind, seeing) = (refused("random", 2), refused("random+usable", 2));
    assert!(2 * seeing < blind, "{seeing} and {blind}");
    let left_out: Vec<Option<usize>> = scenario
        .rounds()
        .iter()
        .filter(|round| round.strategy.is_some_and(|arm| arm.usable))
        .map(|round| round.batch.as_ref().unwrap().left_out)
        .collect();
    assert_eq!(left_out[0], Some(0));
    assert!(left_out[1] > Some(10), "{left_out:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let data = Path::new("ds");
    let of = |change: &dyn Fn(&mut ExperimentKeys)| {
        let mut keys = keys(data, world());
        change(&mut keys);
        resolve(keys).unwrap_err().to_string()
    };
    let of_world = |world: World| of(&|keys| keys.world = Some(world.clone()));
    let rare = |words: &[&str], keep: f64| {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        World { rare: Some(Rare { words, keep }), ..World::default() }
    };
    for (what, says) in [
        (of(&|keys| keys.annotator = Some(Annotator::Human)), "is for simulated annotators"),
        (of(&|keys| keys.pool = Some(Side::Text)), "is for pools of images"),
        (of_world(World { copies: -0.1, ..World::default() }), "world: copies: -0.1"),
        (of_world(World { junk: 1.0, ..World::default() }), "world: junk: 1"),
        (of_world(World { jitter: f64::NAN, ..World::default() }), "world: jitter: NaN"),
        (of_world(rare(&["two words"], 0.5)), "\"two words\" is not one word"),
        (of_world(rare(&[], 0.5)), "there is no word"),
        (of_world(rare(&["red"], 1.5)), "keep: 1.5"),
    ] {
        assert!(what.contains(says), "{what}");
    }
}
