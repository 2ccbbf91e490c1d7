//! The question that strategies answer: which items of this pool should be paired next?

mod builder;

use std::ops::Range;
use std::sync::Arc;

use nextpair_core::{Matrix, Side};

use crate::error::unless_stopped;
use crate::{
    Error, Partial, Picks, Progress, Rule, Shard, Sharded, Similarity, Strategy, StrategyName,
    Weight, require_finite,
};
pub use builder::ProblemBuilder;

/// How errors call the features of a problem.
pub(crate) const POOL_FEATURES: &str = "the pool's features";
pub(crate) const PAIRED_FEATURES: &str = "the paired features";

/// A pool, what is paired, and the rule by which they are compared. It owns all of it, and a clone
/// copies none.
///
/// A problem may be about a part of its pool, see [`only`](Problem::only): parts are scored one by
/// one, on any machine, and finished together.
#[derive(Clone)]
pub struct Problem {
    pool: usize,
    items: Range<u32>,
    /// The item in the first row of the pool's similarities.
    first: u32,
    matching: Option<Matching>,
    features: Option<Features>,
    /// Whether somebody has looked at every number of the features.
    features_checked: bool,
    weight: Weight,
    explain: usize,
    seed: u64,
    /// What it was made of, where that may be files that somebody changes.
    inputs: Vec<Matrix>,
}

/// The similarities of a problem, and the rule by which they become hits.
#[derive(Clone)]
pub struct Matching {
    /// Pool items (rows, see [`Problem::row`]) against the anchors of all pairs (columns).
    pub pool: Arc<dyn Similarity>,
    /// Rivals (rows) against anchors (columns); row and column `j` belong to pair `j`.
    pub paired: Arc<dyn Similarity>,
    /// Which pairs take part and how hits count.
    pub rule: Arc<Rule>,
}

/// One vector per item of the pool's own side, for strategies that use distances.
#[derive(Clone)]
pub struct Features {
    /// Of the whole pool.
    pub pool: Matrix,
    /// Of the paired set.
    pub paired: Matrix,
}

impl Problem {
    /// Embeddings of pairs, row `j` of both for pair `j`, and of a pool that lacks the other side.
    pub fn of_embeddings(
        images: Matrix,
        texts: Matrix,
        pool: Matrix,
        pool_side: Side,
    ) -> ProblemBuilder {
        ProblemBuilder::of_embeddings(images, texts, pool, pool_side)
    }

    /// Similarities of any model: pool items (rows) and rivals (rows) against anchors (columns).
    pub fn of_similarities(
        pool: Arc<dyn Similarity>,
        paired: Arc<dyn Similarity>,
    ) -> ProblemBuilder {
        ProblemBuilder::of_similarities(pool, paired)
    }

    /// A pool of so many items of which nothing is known, for strategies that need nothing, or only
    /// [features](ProblemBuilder::features).
    pub fn of_pool(items: usize) -> ProblemBuilder {
        ProblemBuilder::of_pool(items)
    }

    /// Items in the whole pool.
    pub fn pool(&self) -> usize {
        self.pool
    }

    /// The items that it is about: all of the pool, unless it is a part of it.
    pub fn items(&self) -> Range<u32> {
        self.items.clone()
    }

    /// The row of an item in the pool's similarities.
    pub fn row(&self, item: u32) -> u32 {
        item - self.first
    }

    /// The similarities and their rule; an error where there are none. Strategies that
    /// [need](Strategy::needs) them are not asked where there are none.
    pub fn matching(&self) -> Result<&Matching, Error> {
        self.matching.as_ref().ok_or(Error::NoSimilarity { strategy: "this strategy" })
    }

    /// The vectors for distances; an error where there are none. Strategies that
    /// [need](Strategy::needs) them are not asked where there are none.
    pub fn features(&self) -> Result<&Features, Error> {
        self.features.as_ref().ok_or(Error::NoFeatures { strategy: "this strategy" })
    }

    /// Of every draw.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What a hit is worth; known where the similarities are not any more, in [`Sharded::finish`].
    pub fn weight(&self) -> Weight {
        self.weight
    }

    /// The strongest hits to report for each pick; known in [`Sharded::finish`] too.
    pub fn explain(&self) -> usize {
        self.explain
    }

    /// The same about some items of the pool.
    ///
    /// # Errors
    /// If it is not about them now.
    pub fn only(&self, items: Range<u32>) -> Result<Problem, Error> {
        check_within(&items, &self.items, self.pool)?;
        Ok(Problem { items, ..self.clone() })
    }

