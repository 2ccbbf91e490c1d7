//! A problem that Python holds, and what can be asked of it.

use std::sync::Arc;

use nextpair::engine::{self, BuiltIn, Kind, Parameter, Pick, Picks, Remaining, pick};
use nextpair::{
    Candidates, Needs, Partial, PartialFile, Problem as Stated, Progress, Selection, Size, Strategy,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::findings::{Said, said};
use crate::given::{Arrays, Given};
use crate::picks::{Names, RawPicks};
use crate::work::How;

/// A pool, the pairs and the rule that compares them. The arrays stay lent while it lives.
#[pyclass(frozen, module = "nextpair._engine")]
pub(crate) struct Problem {
    /// Items in the pool, duplicates included.
    #[pyo3(get)]
    pool: usize,
    /// What is left of them, and the strategy.
    selection: Arc<Selection<Arrays>>,
    remaining: Remaining,
    stated: Stated,
}

#[pymethods]
impl Problem {
    #[new]
    fn new(py: Python<'_>, given: Given, how: How<'_>) -> PyResult<Self> {
        let mut selection = given.selection(py)?;
        let pool = selection.from.items();
        let (selection, remaining, stated) = how.work(py, move |progress| {
            let remaining = selection.remaining(progress)?;
            if let Some(kept) = &remaining.kept {
                selection.from = selection.from.only(kept);
            }
            let builder = selection.problem((&selection.from, &remaining), progress)?;
            let stated = builder.build()?.of_strategy(&selection.strategy)?;
            Ok((Arc::new(selection), remaining, stated))
        })?;
        Ok(Problem { pool, selection, remaining, stated })
    }

    /// Pairs that it is compared with.
    #[getter]
    fn pairs(&self) -> usize {
        self.stated.matching().map_or(0, |matching| matching.paired.columns())
    }

    /// The items to choose from, if duplicates were left out.
    #[getter]
    fn kept(&self) -> Option<Vec<u32>> {
        self.remaining.kept.clone()
    }

    /// Picks `budget` items by the strategy of the engine.
    fn select(
        &self,
        py: Python<'_>,
        budget: usize,
        names: Names<'_>,
        guarded: bool,
        how: How<'_>,
    ) -> PyResult<RawPicks> {
        self.answer(py, self.selection.strategy, budget, names, guarded, how)
    }

    /// Checks items that a strategy in Python has chosen, with their scores.
    fn check(
        &self,
        py: Python<'_>,
        chosen: Vec<(u32, f64)>,
        budget: usize,
        names: Names<'_>,
        guarded: bool,
        how: How<'_>,
    ) -> PyResult<RawPicks> {
        let picks = chosen.into_iter().map(|(item, score)| Ok(Pick::new(self.place(item)?, score)));
        let picks = picks.collect::<Result<_, engine::Error>>();
        let picks = picks.map_err(|error| errors::raise(py, error))?;
        self.answer(py, Chosen { picks }, budget, names, guarded, how)
    }

    /// The similarities of pool items and pairs, row by row, as the bytes of doubles.
    fn similarities<'py>(
        &self,
        py: Python<'py>,
        items: Vec<u32>,
        pairs: Vec<u32>,
        how: How<'_>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let count = self.pairs();
        if let Some(pair) = pairs.iter().find(|&&pair| pair as usize >= count) {
            return Err(errors::input(py, format!("columns: pair {pair} of {count}")));
        }
        let rows = items.into_iter().map(|item| self.place(item));
        let rows = rows.collect::<Result<Vec<_>, _>>();
        let rows = rows.map_err(|error| errors::raise(py, error))?;
        let stated = self.stated.clone();
        let values = how.work(py, move |_| {
            let mut values = vec![0.0; rows.len() * pairs.len()];
            stated.matching()?.pool.exact_tile(&rows, &pairs, &mut values)?;
            Ok(values.into_iter().flat_map(f64::to_ne_bytes).collect::<Vec<u8>>())
        })?;
        Ok(PyBytes::new(py, &values))
    }

    /// The threshold of every anchor.
    fn thresholds(&self, py: Python<'_>, how: How<'_>) -> PyResult<Vec<f64>> {
        let stated = self.stated.clone();
        how.work(py, move |progress| Ok(engine::thresholds(stated.matching()?, progress)?))
    }

    /// Looks for what is wrong with the pairs and the pool.
    fn inspect(&self, py: Python<'_>, names: Names<'_>, how: How<'_>) -> PyResult<Vec<Said>> {
        let (stated, strategy) = (self.stated.clone(), self.selection.strategy);
        let findings =
            how.work(py, move |progress| Ok(stated.inspect_inputs(&strategy, progress)?))?;
        findings.iter().map(|finding| said(finding, &names)).collect()
    }

    /// Scores the items that are here, for a selection from the whole pool, with the thresholds of
    /// another part if there is one.
    fn score<'py>(
        &self,
        py: Python<'py>,
        budget: usize,
        thresholds: Option<Vec<u8>>,
        how: How<'_>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (mut stated, strategy) = (self.stated.clone(), self.selection.strategy);
        let bytes = how.work(py, move |progress| {
            if let Some(part) = thresholds {
                stated =
                    stated.with_thresholds_of(&strategy, &Partial::from_bytes(part)?, progress)?;
            }
            Ok(stated.score(&strategy, budget, progress)?.to_bytes()?)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }
}

impl Problem {
    /// Where an item of the pool is in the problem, which may lack duplicates.
    fn place(&self, item: u32) -> Result<u32, engine::Error> {
        let refused = |what| Err(engine::Error::BadPicks { strategy: "the strategy", what });
        match &self.remaining.kept {
            None if item as usize >= self.pool => {
                refused(format!("item {item} of a pool of {}", self.pool))
            }
            None => Ok(item),
            Some(kept) => match kept.binary_search(&item) {
                Ok(place) => Ok(place as u32),
                Err(_) => refused(format!("item {item} is left out, or not in the pool")),
            },
        }
    }

    fn answer(
        &self,
        py: Python<'_>,
        strategy: impl Strategy + 'static,
        budget: usize,
        names: Names<'_>,
        guarded: bool,
        how: How<'_>,
    ) -> PyResult<RawPicks> {
        self.remaining.check_budget(budget, self.pool).map_err(|error| errors::raise(py, error))?;
        let (stated, selection) = (self.stated.clone(), Arc::clone(&self.selection));
        let (picks, findings) = how.work(py, move |progress| {
            Ok(pick(&selection.from, &stated, &strategy, (budget, guarded), progress)?)
        })?;
        let (picks, findings) = self.remaining.place(picks, findings);
        RawPicks::new(picks, self.pool, &findings, &names)
    }
}

/// A strategy of the engine.
fn by_name(py: Python<'_>, name: &str) -> PyResult<BuiltIn> {
    BuiltIn::named(name).map_err(|said| errors::setting(py, format!("strategy: {said}")))
}

/// The predicted peak of memory of a selection, in bytes.
#[pyfunction]
pub(crate) fn predicted_peak(
    py: Python<'_>,
    strategy: &str,
    pool: usize,
    pairs: usize,
    dim: usize,
    budget: usize,
    threads: usize,
) -> PyResult<u64> {
    let size = Size { pool, pairs, dim, budget, threads };
    Ok(by_name(py, strategy)?.predicted_peak(&size))
}

/// The strategy that picks where none is named.
#[pyfunction]
pub(crate) fn default_strategy() -> &'static str {
    BuiltIn::default().name()
}

