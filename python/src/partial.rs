//! Parts of a selection that were scored elsewhere.

use std::collections::BTreeSet;

use nextpair::{Candidates, Error, FindingInputs, Partial, PartialFile, Selection};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::given::Given;
use crate::picks::{Names, RawPicks};
use crate::work::How;

/// Picks from parts that cover the whole pool. The problem has the settings, the size of the pool, and
/// vectors if the strategy needs them.
#[pyfunction]
pub(crate) fn finish(
    py: Python<'_>,
    parts: Vec<Vec<u8>>,
    budget: usize,
    given: Given,
    names: Names<'_>,
    how: How<'_>,
) -> PyResult<RawPicks> {
    let selection = given.selection(py)?;
    let (picks, findings) = how.work(py, move |progress| {
        let whole = merged(parts)?;
        let Selection { from, strategy, settings, .. } = &selection;
        let builder = from.problem(strategy, settings, progress)?.settings(settings.clone());
        let problem = builder.build()?;
        let picks = problem.finish(strategy, whole, budget, progress)?;
        let known = match problem.features() {
            Ok(features) => FindingInputs {
                picked: Some(features.pool.gather(&picks.indices())),
                paired: Some(features.paired.clone()),
                ..FindingInputs::default()
            },
            Err(_) => FindingInputs::default(),
        };
        let findings = known.inspect(&picks, progress)?;
        Ok((picks, findings))
    })?;
    let pool = picks.pool;
    RawPicks::new(picks, pool, &findings, &names)
}

fn merged(parts: Vec<Vec<u8>>) -> Result<Partial, Error> {
    let mut parts = parts.into_iter().map(Partial::from_bytes);
    let Some(first) = parts.next() else {
        return Err(nextpair::engine::Error::Parts("there are none".to_owned()).into());
    };
    parts.try_fold(first?, |all, part| Ok(all.merge(part?)?))
}

/// Parts as one.
#[pyfunction]
pub(crate) fn join<'py>(py: Python<'py>, parts: Vec<Vec<u8>>) -> PyResult<Bound<'py, PyBytes>> {
    let joined = py.detach(|| merged(parts)?.to_bytes());
    Ok(PyBytes::new(py, &joined.map_err(|error| crate::errors::raise(py, error))?))
}

/// The items that may be picked of a part, ascending.
#[pyfunction]
pub(crate) fn candidates(py: Python<'_>, part: Vec<u8>) -> PyResult<Vec<u32>> {
    let partial =
        py.detach(|| Partial::from_bytes(part)).map_err(|error| crate::errors::raise(py, error))?;
    let best = partial.best.iter().map(|pick| pick.index);
    let items: BTreeSet<u32> = best.chain(partial.hits.iter().map(|(item, _)| *item)).collect();
    Ok(items.into_iter().collect())
}

/// The items that a part covers, as ranges.
#[pyfunction]
pub(crate) fn items_of(py: Python<'_>, part: Vec<u8>) -> PyResult<Vec<(u32, u32)>> {
    let partial =
        py.detach(|| Partial::from_bytes(part)).map_err(|error| crate::errors::raise(py, error))?;
    Ok(partial.items.iter().map(|range| (range.start, range.end)).collect())
}
