//! Rounds of training, selecting and annotating (Algorithm 1 of the paper), with simulated or human
//! annotators, what each strategy bought, and a report of it.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod analysis;
mod annotator;
mod error;
mod experiment;
#[cfg(test)]
mod fixture;
mod folder;
mod forecast;
mod inbox;
mod item_vectors;
mod machine;
mod memory;
mod plan;
mod records;
pub mod report;
mod run;
mod selection;
mod statistics;
mod unpaired;

pub use analysis::{
    Analysis, ArmEvidence, Difference, Evidence, PhaseTime, Reached, RecallAt, Recalls, Saved,
    TestSet, Time, WithoutHit,
};
pub use error::Error;
pub use experiment::{
    Amount, Annotator, Arm, Bow, Experiment, Keys, MiniBatch, Noise, SettingsFile, Test,
    VocabularyOf, expand, read_experiment,
};
pub use folder::{Folder, Study};
pub use forecast::{Backtest, Forecast, Spread, backtest, forecast};
pub use inbox::{Asked, Inbox, Received};
pub use item_vectors::ItemVectors;
pub use memory::Watch;
pub use nextpair_engine::ItemFeatures;
pub use records::{Batch, Head, Machine, Phase, Round};
pub use run::{Observer, Scenario, Waiting};
pub use selection::{Selection, groups};
pub use statistics::{Estimate, Verdict};
pub use unpaired::{Unpaired, pair_names, unpaired};
