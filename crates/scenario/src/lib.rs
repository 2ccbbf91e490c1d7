//! Rounds of training, selecting and annotating (Algorithm 1 of the paper), with simulated or human
//! annotators, and the analysis of their results.
//!
//! # How an experiment runs
//!
//! 1. **Resolve** (`experiment.rs`). A file and flags become an [`Experiment`] in which everything is known and checked; its folder stores it.
//! 2. **Plan** (`plan.rs`): which items count, how many are paired when, who is paired from the start. What would fail in a later round is refused now.
//! 3. **Schedule** (`run/schedule.rs`): round 0 of every seed, then every strategy of every seed. These lanes know nothing of each other and run side by side.
//! 4. **A round** (`run/rounds.rs`): pick with the last model, write picks and reasons; an annotator pairs; train, evaluate, append the round to the
//!    journal. Each step's file is written whole before the next begins, so a killed experiment goes on with the first step whose file is missing.
//!    What a lane has paired follows from the seed and the picks; it is not stored.
//! 5. **Evidence** (`analysis/`, `forecast.rs`, `statistics.rs`): pure functions of the journal.
//!
//! With people, [`Inbox`] holds the batch that waits and takes their answers. A batch closes with a copy of its answers, so that later ones cannot change what
//! a model has learned from. New captions and images get features from the encoders of the dataset, once, when the batch closes.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

// The report crate includes the fixture too, so it refers to this crate by name.
#[cfg(test)]
extern crate self as nextpair_scenario;

mod about;
mod analysis;
mod annotator;
mod cautions;
mod error;
mod experiment;
#[cfg(test)]
mod fixture;
mod folder;
mod forecast;
mod inbox;
mod item_vectors;
mod machine;
pub mod numbers;
mod options;
mod pair_names;
mod plan;
mod queries;
mod ranks;
mod records;
mod rehearsal;
mod run;
mod selection;
mod standing;
pub mod statistics;
mod study;
mod unpaired;
mod world;

pub use about::Subject;
pub use analysis::{
    Analysis, ArmEvidence, Baseline, Difference, Evidence, MOST_SEEDS, NearChance, NextBatch,
    PhaseTime, Reached, Reason, RecallAt, Recalls, Recommendation, Refused, Scrutiny,
    SeedDifference, TestSet, Time, WithoutHit,
};
pub use cautions::cautions;
pub use error::Error;
pub use experiment::{
    Annotator, Arm, Bow, Experiment, ExperimentKeys, Noise, SettingsFile, Splits, Test,
    VocabularyOf, expand, parse_experiment, read_experiment,
};
pub use folder::ExperimentFolder;
pub use forecast::{Backtest, Forecast, Gain, Spread, backtest, forecast};
pub use inbox::{Inbox, Received};
pub use item_vectors::ItemVectors;
pub use nextpair_data::Amount;
pub use nextpair_engine::ItemFeatures;
pub use options::Options;
pub use pair_names::PairNames;
pub use queries::{Queries, read_queries};
pub use ranks::RoundRanks;
pub use records::{Batch, ExperimentManifest, Machine, Phase, Round, Warning};
pub use rehearsal::{Advice, Choice, Prior, Rehearsal, RehearsalSettings, Scale, StrategyAdvice};
pub use run::{Observer, Scenario, Waiting};
pub use selection::{ModelCandidates, groups};
pub use standing::{Activity, Standing, Step};
pub use statistics::{Estimate, Verdict, Worth};
pub use study::Study;
pub use unpaired::{Unpaired, unpaired};
pub use world::{JunkKind, Rare, World};
