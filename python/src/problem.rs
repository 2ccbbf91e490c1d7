//! A problem that Python holds, and what can be asked of it.

use nextpair::engine::{self, Distinct, Pick, Picks};
use nextpair::{
    Finding, Needs, Partial, PartialFile, Problem as Stated, Progress, Size, Strategy, StrategyName,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::findings::{Said, said};
use crate::given::Given;
use crate::picks::{Names, RawPicks};
use crate::work::How;

/// A pool, the pairs and the rule that compares them. The arrays stay lent while it lives.
#[pyclass(frozen, module = "nextpair._engine")]
pub(crate) struct Problem {
    stated: Stated,
    /// What is left of the pool, if duplicates were left out.
    distinct: Option<Distinct>,
}

#[pymethods]
impl Problem {
    #[new]
    fn new(py: Python<'_>, given: Given, how: How<'_>) -> PyResult<Self> {
        let inputs = given.inputs(py)?;
        let (stated, distinct) = how.work(py, move |progress| Ok(inputs.problem(progress)?))?;
        Ok(Problem { stated, distinct })
    }

    /// Items in the pool, duplicates included.
    #[getter]
    fn pool(&self) -> usize {
        let left_out = self.distinct.as_ref().map_or(0, Distinct::left_out);
        self.stated.pool() + left_out
    }

    /// Pairs that it is compared with.
    #[getter]
    fn pairs(&self) -> usize {
        self.stated.matching().map_or(0, |matching| matching.paired.columns())
    }

    /// The items to choose from, if duplicates were left out.
    #[getter]
    fn kept(&self) -> Option<Vec<u32>> {
        self.distinct.as_ref().map(|distinct| distinct.kept.clone())
    }

    /// Picks `budget` items by a strategy of the engine.
    fn select(
        &self,
        py: Python<'_>,
        strategy: &str,
        budget: usize,
        names: Names<'_>,
        guarded: bool,
        how: How<'_>,
    ) -> PyResult<RawPicks> {
        let strategy = by_name(py, strategy)?;
        self.answer(py, strategy, budget, names, guarded, how)
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
        let stated = self.stated.clone();
        let findings = how.work(py, move |progress| Ok(stated.inspect_inputs(progress)?))?;
        findings.iter().map(|finding| said(finding, &names)).collect()
    }

    /// Scores the items that are here, for a selection from the whole pool, with the thresholds of
    /// another part if there is one.
    fn score<'py>(
        &self,
        py: Python<'py>,
        strategy: &str,
        budget: usize,
        thresholds: Option<Vec<u8>>,
        how: How<'_>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (mut stated, strategy) = (self.stated.clone(), by_name(py, strategy)?);
        let bytes = how.work(py, move |progress| {
            if let Some(part) = thresholds {
                stated = stated.with_thresholds_of(&Partial::from_bytes(part)?, progress)?;
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
        match &self.distinct {
            None if item as usize >= self.stated.pool() => {
                refused(format!("item {item} of a pool of {}", self.stated.pool()))
            }
            None => Ok(item),
            Some(distinct) => match distinct.kept.binary_search(&item) {
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
        if let Some(distinct) = &self.distinct
            && budget > distinct.kept.len()
        {
            let (left, all) = (distinct.kept.len(), self.pool());
            let said = format!(
                "budget: it is {budget}, but without its duplicates the pool has only {left} of {all} items"
            );
            return Err(errors::setting(py, said));
        }
        let stated = self.stated.clone();
        let (picks, findings) = how.work(py, move |progress| {
            let picks = stated.select_with(&strategy, budget, progress)?;
            let findings = if guarded { stated.inspect(&picks, progress)? } else { Vec::new() };
            Ok((picks, findings))
        })?;
        let (picks, findings) = self.among_all(picks, findings);
        RawPicks::new(picks, self.pool(), &findings, &names)
    }

    /// Picks and findings by places in the whole pool.
    fn among_all(&self, picks: Picks, findings: Vec<Finding>) -> (Picks, Vec<Finding>) {
        let Some(distinct) = &self.distinct else { return (picks, findings) };
        let findings = findings.into_iter().map(|finding| finding.among(&distinct.kept)).collect();
        let duplicates = Some(distinct.left_out());
        (Picks { duplicates, ..picks.among(&distinct.kept) }, findings)
    }
}

/// A strategy of the engine.
pub(crate) fn by_name(py: Python<'_>, name: &str) -> PyResult<StrategyName> {
    name.parse().map_err(|said| errors::setting(py, format!("strategy: {said}")))
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

/// Every strategy of the engine: its name, and whether it needs similarities, vectors, and looks at
/// queries.
#[pyfunction]
pub(crate) fn strategies() -> Vec<(&'static str, bool, bool, bool)> {
    let row = |strategy: &StrategyName| {
        let Needs { matching, features, queries } = strategy.needs();
        (strategy.as_str(), matching, features, queries)
    };
    StrategyName::ALL.iter().map(row).collect()
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
