//! A selection, resolved from its flags.

mod of_model;

use anyhow::Result;
use nextpair::data::dataset::Dataset;
use nextpair::engine::{Picks, Progress, StrategyName};
use nextpair::scenario::Anchor;
use nextpair::{Finding, Shard};

pub(crate) use of_model::Modelled;

use crate::numbers::megabytes;

/// A selection with its files open and its flags checked.
pub(crate) enum Selection {
    /// A selection on embeddings in files.
    Files(Box<nextpair::Selection>),
    /// A selection with a model and the dataset it was trained on.
    Model(Box<Modelled>),
}

impl Selection {
    /// Picks items from the pool, and looks for what is wrong with them.
    pub(crate) fn select(
        &self,
        look: bool,
        progress: &dyn Progress,
    ) -> Result<(Picks, Vec<Finding>)> {
        match self {
            Selection::Files(selection) if look => Ok(selection.select_inspected(progress)?),
            Selection::Files(selection) => Ok((selection.select(progress)?, Vec::new())),
            Selection::Model(model) => model.select(look, progress),
        }
    }

    pub(crate) fn strategy(&self) -> StrategyName {
        match self {
            Selection::Files(selection) => selection.strategy,
            Selection::Model(model) => model.strategy,
        }
    }

    /// Returns the ids of the pool items, if they have any.
    pub(crate) fn ids(&self) -> Option<&[String]> {
        match self {
            Selection::Files(selection) => selection.files.pool_ids(),
            Selection::Model(model) => Some(&model.ids),
        }
    }

    /// Returns the id of a pool item, or its index if it has none.
    pub(crate) fn id(&self, index: u32) -> String {
        match self {
            Selection::Files(selection) => selection.files.pool_id(index),
            Selection::Model(model) => model.ids[index as usize].clone(),
        }
    }

    /// Returns the name of a pair.
    pub(crate) fn anchor_id(&self, index: u32) -> String {
        match self {
            Selection::Files(selection) => selection.files.pair_id(index),
            Selection::Model(model) => model.pair_ids[index as usize].clone(),
        }
    }

    /// Returns the name of a pair, with its item and caption if a model chooses.
    pub(crate) fn named_anchor(&self, index: u32) -> Anchor {
        Anchor { name: self.anchor_id(index), pair: self.anchor(index) }
    }

    /// Returns the dataset behind the selection, if a model chooses.
    pub(crate) fn dataset(&self) -> Option<&Dataset> {
        match self {
            Selection::Files(_) => None,
            Selection::Model(model) => Some(model.dataset()),
        }
    }

    /// Returns the text that stands for a pool item, if a model chooses from a pool of texts.
    pub(crate) fn text(&self, index: u32) -> Option<String> {
        match self {
            Selection::Files(_) => None,
            Selection::Model(model) => model.text(index),
        }
    }

    /// Returns the item and the caption of a pair, if a model chooses.
    pub(crate) fn anchor(&self, index: u32) -> Option<(String, String)> {
        match self {
            Selection::Files(_) => None,
            Selection::Model(model) => model.anchor(index),
        }
    }

    /// Prints the sizes of the selection. Returns its predicted peak memory in bytes, if known.
    pub(crate) fn announce(&self) -> Option<u64> {
        match self {
            Selection::Files(selection) => Some(announce(selection, None)),
            Selection::Model(model) => {
                model.announce();
                None
            }
        }
    }
}

/// Prints the sizes of a selection, or of one shard of it. Returns its predicted peak memory in bytes.
pub(crate) fn announce(selection: &nextpair::Selection, shard: Option<Shard>) -> u64 {
    let (pool, pairs) = (selection.files.items(), selection.files.pairs());
    let (items, predicted) = match shard {
        Some(shard) => {
            let items = shard.items(pool).len();
            (format!("{items} of {pool}"), selection.predicted_peak_of(shard))
        }
        None => (pool.to_string(), selection.predicted_peak()),
    };
    let of = match (selection.files.similarities(), selection.files.vectors()) {
        (None, Some((pool, _))) => format!("{} dimensions", pool.dim()),
        _ => "known similarities".to_owned(),
    };
    detail!("device: {}", selection.device);
    say!("{items} pool items, {pairs} pairs, {of}; predicted peak memory {}", megabytes(predicted));
    predicted
}
