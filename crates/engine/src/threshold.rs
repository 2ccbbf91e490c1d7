//! Thresholds: how similar the hardest known rivals already are to each anchor.

use crate::top::{Field, kth_largest};
use crate::{Error, Matching, Progress};

/// `xi_j` for every anchor of the rule, in ascending order of the anchors: the k-th largest
/// similarity among rivals of other groups (Algorithm 2 of the paper; selection of `S_k`).
pub fn thresholds(matching: &Matching, progress: &dyn Progress) -> Result<Vec<f64>, Error> {
    let rule = &matching.rule;
    let (rivals, anchors) = (rule.rivals(), rule.anchors());
    let steps = rivals.len() as u64 * anchors.len() as u64;
    progress.start("thresholds", steps);
    let field = Field {
        rows: rivals,
        group_of_row: &|rival| rule.group(rival),
        barred: &|anchor| Some(rule.group(anchor)),
    };
    let entries = kth_largest(&*matching.paired, &field, anchors, rule.top_k(), progress)?;
    Ok(entries
        .into_iter()
        .map(|entry| entry.expect("the rule checked that every anchor has k rival groups").value)
        .collect())
}
