//! What guards found, in words, with the argument that helps.

use std::cell::RefCell;

use nextpair::Finding;
use pyo3::prelude::*;

use crate::picks::Names;

/// Its kind, a sentence, and what helps.
pub(crate) type Said = (&'static str, String, String);

/// Puts a finding into words.
pub(crate) fn said(finding: &Finding, names: &Names<'_>) -> PyResult<Said> {
    // A name may fail to become a string.
    let failed = RefCell::new(None);
    let or_nothing = |name: PyResult<String>| {
        name.unwrap_or_else(|error| {
            failed.replace(Some(error));
            String::new()
        })
    };
    let text =
        finding.text(|item| or_nothing(names.item(item)), |pair| or_nothing(names.pair(pair)));
    match failed.into_inner() {
        Some(error) => Err(error),
        None => Ok((finding.kind(), text, fix(finding))),
    }
}

fn fix(finding: &Finding) -> String {
    match finding {
        Finding::NearChance { .. } => {
            "check that row j of images and texts is pair j, and the model".into()
        }
        Finding::OtherSide => "check pool_side, and that images and texts are not exchanged".into(),
        Finding::Copies { .. } => "dedupe=\"exact\" leaves them out".into(),
        Finding::PicksAlike { cosine, .. } | Finding::PicksPaired { cosine, .. } => {
            // Rounded down: what is told is left out then.
            format!("dedupe={} leaves them out", (cosine * 1000.0).floor() / 1000.0)
        }
        Finding::Hubs { .. } => "strategy=\"coverage\" counts every anchor once".into(),
        Finding::NoGain { .. } => "ask for a smaller budget, or look at the features".into(),
        Finding::PoolHit { .. } => {
            "compare R@1 on pairs that the model did not learn from, and check that images and texts are not exchanged"
                .into()
        }
        Finding::Strangers { .. } => "look at some of them before you pay".into(),
        Finding::NoHit { .. } => "ask for a smaller budget, or take top_k=5".into(),
        Finding::FalseNegatives { .. } => "relative_margin=0.05 ignores such hits".into(),
    }
}
