//! A selection with a trained model: the pairs it learned from, and what else its dataset has.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use nextpair_data::dataset::TRAIN;
use nextpair_data::{Matrix, Spill};
use nextpair_engine::{
    self as engine, Features, Matching, Progress, Question, Rule, mean_features,
};
use nextpair_models::{Choice, Corpus, Encodings, Pair, Rows, with_similarity};

use super::{POOL_NAME, Selection, Source};
use crate::inputs::{FeaturesName, PoolSide, SelectionArgs};
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
    /// Opens a run and a dataset and checks what can be checked without computing.
    pub(crate) fn open_model(&self, run: &Path, dataset: &Path) -> Result<Selection> {
        let trained = Trained::open(run, dataset)?;
        let pairs = trained.run.pairs(&trained.corpus)?;
        ensure!(!pairs.is_empty(), engine::Error::EmptyPaired);
        let pool = pool(&trained, self.pool_side, &pairs);
        check_pool(pool.len(), self, dataset)?;
        let mut settings = self.settings(pairs.len())?;
        settings.groups = settings.groups.or_else(|| groups(&pairs));
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
            "{}: the pool is empty: the run learned from every {what} of the split train. A pool \
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

/// Pairs of one item are never rivals. `None` where every pair has an item of its own.
fn groups(pairs: &[Pair]) -> Option<Vec<u32>> {
    let mut numbers = HashMap::new();
    let number = |pair: &Pair| {
        let next = numbers.len() as u32;
        *numbers.entry(pair.item).or_insert(next)
    };
    let groups: Vec<u32> = pairs.iter().map(number).collect();
    (numbers.len() < pairs.len()).then_some(groups)
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

/// The half of a pair on a side: its item or its caption.
fn half(pair: &Pair, side: PoolSide) -> usize {
    match side {
        PoolSide::Image => pair.item,
        PoolSide::Text => pair.caption,
    }
}

/// What the model encodes on a side.
fn rows_of(side: PoolSide) -> Rows {
    match side {
        PoolSide::Image => Rows::Images,
        PoolSide::Text => Rows::Texts,
    }
}

impl Modelled {
    pub(super) fn ask<T>(
        &self,
        selection: &Selection,
        items: Range<u32>,
        progress: &dyn Progress,
        work: impl FnOnce(&Question<'_>) -> Result<T>,
    ) -> Result<T> {
        let features = match selection.strategy.needs().features {
            true => Some(self.features(selection, progress)?),
            false => None,
        };
        let question = Question {
            pool: items.len(),
            matching: None,
            features: features.as_ref().map(|(pool, paired)| Features { pool, paired }),
            seed: selection.settings.seed,
            progress,
        };
        let Some(rule) = &self.rule else { return work(&question) };
        let (scorer, rows) = (&self.trained.scorer, rows_of(self.side));
        let shard = &self.pool[items.start as usize..items.end as usize];
        let pool = self.trained.encode(rows, shard, progress)?;
        let rivals = self.encode_pairs(self.side, rule, progress)?;
        let anchors = self.encode_pairs(self.side.other(), rule, progress)?;
        with_similarity(scorer, (&pool, rows), &anchors, |pool| {
            with_similarity(scorer, (&rivals, rows), &anchors, |paired| {
                let matching = Some(Matching { pool, paired, rule });
                work(&Question { matching, ..question })
            })
        })
    }

    /// One half of every pair, encoded. What several pairs share is encoded once, and pairs that
    /// take no part are not at all: the first that does stands for them, and nobody looks.
    fn encode_pairs(
        &self,
        side: PoolSide,
        rule: &Rule,
        progress: &dyn Progress,
    ) -> Result<Encodings> {
        let mut places = HashMap::new();
        let mut distinct = Vec::new();
        let mut order = vec![0; self.pairs.len()];
        for &pair in rule.anchors().iter().chain(rule.rivals()) {
            let half = half(&self.pairs[pair as usize], side);
            order[pair as usize] = *places.entry(half).or_insert_with(|| {
                distinct.push(half);
                distinct.len() as u32 - 1
            });
        }
        Ok(self.trained.encode(rows_of(side), &distinct, progress)?.arranged(order))
    }

    /// One vector per item of the pool, and per half of the pairs on its side.
    fn features(&self, selection: &Selection, progress: &dyn Progress) -> Result<(Matrix, Matrix)> {
        let mut paired: Vec<usize> = self.pairs.iter().map(|pair| half(pair, self.side)).collect();
        paired.sort_unstable();
        paired.dedup();
        let corpus = &self.trained.corpus;
        let stored = match self.side {
            PoolSide::Image => Some(corpus.image_features()),
            PoolSide::Text => corpus.text_features(),
        };
        let Some((set, features)) = stored else {
            if selection.features == FeaturesName::Bow {
                bail!(
                    "--features bow is for images; captions have the mean of their encoded words"
                );
            }
            let means = |which: &[usize]| {
                anyhow::Ok(self.trained.encode(Rows::Texts, which, progress)?.means()?)
            };
            return Ok((means(&self.pool)?, means(&paired)?));
        };
        let several = features.matrix().locals() > 1;
        let matrix = match (several, selection.features) {
            (true, FeaturesName::Mean) => &mean_features(features.matrix())?,
            _ => features.matrix(),
        };
        let rows_of = |which: &[usize]| {
            let row = |&index: &usize| {
                let row = features.row(index);
                row.with_context(|| format!("the features {} have no row {index}", set.name))
            };
            let rows = which.iter().map(row).collect::<Result<Vec<_>>>()?;
            anyhow::Ok(Spill::of_rows(matrix, rows)?)
        };
        let (pool, paired) = (rows_of(&self.pool)?, rows_of(&paired)?);
        match (several, selection.features) {
            (true, FeaturesName::Bow) => selection.bags(&pool, &paired, progress),
            _ => Ok((pool, paired)),
        }
    }

    /// Says what is about to be done.
    pub(super) fn announce(&self) {
        let (pool, pairs) = (grouped(self.pool.len()), grouped(self.pairs.len()));
        let dim = self.trained.model.config().dim();
        eprintln!("{pool} pool items, {pairs} pairs, a model of {dim} dimensions");
    }
}
