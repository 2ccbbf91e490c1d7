//! The question that strategies answer: which items of this pool should be paired next?

mod builder;

use std::ops::Range;
use std::sync::Arc;

use nextpair_core::{Matrix, Side};

use crate::error::unless_stopped;
use crate::threshold::Measures;
use crate::{
    Device, Error, Partial, Picks, Progress, Rule, Settings, Shard, Sharded, Similarity, Strategy,
    Vectors, require_finite,
};
pub use builder::ProblemBuilder;

/// Names of the features in errors.
pub(crate) const POOL_FEATURES: &str = "the pool's features";
pub(crate) const PAIRED_FEATURES: &str = "the paired features";

/// A pool, the paired set, and the rule that compares them. A problem owns its data, and clones
/// share it.
///
/// A problem may cover only a part of its pool, see [`only`](Problem::only). Parts can be scored
/// one by one, on any machine, and finished together.
#[derive(Clone)]
pub struct Problem {
    pool: usize,
    items: Range<u32>,
    /// The item in the first row of the pool's similarities.
    first: u32,
    matching: Option<Matching>,
    features: Option<Features>,
    /// Whether every number of the features has been checked.
    features_checked: bool,
    queries: Option<Queries>,
    usable: Option<Arc<[f64]>>,
    spend: Option<Arc<Spend>>,
    /// Thresholds computed earlier.
    measures: Option<Arc<Measures>>,
    /// The numbers that guards look at.
    sources: Sources,
    settings: Arc<Settings>,
    /// Where pairs are ruled out.
    device: Device,
    /// The vectors of the pool, possibly not checked yet.
    pool_vectors: Option<Vectors>,
    /// Input matrices, whose files must not change during the work.
    inputs: Vec<Matrix>,
}

/// The similarities of a problem, and the rule that turns them into hits.
#[derive(Clone)]
pub struct Matching {
    /// Pool items (rows, see [`Problem::row`]) against the anchors of all pairs (columns).
    pub pool: Arc<dyn Similarity>,
    /// Rivals (rows) against anchors (columns); row and column `j` belong to pair `j`.
    pub paired: Arc<dyn Similarity>,
    /// Which pairs take part and how hits count.
    pub rule: Arc<Rule>,
}

/// One vector per item, from the pool's side of the pairs, for strategies that use distances.
#[derive(Clone)]
pub struct Features {
    /// Features of the whole pool.
    pub pool: Matrix,
    /// Features of the paired set.
    pub paired: Matrix,
}

/// Money instead of a number of items.
#[derive(Clone, Debug, PartialEq)]
pub struct Spend {
    /// What every pool item costs.
    pub costs: Vec<f64>,
    /// The most that all picks may cost together.
    pub money: f64,
}

/// Matrices that similarities come from, if they come from any.
#[derive(Clone, Default)]
struct Sources {
    /// The pool, or those of its items that are here.
    pool: Option<Matrix>,
    /// The item in its first row.
    base: u32,
    /// Embeddings of the anchors.
    anchors: Option<Matrix>,
}

/// Similarities to search queries, for strategies that [cover](crate::Herding) them.
#[derive(Clone)]
pub struct Queries {
    /// Pool items (rows) against queries (columns).
    pub pool: Arc<dyn Similarity>,
    /// The items of the paired [features](Features::paired) (rows) against the same queries.
    pub paired: Arc<dyn Similarity>,
}

impl Problem {
    /// Starts from embeddings of pairs, row `j` of both for pair `j`, and of a pool that lacks the
    /// other side. Strategies that compare nothing with pairs need none.
    pub fn of_embeddings(
        images: Matrix,
        texts: Matrix,
        pool: Matrix,
        pool_side: Side,
    ) -> ProblemBuilder {
        ProblemBuilder::of_embeddings(images, texts, pool, pool_side)
    }

    /// Starts from similarities of any model: pool items (rows) and rivals (rows) against anchors
    /// (columns).
    pub fn of_similarities(
        pool: Arc<dyn Similarity>,
        paired: Arc<dyn Similarity>,
    ) -> ProblemBuilder {
        ProblemBuilder::of_similarities(pool, paired)
    }

    /// Starts from similarities in matrices, which may be mapped files: a row for every pool item, and
    /// for every paired item on the side of the pool, and a column for every pair.
    pub fn of_stored(pool: Matrix, paired: Matrix) -> ProblemBuilder {
        ProblemBuilder::of_stored(pool, paired)
    }

    /// Starts from a pool of `items` unknown items, for strategies that need nothing, or only
    /// [features](ProblemBuilder::features).
    pub fn of_pool(items: usize) -> ProblemBuilder {
        ProblemBuilder::of_pool(items)
    }

    /// Items in the whole pool.
    pub fn pool(&self) -> usize {
        self.pool
    }

    /// The items that the problem covers: the whole pool, or a part of it.
    pub fn items(&self) -> Range<u32> {
        self.items.clone()
    }

    /// The row of an item in the pool's similarities.
    pub fn row(&self, item: u32) -> u32 {
        item - self.first
    }

