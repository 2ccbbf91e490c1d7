//! Rounds of training, selecting and annotating (Algorithm 1 of the paper), with simulated or human
//! annotators, what each strategy bought, and a report of it.
#![forbid(unsafe_code)]

mod error;
mod experiment;
mod folder;
mod records;

pub use error::Error;
pub use experiment::{
    Amount, Annotator, Arm, Experiment, ItemFeatures, Keys, MiniBatch, Noise, SettingsFile, Test,
    expand, read_experiment,
};
pub use folder::{Folder, Study};
pub use records::{Batch, Head, Machine, Phase, Round};
