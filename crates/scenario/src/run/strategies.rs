//! Refuses strategies before the first training if they would fail after it.

use std::collections::HashMap;

use nextpair_data::Side;
use nextpair_data::dataset::Items;
use nextpair_engine::{Rule, Settings, Strategy};
use nextpair_models::{Corpus, Pair};

use super::choose::selection_seed;
use crate::annotator::{noisy, oracle};
use crate::plan::Plan;
use crate::{Annotator, Arm, Error, Experiment, ItemFeatures, groups};

/// Checks that every strategy works in every round. The draw of round 1 is checked itself. The
/// pairs of later rounds are unknown, so any draw of them must work.
pub(super) fn check_strategies(
    experiment: &Experiment,
    plan: &Plan,
    corpus: &Corpus,
) -> Result<(), Error> {
    if experiment.rounds == 0 {
        return Ok(());
    }
    let words = experiment.pool == Side::Text && corpus.text_features().is_none();
    let bow = |arm: &&Arm| arm.strategy.needs().features == Some(ItemFeatures::Bow);
    if let Some(arm) = experiment.strategies.iter().find(bow).filter(|_| words) {
        let what = format!("{arm}: bow is for images, and the pool is of texts");
        return Err(Error::setting("strategies", what));
    }
    let distances = |arm: &&Arm| arm.strategy.needs().features.is_some();
    let cold = words && plan.size(0) == 0;
    if let Some(arm) = experiment.strategies.iter().find(distances).filter(|_| cold) {
        let what = format!(
            "{arm} measures distances, captions without text features have none before a model is trained, and \
             initial = 0 trains none before the first batch"
        );
        return Err(Error::setting("strategies", what));
    }
    let looks = |arm: &'_ Arm| Some((*arm, arm.strategy.needs().matching?));
    let arms: Vec<_> = experiment.strategies.iter().filter_map(looks).collect();
    if arms.is_empty() {
        return Ok(());
    }
    for &seed in &experiment.seeds {
        let captions = experiment.training.captions;
        let pairs = oracle(corpus, &plan.start(seed), captions, seed).pairs;
        let items = corpus.dataset().items();
        let labels = groups(items, &pairs)?;
        let sizes = group_sizes(items, &possible_pairs(experiment, plan, corpus, seed))?;
        for (arm, hits) in &arms {
            let (groups, seed) = (labels.clone(), selection_seed(seed, arm, 1));
            let settings = Settings { groups, seed, ..Settings::default() };
            Rule::new(*hits, &settings, pairs.len()).map_err(|e| {
                let pairs = pairs.len();
                Error::setting("strategies", format!("{arm}, with {pairs} pairs at first: {e}"))
            })?;
            // A draw has the fewest groups if it takes the largest ones. Later draws have more
            // pairs to draw from, and are never smaller.
            let most: usize = sizes.iter().take(hits.top_k).sum();
            if let Some(sample) = hits.sample.map(|sample| sample.whole_of(pairs.len()))
                && sample <= most
            {
                let (k, own) = (hits.top_k, "never rivals of each other");
                let what = format!(
                    "{arm}: a draw of {sample} pairs may lack the {k} rivals that a threshold needs, \
                     because {most} pairs are of {k} groups that are {own}, such as the captions of \
                     an image; draw more than {most}"
                );
                return Err(Error::setting("strategies", what));
            }
        }
    }
    Ok(())
}

/// Returns all pairs that may appear in some round, as far as the dataset determines them. The
/// partners of a noisy swap depend on the batch, but their number does not.
fn possible_pairs(experiment: &Experiment, plan: &Plan, corpus: &Corpus, seed: u64) -> Vec<Pair> {
    let (all, captions) = (&plan.captionable(seed)[..], experiment.training.captions);
    let mut pairs = oracle(corpus, all, captions, seed).pairs;
    if let Annotator::Noisy(noise) = experiment.annotator {
        let wrong = noisy(corpus, (all, all, experiment.pool), captions, seed, noise).pairs;
        pairs.extend(wrong);
        pairs.sort_unstable_by_key(|pair| (pair.item, pair.caption));
        pairs.dedup();
    }
    pairs
}

/// Returns the sizes of the groups, largest first.
fn group_sizes(items: &Items, pairs: &[Pair]) -> Result<Vec<usize>, Error> {
    let Some(labels) = groups(items, pairs)? else { return Ok(vec![1; pairs.len()]) };
    let mut counts: HashMap<u32, usize> = HashMap::new();
    labels.into_iter().for_each(|label| *counts.entry(label).or_default() += 1);
    let mut sizes: Vec<usize> = counts.into_values().collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    Ok(sizes)
}
