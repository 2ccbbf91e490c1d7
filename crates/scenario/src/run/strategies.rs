//! Strategies that would fail after a training are refused before the first.

use std::collections::HashMap;

use nextpair_data::Side;
use nextpair_data::dataset::Items;
use nextpair_engine::{Rule, Scope};
use nextpair_models::{Corpus, Pair};

use super::choose::selection_seed;
use crate::annotator::{noisy, oracle};
use crate::plan::Plan;
use crate::{Annotator, Arm, Error, Experiment, ItemFeatures, groups};

/// Refuses what a strategy could not do in one of the rounds. The draw of round 1 is tried as it
/// will be; those after it are of pairs that nobody knows yet, so that any draw of them must do.
pub(super) fn check_strategies(
    experiment: &Experiment,
    plan: &Plan,
    corpus: &Corpus,
) -> Result<(), Error> {
    if experiment.rounds == 0 {
        return Ok(());
    }
    let words = experiment.pool == Side::Text && corpus.text_features().is_none();
    let bow = |arm: &&Arm| arm.features == ItemFeatures::Bow;
    if let Some(arm) = experiment.strategies.iter().find(bow).filter(|_| words) {
        let what = format!("{arm}: bow is for images, and the pool is of texts");
        return Err(Error::setting("strategies", what));
    }
    let looks = |arm: &&Arm| arm.strategy.needs().matching;
    let arms: Vec<&Arm> = experiment.strategies.iter().filter(looks).collect();
    if arms.is_empty() {
        return Ok(());
    }
    for &seed in &experiment.seeds {
        let captions = experiment.training.captions;
        let pairs = oracle(corpus, &plan.start(seed), captions, seed).pairs;
        let items = corpus.dataset().items();
        let labels = groups(items, &pairs)?;
        let sizes = group_sizes(items, &possible_pairs(experiment, plan, corpus, seed))?;
        for arm in &arms {
            let settings = arm.settings(pairs.len(), labels.clone(), selection_seed(seed, 1));
            Rule::new(&settings, pairs.len()).map_err(|e| {
                let pairs = pairs.len();
                Error::setting("strategies", format!("{arm}, with {pairs} pairs at first: {e}"))
            })?;
            // The fewest groups that a draw can have are the largest ones. Later draws are of more
            // pairs, and never smaller.
            let most: usize = sizes.iter().take(arm.top_k).sum();
            if let Scope::Mini(sample) = settings.scope
                && sample <= most
            {
                let (k, own) = (arm.top_k, "never rivals of each other");
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

/// Every pair that may be there in some round, as far as the dataset knows. Two that a noisy
/// annotator swaps depend on the batch; that there are as many of them does not.
fn possible_pairs(experiment: &Experiment, plan: &Plan, corpus: &Corpus, seed: u64) -> Vec<Pair> {
    let (all, captions) = (plan.items(), experiment.training.captions);
    let mut pairs = oracle(corpus, all, captions, seed).pairs;
    if let Annotator::Noisy(noise) = experiment.annotator {
        let wrong = noisy(corpus, (all, all, experiment.pool), captions, seed, noise).pairs;
        pairs.extend(wrong);
        pairs.sort_unstable_by_key(|pair| (pair.item, pair.caption));
        pairs.dedup();
    }
    pairs
}

/// How many pairs are in each group, the largest first.
fn group_sizes(items: &Items, pairs: &[Pair]) -> Result<Vec<usize>, Error> {
    let Some(labels) = groups(items, pairs)? else { return Ok(vec![1; pairs.len()]) };
    let mut counts: HashMap<u32, usize> = HashMap::new();
    labels.into_iter().for_each(|label| *counts.entry(label).or_default() += 1);
    let mut sizes: Vec<usize> = counts.into_values().collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    Ok(sizes)
}
