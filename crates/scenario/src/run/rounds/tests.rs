//! Experiments whose models train together, held to the same experiments lane by lane.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use nextpair_data::dataset::{Dataset, FeatureSet, Per};
use nextpair_data::import::import_scenes;
use nextpair_data::scenes::Settings;
use nextpair_data::{Progress, Side, npy};
use nextpair_models::{Config, Directions, Encoders, Heads, Imram, Training, Vse};

use super::*;
use crate::{Amount, Experiment, ExperimentKeys, Options, Round};

const DIM: usize = 6;

/// Scenes with vectors of captions.
fn dataset(path: &Path) {
    import_scenes(&Settings { images: 90, ..Settings::default() }, path, &()).unwrap();
    let mut dataset = Dataset::open(path).unwrap();
    let captions: Vec<String> = dataset.items().iter().flat_map(|item| item.captions).collect();
    let letter = |caption: &str, at: usize| {
        let of = |letter: u8| usize::from(letter) * (at + 3) % 17;
        caption.bytes().map(of).sum::<usize>() as f32 / 100.0 - 2.0
    };
    let values = captions.iter().flat_map(|text| (0..DIM).map(move |at| letter(text, at)));
    let mut file = File::create(path.join("letters.npy")).unwrap();
    npy::write_f32(&mut file, captions.len(), DIM, values).unwrap();
    let lock = dataset.lock().unwrap();
    let set = FeatureSet {
        name: "letters".to_owned(),
        side: Side::Text,
        per: Per::Caption,
        files: vec![PathBuf::from("letters.npy")],
        rows: None,
        made_by: None,
        digests: Default::default(),
    };
    dataset.add_features(&lock, set).unwrap();
}

struct Lab {
    folder: tempfile::TempDir,
    model: Config,
    device: Device,
}

impl Lab {
    fn new(model: Config) -> Self {
        let folder = tempfile::tempdir().unwrap();
        dataset(&folder.path().join("ds"));
        Lab { folder, model, device: Device::Cpu }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn experiment(&self, seeds: &[u64]) -> Experiment {
        let keys = ExperimentKeys {
            dataset: Some(self.path("ds")),
            initial: Some(Amount::Count(16)),
            budget: Some(Amount::Count(5)),
            rounds: Some(2),
            strategies: Some(["random", "hard-negative", "core-set"].map(str::to_owned).to_vec()),
            seeds: Some(seeds.to_vec()),
            ..ExperimentKeys::default()
        };
        let training = Training {
            epochs: 3,
            batch: 6,
            rate: 5e-3,
            dropout_inputs: 0.3,
            validate_last: 2,
            captions: nextpair_models::Choice::Random,
            ..Training::default()
        };
        Experiment::resolve(keys, self.model.clone(), training).unwrap()
    }

    /// Runs an experiment, or goes on with it.
    fn run(
        &self,
        name: &str,
        seeds: &[u64],
        (together, jobs): (bool, usize),
        observer: &dyn Observer,
    ) -> Result<(), Error> {
        let device = self.device;
        let options = Options { device, together: Some(together), ..Options::default() };
        let (path, experiment) = (self.path(name), self.experiment(seeds));
        let scenario = match path.exists() {
            true => Scenario::resume(&path, Some(experiment), &options)?,
            false => Scenario::create(&path, experiment, &options, &())?,
        };
        scenario.run(jobs, observer).map(|waiting| assert!(waiting.is_none()))
    }

    /// The rounds without their times, the picks and the weights, by name.
    fn results(&self, name: &str) -> BTreeMap<String, Vec<u8>> {
        let mut all = BTreeMap::new();
        let options = Options { device: self.device, ..Options::default() };
        let scenario = Scenario::resume(&self.path(name), None, &options).unwrap();
        for round in scenario.rounds() {
            let strategy = round.strategy.map(|arm| arm.to_string()).unwrap_or_default();
            let lane = format!("{} {strategy} {}", round.seed, round.round);
            let model = self.path(name).join(match round.round {
                0 => format!("seed-{}/round-0", round.seed),
                number => format!("seed-{}/{strategy}/round-{number}", round.seed),
            });
            for file in ["model.safetensors", "pairs.jsonl"] {
                all.insert(format!("{lane} {file}"), fs::read(model.join(file)).unwrap());
            }
            assert!(!model.join("state.safetensors").exists());
            assert!(round.phases.iter().any(|phase| phase.name == "training"));
            assert!(round.phases.iter().all(|phase| (0.0..60.0).contains(&phase.seconds)));
            let timeless = Round { phases: Vec::new(), ..round };
            all.insert(lane, serde_json::to_vec(&timeless).unwrap());
        }
        all
    }

    fn ensembles(&self, name: &str) -> usize {
        fs::read_to_string(self.path(name).join("ensembles.jsonl")).unwrap().lines().count()
    }
}

/// Stops an experiment when so many rounds are finished, and counts steps.
struct Until {
    rounds: usize,
    finished: AtomicUsize,
    total: AtomicUsize,
    steps: AtomicUsize,
}

impl Until {
    fn rounds(rounds: usize) -> Self {
        let (finished, total, steps) = Default::default();
        Until { rounds, finished, total, steps }
    }
}

impl Progress for Until {
    fn start(&self, phase: &'static str, total: u64) {
        assert_eq!(phase, "rounds");
        self.total.store(total as usize, Ordering::Relaxed);
    }

