//! What guards find before picks are written: one line each, with the flag that helps.

use crate::Finding;
use anyhow::{Result, bail};
use serde::Serialize;

/// The flags of commands that look at picks before they are paid for.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct GuardArgs {
    /// Take warnings for errors: write nothing if there is one
    #[arg(long)]
    strict: bool,
    /// Do not look for what may be wrong with the data and the picks
    #[arg(long, conflicts_with = "strict")]
    unguarded: bool,
}

/// A finding in words.
#[derive(Serialize)]
pub(crate) struct Warning {
    kind: &'static str,
    text: String,
    fix: String,
}

impl GuardArgs {
    /// Whether to look.
    pub(crate) fn look(self) -> bool {
        !self.unguarded
    }

    /// Prints warnings. Returns an error if there are any and they count as errors.
    pub(crate) fn say(self, warnings: &[Warning]) -> Result<()> {
        for warning in warnings {
            alert!("warning     {}", warning.line());
        }
        match (self.strict, warnings.len()) {
            (true, 1) => bail!("--strict: there is a warning, and nothing is written"),
            (true, 2..) => {
                bail!("--strict: there are {} warnings, and nothing is written", warnings.len())
            }
            _ => Ok(()),
        }
    }
}

impl Warning {
    /// Returns what looks wrong and what helps.
    pub(crate) fn line(&self) -> String {
        format!("{}; {}", self.text, self.fix)
    }

    /// Puts findings into words. `id` and `anchor_id` name pool items and pairs.
    pub(crate) fn of(
        findings: &[Finding],
        id: impl Fn(u32) -> String,
        anchor_id: impl Fn(u32) -> String,
    ) -> Vec<Warning> {
        let warning = |finding: &Finding| Warning {
            kind: finding.kind(),
            text: finding.text(&id, &anchor_id),
            fix: fix(finding),
        };
        findings.iter().map(warning).collect()
    }

    /// Names what helps where a trained model selects: there are no files of pairs then.
    pub(crate) fn with_model(self) -> Warning {
        let fix = match self.kind {
            "near-chance" => {
                "train it on more pairs or longer; `nextpair eval` measures it".to_owned()
            }
            "other-side" => "check --pool-side".to_owned(),
            _ => self.fix,
        };
        Warning { fix, ..self }
    }
}

/// Returns what helps.
fn fix(finding: &Finding) -> String {
    match finding {
        Finding::NearChance { .. } => {
            "check that row j of --paired-images and --paired-texts is pair j, and the model".into()
        }
        Finding::OtherSide => {
            "check --pool-side, and that --paired-images and --paired-texts are not exchanged"
                .into()
        }
        Finding::Copies { .. } => "--dedupe leaves them out".into(),
        Finding::PicksAlike { cosine, .. } | Finding::PicksPaired { cosine, .. } => {
            // Rounded down: what is told is left out then.
            format!("--dedupe {} leaves them out", (cosine * 1000.0).floor() / 1000.0)
        }
        Finding::Hubs { .. } => "--strategy coverage counts every anchor once".into(),
        Finding::NoGain { .. } => "ask for a smaller --budget, or look at the features".into(),
        Finding::PoolHit { .. } => {
            "compare R@1 on pairs that it did not learn from (nextpair eval), and check the files"
                .into()
        }
        Finding::Strangers { .. } => "look at some; --usable avoids such items".into(),
        Finding::NoHit { .. } => "ask for a smaller --budget, or take --top-k 5".into(),
        Finding::FalseNegatives { .. } => "--relative-margin 0.05 ignores such hits".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_model_no_files_of_pairs_are_talked_of() {
        for kind in ["near-chance", "other-side"] {
            let (text, fix) = (String::new(), "check --paired-images".to_owned());
            let warning = Warning { kind, text, fix }.with_model();
            assert!(!warning.fix.contains("--paired-"), "{}", warning.fix);
        }
    }
}
