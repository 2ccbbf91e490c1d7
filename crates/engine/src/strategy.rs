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
mod nearest;
mod novelty;
mod random;
mod stratified;
mod typical;
mod v_optimal;

use nextpair_core::Amount;

use crate::parameters::Field;
use crate::problem::pieces_of;
use crate::{Error, Hits, ItemFeatures, Parameter, Partial, Picks, Problem, Progress, Size};

/// A way to choose what to pair next. Call it through [`Problem::select`], which checks its
/// inputs: the problem has all that the strategy [needs](Strategy::needs), every number is finite,
/// and the budget is at least one and at most the pool. It checks the answer too.
pub trait Strategy: Send + Sync {
    /// Name of the strategy in errors.
    fn name(&self) -> &'static str {
        "this strategy"
    }

    /// Inputs that the problem must have.
    fn needs(&self) -> Needs;

    /// Fails if a parameter is impossible for any problem.
    fn check(&self) -> Result<(), Error> {
        self.needs().matching.map_or(Ok(()), |hits| hits.check())
    }

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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Needs {
    /// Similarities, if it needs them, and how they become hits.
    pub matching: Option<Hits>,
    /// One vector per item, if it needs them, and which.
    pub features: Option<ItemFeatures>,
    /// Whether it looks at queries, if there are any.
    pub queries: bool,
    /// Whether it weighs items by the probability that they can be paired, and by what they cost.
    pub weighs: bool,
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

/// The needs of a strategy that compares the pool with all pairs or with a draw of them.
fn sampled(sample: Option<Amount>) -> Option<Hits> {
    Some(Hits { sample, ..Hits::default() })
}

/// Fails unless a parameter is unset or above 0.
fn above_zero(setting: &'static str, value: Option<f64>) -> Result<(), Error> {
    match value {
        Some(value) if !(value.is_finite() && value > 0.0) => {
            Err(Error::NotPositive { setting, value })
        }
        _ => Ok(()),
    }
}

macro_rules! strategies {
    ($($variant:ident in $file:ident;)*) => {
        $(pub use $file::$variant;)*

        /// A strategy of the engine, with its parameters. As text it is its name and all that is not the default, such as
        /// `hard-negative+top-5+count`.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum BuiltIn { $(#[doc = concat!("See [`", stringify!($variant), "`].")] $variant($variant),)* }

        $(impl From<$variant> for BuiltIn {
            fn from(strategy: $variant) -> Self {
                BuiltIn::$variant(strategy)
            }
        })*

        impl BuiltIn {
            /// All strategies with default parameters.
            pub fn all() -> impl Iterator<Item = BuiltIn> {
                [$(BuiltIn::$variant($variant::default())),*].into_iter()
            }

            fn strategy(&self) -> &dyn Strategy {
                match self { $(BuiltIn::$variant(strategy) => strategy),* }
            }

            /// Its parameters, in the order in which they are declared.
            pub fn parameters(&mut self) -> Vec<Parameter<'_>> {
                let mut all = Vec::new();
                match self { $(BuiltIn::$variant(strategy) => strategy.list("", "", &mut all)),* }
                all
            }
        }
    };
}

strategies! {
    HardNegative in hard_negative;
    Random in random;
    CoreSet in core_set;
    Coverage in coverage;
    Hybrid in hybrid;
    Herding in herding;
    Novelty in novelty;
    Entropy in entropy;
    Margin in margin;
    LeastSimilar in least_similar;
    Stratified in stratified;
    Typical in typical;
    CoreSetMargin in core_set_margin;
    VOptimal in v_optimal;
}

/// The default strategy: greedy V-optimal design.
impl Default for BuiltIn {
    fn default() -> Self {
        VOptimal::default().into()
    }
}

impl BuiltIn {
    /// The names of the strategies that `wanted` accepts, as words: `herding and novelty`.
    pub fn listed(wanted: impl Fn(&mut BuiltIn) -> bool, and: &str) -> String {
        let mut all: Vec<BuiltIn> = BuiltIn::all().collect();
        all.retain_mut(|own| wanted(own));
        match &all.iter().map(BuiltIn::name).collect::<Vec<_>>()[..] {
            [] => String::new(),
            [one] => (*one).to_owned(),
            [first @ .., last] => format!("{} {and} {last}", first.join(", ")),
        }
    }

    /// The strategy of this name, with default parameters.
    pub fn named(name: &str) -> Result<Self, String> {
        let known =
            || BuiltIn::all().map(|strategy| strategy.name()).collect::<Vec<_>>().join(", ");
        let found = BuiltIn::all().find(|strategy| strategy.name() == name);
        found.ok_or_else(|| format!("no strategy '{name}'; there are {}", known()))
    }

    /// The parameters that are not the default, as `read` sees them.
    pub fn changed<T>(mut self, read: impl Fn(&Parameter<'_>) -> T) -> Vec<T> {
        let Ok(mut usual) = BuiltIn::named(self.name()) else { return Vec::new() };
        let both = self.parameters().into_iter().zip(usual.parameters());
        both.filter(|(own, usual)| own.value.text() != usual.value.text())
            .map(|(own, _)| read(&own))
            .collect()
    }

    /// Sets what an option of a name such as `hard-negative+top-5+count` says.
    pub fn set_option(&mut self, option: &str) -> Result<(), String> {
        let (name, mut changed) = (self.name(), *self);
        for parameter in changed.parameters() {
            if let Some(value) = parameter.value_of(option) {
                parameter.value.set(value).map_err(|what| format!("'{option}': {what}"))?;
                changed.check().map_err(|error| format!("'{option}': {error}"))?;
                *self = changed;
                return Ok(());
            }
        }
        let mut forms: Vec<String> = Vec::new();
        for parameter in BuiltIn::all().collect::<Vec<_>>().iter_mut().flat_map(BuiltIn::parameters)
        {
            if parameter.value_of(option).is_some() {
                return Err(format!("'{option}' is not a setting of {name}"));
            }
            if !forms.contains(&parameter.form()) {
                forms.push(parameter.form());
            }
        }
        Err(format!("no setting '{option}'; there are {}", forms.join(", ")))
    }

    /// Predicted peak of anonymous memory of a selection, in bytes. Mapped files do not count.
    pub fn predicted_peak(self, size: &Size) -> u64 {
        (size.base() + self.memory(size)) as u64
    }

    /// Fails with the reason if the strategy cannot be split.
    pub fn check_shardable(self) -> Result<(), Error> {
        pieces_of(&self).map(drop)
    }
}

impl Strategy for BuiltIn {
    fn name(&self) -> &'static str {
        self.strategy().name()
    }

    fn needs(&self) -> Needs {
        self.strategy().needs()
    }

    fn check(&self) -> Result<(), Error> {
        self.strategy().check()
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

impl std::str::FromStr for BuiltIn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('+');
        let mut strategy = BuiltIn::named(parts.next().unwrap_or_default())?;
        parts.try_for_each(|option| strategy.set_option(option))?;
        Ok(strategy)
    }
}

impl std::fmt::Display for BuiltIn {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())?;
        self.changed(|parameter| parameter.option())
            .into_iter()
            .try_for_each(|option| write!(out, "+{option}"))
    }
}
