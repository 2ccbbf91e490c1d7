//! The items of an experiment, and how many of them are paired in each round.

mod redraw;

use std::borrow::Cow;
use std::collections::HashSet;

use nextpair_data::dataset::TRAIN;
use nextpair_data::{Side, floor};
use nextpair_models::{Choice, Corpus, drawn};

use crate::world::{Candidates, Layout};
use crate::{Amount, Annotator, Error, Experiment, Splits, World};
use redraw::Redraw;

/// The items that an experiment is about, as the dataset has them.
pub(crate) struct Ground {
    /// Items of train with both halves.
    train: Vec<usize>,
    /// The items of the test.
    test: Vec<usize>,
    /// The splits of every seed, if they are its own.
    redraw: Option<Redraw>,
}

impl Ground {
    pub(crate) fn new(experiment: &Experiment, corpus: &Corpus) -> Result<Self, Error> {
        let mut train = corpus.training_items();
        train.retain(|&item| corpus.is_whole(item));
        if !experiment.only.is_empty() {
            train = only(&experiment.only, train, corpus)?;
        }
        let test = test_items(experiment, corpus)?;
        let redraw = match experiment.splits {
            Splits::Dataset => None,
            Splits::Redraw => Some(Redraw::new(experiment, corpus, &train, &test)?),
        };
        Ok(Ground { train, test, redraw })
    }

    /// Returns the items that train has with some seed, ascending.
    pub(crate) fn candidates(&self) -> &[usize] {
        self.redraw.as_ref().map_or(&self.train, Redraw::all)
    }
}

/// Returns a world of a dataset, or of the dataset that was made of it: they have the same one.
pub(crate) fn world_layout(
    world: &World,
    experiment: &Experiment,
    corpus: &Corpus,
    ground: &Ground,
) -> Layout {
    let candidates = Candidates {
        items: ground.candidates(),
        train: ground.train.len(),
        initial: experiment.initial,
    };
    Layout::new(world, corpus, &candidates)
}

/// The items of an experiment on a dataset.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Items with both halves, copies included. The initial pairs are drawn from them.
    whole: Vec<usize>,
    /// All items that are or can be picked, in the order of the dataset.
    items: Vec<usize>,
    /// All items that are or can be picked with some seed, ascending.
    of_any_seed: Vec<usize>,
    /// Human annotators: items without a split that have both halves, in a dataset with a split
    /// `train`. Models do not train on them, and nobody is asked about them.
    left_out: Vec<usize>,
    /// The items of the test.
    test: Vec<usize>,
    /// The splits of every seed, if they are its own.
    redraw: Option<Redraw>,
    /// Copies, rare items and junk, if there are any.
    world: Option<Layout>,
    /// Number of items that shares refer to: those that can be paired.
    shared: usize,
    /// Number of items that are paid for by round.
    sizes: Vec<usize>,
}

impl Plan {
    pub(crate) fn new(experiment: &Experiment, corpus: &Corpus) -> Result<Self, Error> {
        let ground = Ground::new(experiment, corpus)?;
        let layout = |world| world_layout(world, experiment, corpus, &ground);
        let world = experiment.world.as_ref().map(layout);
        let Ground { train, test, redraw } = ground;
        let (whole, items, left_out) = match (experiment.annotator, &world) {
            (Annotator::Human, _) => {
                let (items, left_out) = for_people(experiment.pool, corpus, &train)?;
                (train, items, left_out)
            }
            // A simulated annotator needs both halves.
            (_, None) => (train.clone(), train, Vec::new()),
            (_, Some(world)) => {
                let whole = world.captionable(&train);
                let items = whole.iter().copied().chain(world.junk()).collect();
                (whole, items, Vec::new())
            }
        };
        let of_any_seed = match (&redraw, &world) {
            (None, _) => items.clone(),
            (Some(redraw), None) => redraw.all().to_vec(),
            (Some(redraw), Some(world)) => {
                redraw.all().iter().copied().chain(world.copies()).chain(world.junk()).collect()
            }
        };
        let can_be_paired = world.as_ref().map_or(items.len(), |world| world.captionable);
        let start_from = world.as_ref().map_or(whole.len(), |world| world.captionable);
        let initial = experiment.initial.of(start_from);
        let budget = experiment.budget.of(can_be_paired);
        let sizes = sizes(initial, budget, experiment.rounds);
        let shared = can_be_paired;
        let plan = Plan { whole, items, of_any_seed, left_out, test, redraw, world, shared, sizes };
        plan.check(experiment, (plan.whole.len(), plan.items.len()))?;
        // Only worlds have seeds of different sizes.
        if plan.redraw.is_some() && plan.world.is_some() {
            for &seed in &experiment.seeds {
                let sizes = (plan.captionable(seed).len(), plan.items(seed).len());
                plan.check(experiment, sizes)?;
            }
        }
        Ok(plan)
    }

