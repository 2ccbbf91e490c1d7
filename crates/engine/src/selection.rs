//! A selection: a strategy, and what it may choose from.

use nextpair_core::Matrix;

use crate::duplicates::distinct;
use crate::{
    Alike, BuiltIn, Error, Finding, FindingInputs, ItemFeatures, Neighbour, Picks, Problem,
    ProblemBuilder, Progress, Settings, Spend, Strategy, Usability, mean_features,
};

/// What can be chosen from: embeddings or similarities in files, arrays, or the items of a dataset as a model sees them.
pub trait Candidates: Sized {
    /// Errors of reading and encoding.
    type Error: From<Error>;

    /// Items in the pool.
    fn items(&self) -> usize;

    /// The same with some items of the pool alone. Items that were refused do not matter any more.
    fn only(&self, kept: &[u32]) -> Self;

    /// Fails if inputs changed since they were opened.
    fn check_unchanged(&self) -> Result<(), Self::Error>;

    /// Starts the problem of a strategy with all that it needs. Numbers that it does not read are checked here.
    fn problem(
        &self,
        strategy: &BuiltIn,
        settings: &Settings,
        progress: &dyn Progress,
    ) -> Result<ProblemBuilder, Self::Error>;

    /// One vector for every item of the pool, and for every paired item on its side.
    fn features(
        &self,
        kind: ItemFeatures,
        settings: &Settings,
        progress: &dyn Progress,
    ) -> Result<(Matrix, Matrix), Self::Error>;

    /// What copies of pool and paired items are told by, if exact ones are wanted: their vectors, unless there are none.
    fn copies(
        &self,
        settings: &Settings,
        progress: &dyn Progress,
    ) -> Result<(Matrix, Matrix), Self::Error> {
        self.features(ItemFeatures::Mean, settings, progress)
    }

    /// What annotators refused, if items that look like it are not to be picked.
    fn refused(&self, progress: &dyn Progress) -> Result<Option<Refused>, Self::Error>;

    /// The pair that each row of the paired features belongs to; `None` if row `j` is that of pair `j`.
    fn pairs_of_rows(&self) -> Option<Vec<u32>> {
        None
    }

    /// What guards compare.
    fn numbers(&self) -> Result<ItemNumbers, Self::Error>;

    /// Fails if a selection with this strategy would, as far as shapes and settings tell.
    fn check(&self, _: &BuiltIn, _: &Settings, _: Option<Alike>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The same compared more exactly, if that can answer where an error was.
    fn more_exact(&self, _: &Self::Error) -> Option<Self> {
        None
    }
}

/// What annotators refused.
pub struct Refused {
    /// Refused items that are in the pool.
    pub in_pool: Vec<u32>,
    /// One vector for every refused item; not needed while they are [too few](crate::FEWEST_REFUSED).
    pub vectors: Option<Matrix>,
}

/// The numbers of items where they are stored, as far as there are any.
#[derive(Default)]
pub struct ItemNumbers {
    /// A row for every pool item, which copies are told by: its vectors, or its similarities to the pairs.
    pub rows: Option<Matrix>,
    /// The vectors of every pool item and of every pair's half on its side.
    pub vectors: Option<(Matrix, Matrix)>,
    /// The vectors of the pairs' other half.
    pub anchors: Option<Matrix>,
}

/// A selection: candidates, a strategy and a budget.
pub struct Selection<C> {
    /// The candidates.
    pub from: C,
    /// The strategy.
    pub strategy: BuiltIn,
    /// Items to pick; with money, the most.
    pub budget: usize,
    /// The costs of items and the money to spend, if money limits the picks.
    pub spend: Option<Spend>,
    /// Which pairs take part, the seed of every draw, and how much to explain.
    pub settings: Settings,
    /// When pool items count as duplicates of each other or of something paired: of them all, only the
    /// first is chosen from, and none if it is paired.
    pub dedupe: Option<Alike>,
}

/// The items of a pool that a selection chooses from.
#[derive(Clone, Debug, Default)]
pub struct Remaining {
    /// These, ascending; or all.
    pub kept: Option<Vec<u32>>,
    /// The probability that each of them can be paired, for strategies that weigh items by it.
    usable: Option<Vec<f64>>,
    left_out: Option<usize>,
    duplicates: Option<usize>,
}

impl<C: Candidates> Selection<C> {
    /// A selection by the [default strategy](BuiltIn::default) with default settings.
    pub fn new(from: C, budget: usize) -> Self {
        let strategy = BuiltIn::default();
        Selection {
            from,
            strategy,
            budget,
            spend: None,
            settings: Settings::default(),
            dedupe: None,
        }
    }

