//! A selection as it is meant: from here on nothing depends on what was typed.

pub(crate) mod of_files;
pub(crate) mod of_model;

use std::ops::Range;

use anyhow::{Result, bail};
use nextpair_data::Matrix;
use nextpair_engine::{BagOfWords, Progress, Question, Settings, StrategyName, bag_of_words};
use nextpair_scenario::Bow;

use crate::inputs::{FeaturesName, PoolSide};
use of_files::Files;
use of_model::Modelled;

/// A selection with its files open and its flags checked.
pub(crate) struct Selection {
    pub(crate) strategy: StrategyName,
    pub(crate) budget: usize,
    pub(crate) side: PoolSide,
    pub(crate) ids: Option<Vec<String>>,
    pub(crate) anchor_ids: Option<Vec<String>>,
    pub(crate) settings: Settings,
    pub(crate) features: FeaturesName,
    pub(crate) bow: Bow,
    pub(crate) source: Source,
}

/// Where pool, pairs and similarities come from.
pub(crate) enum Source {
    /// Embeddings in files.
    Files(Box<Files>),
    /// A dataset and a model that was trained on it.
    Model(Box<Modelled>),
}

/// What errors call the pool.
pub(crate) const POOL_NAME: &str = "the pool items";

impl Selection {
    /// Asks `work` the question that was typed, about some of the pool. An error if what the answer
    /// is made of changed meanwhile.
    pub(crate) fn ask<T>(
        &self,
        items: Range<u32>,
        progress: &dyn Progress,
        work: impl FnOnce(&Question<'_>) -> Result<T>,
    ) -> Result<T> {
        match &self.source {
            Source::Files(files) => {
                let answer = files.ask(self, items, progress, work);
                // First: what the answer complains of may be due to it.
                files.check_unchanged()?;
                answer
            }
            Source::Model(model) => model.ask(self, items, progress, work),
        }
    }

    /// Says what is about to be done; the bytes of memory it will take, where that is known.
    pub(crate) fn announce(&self) -> Option<u64> {
        match &self.source {
            Source::Files(files) => Some(files.announce(self)),
            Source::Model(model) => {
                model.announce();
                None
            }
        }
    }

    /// How many items the pool has.
    pub(crate) fn pool(&self) -> usize {
        match &self.source {
            Source::Files(files) => files.pool.rows(),
            Source::Model(model) => model.pool.len(),
        }
    }

    /// All of the pool.
    pub(crate) fn items(&self) -> Range<u32> {
        0..self.pool() as u32
    }

    /// The files it is about, for what can be done with files alone.
    pub(crate) fn files(&self) -> Result<&Files> {
        match &self.source {
            Source::Files(files) => Ok(files),
            Source::Model(_) => bail!(
                "shards are scored from files of embeddings; `nextpair select --model` takes the \
                 whole pool at once"
            ),
        }
    }

    /// What a pool item is called.
    pub(crate) fn id(&self, index: u32) -> String {
        name_of(self.ids.as_deref(), index)
    }

    /// What a pair is called.
    pub(crate) fn anchor_id(&self, index: u32) -> String {
        name_of(self.anchor_ids.as_deref(), index)
    }

    /// One histogram per item of the pool and of the pairs, where items have several vectors.
    fn bags(
        &self,
        pool: &Matrix,
        paired: &Matrix,
        progress: &dyn Progress,
    ) -> Result<(Matrix, Matrix)> {
        let (paired, pool) = bag_of_words(paired, pool, self.words(), progress)?;
        Ok((pool, paired))
    }

    /// How visual words are found.
    fn words(&self) -> BagOfWords {
        let Bow { sample, iterations, .. } = self.bow;
        BagOfWords { sample, iterations, seed: self.settings.seed, ..BagOfWords::default() }
    }
}

fn name_of(ids: Option<&[String]>, index: u32) -> String {
    ids.map_or_else(|| index.to_string(), |ids| ids[index as usize].clone())
}