    /// Checks that a seed has enough items to begin with, and to pick from.
    fn check(&self, experiment: &Experiment, (whole, items): (usize, usize)) -> Result<(), Error> {
        let start = self.sizes[0];
        let nothing = experiment.initial == Amount::Count(0);
        if start > whole || (start < 2 && !nothing) {
            let what = format!(
                "{start} items paired from the start, of {whole} training items with image features \
                 and captions; at least 2 are needed, or none (0)"
            );
            return Err(Error::setting("initial", what));
        }
        if let Some(round) = (1..self.sizes.len()).find(|&e| self.sizes[e] == self.sizes[e - 1]) {
            let what = format!("less than one item in round {round}, of {items}");
            return Err(Error::setting("budget", what));
        }
        let end = self.sizes[experiment.rounds];
        if end > items {
            let what = format!(
                "{start} items are paired from the start, and {} rounds of {} make {end}; there are \
                 {items} training items",
                experiment.rounds, experiment.budget
            );
            return Err(Error::setting("budget", what));
        }
        Ok(())
    }

    /// Returns the number of items that shares refer to.
    pub(crate) fn whole(&self) -> usize {
        self.shared
    }

    /// Returns the number of items that are paid for in a round, from the start on.
    pub(crate) fn size(&self, round: usize) -> usize {
        self.sizes[round]
    }

    /// Returns the number of items with both halves that are not paired from the start.
    pub(crate) fn unpaired_whole(&self) -> usize {
        self.whole.len() - self.sizes[0]
    }

    /// Returns the number of items to pick for a round, from 1.
    pub(crate) fn budget(&self, round: usize) -> usize {
        self.sizes[round] - self.sizes[round - 1]
    }

    /// Returns the items that are paired from the start, `P_0`.
    pub(crate) fn start(&self, seed: u64) -> Vec<usize> {
        drawn(&self.captionable(seed), self.sizes[0], seed)
    }

    /// Returns the items that are neither paired nor skipped, in the order of the dataset.
    pub(crate) fn pool(&self, seed: u64, gone: &[usize]) -> Vec<usize> {
        let gone: HashSet<usize> = gone.iter().copied().collect();
        self.items(seed).iter().copied().filter(|item| !gone.contains(item)).collect()
    }

    /// Returns the items of a seed with both halves, ascending: a simulated annotator pairs them.
    pub(crate) fn captionable(&self, seed: u64) -> Cow<'_, [usize]> {
        match (&self.redraw, &self.world) {
            (None, _) => Cow::Borrowed(&self.whole),
            (Some(redraw), None) => Cow::Owned(redraw.of_seed(seed).train),
            (Some(redraw), Some(world)) => {
                Cow::Owned(world.captionable(&redraw.of_seed(seed).train))
            }
        }
    }

    /// Returns all items of a seed that are or can be picked, ascending.
    pub(crate) fn items(&self, seed: u64) -> Cow<'_, [usize]> {
        match (&self.redraw, &self.world) {
            (None, _) => Cow::Borrowed(&self.items),
            (_, None) => self.captionable(seed),
            (_, Some(world)) => {
                let captionable = self.captionable(seed);
                Cow::Owned(captionable.iter().copied().chain(world.junk()).collect())
            }
        }
    }

    /// Returns all items that are or can be picked with some seed, ascending.
    pub(crate) fn items_of_any_seed(&self) -> &[usize] {
        &self.of_any_seed
    }

    /// Returns the items that a seed is tested on.
    pub(crate) fn test(&self, seed: u64) -> Cow<'_, [usize]> {
        match &self.redraw {
            None => Cow::Borrowed(&self.test),
            Some(redraw) => Cow::Owned(redraw.of_seed(seed).test),
        }
    }

    /// Returns the items of dev that a seed drew, and the items whose words it may know: train and dev. `None`
    /// if all seeds have the splits of the dataset.
    pub(crate) fn own_dev(&self, seed: u64) -> Option<(Vec<usize>, Vec<usize>)> {
        let own = self.redraw.as_ref()?.of_seed(seed);
        let mut read = [own.train, own.dev.clone()].concat();
        read.sort_unstable();
        Some((own.dev, read))
    }

    /// Returns the items that an experiment with human annotators leaves out: they have both halves
    /// but no split.
    pub(crate) fn left_out(&self) -> &[usize] {
        &self.left_out
    }
}