    /// Returns the similarities and their rule, or an error if there are none. A strategy that
    /// [needs](Strategy::needs) them is only called if there are.
    pub fn matching(&self) -> Result<&Matching, Error> {
        self.matching.as_ref().ok_or(Error::NoSimilarity { strategy: "this strategy" })
    }

    /// Returns the vectors for distances, or an error if there are none. A strategy that
    /// [needs](Strategy::needs) them is only called if there are.
    pub fn features(&self) -> Result<&Features, Error> {
        self.features.as_ref().ok_or(Error::NoFeatures { strategy: "this strategy" })
    }

    /// The numbers of the pool items that the problem covers, if they are in a matrix.
    pub(crate) fn pool_rows(&self) -> Option<Matrix> {
        let of_features = |features: &Features| features.pool.slice(rows_of(&self.items, 0));
        self.compared_rows().or_else(|| self.features.as_ref().map(of_features))
    }

    /// Those that similarities come from, if they come from any.
    pub(crate) fn compared_rows(&self) -> Option<Matrix> {
        let pool = self.sources.pool.as_ref()?;
        Some(pool.slice(rows_of(&self.items, self.sources.base)))
    }

    /// Embeddings of the anchors, if there are any.
    pub(crate) fn anchor_vectors(&self) -> Option<&Matrix> {
        self.sources.anchors.as_ref()
    }

    /// Returns the similarities to queries, if there are any.
    pub fn queries(&self) -> Option<&Queries> {
        self.queries.as_ref()
    }

    /// The probability that each pool item can be paired, if it is known.
    pub fn usable(&self) -> Option<&[f64]> {
        self.usable.as_deref()
    }

    /// What items cost and what there is to spend, if that limits the picks.
    pub fn spend(&self) -> Option<&Spend> {
        self.spend.as_deref()
    }

    /// The settings. [`Sharded::finish`] knows them too.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where vectors of this problem are searched.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Seed of every draw.
    pub fn seed(&self) -> u64 {
        self.settings.seed
    }

    /// How many of the strongest hits to report for each pick. [`Sharded::finish`] knows it too.
    pub fn explain(&self) -> usize {
        self.settings.explain
    }

    /// The same problem as a strategy sees it: with the rule that it makes of the pairs.
    ///
    /// # Errors
    /// If its parameters are impossible for these pairs.
    pub fn of_strategy(&self, strategy: &dyn Strategy) -> Result<Problem, Error> {
        strategy.check()?;
        let Some(matching) = &self.matching else { return Ok(self.clone()) };
        let hits = strategy.needs().matching.unwrap_or_default();
        if *matching.rule.hits() == hits {
            return Ok(self.clone());
        }
        let rule = Arc::new(Rule::new(hits, &self.settings, matching.paired.columns())?);
        let matching = Some(Matching { rule, ..matching.clone() });
        Ok(Problem { matching, measures: None, ..self.clone() })
    }

    /// The same problem for some items of the pool.
    ///
    /// # Errors
    /// If this problem does not cover them.
    pub fn only(&self, items: Range<u32>) -> Result<Problem, Error> {
        check_within(&items, &self.items, self.pool)?;
        Ok(Problem { items, ..self.clone() })
    }

    /// The same problem for one shard of the pool.
    ///
    /// # Errors
    /// If this problem does not cover the shard.
    pub fn shard(&self, shard: Shard) -> Result<Problem, Error> {
        self.only(shard.items(self.pool))
    }

    /// The same problem, as a strategy sees it, with the thresholds of a part that was scored before, so that they are
    /// not computed again. A part of no items will do.
    ///
    /// # Errors
    /// If the part is of other pairs or settings: anchors, own pairs and some of the thresholds are
    /// compared.
    pub fn with_thresholds_of(
        &self,
        strategy: &dyn Strategy,
        part: &Partial,
        progress: &dyn Progress,
    ) -> Result<Problem, Error> {
        let problem = self.of_strategy(strategy)?;
        // A strategy that looks at no hits has no thresholds.
        if part.anchors.is_empty() {
            return Ok(problem);
        }
        let measures = problem.steady(|| Measures::of_part(part, problem.matching()?, progress))?;
        Ok(Problem { measures: Some(Arc::new(measures)), ..problem })
    }

    /// What hits are measured by.
    pub(crate) fn measures(&self, progress: &dyn Progress) -> Result<Measures, Error> {
        match &self.measures {
            Some(measures) => Ok(Measures::clone(measures)),
            None => Measures::of(self.matching()?, progress),
        }
    }

    /// Picks `budget` items with a strategy, most wanted first.
    ///
    /// # Errors
    /// For one, if the strategy does not pick `budget` distinct items of the pool.
    pub fn select(
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
        let problem = self.of_strategy(strategy)?;
        self.steady(|| {
            self.check_features()?;
            self.check_matching(strategy)?;
            self.check_needed_features(strategy)?;
            self.check_queries(strategy)?;
            self.check_weights(strategy)?;
            let picks = strategy.select(&problem, budget, progress)?;
            self.look_at_rest()?;
            self.check_picks(strategy, budget, picks)
        })
    }

