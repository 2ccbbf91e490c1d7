//! Strategies: one file each, one line in the table below.

mod core_set;
mod coverage;
mod hard_negative;
mod hybrid;
mod random;

use crate::{
    Error, Features, Partial, Picks, Progress, Question, Shard, Size, Weight, require_finite,
};

/// How errors call the features of a question.
const POOL_FEATURES: &str = "the pool's features";
const PAIRED_FEATURES: &str = "the paired features";

/// A way to choose what to pair next.
pub trait Strategy: Send + Sync {
    /// `budget` distinct pool items, most wanted first; ties go to the lower index. Strategies
    /// that can be split need not write it: it is their one piece, finished.
    ///
    /// The budget has been checked: at least one, at most the pool.
    fn select(&self, question: &Question<'_>, budget: usize) -> Result<Picks, Error> {
        let pieces = self
            .shards()
            .map_err(|reason| Error::NotShardable { strategy: "this strategy", reason })?;
        let pool = question.pool;
        let whole = pieces.score(question, Shard { first: 0, pool }, budget)?;
        let rest = Finish {
            pool,
            features: question.features,
            weight: question.matching.map_or(Weight::default(), |m| m.rule.weight),
            explain: question.matching.map_or(0, |m| m.rule.explain),
            progress: question.progress,
        };
        pieces.finish(whole, &rest, budget)
    }

    /// What must be in the question.
    fn needs(&self) -> Needs;

    /// About how much memory the work takes, in bytes.
    fn memory(&self, size: &Size) -> usize;

    /// The strategy in pieces, or why it cannot be split.
    fn shards(&self) -> Result<&dyn Sharded, &'static str>;
}

/// What a strategy looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Similarities, and the rule by which they become hits.
    pub matching: bool,
    /// One vector per item.
    pub features: bool,
}

/// A strategy that can look at the pool piece by piece.
pub trait Sharded: Send + Sync {
    /// What the items of the question contribute, as a shard of the pool.
    fn score(&self, question: &Question<'_>, shard: Shard, budget: usize)
    -> Result<Partial, Error>;

    /// The picks, once every item is covered.
    fn finish(&self, whole: Partial, rest: &Finish<'_>, budget: usize) -> Result<Picks, Error>;
}

/// What is left of a question when all pieces are scored.
pub struct Finish<'a> {
    /// Items in the pool.
    pub pool: usize,
    /// One vector per item, for strategies that use distances.
    pub features: Option<Features<'a>>,
    /// What a hit is worth.
    pub weight: Weight,
    /// The strongest hits to report for each pick.
    pub explain: usize,
    /// Told how far the work is.
    pub progress: &'a dyn Progress,
}

macro_rules! strategies {
    ($($(#[$doc:meta])* $variant:ident = $name:literal => $strategy:expr;)*) => {
        /// A strategy by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum StrategyName { $($(#[$doc])* $variant,)* }

        impl StrategyName {
            /// All there are.
            pub const ALL: &[StrategyName] = &[$(StrategyName::$variant),*];

            /// How it is written.
            pub fn as_str(self) -> &'static str {
                match self { $(StrategyName::$variant => $name),* }
            }

            fn strategy(self) -> &'static dyn Strategy {
                match self { $(StrategyName::$variant => &$strategy),* }
            }
        }
    };
}

strategies! {
    /// Items that would be the hardest negatives for what is paired (the paper).
    HardNegative = "hard-negative" => hard_negative::HardNegative;
    /// Any items.
    Random = "random" => random::Random;
    /// Items far from everything paired and from each other (k-center greedy).
    CoreSet = "core-set" => core_set::CoreSet;
    /// Items that are hard negatives together: each anchor counts by what is new.
    Coverage = "coverage" => coverage::Coverage;
    /// Hard negatives that are far from each other.
    Hybrid = "hybrid" => hybrid::Hybrid;
}

impl std::str::FromStr for StrategyName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || StrategyName::ALL.iter().map(|s| s.as_str()).collect::<Vec<_>>().join(", ");
        let found = StrategyName::ALL.iter().copied().find(|strategy| strategy.as_str() == name);
        found.ok_or_else(|| format!("no strategy '{name}'; there are {}", known()))
    }
}

impl StrategyName {
    /// `budget` picks for the question.
    pub fn select(self, question: &Question<'_>, budget: usize) -> Result<Picks, Error> {
        check_budget(budget, question.pool)?;
        check_features(question.features)?;
        self.strategy().select(question, budget)
    }

    /// What the question's items, a shard of the pool, contribute to a selection of `budget`.
    pub fn score(
        self,
        question: &Question<'_>,
        shard: Shard,
        budget: usize,
    ) -> Result<Partial, Error> {
        check_budget(budget, shard.pool)?;
        if shard.first as usize + question.pool > shard.pool {
            let (first, count, pool) = (shard.first, question.pool, shard.pool);
            let what = format!("{count} items from {first} on do not lie in a pool of {pool}");
            return Err(Error::Parts(what));
        }
        self.sharded()?.score(question, shard, budget)
    }

    /// The picks of a selection whose pieces are all in `whole`.
    pub fn finish(self, whole: Partial, rest: &Finish<'_>, budget: usize) -> Result<Picks, Error> {
        check_budget(budget, rest.pool)?;
        whole.check_complete(rest.pool)?;
        check_features(rest.features)?;
        self.sharded()?.finish(whole, rest, budget)
    }

    /// What must be in the question.
    pub fn needs(self) -> Needs {
        self.strategy().needs()
    }

    /// About the peak of anonymous memory of a selection, in bytes. Mapped files do not count.
    pub fn predicted_peak(self, size: &Size) -> u64 {
        (size.base() + self.strategy().memory(size)) as u64
    }

    /// An error with the reason if the strategy cannot be split.
    pub fn check_shardable(self) -> Result<(), Error> {
        self.sharded().map(|_| ())
    }

    fn sharded(self) -> Result<&'static dyn Sharded, Error> {
        let strategy = self.as_str();
        self.strategy().shards().map_err(|reason| Error::NotShardable { strategy, reason })
    }
}

fn check_budget(budget: usize, pool: usize) -> Result<(), Error> {
    match (budget, pool) {
        (_, 0) => Err(Error::EmptyPool),
        (0, _) => Err(Error::ZeroBudget),
        _ if budget > pool => Err(Error::BudgetTooLarge { budget, pool }),
        _ => Ok(()),
    }
}

/// Looks at every number, because a strategy may not: a bad one must not pass in silence because
/// of who is asked. Similarities are looked at when they are made.
fn check_features(features: Option<Features<'_>>) -> Result<(), Error> {
    match features {
        Some(Features { pool, paired }) => {
            require_finite(pool, POOL_FEATURES)?;
            require_finite(paired, PAIRED_FEATURES)
        }
        None => Ok(()),
    }
}

impl std::fmt::Display for StrategyName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.as_str())
    }
}
