//! Rounds of training, selecting and annotating (Algorithm 1 of the paper), with simulated or human
//! annotators, and the analysis of their results.
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
