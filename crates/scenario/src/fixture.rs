//! Made-up experiments for the tests of this crate and of the report crate, which includes this
//! file.

#![allow(dead_code, reason = "each of the two crates uses a part of it")]

use std::fs;

use nextpair_data::queue::{self, Task, Why};
use nextpair_engine::Strategy;
use nextpair_models::{Config, Evaluation, Retrieval, Training};
use nextpair_scenario::{
    Amount, Arm, Batch, Experiment, ExperimentFolder, ExperimentKeys, ExperimentManifest, Machine,
    Phase, Round, Study, Test, expand,
};

/// Returns a round with this text R@1. Image R@1 is 2 lower, each wider recall 20 higher, and the mean log rank falls
/// by 0.05 a point.
pub(crate) fn round(
    seed: u64,
    strategy: Option<Arm>,
    number: usize,
    paired: usize,
    r1: f64,
) -> Round {
    let retrieval = |r1: f64| Retrieval {
        r1,
        r5: r1 + 20.0,
        r10: r1 + 40.0,
        median_rank: 8.0,
        mean_rank: 30.0,
        mean_reciprocal_rank: 0.25,
        mean_log_rank: 4.0 - 0.05 * r1,
    };
    let (text, image) = (retrieval(r1), retrieval(r1 - 2.0));
    let test = Evaluation { text, image, rsum: 0.0, images: 1000, captions: 5000, folds: 1 };
    let phase = |name: &str, seconds: f64| Phase {
        name: name.to_owned(),
        seconds,
        memory: Some(300 << 20),
    };
    Round {
        seed,
        strategy,
        round: number,
        paired,
        bought: None,
        pairs: paired,
        pool: 1000usize.saturating_sub(paired),
        batch: None,
        test: vec![test],
        dev: None,
        epoch: 3,
        weights: format!("{seed}-{number}"),
        ranks: String::new(),
        made_by: Vec::new(),
        phases: vec![
            phase("training", 20.0 + number as f64),
            phase("evaluation", 1.5),
            phase("selection", 0.4),
            phase("annotation", 0.01),
            phase("other", 0.3),
        ],
    }
}

/// The settings of a made-up experiment.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
    arms: Vec<Arm>,
    seeds: Vec<u64>,
    rounds: usize,
    /// Text R@1 by strategy, seed and round.
    r1: fn(arm: usize, seed: u64, round: usize) -> f64,
    captions: String,
    /// Whether there is a second test, in five folds.
    in_parts: bool,
}

impl Default for Fixture {
    /// Four strategies, three seeds, three rounds.
    fn default() -> Self {
        let names = ["random", "hard-negative", "coverage", "core-set"];
        Fixture {
            folder: tempfile::tempdir().unwrap(),
            arms: names.map(|name| name.parse().unwrap()).into(),
            seeds: vec![0, 1, 2],
            rounds: 3,
            r1: |arm, seed, round| {
                let (seed, round, arm) = (seed as f64, round as f64, arm as f64);
                let gain = 2.2 + 0.45 * (2.0 - (arm - 1.5).abs());
                let wobble = (seed * 7.3 + round * 3.1 + arm * round * 1.7).sin() * 0.5;
                19.0 + 0.5 * seed + gain * round.powf(0.75) + wobble
            },
            captions: "a red circle <script>alert(1)</script> & \"more\"".to_owned(),
            in_parts: false,
        }
    }
}

impl Fixture {
    /// Two strategies: random gains 2 per round, hard-negative 3 with seed 0 and 4 with seed 1.
    pub(crate) fn two_arms(mut self) -> Self {
        self.arms.truncate(2);
        self.seeds = vec![0, 1];
        self.rounds = 2;
        self.r1 = |arm, seed, round| {
            let gain = if arm == 0 { 2 } else { 3 + seed % 2 };
            (10 + 2 * (seed % 2) + gain * round as u64) as f64
        };
        self
    }

    /// Adds a second test: R@1 starts 30 higher, and gains are twice as large.
    pub(crate) fn tested_in_parts(mut self) -> Self {
        self.in_parts = true;
        self
    }

