//! The annotation app: picks go to people with the reasons they were picked for, answers come back.
#![forbid(unsafe_code)]

mod settings;
mod source;

use std::net::SocketAddr;

use nextpair_data::Side;
use nextpair_data::dataset::Dataset;

pub use settings::Settings;
pub use source::{Batch, Source};

/// What is served.
pub struct Desk {
    /// The dataset that the picks are from.
    pub dataset: Dataset,
    /// The side of the items that were picked; people give the other one.
    pub pool: Side,
    /// Where batches come from and answers go.
    pub source: Box<dyn Source>,
}

/// The app is up.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Where it listens.
    pub address: SocketAddr,
    /// Links that sign people in: the lead's first, then those of [`Settings::invite`].
    pub links: Vec<(String, String)>,
}

/// Serves until the process is told to stop (interrupt, termination).
pub fn serve(desk: Desk, settings: Settings, ready: impl FnOnce(&Ready)) -> Result<(), Error> {
    let _ = (desk, settings, ready);
    Err(Error::Settings("not served yet".to_owned()))
}

/// What can go wrong with the app as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Settings that contradict each other or that make no sense.
    #[error("{0}")]
    Settings(String),
}
