//! The summary of a selection, as text or JSON.

use std::path::Path;
use std::time::Duration;

use crate::engine::{BuiltIn, Effect, Picks, Strategy};
use anyhow::Result;
use serde::Serialize;

use crate::program::numbers::megabytes;
use crate::program::warnings::Warning;

#[derive(Serialize)]
pub(crate) struct Summary {
    strategy: &'static str,
    pool: usize,
    picks: usize,
    /// What the picks cost together.
    #[serde(skip_serializing_if = "Option::is_none")]
    spent: Option<f64>,
    /// Pool items that look like refused ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<usize>,
    /// Pool items that are duplicates of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicates: Option<usize>,
    /// Smallest, median and largest threshold.
    thresholds: Option<[f64; 3]>,
    hard_negative_share: Option<f64>,
    picks_without_hit: Option<usize>,
    /// What the picks change together.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<Effect>,
    seconds: f64,
    predicted_peak_bytes: Option<u64>,
    peak_bytes: Option<u64>,
    out: String,
    /// What guards found.
    warnings: Vec<Warning>,
}

impl Summary {
    pub(crate) fn new(
        strategy: BuiltIn,
        picks: &Picks,
        time: Duration,
        (predicted, peak): (Option<u64>, Option<u64>),
        out: &Path,
    ) -> Self {
        let mut sorted = picks.thresholds.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |i: usize| sorted[i];
        let thresholds =
            (!sorted.is_empty()).then(|| [at(0), at(sorted.len() / 2), at(sorted.len() - 1)]);
        let costs = picks.picks.iter().flat_map(|pick| &pick.facts);
        let costs = costs.filter(|fact| fact.name == "cost").map(|fact| fact.value);
        Summary {
            strategy: strategy.name(),
            pool: picks.pool,
            picks: picks.picks.len(),
            spent: costs.reduce(|sum, cost| sum + cost),
            left_out: picks.left_out,
            duplicates: picks.duplicates,
            thresholds,
            hard_negative_share: picks.hard_negative_share(),
            picks_without_hit: picks.without_hit(),
            effect: picks.effect,
            seconds: time.as_secs_f64(),
            predicted_peak_bytes: predicted,
            peak_bytes: peak,
            out: out.display().to_string(),
            warnings: Vec::new(),
        }
    }

    /// The same with warnings, which have been printed.
    pub(crate) fn warned(self, warnings: Vec<Warning>) -> Self {
        Summary { warnings, ..self }
    }

    /// Prints the summary: JSON to standard output, unless the picks go there; text to standard
    /// error.
    pub(crate) fn print(&self, json: bool, stdout_taken: bool) -> Result<()> {
        if json {
            let line = serde_json::to_string(self)?;
            if stdout_taken {
                say!("{line}");
            } else {
                tell!("{line}")?;
            }
            return Ok(());
        }
        say!("picked      {} of {} by {}", self.picks, self.pool, self.strategy);
        if let Some(spent) = self.spent {
            say!("spent       {spent:.2}");
        }
        if let Some(left_out) = self.left_out {
            say!("left out    {left_out} that people may refuse");
        }
        if let Some(duplicates) = self.duplicates {
            say!("duplicates  {duplicates} left out of the pool");
        }
        if let Some([low, middle, high]) = self.thresholds {
            say!("thresholds  {low:.4} to {high:.4}, median {middle:.4}");
        }
        if let Some(share) = self.hard_negative_share {
            say!("hard neg.   {share:.1} % of the pool has a hit");
        }
        if let Some(effect) = self.effect {
            say!("{effect}");
        }
        let peak = self.peak_bytes.map(|p| format!(", peak {}", megabytes(p))).unwrap_or_default();
        say!("time        {:.2} s{peak}", self.seconds);
        say!("written     {}", self.out);
        Ok(())
    }
}