    /// The same about one shard of the pool.
    ///
    /// # Errors
    /// If it is about another part of the pool now.
    pub fn shard(&self, shard: Shard) -> Result<Problem, Error> {
        self.only(shard.items(self.pool))
    }

    /// `budget` picks, most wanted first.
    pub fn select(
        &self,
        strategy: StrategyName,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        self.select_with(&strategy, budget, progress)
    }

    /// `budget` picks of any strategy, most wanted first.
    pub fn select_with(
        &self,
        strategy: &dyn Strategy,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        check_budget(budget, self.pool)?;
        unless_stopped(progress)?;
        if self.items.len() != self.pool {
            let (count, pool) = (self.items.len(), self.pool);
            let what =
                format!("{count} of {pool} items are here; they can be scored, not selected");
            return Err(Error::Parts(what));
        }
        self.steady(|| {
            self.check_features()?;
            self.check_matching(strategy)?;
            self.check_needed_features(strategy)?;
            strategy.select(self, budget, progress)
        })
    }

    /// What the items of this problem contribute to a selection of `budget` from the whole pool.
    ///
    /// # Errors
    /// If the strategy cannot be split, among others.
    pub fn score(
        &self,
        strategy: &dyn Strategy,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Partial, Error> {
        check_budget(budget, self.pool)?;
        unless_stopped(progress)?;
        let pieces = pieces_of(strategy)?;
        self.steady(|| {
            self.check_matching(strategy)?;
            pieces.score(self, budget, progress)
        })
    }

    /// The picks of a selection whose parts are all in `whole`. Of the problem itself only pool,
    /// weight, explanations and features are needed, see [`of_pool`](Problem::of_pool).
    pub fn finish(
        &self,
        strategy: &dyn Strategy,
        whole: Partial,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        check_budget(budget, self.pool)?;
        unless_stopped(progress)?;
        whole.check_complete(self.pool)?;
        let pieces = pieces_of(strategy)?;
        self.steady(|| {
            self.check_features()?;
            self.check_needed_features(strategy)?;
            pieces.finish(whole, self, budget, progress)
        })
    }

    /// What `work` answers, unless an input changed meanwhile: what it complains of may be due to
    /// that.
    fn steady<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        steady(&self.inputs, work)
    }

    fn check_matching(&self, strategy: &dyn Strategy) -> Result<(), Error> {
        if strategy.needs().matching && self.matching.is_none() {
            return Err(Error::NoSimilarity { strategy: strategy.name() });
        }
        Ok(())
    }

    fn check_needed_features(&self, strategy: &dyn Strategy) -> Result<(), Error> {
        if strategy.needs().features && self.features.is_none() {
            return Err(Error::NoFeatures { strategy: strategy.name() });
        }
        Ok(())
    }

    /// Looks at every number, because a strategy may not: a bad one must not pass in silence because
    /// of who is asked. Similarities are looked at when they are made.
    fn check_features(&self) -> Result<(), Error> {
        match &self.features {
            Some(Features { pool, paired }) if !self.features_checked => {
                require_finite(pool, POOL_FEATURES)?;
                require_finite(paired, PAIRED_FEATURES)
            }
            _ => Ok(()),
        }
    }
}

/// A strategy in pieces, or why it cannot be split.
pub(crate) fn pieces_of(strategy: &dyn Strategy) -> Result<&dyn Sharded, Error> {
    let name = strategy.name();
    strategy.shards().map_err(|reason| Error::NotShardable { strategy: name, reason })
}

/// What `work` answers, unless one of `inputs` changed meanwhile.
fn steady<T>(inputs: &[Matrix], work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let answer = work();
    inputs.iter().try_for_each(Matrix::check_unchanged)?;
    answer
}

fn check_budget(budget: usize, pool: usize) -> Result<(), Error> {
    match (budget, pool) {
        (_, 0) => Err(Error::EmptyPool),
        (0, _) => Err(Error::ZeroBudget),
        _ if budget > pool => Err(Error::BudgetTooLarge { budget, pool }),
        _ => Ok(()),
    }
}

fn check_within(items: &Range<u32>, all: &Range<u32>, pool: usize) -> Result<(), Error> {
    if items.start <= items.end && all.start <= items.start && items.end <= all.end {
        return Ok(());
    }
    let place = if all.len() == pool {
        format!("a pool of {pool}")
    } else {
        format!("its {} items from {} on", all.len(), all.start)
    };
    let (first, count) = (items.start, items.len());
    Err(Error::Parts(format!("{count} items from {first} on do not lie in {place}")))
}
