//! Whether a batch paid: the difference between two models on the same test items.

use crate::models::{Evaluation, ModelFolder, QueryRanks};
use crate::scenario::numbers::{signed, signed_fine};
use crate::scenario::{Estimate, Verdict};
use serde::Serialize;

use crate::program::plan::Plan;

/// A model less another one, with intervals over the test items. An image and its captions are one item.
#[derive(Serialize)]
pub(super) struct Against {
    /// The folder of the other model.
    model: String,
    /// The recall of the other model.
    evaluation: Evaluation,
    /// Mean log rank, the mean of both directions; below 0 is better. Decides.
    log_rank: Estimate,
    /// R@1, text and image added.
    r1: Estimate,
    /// The sum of the six recalls.
    rsum: Estimate,
    /// What a rehearsal had forecast of the batch between the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    rehearsed: Option<String>,
    /// What its picks were expected to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<String>,
}

/// What a query of a rank, from 0, adds to R@1, R@5 and R@10 together.
fn recalls(rank: u32) -> f64 {
    [1, 5, 10].map(|depth| if rank < depth { 100.0 } else { 0.0 }).iter().sum()
}

impl Against {
    /// Compares a model with another by the ranks of the same queries. `captions` has their number for every item.
    pub(super) fn new(
        other: &ModelFolder,
        captions: impl Iterator<Item = usize> + Clone,
        (evaluation, before): &(Evaluation, QueryRanks),
        (_, after): &(Evaluation, QueryRanks),
    ) -> Self {
        // Every caption counts alike, so an item with more of them counts more.
        let share = after.text.len() as f64 / after.image.len() as f64;
        let less = |of: fn(u32) -> f64| {
            let less = |(&after, &before): (&u32, &u32)| of(after) - of(before);
            let images = after.text.iter().zip(&before.text).map(less);
            let mut queries = after.image.iter().zip(&before.image).map(less);
            let items = images.zip(captions.clone()).map(|(image, captions)| {
                image + share * queries.by_ref().take(captions).sum::<f64>()
            });
            let items: Vec<f64> = items.collect();
            Estimate::of(&items).unwrap_or(Estimate { mean: 0.0, low: None, high: None, count: 0 })
        };
        Against {
            model: other.folder().display().to_string(),
            evaluation: *evaluation,
            log_rank: less(|rank| f64::from(rank + 1).ln() / 2.0),
            r1: less(|rank| if rank == 0 { 100.0 } else { 0.0 }),
            rsum: less(recalls),
            rehearsed: None,
            effect: None,
        }
    }

    /// The same beside what was forecast when the other model picked.
    pub(super) fn beside(self, plan: Plan) -> Self {
        Against { rehearsed: plan.rehearsed, effect: plan.effect, ..self }
    }

    pub(super) fn text(&self) -> String {
        let verdict = match self.log_rank.verdict() {
            Verdict::Below => "better",
            Verdict::Above => "worse",
            Verdict::Unclear | Verdict::TooFewSeeds => "not clear",
        };
        let mut text = format!(
            "against {}: {verdict}\nmean log rank {}, R@1-sum {}, rsum {}\n\
             Mean log rank (both directions, below 0 is better) decides. Intervals are 95 % for other test items; \
             another seed of training would differ too.",
            self.model,
            signed_fine(&self.log_rank),
            signed(&self.r1),
            signed(&self.rsum)
        );
        if let Some(rehearsed) = &self.rehearsed {
            text += &format!("\nforecast by the rehearsal: {rehearsed}");
        }
        if let Some(effect) = &self.effect {
            text += &format!("\nexpected of the picks: {effect}");
        }
        text
    }
}
