//! Strategies: one file each, one line in the table below.

mod by_score;
mod core_set;
mod core_set_margin;
mod coverage;
mod entropy;
mod hard_negative;
mod herding;
mod hybrid;
mod least_similar;
mod margin;
mod novelty;
mod random;
mod stratified;
mod typical;

use crate::problem::pieces_of;
use crate::{Error, Partial, Picks, Problem, Progress, Size};

/// A way to choose what to pair next. Call it through [`Problem::select_with`], which checks its
/// inputs: the problem has all that the strategy [needs](Strategy::needs), every number is finite,
/// and the budget is at least one and at most the pool. It checks the answer too.
pub trait Strategy: Send + Sync {
    /// Name of the strategy in errors.
    fn name(&self) -> &'static str {
        "this strategy"
    }

    /// Inputs that the problem must have.
    fn needs(&self) -> Needs;

    /// Picks `budget` distinct pool items, most wanted first; ties go to the lower index. A
    /// strategy that can be split need not implement it: the default scores the pool as one piece
    /// and finishes it.
    ///
    /// Long work reports to `progress`, and returns [`Error::Stopped`] when that asks to stop.
    fn select(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        let pieces = self.shards().map_err(|reason| {
            let strategy = self.name();
            Error::NotShardable { strategy, reason }
        })?;
        let whole = pieces.score(problem, budget, progress)?;
        pieces.finish(whole, problem, budget, progress)
    }

    /// The strategy in pieces, or the reason it cannot be split.
    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Err("it looks at the whole pool at once")
    }

    /// Approximate memory of the work, in bytes.
    fn memory(&self, _size: &Size) -> usize {
        0
    }
}

/// Inputs that a strategy needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Similarities, and the rule that turns them into hits.
    pub matching: bool,
    /// One vector per item.
    pub features: bool,
    /// Whether it looks at queries, if there are any.
    pub queries: bool,
}

/// A strategy that can score the pool piece by piece.
pub trait Sharded: Send + Sync {
    /// Scores the items of the problem, a part of the pool.
    fn score(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Partial, Error>;

    /// Picks from the merged pieces, once they cover every item. The problem has the features, but
    /// may lack the similarities.
    fn finish(
        &self,
        whole: Partial,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error>;
}

macro_rules! strategies {
    ($($(#[$doc:meta])* $variant:ident => $strategy:expr;)*) => {
        /// A strategy by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum StrategyName { $($(#[$doc])* $variant,)* }

        impl StrategyName {
            /// All strategies.
            pub const ALL: &[StrategyName] = &[$(StrategyName::$variant),*];

            fn strategy(self) -> &'static dyn Strategy {
                match self { $(StrategyName::$variant => &$strategy),* }
            }
        }
    };
}

strategies! {
    /// Items that would be the hardest negatives for the paired set (the paper).
    HardNegative => hard_negative::HardNegative;
    /// Any items.
    Random => random::Random;
    /// Items far from everything paired and from each other (k-center greedy).
    CoreSet => core_set::CoreSet;
    /// Items that are hard negatives together: each anchor counts only what is new.
    Coverage => coverage::Coverage;
    /// Hard negatives that are far from each other.
    Hybrid => hybrid::Hybrid;
    /// Items that stand for many others that nothing paired stands for.
    Herding => herding::Herding;
    /// The same, where items count more that the model cannot place.
    Novelty => novelty::Novelty;
    /// Items that the model finds similar to many anchors alike.
    Entropy => entropy::Entropy;
    /// Items whose two most similar anchors are nearly as similar.
    Margin => margin::Margin;
    /// Items unlike every anchor.
    LeastSimilar => least_similar::LeastSimilar;
    /// One item at random of each cluster.
    Stratified => stratified::Stratified;
    /// The item in the densest place of each cluster without a pair (TypiClust).
    Typical => typical::Typical;
    /// The smallest margins among items far from each other.
    CoreSetMargin => core_set_margin::CoreSetMargin;
}

impl StrategyName {
    /// Its name, as typed.
    pub fn as_str(self) -> &'static str {
        self.strategy().name()
    }

    /// Inputs that the problem must have.
    pub fn needs(self) -> Needs {
        self.strategy().needs()
    }

    /// Predicted peak of anonymous memory of a selection, in bytes. Mapped files do not count.
    pub fn predicted_peak(self, size: &Size) -> u64 {
        (size.base() + self.strategy().memory(size)) as u64
    }

    /// Fails with the reason if the strategy cannot be split.
    pub fn check_shardable(self) -> Result<(), Error> {
        pieces_of(self.strategy()).map(drop)
    }
}

impl Strategy for StrategyName {
    fn name(&self) -> &'static str {
        self.as_str()
    }

    fn needs(&self) -> Needs {
        self.strategy().needs()
    }

    fn select(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        self.strategy().select(problem, budget, progress)
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        self.strategy().shards()
    }

    fn memory(&self, size: &Size) -> usize {
        self.strategy().memory(size)
    }
}

impl std::str::FromStr for StrategyName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || StrategyName::ALL.iter().map(|s| s.as_str()).collect::<Vec<_>>().join(", ");
        let found = StrategyName::ALL.iter().copied().find(|strategy| strategy.as_str() == name);
        found.ok_or_else(|| format!("no strategy '{name}'; there are {}", known()))
    }
}

impl std::fmt::Display for StrategyName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.as_str())
    }
}
