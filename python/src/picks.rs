//! Picks for Python, and their files.

use std::path::PathBuf;

use nextpair::Finding;
use nextpair::core::AtomicFile;
use nextpair::data::queue::{Near, PicksFormat, Task, Why};
use nextpair::engine::{Effect, Neighbour, Pick, Picks, Reason};
use pyo3::prelude::*;

use crate::errors;
use crate::findings::{Said, said};

/// Names of pool items and of pairs, if they have any: sequences.
#[derive(FromPyObject)]
pub(crate) struct Names<'py>(Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

impl Names<'_> {
    pub(crate) fn item(&self, index: u32) -> PyResult<String> {
        name(self.0.as_ref(), index).unwrap_or_else(|| Ok(format!("item {index}")))
    }

    pub(crate) fn pair(&self, index: u32) -> PyResult<String> {
        name(self.1.as_ref(), index).unwrap_or_else(|| Ok(index.to_string()))
    }
}

fn name(names: Option<&Bound<'_, PyAny>>, index: u32) -> Option<PyResult<String>> {
    names.map(|names| names.get_item(index)?.str()?.extract())
}

/// A reason: anchor, similarity, threshold, surplus, own.
type RawReason = (u32, f64, f64, f64, f64);
/// An item near a pick: whether it is paired, its pair or place, and how near.
type RawNear = (bool, u32, f64);
/// A pick: index, score, hits, reasons, facts, items near it.
type RawPick = (u32, f64, Option<u32>, Vec<RawReason>, Vec<(&'static str, f64)>, Vec<RawNear>);

/// Picks as `nextpair/_picks.py` takes them, a dictionary.
#[derive(IntoPyObject)]
pub(crate) struct RawPicks {
    picks: Vec<RawPick>,
    pool: usize,
    hard_negatives: Option<u64>,
    duplicates: Option<usize>,
    thresholds: Vec<f64>,
    effect: Option<(&'static str, f64, f64, f64)>,
    warnings: Vec<Said>,
}

impl RawPicks {
    pub(crate) fn new(
        picks: Picks,
        pool: usize,
        findings: &[Finding],
        names: &Names<'_>,
    ) -> PyResult<Self> {
        let warnings = findings.iter().map(|finding| said(finding, names));
        let effect = |Effect { measure, before, after, random }: Effect| {
            (measure.name(), before, after, random)
        };
        Ok(RawPicks {
            picks: picks.picks.into_iter().map(raw).collect(),
            pool,
            hard_negatives: picks.hard_negatives,
            duplicates: picks.duplicates,
            thresholds: picks.thresholds,
            effect: picks.effect.map(effect),
            warnings: warnings.collect::<PyResult<_>>()?,
        })
    }
}

fn raw(pick: Pick) -> RawPick {
    let reason = |why: &Reason| (why.anchor, why.similarity, why.threshold, why.surplus, why.own);
    let facts = pick.facts.iter().map(|fact| (fact.name, fact.value));
    let near = pick.near.iter().map(|near| match near.item {
        Neighbour::Paired(pair) => (true, pair, near.value),
        Neighbour::Pool(index) => (false, index, near.value),
    });
    let why = pick.why.iter().map(reason).collect();
    (pick.index, pick.score, pick.hits, why, facts.collect(), near.collect())
}

/// A reason with the name of its pair.
type NamedReason = (u32, String, f64, f64, f64, f64);
/// An item near a pick, with its name: whether it is paired, its pair or place, name, and how near.
type NamedNear = (bool, u32, String, f64);
/// A pick with its name.
type NamedPick =
    (u32, String, f64, Option<u32>, Vec<NamedReason>, Vec<(String, f64)>, Vec<NamedNear>);

/// Writes picks as `nextpair select --out picks.jsonl` does, whole or not at all.
#[pyfunction]
pub(crate) fn write_jsonl(py: Python<'_>, path: PathBuf, picks: Vec<NamedPick>) -> PyResult<()> {
    let written = py.detach(|| {
        let tasks: Vec<Task> = (1..).zip(picks).map(task).collect();
        let mut file = AtomicFile::create(&path)?;
        let written = PicksFormat::Jsonl.write(&mut file, &tasks);
        written.map_err(|error| nextpair::core::Error::io(&path, error))?;
        file.commit()
    });
    written.map_err(|error| errors::raise(py, error))
}

fn task((rank, (index, id, score, hits, why, facts, near)): (usize, NamedPick)) -> Task {
    let reason = |(anchor, anchor_id, similarity, threshold, surplus, own)| Why {
        anchor: Some(anchor),
        anchor_id: Some(anchor_id),
        similarity,
        threshold,
        surplus,
        own: Some(own),
        ..Why::default()
    };
    let near = near.into_iter().map(|(paired, index, id, value)| match paired {
        true => Near::Paired { pair: index, pair_id: id, id: None, caption: None, cosine: value },
        false => Near::Pool { index, id, share: value },
    });
    let (why, near) = (why.into_iter().map(reason).collect(), near.collect());
    let facts = facts.into_iter().collect();
    Task { rank, index: Some(index), id, score, hits, why, facts, near }
}
