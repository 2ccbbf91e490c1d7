//! What is measured before the first batch: the model of round 0, and the pool.

use nextpair_data::{Matrix, Progress, Side, draw};
use nextpair_engine::mean_features;
use nextpair_models::{Corpus, Model, Pair, evaluate_pairs};

use super::Scenario;
use super::learn::Place;
use crate::item_vectors::rows_of;
use crate::outset::{AMONG, COMPARED, DEV, Learned, Outset, POOL, Shape, TRAIN};
use crate::{Error, annotator};

impl Scenario {
    /// Measures what is known before the first batch.
    pub(super) fn outset(
        &self,
        place: Place<'_>,
        (model, corpus): (&Model, &Corpus),
        pairs: &[Pair],
        progress: &dyn Progress,
    ) -> Result<Outset, Error> {
        let vectors = self.first_pool(place.seed, corpus, progress)?;
        Ok(Outset {
            learned: self.learned(place, (model, corpus), pairs, progress)?,
            pool: vectors.and_then(|vectors| Shape::of(&vectors, place.seed)),
        })
    }

    /// Evaluates the model on some of its pairs, and on as many items of dev with as many captions each.
    fn learned(
        &self,
        place: Place<'_>,
        (model, corpus): (&Model, &Corpus),
        pairs: &[Pair],
        progress: &dyn Progress,
    ) -> Result<Option<Learned>, Error> {
        let dev = self.reading(place.seed)?.corpus.dev_items(usize::MAX);
        let mut train: Vec<usize> = pairs.iter().map(|pair| pair.item).collect();
        train.sort_unstable();
        train.dedup();
        let count = dev.len().min(train.len()).min(COMPARED);
        if count == 0 {
            return Ok(None);
        }
        let some = |items: &[usize], purpose: u64| -> Vec<usize> {
            let chosen = draw::sample(place.seed, purpose, items.len(), count);
            chosen.into_iter().map(|at| items[at as usize]).collect()
        };
        let (train, dev) = (some(&train, TRAIN), some(&dev, DEV));
        let is_chosen = |pair: &&Pair| train.binary_search(&pair.item).is_ok();
        let train: Vec<Pair> = pairs.iter().filter(is_chosen).copied().collect();
        let choice = self.experiment.training.captions;
        let dev = annotator::oracle(corpus, &dev, choice, place.seed).pairs;
        let recall = |pairs: &[Pair]| evaluate_pairs(model, corpus, pairs, progress);
        Ok(Some(Learned { train: recall(&train)?, dev: recall(&dev)? }))
    }

    /// Returns a vector for each of some items of the first pool, if there are any without a model.
    fn first_pool(
        &self,
        seed: u64,
        corpus: &Corpus,
        progress: &dyn Progress,
    ) -> Result<Option<Matrix>, Error> {
        let pool = self.plan.pool(seed, &self.plan.start(seed));
        let some = draw::sample(seed, POOL, pool.len(), AMONG);
        let items = some.into_iter().map(|at| pool[at as usize]);
        let (stored, rows) = match self.experiment.pool {
            Side::Image => (Some(corpus.image_features()), items.collect()),
            Side::Text => {
                let text = |item| self.text_of(corpus, item, seed);
                (corpus.text_features(), items.filter_map(text).collect::<Vec<usize>>())
            }
        };
        let Some(stored) = stored else { return Ok(None) };
        let vectors = rows_of(stored, &rows)?;
        Ok(Some(match vectors.locals() {
            1 => vectors,
            _ => mean_features(&vectors, progress)?,
        }))
    }
}
