//! A selection as it is meant: from here on nothing depends on what was typed.

mod of_model;

use anyhow::Result;
use nextpair_engine::{Picks, Progress, StrategyName};

pub(crate) use of_model::Modelled;

use crate::numbers::megabytes;

/// A selection with its files open and its flags checked.
pub(crate) enum Selection {
    /// On embeddings in files.
    Files(Box<nextpair::Selection>),
    /// With a model and the dataset that it was trained on.
    Model(Box<Modelled>),
}

impl Selection {
    /// The picks.
    pub(crate) fn select(&self, progress: &dyn Progress) -> Result<Picks> {
        match self {
            Selection::Files(selection) => Ok(selection.select(progress)?),
            Selection::Model(model) => model.select(progress),
        }
    }

    pub(crate) fn strategy(&self) -> StrategyName {
        match self {
            Selection::Files(selection) => selection.strategy,
            Selection::Model(model) => model.strategy,
        }
    }

    /// What the pool items are called, where they have names.
    pub(crate) fn ids(&self) -> Option<&[String]> {
        match self {
            Selection::Files(selection) => selection.files.pool_ids(),
            Selection::Model(model) => Some(&model.ids),
        }
    }

    /// What a pool item is called.
    pub(crate) fn id(&self, index: u32) -> String {
        match self {
            Selection::Files(selection) => selection.files.pool_id(index),
            Selection::Model(model) => model.ids[index as usize].clone(),
        }
    }

    /// What a pair is called.
    pub(crate) fn anchor_id(&self, index: u32) -> String {
        match self {
            Selection::Files(selection) => selection.files.pair_id(index),
            Selection::Model(model) => model.pair_ids[index as usize].clone(),
        }
    }

    /// Says what is about to be done; the bytes of memory it will take, where that is known.
    pub(crate) fn announce(&self) -> Option<u64> {
        match self {
            Selection::Files(selection) => Some(announce(selection)),
            Selection::Model(model) => {
                model.announce();
                None
            }
        }
    }
}

/// Says how much memory the work will take; the number of bytes.
pub(crate) fn announce(selection: &nextpair::Selection) -> u64 {
    let (pool, pairs) = (selection.files.pool(), selection.files.paired().rows());
    let predicted = selection.predicted_peak();
    say!(
        "{} pool items, {pairs} pairs, {} dimensions; predicted peak memory {}",
        pool.rows(),
        pool.dim(),
        megabytes(predicted)
    );
    predicted
}