    /// Fails if the selection would, as far as shapes and settings tell.
    pub fn check(&self) -> Result<(), C::Error> {
        self.dedupe.map_or(Ok(()), Alike::check)?;
        self.strategy.check()?;
        self.from.check(&self.strategy, &self.settings, self.dedupe)
    }

    /// Picks items.
    pub fn select(&self, progress: &dyn Progress) -> Result<Picks, C::Error> {
        Ok(self.answer(false, progress)?.0)
    }

    /// Picks items, and looks for what is wrong with them and with the inputs.
    pub fn select_inspected(
        &self,
        progress: &dyn Progress,
    ) -> Result<(Picks, Vec<Finding>), C::Error> {
        self.answer(true, progress)
    }

    fn answer(
        &self,
        inspect: bool,
        progress: &dyn Progress,
    ) -> Result<(Picks, Vec<Finding>), C::Error> {
        let remaining = self.remaining(progress)?;
        let some = remaining.kept.as_ref().map(|kept| self.from.only(kept));
        let from = some.as_ref().unwrap_or(&self.from);
        let answer =
            |from: &C| steady(from, || self.answer_from((from, &remaining), inspect, progress));
        let (picks, found) = answer(from).or_else(|error| match from.more_exact(&error) {
            Some(exact) => answer(&exact),
            None => Err(error),
        })?;
        Ok(remaining.place(picks, found))
    }

    fn answer_from(
        &self,
        (from, remaining): (&C, &Remaining),
        inspect: bool,
        progress: &dyn Progress,
    ) -> Result<(Picks, Vec<Finding>), C::Error> {
        let mut builder = self.problem((from, remaining), progress)?;
        let budget = self.spend.as_ref().map_or(self.budget, |_| self.budget.min(from.items()));
        // A strategy that goes through the pool item by item checks it on the way.
        if self.strategy.shards().is_ok() {
            builder = builder.read_once(inspect);
        }
        let problem = builder.build()?.of_strategy(&self.strategy)?;
        pick(from, &problem, &self.strategy, (budget, inspect), progress)
    }

    /// Starts the problem of what remains of the pool.
    pub fn problem(
        &self,
        (from, remaining): (&C, &Remaining),
        progress: &dyn Progress,
    ) -> Result<ProblemBuilder, C::Error> {
        let builder = from.problem(&self.strategy, &self.settings, progress)?;
        let builder = builder.settings(self.settings.clone());
        let builder = match &remaining.usable {
            Some(probabilities) => builder.usable(probabilities.clone()),
            None => builder,
        };
        Ok(builder.spend(self.spend.as_ref().map(|spend| match &remaining.kept {
            Some(kept) => {
                let costs = kept.iter().map(|&item| spend.costs[item as usize]).collect();
                Spend { costs, ..*spend }
            }
            None => spend.clone(),
        })))
    }

    /// What is left of the pool without items like refused ones, and without duplicates.
    pub fn remaining(&self, progress: &dyn Progress) -> Result<Remaining, C::Error> {
        let mut remaining = Remaining::default();
        if let Some(refused) = steady(&self.from, || self.from.refused(progress))? {
            remaining = steady(&self.from, || self.usable(&refused, progress))?;
        }
        if let Some(alike) = self.dedupe {
            let some = remaining.kept.as_ref().map(|kept| self.from.only(kept));
            let from = some.as_ref().unwrap_or(&self.from);
            let distinct = steady(from, || {
                let (pool, paired) = match alike {
                    Alike::Exact => from.copies(&self.settings, progress)?,
                    Alike::Cosine(_) => {
                        from.features(ItemFeatures::Mean, &self.settings, progress)?
                    }
                };
                Ok(distinct(&pool, &paired, alike, progress)?)
            })?;
            remaining.duplicates = Some(distinct.left_out());
            remaining.keep(distinct.kept);
            if self.spend.is_none() {
                remaining.check_budget(self.budget, from.items())?;
            }
        }
        Ok(remaining)
    }