/// A parameter: its name, the kind of its values, the words to choose from, and the default.
type ParameterFacts = (&'static str, &'static str, Vec<&'static str>, String);

/// Every strategy of the engine: its name, whether it needs similarities, vectors, and looks at queries, and its parameters.
#[pyfunction]
pub(crate) fn strategies() -> Vec<(&'static str, bool, bool, bool, Vec<ParameterFacts>)> {
    let facts = |parameter: &Parameter<'_>| {
        let (kind, words) = match parameter.value.kind() {
            Kind::Whole => ("whole", Vec::new()),
            Kind::Number => ("number", Vec::new()),
            Kind::Amount => ("amount", Vec::new()),
            Kind::Choice(words) => ("choice", words.to_vec()),
        };
        (parameter.name(), kind, words, parameter.value.text())
    };
    let row = |mut strategy: BuiltIn| {
        let Needs { matching, features, queries, .. } = strategy.needs();
        let parameters = strategy.parameters().iter().map(facts).collect();
        (strategy.name(), matching.is_some(), features.is_some(), queries, parameters)
    };
    BuiltIn::all().map(row).collect()
}

/// Items that a strategy in Python chose.
struct Chosen {
    picks: Vec<Pick>,
}

impl Strategy for Chosen {
    fn name(&self) -> &'static str {
        "the strategy"
    }

    fn needs(&self) -> Needs {
        // It may have looked at them.
        Needs { queries: true, ..Needs::default() }
    }

    fn select(&self, problem: &Stated, _: usize, _: &dyn Progress) -> Result<Picks, engine::Error> {
        Ok(Picks::of(self.picks.clone(), problem.pool()))
    }
}