    fn tested(&self, mut round: Round, start: f64, r1: f64) -> Round {
        if self.in_parts {
            let shift = 30.0 + r1 - start;
            let mut parts = Evaluation { folds: 5, ..round.test[0] };
            parts.text.r1 += shift;
            parts.image.r1 += shift;
            round.test.push(parts);
        }
        round
    }

    pub(crate) fn seeds(mut self, seeds: &[u64]) -> Self {
        self.seeds = seeds.to_vec();
        self
    }

    pub(crate) fn arms(mut self, names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        self.arms = expand(&names).unwrap();
        self
    }

    /// Returns the experiment as if it were finished. Of its files, only the picks exist.
    pub(crate) fn study(&self) -> Study {
        let path = self.folder.path();
        let folder = ExperimentFolder::new(path);
        let keys = ExperimentKeys {
            dataset: Some(path.join("no-such-dataset")),
            initial: Some(Amount::Count(300)),
            budget: Some(Amount::Count(100)),
            rounds: Some(self.rounds),
            strategies: Some(self.arms.iter().map(Arm::to_string).collect()),
            seeds: Some(self.seeds.clone()),
            price: Some(0.25),
            evaluation: self.in_parts.then(|| Test { folds: vec![1, 5], ..Test::default() }),
            ..ExperimentKeys::default()
        };
        let experiment =
            Experiment::resolve(keys, Config::Vse(Default::default()), Training::default())
                .unwrap();
        let manifest = ExperimentManifest {
            nextpair_scenario: 1,
            version: "0.1.0".to_owned(),
            unit: "x86-64-v4".to_owned(),
            dataset: "scenes <b>& more</b>".to_owned(),
            synthetic: true,
            items: 1000,
            machine: Machine {
                cpu: "A processor".to_owned(),
                threads: 2,
                system: "linux x86_64".to_owned(),
            },
            files: [("items.jsonl".to_owned(), "f".to_owned())].into(),
        };
        let mut rounds = Vec::new();
        for &seed in &self.seeds {
            let start = (self.r1)(0, seed, 0);
            let first = round(seed, None, 0, 300, start);
            rounds.push(self.tested(first, start, start));
            for number in 1..=self.rounds {
                for (at, arm) in self.arms.iter().enumerate() {
                    let r1 = (self.r1)(at, seed, number);
                    let mut line = round(seed, Some(*arm), number, 300 + 100 * number, r1);
                    line.batch = Some(batch(arm, number));
                    rounds.push(self.tested(line, start, r1));
                    self.write_picks(&folder, seed, arm, number);
                }
            }
        }
        Study { folder, experiment, manifest, rounds, subject: None }
    }

    fn write_picks(&self, folder: &ExperimentFolder, seed: u64, arm: &Arm, number: usize) {
        let path = folder.picks(seed, arm, number);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let task = |rank: usize| {
            let why = Why {
                id: Some(format!("<i>{rank}</i>")),
                caption: Some(self.captions.clone()),
                similarity: 0.8,
                threshold: 0.6,
                surplus: 0.2,
                own: Some(0.9),
                ..Why::default()
            };
            let looks = arm.strategy.needs().matching.is_some();
            Task {
                rank,
                id: format!("item <{rank}>"),
                score: 1.0 / rank as f64,
                hits: looks.then_some(3),
                why: if looks { vec![why; 3] } else { Vec::new() },
                ..Task::default()
            }
        };
        queue::write(&path, &(1..=8).map(task).collect::<Vec<_>>()).unwrap();
    }
}

fn batch(arm: &Arm, number: usize) -> Batch {
    let matching = arm.strategy.needs().matching.is_some();
    Batch {
        picked: 100,
        skipped: 0,
        unanswered: 0,
        wrong: 0,
        pool: 800 - 100 * number,
        left_out: None,
        duplicates: None,
        warnings: Vec::new(),
        hard_negatives: matching.then(|| (500 - 110 * number) as u64),
        without_hit: matching.then_some(0),
        effect: None,
        picks: "p".to_owned(),
        answers: None,
        captions: None,
        images: None,
    }
}