fn test_items(experiment: &Experiment, corpus: &Corpus) -> Result<Vec<usize>, Error> {
    let split = &experiment.evaluation.split;
    let mut items = corpus.dataset().items().in_split(Some(split));
    items.retain(|&item| corpus.is_whole(item));
    if items.is_empty() {
        let what = format!("nothing to evaluate in the split {split}");
        return Err(Error::file(corpus.dataset().folder(), what));
    }
    match experiment.evaluation.folds.iter().find(|&&folds| !items.len().is_multiple_of(folds)) {
        None => Ok(items),
        Some(folds) => {
            let what = format!("{} images of {split} do not divide into {folds}", items.len());
            Err(Error::setting("folds", what))
        }
    }
}

/// Returns the items with these ids, in the order of the dataset.
fn only(ids: &[String], items: Vec<usize>, corpus: &Corpus) -> Result<Vec<usize>, Error> {
    let wanted: HashSet<&str> = ids.iter().map(String::as_str).collect();
    let all = corpus.dataset().items();
    let found: Vec<usize> =
        items.into_iter().filter(|&item| wanted.contains(all.get(item).id.as_str())).collect();
    if found.len() == wanted.len() {
        return Ok(found);
    }
    let known: HashSet<String> = found.iter().map(|&item| all.get(item).id).collect();
    let missing = ids.iter().find(|id| !known.contains(*id)).map_or("", String::as_str);
    let what = format!("{missing} is not a training item with image features and captions");
    Err(Error::setting("only", what))
}

/// Returns the items of an experiment with human annotators, including the `whole` ones that count
/// as paired, and the items to leave out.
fn for_people(
    pool: Side,
    corpus: &Corpus,
    whole: &[usize],
) -> Result<(Vec<usize>, Vec<usize>), Error> {
    let all = corpus.dataset().items();
    // What people refused, or found an image for, is not asked again.
    let answered = corpus.dataset().answered()?;
    let whole: HashSet<usize> = whole.iter().copied().collect();
    let to_train = |item: &usize| all.split_of(*item).is_none_or(|split| split == TRAIN);
    let has_half = |item: &usize| match pool {
        Side::Image => corpus.has_image(*item),
        Side::Text => corpus.captions_of(*item).next().is_some(),
    };
    // Even if the model cannot use the other half, there is no need to ask people for it.
    let has_other = |item: &usize| match pool {
        Side::Image => !all.captions_of(*item).is_empty(),
        Side::Text => corpus.has_image(*item) || all.get(*item).image.is_some(),
    };
    let is_open = |item: &usize| whole.contains(item) || !answered.contains(item);
    let candidates = (0..all.len()).filter(to_train).filter(has_half).filter(is_open);
    Ok(candidates.partition(|item| whole.contains(item) || !has_other(item)))
}

/// Returns the number of paired items by round. The sums are rounded down, not the batches, so that
/// rounding errors do not add up.
pub(crate) fn sizes(initial: f64, budget: f64, rounds: usize) -> Vec<usize> {
    (0..=rounds).map(|round| floor(initial + round as f64 * budget)).collect()
}

/// Returns the caption that represents an item in a pool of texts.
pub(crate) fn text_of(corpus: &Corpus, item: usize, choice: Choice, seed: u64) -> Option<usize> {
    let one = match choice {
        Choice::All => Choice::First,
        other => other,
    };
    corpus.chosen(item, one, seed).first().map(|pair| pair.caption)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Amount;

    #[test]
    fn rounds_grow_by_floors_of_sums() {
        let of = |whole: usize, initial: Amount, budget: Amount, rounds| {
            sizes(initial.of(whole), budget.of(whole), rounds)
        };
        let (share, count) = (Amount::Share, Amount::Count);
        // The sizes of the paper for COCO.
        assert_eq!(of(82_783, share(0.3), share(0.05), 3), [24_834, 28_974, 33_113, 37_252]);
        assert_eq!(of(100, share(0.1), share(0.07), 3), [10, 17, 24, 31]);
        assert_eq!(of(10, share(0.29), share(0.05), 4), [2, 3, 3, 4, 4]);
        assert_eq!(of(7, count(3), count(2), 2), [3, 5, 7]);
        assert_eq!(of(1000, count(3), share(0.0005), 4), [3, 3, 4, 4, 5]);
        assert_eq!(of(1000, share(1.0), share(0.1), 0), [1000]);
    }
}
