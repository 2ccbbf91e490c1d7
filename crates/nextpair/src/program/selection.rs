//! A selection, resolved from its flags.

mod of_model;

use crate::data::queue::Anchor;
use crate::engine::{BuiltIn, Picks, Progress};
use crate::{Candidates, Files, Finding, Selection, Shard};
use anyhow::Result;

pub(crate) use of_model::Modelled;

use crate::program::numbers::megabytes;

/// Where the paper's strategy loses: the smallest and the largest worth with heads in `docs/when-it-pays.md`.
pub(crate) const WHERE_HARD_NEGATIVES_LOSE: &str = "with heads on frozen encoders a hard negative was worth 0.23 to 0.83 \
                                                    random captions: docs/when-it-pays.md";

/// Says where the paper's strategy loses, if it was chosen.
pub(crate) fn note_hard_negatives(chosen: impl IntoIterator<Item = BuiltIn>) {
    if chosen.into_iter().any(|strategy| matches!(strategy, BuiltIn::HardNegative(_))) {
        say!("note        {WHERE_HARD_NEGATIVES_LOSE}");
    }
}

/// A selection with its files open and its flags checked.
pub(crate) enum Opened {
    /// A selection on embeddings in files, or on features of a dataset.
    Files(Box<Selection<Files>>),
    /// A selection with a model and the dataset it was trained on.
    Model(Box<Modelled>),
}

/// Names of pool items and pairs, and what is known of them.
pub(crate) trait Names {
    /// Returns the ids of the pool items, if they have any.
    fn ids(&self) -> Option<&[String]>;

    /// Returns the id of a pool item, or its index if it has none.
    fn id(&self, index: u32) -> String;

    /// Returns the name of a pair, with its item and caption if a model chooses.
    fn anchor(&self, pair: u32) -> Anchor;

    /// Returns the text that stands for a pool item, if a model chooses from a pool of texts.
    fn text(&self, _: u32) -> Option<String> {
        None
    }
}

impl Names for &Files {
    fn ids(&self) -> Option<&[String]> {
        self.pool_ids()
    }

    fn id(&self, index: u32) -> String {
        self.pool_id(index)
    }

    fn anchor(&self, pair: u32) -> Anchor {
        Anchor { name: self.pair_id(pair), pair: None }
    }
}

impl Opened {
    /// Picks items from the pool, and looks for what is wrong with them.
    pub(crate) fn select(
        &self,
        look: bool,
        progress: &dyn Progress,
    ) -> Result<(Picks, Vec<Finding>)> {
        match self {
            Opened::Files(selection) => select(selection, look, progress),
            Opened::Model(model) => select(&model.selection(), look, progress),
        }
    }

    pub(crate) fn strategy(&self) -> BuiltIn {
        match self {
            Opened::Files(selection) => selection.strategy,
            Opened::Model(model) => model.strategy,
        }
    }

    /// Returns the names of items and pairs.
    pub(crate) fn names(&self) -> Box<dyn Names + '_> {
        match self {
            Opened::Files(selection) => Box::new(&selection.from),
            Opened::Model(model) => model.names(),
        }
    }

    /// Prints the sizes of the selection. Returns its predicted peak memory in bytes, if known.
    pub(crate) fn announce(&self) -> Option<u64> {
        match self {
            Opened::Files(selection) => Some(announce(selection, None)),
            Opened::Model(model) => {
                model.announce();
                None
            }
        }
    }
}

fn select<C: Candidates<Error: Into<anyhow::Error>>>(
    selection: &Selection<C>,
    look: bool,
    progress: &dyn Progress,
) -> Result<(Picks, Vec<Finding>)> {
    let picks = match look {
        true => selection.select_inspected(progress),
        false => selection.select(progress).map(|picks| (picks, Vec::new())),
    };
    picks.map_err(Into::into)
}

/// Prints the sizes of a selection, or of one shard of it. Returns its predicted peak memory in bytes.
pub(crate) fn announce(selection: &Selection<Files>, shard: Option<Shard>) -> u64 {
    let files = &selection.from;
    let (pool, pairs) = (files.items(), files.pairs());
    let (items, scored) = match shard {
        Some(shard) => {
            let items = shard.items(pool).len();
            (format!("{items} of {pool}"), items)
        }
        None => (pool.to_string(), pool),
    };
    let predicted = files.predicted_peak(&selection.strategy, selection.budget, scored);
    let of = match (files.similarities(), files.vectors()) {
        (None, Some((pool, _))) => format!("{} dimensions", pool.dim()),
        _ => "known similarities".to_owned(),
    };
    detail!("device: {}", files.device);
    say!("{items} pool items, {pairs} pairs, {of}; predicted peak memory {}", megabytes(predicted));
    predicted
}
