//! Thresholds: how similar the hardest known rivals already are to each anchor.

use crate::score::own_pairs;
use crate::top::{Field, kth_largest};
use crate::{Error, Matching, Partial, Progress};

/// How many thresholds of another part are recomputed, to check that it is of the same selection.
const LOOKED_AT: usize = 16;

/// What hits of anchors are measured by, anchors ascending.
#[derive(Clone, Debug)]
pub(crate) struct Measures {
    pub(crate) thresholds: Vec<f64>,
    /// The similarities of the anchors' own pairs.
    pub(crate) own: Vec<f64>,
}

impl Measures {
    pub(crate) fn of(matching: &Matching, progress: &dyn Progress) -> Result<Self, Error> {
        let thresholds = thresholds(matching, progress)?;
        let own = own_pairs(&*matching.paired, matching.rule.anchors(), progress)?;
        Ok(Measures { thresholds, own })
    }

    /// Those of a part of the same selection. Fails if it is of another: anchors and own pairs are
    /// compared, and some of the thresholds.
    pub(crate) fn of_part(
        part: &Partial,
        matching: &Matching,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let anchors = matching.rule.anchors();
        let other = |what: String| {
            Error::Parts(format!("the thresholds are of other pairs or settings: {what}"))
        };
        let all_there = part.thresholds.len() == anchors.len() && part.own.len() == anchors.len();
        if part.anchors != anchors || !all_there {
            let (theirs, ours) = (part.anchors.len(), anchors.len());
            return Err(other(format!("they have {theirs} anchors, or not these {ours}")));
        }
        let differs = |name: &str, at: usize, theirs: f64, ours: f64| {
            other(format!("pair {} has the {name} {ours}, not {theirs}", anchors[at]))
        };
        let own = own_pairs(&*matching.paired, anchors, progress)?;
        let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits();
        if let Some(at) = part.own.iter().zip(&own).position(|pair| !same(pair)) {
            return Err(differs("similarity", at, part.own[at], own[at]));
        }
        let places: Vec<usize> =
            (0..anchors.len()).step_by(anchors.len().div_ceil(LOOKED_AT).max(1)).collect();
        let some: Vec<u32> = places.iter().map(|&at| anchors[at]).collect();
        let ours = thresholds_of(matching, &some, progress)?;
        for (&at, ours) in places.iter().zip(ours) {
            if !same((&part.thresholds[at], &ours)) {
                return Err(differs("threshold", at, part.thresholds[at], ours));
            }
        }
        Ok(Measures { thresholds: part.thresholds.clone(), own })
    }
}

/// `xi_j` for every anchor of the rule, in ascending order of the anchors: the k-th largest
/// similarity among rivals of other groups (Algorithm 2 of the paper; selection of `S_k`).
pub fn thresholds(matching: &Matching, progress: &dyn Progress) -> Result<Vec<f64>, Error> {
    let rule = &matching.rule;
    progress.start("thresholds", rule.rivals().len() as u64 * rule.anchors().len() as u64);
    thresholds_of(matching, rule.anchors(), progress)
}

fn thresholds_of(
    matching: &Matching,
    anchors: &[u32],
    progress: &dyn Progress,
) -> Result<Vec<f64>, Error> {
    let rule = &matching.rule;
    let rivals = rule.rivals();
    let field = Field {
        rows: rivals,
        group_of_row: &|rival| rule.group(rival),
        barred: &|anchor| Some(rule.group(anchor)),
    };
    let entries = kth_largest(&*matching.paired, &field, anchors, rule.hits().top_k, progress)?;
    Ok(entries
        .into_iter()
        .map(|entry| entry.expect("the rule checked that every anchor has k rival groups").value)
        .collect())
}
