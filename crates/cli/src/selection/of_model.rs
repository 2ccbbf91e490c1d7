//! A selection with a trained model: the pairs it learned from, and what else its dataset has.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use nextpair_data::dataset::TRAIN;
use nextpair_engine::{self as engine, Progress, Question, Rule};
use nextpair_models::{Choice, Corpus, Pair};
use nextpair_scenario::{Ask, ItemVectors, groups};

use super::{POOL_NAME, Selection, Source};
use crate::inputs::{PoolSide, SelectionArgs};
use crate::numbers::grouped;
use crate::trained::Trained;

/// A model, the pairs it learned from, and a pool.
pub(crate) struct Modelled {
    trained: Trained,
    side: PoolSide,
    /// Items, or captions where the pool is of texts.
    pub(super) pool: Vec<usize>,
    pairs: Vec<Pair>,
    /// For strategies that look at hits.
    rule: Option<Rule>,
}

impl SelectionArgs {
    /// Opens a model and a dataset and checks what can be checked without computing.
    pub(crate) fn open_model(&self, run: &Path, dataset: &Path) -> Result<Selection> {
        let trained = Trained::open(run, dataset)?;
        let pairs = trained.run.pairs(&trained.corpus)?;
        ensure!(!pairs.is_empty(), engine::Error::EmptyPaired);
        let pool = pool(&trained, self.pool_side, &pairs);
        check_pool(pool.len(), self, dataset)?;
        let mut settings = self.settings(pairs.len())?;
        if settings.groups.is_none() {
            settings.groups = groups(trained.dataset().items(), &pairs)?;
        }
        let rule = self.rule(&settings, pairs.len())?;
        let items = trained.dataset().items();
        let ids = pool.iter().map(|&(item, _)| items.get(item).id).collect();
        let anchor_ids = pair_names(&trained.corpus, &pairs);
        let pool = pool.into_iter().map(|(_, own)| own).collect();
        let model = Modelled { trained, side: self.pool_side, pool, pairs, rule };
        Ok(Selection {
            strategy: self.strategy,
            budget: self.budget,
            side: self.pool_side,
            ids: Some(ids),
            anchor_ids: Some(anchor_ids),
            settings,
            features: self.features,
            bow: self.bow()?,
            source: Source::Model(Box::new(model)),
        })
    }
}

/// The items that are not paired yet, each with what there is of it on the pool's side: the item
/// itself, or the caption that stands for it.
fn pool(trained: &Trained, side: PoolSide, pairs: &[Pair]) -> Vec<(usize, usize)> {
    let (corpus, training) = (&trained.corpus, &trained.run.spec().training);
    let items = trained.dataset().items();
    let mut paired = vec![false; items.len()];
    pairs.iter().for_each(|pair| paired[pair.item] = true);
    let one = match training.captions {
        Choice::All => Choice::First,
        other => other,
    };
    let own = |item: usize| match side {
        PoolSide::Image => corpus.has_image(item).then_some((item, item)),
        PoolSide::Text => {
            let chosen = corpus.chosen(item, one, training.seed);
            chosen.first().map(|pair| (item, pair.caption))
        }
    };
    let to_train = |item: &usize| items.split_of(*item).is_none_or(|split| split == TRAIN);
    (0..items.len()).filter(|&item| !paired[item]).filter(to_train).filter_map(own).collect()
}

fn check_pool(pool: usize, args: &SelectionArgs, dataset: &Path) -> Result<()> {
    if pool == 0 {
        let (what, lacking) = match args.pool_side {
            PoolSide::Image => ("image", "captions"),
            PoolSide::Text => ("text", "an image"),
        };
        bail!(
            "{}: the pool is empty: the model learned from every {what} of the split train. A pool \
             comes of items without {lacking}, or of items that are kept from training \
             (train --paired or --share)",
            dataset.display()
        );
    }
    ensure!(
        u32::try_from(pool).is_ok(),
        engine::Error::TooManyRows { what: POOL_NAME, rows: pool }
    );
    ensure!(args.budget > 0, engine::Error::ZeroBudget);
    let budget = args.budget;
    ensure!(budget <= pool, engine::Error::BudgetTooLarge { budget, pool });
    Ok(())
}

/// Item ids, with the number of the caption where an item has several pairs.
fn pair_names(corpus: &Corpus, pairs: &[Pair]) -> Vec<String> {
    let items = corpus.dataset().items();
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    pairs.iter().for_each(|pair| *counts.entry(pair.item).or_default() += 1);
    let name = |pair: &Pair| match counts[&pair.item] {
        1 => items.get(pair.item).id,
        _ => {
            let caption = pair.caption - items.captions_of(pair.item).start;
            format!("{}#{caption}", items.get(pair.item).id)
        }
    };
    pairs.iter().map(name).collect()
}

impl Modelled {
    pub(super) fn ask<T>(
        &self,
        selection: &Selection,
        items: Range<u32>,
        progress: &dyn Progress,
        work: impl FnOnce(&Question<'_>) -> Result<T>,
    ) -> Result<T> {
        let asked = nextpair_scenario::Selection {
            corpus: &self.trained.corpus,
            model: &self.trained.model,
            side: self.side.data(),
            pool: &self.pool,
            pairs: &self.pairs,
            vectors: &ItemVectors::new(selection.bow, &[]),
        };
        let ask = Ask {
            strategy: selection.strategy,
            rule: self.rule.as_ref(),
            features: selection.features.into(),
            seed: selection.settings.seed,
        };
        asked.ask(ask, items, progress, work)
    }

    /// Says what is about to be done.
    pub(super) fn announce(&self) {
        let (pool, pairs) = (grouped(self.pool.len()), grouped(self.pairs.len()));
        let dim = self.trained.model.config().dim();
        say!("{pool} pool items, {pairs} pairs, a model of {dim} dimensions");
    }
}