    fn advance(&self, steps: u64) {
        self.steps.fetch_add(steps as usize, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.finished.load(Ordering::Relaxed) >= self.rounds
    }
}

impl Observer for Until {
    fn finished(&self, _: &Round, _: &[Round]) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }
}

fn models() -> Vec<Config> {
    let vse = Vse { dim: 4, word_dim: 4, ..Vse::default() };
    let encoders = Encoders { dim: 4, word_dim: 4, ..Encoders::default() };
    let imram = Imram { encoders, mode: Directions::Full, steps: 2, ..Imram::default() };
    let heads = Heads { dim: 5, hidden: 4, adapter: false };
    vec![Config::Heads(heads), Config::Vse(vse), Config::Imram(imram)]
}

fn same(found: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>, what: &str) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what}");
    for (name, bytes) in found {
        assert!(expected[name] == *bytes, "{what}: {name} differs");
    }
}

#[test]
fn results_are_those_of_lanes() {
    for model in models() {
        let lab = Lab::new(model);
        lab.run("lanes", &[0, 1], (false, 1), &()).unwrap();
        let expected = lab.results("lanes");
        assert!(!lab.path("lanes/ensembles.jsonl").exists());
        for jobs in [1, 3] {
            let name = format!("together-{jobs}");
            let observer = Until::rounds(usize::MAX);
            lab.run(&name, &[0, 1], (true, jobs), &observer).unwrap();
            same(&lab.results(&name), &expected, &name);
            assert_eq!(lab.ensembles(&name), 3, "one of each round");
            assert_eq!(observer.finished.load(Ordering::Relaxed), 14);
            let [steps, total] =
                [&observer.steps, &observer.total].map(|n| n.load(Ordering::Relaxed));
            assert_eq!(steps, total, "of progress");
        }
    }
}

#[test]
fn what_was_stopped_or_lost_is_found_again() {
    for model in models() {
        let lab = Lab::new(model);
        lab.run("whole", &[0, 1], (true, 1), &()).unwrap();
        let expected = lab.results("whole");
        for rounds in [0, 1, 2, 5, 9] {
            let name = format!("stopped-{rounds}");
            let stopped = lab.run(&name, &[0, 1], (true, 1), &Until::rounds(rounds));
            assert!(stopped.is_err(), "after {rounds} rounds");
            lab.run(&name, &[0, 1], (true, 2), &()).unwrap();
            same(&lab.results(&name), &expected, &name);
            assert_eq!(lab.ensembles(&name), 3, "the same ones");
        }
        // A model that is needed for the next batch was deleted, and one that is not.
        lab.run("deleted", &[0, 1], (true, 1), &Until::rounds(8)).unwrap_err();
        for path in ["seed-1/core-set/round-1", "seed-0/round-0"] {
            fs::remove_dir_all(lab.path("deleted").join(path)).unwrap();
        }
        lab.run("deleted", &[0, 1], (true, 1), &()).unwrap();
        assert!(!lab.path("deleted/seed-0/round-0").exists());
        fs::rename(lab.path("whole/seed-0/round-0"), lab.path("deleted/seed-0/round-0")).unwrap();
        same(&lab.results("deleted"), &expected, "deleted");
    }
}

/// The same bytes on the same device, whatever was stopped; and what lanes alone find, but for rounding.
#[test]
fn every_device_goes_on_to_the_same_bytes() {
    for model in models() {
        for device in Device::available() {
            let lab = Lab { device, ..Lab::new(model.clone()) };
            lab.run("whole", &[0, 1], (true, 2), &()).unwrap();
            let expected = lab.results("whole");
            lab.run("stopped", &[0, 1], (true, 1), &Until::rounds(4)).unwrap_err();
            lab.run("stopped", &[0, 1], (true, 2), &()).unwrap();
            same(&lab.results("stopped"), &expected, &device.to_string());
            lab.run("lanes", &[0, 1], (false, 1), &()).unwrap();
            assert_eq!(lab.results("lanes").len(), expected.len());
        }
    }
}

#[test]
fn more_seeds_train_by_themselves() {
    let lab = Lab::new(models().swap_remove(0));
    lab.run("both", &[0, 1], (true, 1), &()).unwrap();
    lab.run("one", &[0], (true, 1), &()).unwrap();
    let observer = Until::rounds(usize::MAX);
    lab.run("one", &[0, 1], (true, 1), &observer).unwrap();
    assert_eq!(observer.finished.load(Ordering::Relaxed), 7);
    same(&lab.results("one"), &lab.results("both"), "one after the other");
    assert_eq!(lab.ensembles("one"), 6);
    fs::write(lab.path("one/ensembles.jsonl"), "nonsense\n").unwrap();
    fs::remove_file(lab.path("one/rounds.jsonl")).unwrap();
    fs::remove_dir_all(lab.path("one/seed-0/round-0")).unwrap();
    let refused = lab.run("one", &[0, 1], (true, 1), &()).unwrap_err().to_string();
    assert!(
        refused.contains("ensembles.jsonl") && refused.contains("not an ensemble"),
        "{refused}"
    );
}