    /// What is left of the pool if annotators refused some items.
    fn usable(&self, refused: &Refused, progress: &dyn Progress) -> Result<Remaining, C::Error> {
        let items = self.from.items() as u32;
        let others: Vec<u32> =
            (0..items).filter(|item| refused.in_pool.binary_search(item).is_err()).collect();
        let (mut kept, mut usable) = (others, None);
        let from = self.from.only(&kept);
        let (pool, paired) = from.features(ItemFeatures::Mean, &self.settings, progress)?;
        let vectors = refused.vectors.as_ref();
        let learned = Usability::learn(&paired, vectors, &pool, self.settings.seed, progress)?;
        match learned {
            Some(learned) if self.strategy.needs().weighs => usable = Some(learned.of(&pool)?),
            Some(learned) => {
                let likely = learned.usable(&pool, self.budget)?;
                kept = likely.into_iter().map(|at| kept[at as usize]).collect();
            }
            None => {}
        }
        let left_out = Some(items as usize - refused.in_pool.len() - kept.len());
        Ok(Remaining { kept: Some(kept), usable, left_out, duplicates: None })
    }
}

impl Remaining {
    fn keep(&mut self, places: Vec<u32>) {
        let usable = self.usable.take();
        self.usable = usable.map(|all| places.iter().map(|&place| all[place as usize]).collect());
        let kept = match self.kept.take() {
            Some(kept) => places.into_iter().map(|place| kept[place as usize]).collect(),
            None => places,
        };
        self.kept = Some(kept);
    }

    /// Fails if so many cannot be picked without duplicates.
    pub fn check_budget(&self, budget: usize, pool: usize) -> Result<(), Error> {
        match (&self.kept, self.duplicates) {
            (Some(kept), Some(_)) if budget > kept.len() => {
                Err(Error::TooFewDistinct { budget, left: kept.len(), pool })
            }
            _ => Ok(()),
        }
    }

    /// Items left out as duplicates.
    pub fn duplicates(&self) -> usize {
        self.duplicates.unwrap_or(0)
    }

    /// Picks and findings among what remains, by places in the whole pool.
    pub fn place(&self, picks: Picks, found: Vec<Finding>) -> (Picks, Vec<Finding>) {
        let Some(kept) = &self.kept else { return (picks, found) };
        let (left_out, duplicates) = (self.left_out, self.duplicates);
        let found = found.into_iter().map(|finding| finding.among(kept)).collect();
        (Picks { left_out, duplicates, ..picks.among(kept) }, found)
    }
}

/// Picks so many items with a strategy, and looks for what is wrong with them if that is asked for. The problem is that of
/// this strategy and these candidates.
pub fn pick<C: Candidates>(
    from: &C,
    problem: &Problem,
    strategy: &dyn Strategy,
    (budget, inspect): (usize, bool),
    progress: &dyn Progress,
) -> Result<(Picks, Vec<Finding>), C::Error> {
    let mut picks = problem.select(strategy, budget, progress)?;
    if let Some(pairs) = from.pairs_of_rows() {
        for near in picks.picks.iter_mut().flat_map(|pick| &mut pick.near) {
            if let Neighbour::Paired(row) = &mut near.item {
                *row = pairs[*row as usize];
            }
        }
    }
    if !inspect {
        return Ok((picks, Vec::new()));
    }
    let ItemNumbers { rows, vectors, anchors } = from.numbers()?;
    let mut known =
        FindingInputs { problem: Some(problem), pool: rows, anchors, ..FindingInputs::default() };
    if let Some((pool, paired)) = vectors {
        known.picked = Some(one_each(&picked_rows(&pool, &picks.indices()), progress)?);
        known.paired = Some(one_each(&paired, progress)?);
        known.vectors = Some(pool);
    }
    let found = known.inspect(&picks, progress)?;
    Ok((picks, found))
}

/// Returns the answer of `work`, or an error if an input changed meanwhile. The change comes first, because it may have
/// caused an error of `work`.
pub fn steady<C: Candidates, T>(
    from: &C,
    work: impl FnOnce() -> Result<T, C::Error>,
) -> Result<T, C::Error> {
    let answer = work();
    from.check_unchanged()?;
    answer
}

/// Copies scattered rows of a pool, after prefetching them all at once.
pub fn picked_rows(pool: &Matrix, rows: &[u32]) -> Matrix {
    rows.iter().map(|&row| row as usize).for_each(|row| pool.will_need(row..row + 1));
    pool.gather(rows)
}

/// One vector per item: its own, or the mean of several.
pub fn one_each(matrix: &Matrix, progress: &dyn Progress) -> Result<Matrix, Error> {
    match matrix.locals() {
        1 => Ok(matrix.clone()),
        _ => mean_features(matrix, progress),
    }
}