    /// Scores the items of this problem, for a selection of `budget` items from the whole pool.
    ///
    /// # Errors
    /// For one, if the strategy cannot be split.
    pub fn score(
        &self,
        strategy: &dyn Strategy,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Partial, Error> {
        check_budget(budget, self.pool)?;
        unless_stopped(progress)?;
        let (pieces, problem) = (pieces_of(strategy)?, self.of_strategy(strategy)?);
        self.steady(|| {
            self.check_matching(strategy)?;
            let partial = pieces.score(&problem, budget, progress)?;
            self.look_at_rest()?;
            Ok(partial)
        })
    }

    /// Picks from `whole`, the merged parts of a selection. Of the problem itself, this needs only
    /// the pool, the explanations and the features, see [`of_pool`](Problem::of_pool).
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
            let picks = pieces.finish(whole, self, budget, progress)?;
            self.check_picks(strategy, budget, picks)
        })
    }

    /// Returns the answer of `work`, or an error if an input changed meanwhile. The change comes
    /// first, because it may have caused an error of `work`.
    fn steady<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        steady(&self.inputs, work)
    }

    /// Checks the pool's numbers that nothing has used. A bad one fails whichever strategy runs.
    fn look_at_rest(&self) -> Result<(), Error> {
        self.pool_vectors.as_ref().map_or(Ok(()), Vectors::check_all)
    }

    /// The vectors of the pool, if it has some.
    pub(crate) fn pool_vectors(&self) -> Option<&Vectors> {
        self.pool_vectors.as_ref()
    }

    fn check_matching(&self, strategy: &dyn Strategy) -> Result<(), Error> {
        if strategy.needs().matching.is_none() || self.matching.is_some() {
            return Ok(());
        }
        let paired = || self.features.as_ref().map(|features| &features.paired);
        Err(match self.sources.anchors.as_ref().or_else(paired) {
            Some(paired) if paired.rows() == 0 => Error::EmptyPaired,
            _ => Error::NoSimilarity { strategy: strategy.name() },
        })
    }

    fn check_needed_features(&self, strategy: &dyn Strategy) -> Result<(), Error> {
        if strategy.needs().features.is_some() && self.features.is_none() {
            return Err(Error::NoFeatures { strategy: strategy.name() });
        }
        Ok(())
    }

    fn check_queries(&self, strategy: &dyn Strategy) -> Result<(), Error> {
        if self.queries.is_some() && !strategy.needs().queries {
            return Err(Error::QueriesUnread { strategy: strategy.name() });
        }
        Ok(())
    }

    fn check_weights(&self, strategy: &dyn Strategy) -> Result<(), Error> {
        let weighs = strategy.needs().weighs;
        if self.usable.is_some() && !weighs {
            return Err(Error::Unweighed { strategy: strategy.name(), what: "probabilities" });
        }
        let Some(Spend { costs, money }) = self.spend() else { return Ok(()) };
        if !weighs {
            return Err(Error::Unweighed { strategy: strategy.name(), what: "costs" });
        }
        let cheapest = costs.iter().copied().fold(f64::INFINITY, f64::min);
        match cheapest > *money {
            true => Err(Error::TooLittleMoney { money: *money, cheapest }),
            false => Ok(()),
        }
    }

    /// Returns the picks if they are `budget` distinct items of the pool, or as many as the money buys. Callers pay for
    /// them and use them as indices.
    fn check_picks(
        &self,
        strategy: &dyn Strategy,
        budget: usize,
        picks: Picks,
    ) -> Result<Picks, Error> {
        let bad = |what| Err(Error::BadPicks { strategy: strategy.name(), what });
        let (count, pool) = (picks.picks.len(), self.pool);
        if count > budget || (count < budget && self.spend.is_none()) {
            return bad(format!("{count} items for a budget of {budget}"));
        }
        let mut items = picks.indices();
        items.sort_unstable();
        if let Some(twice) = items.windows(2).find(|pair| pair[0] == pair[1]) {
            return bad(format!("item {} twice", twice[0]));
        }
        match items.last() {
            Some(&last) if last as usize >= pool => bad(format!("item {last} of a pool of {pool}")),
            _ => Ok(picks),
        }
    }

    /// Checks every number of the features. A strategy may not read them all, but a bad number must
    /// fail whichever strategy runs. Similarities are checked when they are computed.
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

/// Returns the strategy in pieces, or an error with the reason it cannot be split.
pub(crate) fn pieces_of(strategy: &dyn Strategy) -> Result<&dyn Sharded, Error> {
    let name = strategy.name();
    strategy.shards().map_err(|reason| Error::NotShardable { strategy: name, reason })
}

/// The rows of some items in a matrix whose first row is the item `base`.
fn rows_of(items: &Range<u32>, base: u32) -> Range<usize> {
    (items.start - base) as usize..(items.end - base) as usize
}

/// Returns the answer of `work`, or an error if one of `inputs` changed meanwhile.
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
