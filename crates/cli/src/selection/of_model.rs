//! A selection with a trained model. The pool is the part of the dataset that it was not trained
//! on.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use nextpair::Finding;
use nextpair::data::Side;
use nextpair::data::dataset::{Dataset, FeatureSource};
use nextpair::data::queue::refused;
use nextpair::encode::DatasetEncoders;
use nextpair::engine::{
    self as engine, Alike, ItemFeatures, Picks, Progress, Settings, StrategyName,
};
use nextpair::models::{Corpus, Pair, Texts};
use nextpair::scenario::{Bow, ItemVectors, PairNames, groups, read_queries, unpaired};

use crate::inputs::SelectionArgs;
use crate::numbers::grouped;
use crate::trained::Trained;

/// A model, the pairs it was trained on, and a pool.
pub(crate) struct Modelled {
    trained: Trained,
    side: Side,
    /// Items, or captions if the pool holds texts.
    pool: Vec<usize>,
    pub(super) ids: Vec<String>,
    pairs: Vec<Pair>,
    pub(super) pair_ids: Vec<String>,
    pub(super) strategy: StrategyName,
    budget: usize,
    settings: Settings,
    features: ItemFeatures,
    bow: Bow,
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
        ensure!(!pairs.is_empty(), engine::Error::EmptyPaired);
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
        let mut pool = unpaired(corpus, &pairs, self.pool_side, training.captions, training.seed);
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
        check_pool(pool.len(), self, dataset)?;
        let mut settings = self.settings(pairs.len())?;
        if settings.groups.is_none() {
            settings.groups = groups(trained.dataset().items(), &pairs)?;
        }
        self.check_rule(&settings, pairs.len())?;
        Ok(Modelled {
            side: self.pool_side,
            ids: pool.iter().map(|unpaired| items.get(unpaired.item).id).collect(),
            pool: pool.into_iter().map(|unpaired| unpaired.own).collect(),
            pair_ids: names(corpus, &pairs),
            pairs,
            strategy: self.strategy,
            budget: self.budget,
            settings,
            features: self.features.into(),
            bow: self.bow()?,
            refused,
            dedupe: self.dedupe,
            queries,
            trained,
        })
    }
}

fn names(corpus: &Corpus, pairs: &[Pair]) -> Vec<String> {
    let names = PairNames::of(corpus, pairs);
    (0..pairs.len() as u32).map(|pair| names.name(pair)).collect()
}

fn check_pool(pool: usize, args: &SelectionArgs, dataset: &Path) -> Result<()> {
    if pool == 0 {
        let (what, lacking) = match args.pool_side {
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
    ensure!(args.budget > 0, engine::Error::ZeroBudget);
    let budget = args.budget;
    ensure!(budget <= pool, engine::Error::BudgetTooLarge { budget, pool });
    Ok(())
}

impl Modelled {
    pub(super) fn select(
        &self,
        look: bool,
        progress: &dyn Progress,
    ) -> Result<(Picks, Vec<Finding>)> {
        let selection = nextpair::scenario::Selection {
            corpus: &self.trained.corpus,
            model: &self.trained.model,
            side: self.side,
            pool: &self.pool,
            pairs: &self.pairs,
            vectors: &ItemVectors::new(self.bow, &[]),
            strategy: self.strategy,
            settings: &self.settings,
            features: self.features,
            refused: self.refused.as_deref(),
            dedupe: self.dedupe,
            queries: self.queries.as_ref(),
        };
        Ok(match look {
            true => selection.select_inspected(self.budget, progress)?,
            false => (selection.select(self.budget, progress)?, Vec::new()),
        })
    }

    pub(super) fn dataset(&self) -> &Dataset {
        self.trained.dataset()
    }

    /// Returns the caption that stands for a pool item in a pool of texts.
    pub(super) fn text(&self, index: u32) -> Option<String> {
        (self.side == Side::Text).then(|| self.caption(self.pool[index as usize]))
    }

    /// Returns the item and the caption of a pair.
    pub(super) fn anchor(&self, index: u32) -> Option<(String, String)> {
        let pair = self.pairs.get(index as usize)?;
        let id = self.trained.dataset().items().get(pair.item).id;
        Some((id, self.caption(pair.caption)))
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
