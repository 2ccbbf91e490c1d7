//! A selection with a trained model. The pool is the part of the dataset that it was not trained
//! on.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

use crate::Selection;
use crate::data::Side;
use crate::data::dataset::FeatureSource;
use crate::data::queue::{Anchor, refused};
use crate::encode::DatasetEncoders;
use crate::engine::{self as engine, Alike, BagOfWords, BuiltIn, Settings, Spend};
use crate::models::{Pair, Texts};
use crate::scenario::{
    Bow, ItemVectors, ModelCandidates, PairNames, groups, read_queries, unpaired,
};
use anyhow::{Result, bail, ensure};

use super::Names;
use crate::program::inputs::SelectionArgs;
use crate::program::numbers::grouped;
use crate::program::trained::Trained;

/// A model, the pairs it was trained on, and a pool.
pub(crate) struct Modelled {
    trained: Trained,
    side: Side,
    /// Items, or captions if the pool holds texts.
    pool: Vec<usize>,
    ids: Vec<String>,
    pairs: Vec<Pair>,
    vectors: ItemVectors,
    pub(super) strategy: BuiltIn,
    budget: usize,
    spend: Option<Spend>,
    settings: Settings,
    /// Items of the dataset that annotators refused, in the form of the pool.
    refused: Option<Vec<usize>>,
    /// When items count as duplicates that are left out.
    dedupe: Option<Alike>,
    /// What people search for.
    queries: Option<Texts>,
}

impl SelectionArgs {
    /// Opens a model and a dataset and checks everything that needs no computing.
    pub(crate) fn open_model(&self, run: &Path, dataset: &Path) -> Result<Modelled> {
        let trained = Trained::open(run, dataset, self.device.of_models()?)?;
        let pairs = trained.folder.pairs(&trained.corpus)?;
        let (corpus, training) = (&trained.corpus, &trained.folder.spec().training);
        let queries = match &self.queries {
            Some(path) => Some(read_queries(path)?),
            None => None,
        };
        self.check_queries()?;
        let queries = match &queries {
            Some(queries) => {
                let encoders: &dyn FeatureSource = &DatasetEncoders;
                let words = trained.folder.vocabulary();
                let device = trained.model.device();
                Some(queries.texts(words, corpus, Some(encoders), device, &())?)
            }
            None => None,
        };
        let side = self.pool_side()?;
        let mut pool = unpaired(corpus, &pairs, side, training.captions, training.seed);
        let items = trained.dataset().items();
        // Nobody is asked again about what people have answered, learned from or not.
        let mut gone = trained.dataset().answered()?;
        let refused = match self.refused()? {
            Some(ids) => {
                let of_dataset = refused(trained.dataset().answers()?);
                let ids: HashSet<&str> =
                    ids.iter().chain(&of_dataset).map(String::as_str).collect();
                let items: HashSet<usize> = items.find(ids).into_values().collect();
                gone.extend(&items);
                let refused = pool.iter().filter(|unpaired| items.contains(&unpaired.item));
                Some(refused.map(|unpaired| unpaired.own).collect::<Vec<usize>>())
            }
            None => None,
        };
        pool.retain(|unpaired| !gone.contains(&unpaired.item));
        check_pool(pool.len(), (side, self.budget(pool.len())), dataset)?;
        let mut settings = self.settings(pairs.len())?;
        if settings.groups.is_none() {
            settings.groups = groups(trained.dataset().items(), &pairs)?;
        }
        self.check_rule(&settings, pairs.len())?;
        let BagOfWords { sample, iterations, .. } = self.words()?;
        let bow = Bow { sample, iterations, once: false };
        let ids: Vec<String> = pool.iter().map(|unpaired| items.get(unpaired.item).id).collect();
        let budget = self.budget(pool.len());
        Ok(Modelled {
            side,
            spend: self.spend(ids.iter().cloned())?,
            ids,
            pool: pool.into_iter().map(|unpaired| unpaired.own).collect(),
            pairs,
            vectors: ItemVectors::new(bow, &[]),
            strategy: self.strategy()?,
            budget,
            settings,
            refused,
            dedupe: self.dedupe,
            queries,
            trained,
        })
    }
}

fn check_pool(pool: usize, (side, budget): (Side, usize), dataset: &Path) -> Result<()> {
    if pool == 0 {
        let (what, lacking) = match side {
            Side::Image => ("image", "captions"),
            Side::Text => ("text", "an image"),
        };
        bail!(
            "{}: the pool is empty: the model learned from every {what} of the split train, or people \
             have answered about it. A pool comes of items without {lacking}, or of items that are \
             kept from training (train --paired or --share)",
            dataset.display()
        );
    }
    ensure!(budget > 0, engine::Error::ZeroBudget);
    ensure!(budget <= pool, engine::Error::BudgetTooLarge { budget, pool });
    Ok(())
}

impl Modelled {
    pub(super) fn selection(&self) -> Selection<ModelCandidates<'_>> {
        let from = ModelCandidates {
            corpus: &self.trained.corpus,
            model: Cow::Borrowed(&self.trained.model),
            side: self.side,
            pool: Cow::Borrowed(&self.pool),
            pairs: &self.pairs,
            vectors: &self.vectors,
            refused: self.refused.as_deref(),
            queries: self.queries.as_ref(),
        };
        let (strategy, budget, dedupe) = (self.strategy, self.budget, self.dedupe);
        let (spend, settings) = (self.spend.clone(), self.settings.clone());
        Selection { from, strategy, budget, spend, settings, dedupe }
    }

    pub(super) fn names(&self) -> Box<dyn Names + '_> {
        Box::new(ModelNames { of: self, pairs: PairNames::of(&self.trained.corpus, &self.pairs) })
    }

    fn caption(&self, caption: usize) -> String {
        let items = self.trained.dataset().items();
        let owner = items.item_of_caption(caption);
        let at = caption - items.captions_of(owner).start;
        items.get(owner).captions.swap_remove(at)
    }

    /// Prints the sizes of the selection.
    pub(super) fn announce(&self) {
        let (pool, pairs) = (grouped(self.pool.len()), grouped(self.pairs.len()));
        let dim = self.trained.model.architecture().dim();
        say!("{pool} pool items, {pairs} pairs, a model of {dim} dimensions");
    }
}

/// Names of the items and pairs of a model.
struct ModelNames<'a> {
    of: &'a Modelled,
    pairs: PairNames<'a>,
}

impl Names for ModelNames<'_> {
    fn ids(&self) -> Option<&[String]> {
        Some(&self.of.ids)
    }

    fn id(&self, index: u32) -> String {
        self.of.ids[index as usize].clone()
    }

    fn anchor(&self, pair: u32) -> Anchor {
        self.pairs.anchor(pair)
    }

    fn text(&self, index: u32) -> Option<String> {
        (self.of.side == Side::Text).then(|| self.of.caption(self.of.pool[index as usize]))
    }
}
