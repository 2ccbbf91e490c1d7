//! Recall by round, laid out like the paper's tables.

use nextpair_engine::{BuiltIn, Guards, HardNegative, Weight};
use nextpair_scenario::{Arm, ArmEvidence, Estimate, Evidence, RecallAt, Recalls};

use super::{Table, with_spread};
use crate::page::escaped;

/// Names of strategies in a table: their own, or those of the paper's conditions.
struct Names {
    conditions: bool,
}

impl Names {
    /// Uses the paper's names if there are several hard-negative strategies.
    fn of(evidence: &Evidence) -> Self {
        let conditions = evidence.arms.iter().filter(|arm| paper(&arm.strategy).is_some());
        Names { conditions: conditions.count() > 1 }
    }

    fn heads(&self, rows: usize) -> String {
        let heads: &[&str] = if self.conditions { &["Condition", "Weight"] } else { &["Strategy"] };
        let head = |head: &&str| {
            format!("<th scope=\"col\" rowspan=\"{rows}\" class=\"name\">{head}</th>")
        };
        heads.iter().map(head).collect()
    }

    /// Returns the row head, with the number of seeds if it is lower than in another row.
    fn head(&self, arm: &Arm, seeds: Option<String>) -> String {
        let (name, weight) = match (self.conditions, paper(arm)) {
            (true, Some(strategy)) => (condition(strategy), Some(weight(strategy))),
            (true, None) => (arm.to_string(), Some("")),
            (false, _) => (arm.to_string(), None),
        };
        let weight =
            weight.map_or(String::new(), |weight| format!("<td class=\"name\">{weight}</td>"));
        let seeds = seeds.map_or(String::new(), |seeds| format!("<small> {seeds}</small>"));
        format!("<th scope=\"row\">{}{seeds}</th>{weight}", escaped(&name))
    }
}

/// Returns the paper's strategy of an arm that is one of its conditions.
fn paper(arm: &Arm) -> Option<HardNegative> {
    match arm.strategy {
        BuiltIn::HardNegative(strategy) if strategy.guards == Guards::default() => Some(strategy),
        _ => None,
    }
}

fn condition(HardNegative { sample, top_k, .. }: HardNegative) -> String {
    match sample {
        None => format!("Full-batch + Top-{top_k}"),
        Some(mini) => format!("Mini-batch {mini} + Top-{top_k}"),
    }
}

fn weight(strategy: HardNegative) -> &'static str {
    match strategy.weight {
        Weight::Surplus => "Surplus",
        Weight::Count => "Count",
    }
}

/// Returns recall at a depth, laid out like the paper's tables. The best of a column is bold.
pub(crate) fn recall(evidence: &Evidence, depth: usize) -> String {
    let Some(k) = evidence.arms.first().and_then(|arm| arm.recall.get(depth)).map(|at| at.k) else {
        return String::new();
    };
    let (names, columns) = (Names::of(evidence), evidence.rounds + 1);
    let rounds: String = (0..columns).map(|at| format!("<th scope=\"col\">e={at}</th>")).collect();
    let heads = format!(
        "<tr>{}<th scope=\"colgroup\" colspan=\"{columns}\">Text R@{k}</th>\
         <th scope=\"colgroup\" colspan=\"{columns}\">Image R@{k}</th>\
         <th scope=\"col\" rowspan=\"2\">R@{k}-sum</th></tr><tr>{rounds}{rounds}</tr>",
        names.heads(2)
    );
    let of = |arm: &ArmEvidence, column: usize| -> Option<Estimate> {
        let at: &RecallAt = arm.recall.get(depth)?;
        match column {
            column if column < columns => at.rounds.get(column).map(|r: &Recalls| r.text),
            column if column < 2 * columns => at.rounds.get(column - columns).map(|r| r.image),
            _ => at.sum,
        }
    };
    let shown = |value: f64| (10.0 * value).round();
    let best: Vec<Option<f64>> = (0..=2 * columns)
        .map(|column| {
            // All strategies share round 0. Over different seeds, the highest mean is not the best.
            let differ = !column.is_multiple_of(columns) || column == 2 * columns;
            let differ = differ && evidence.arms.len() > 1 && evidence.same_seeds();
            let values = evidence.arms.iter().filter_map(|arm| of(arm, column));
            values.map(|value| shown(value.mean)).filter(|_| differ).max_by(f64::total_cmp)
        })
        .collect();
    let spread = match evidence.seeds.len() {
        1 => "one seed: no interval",
        _ => "mean over seeds ± half the 95 % interval",
    };
    let caption = format!("R@{k} in percent after every round, {spread}");
    let mut table = Table::headed(&caption, &heads);
    for arm in &evidence.arms {
        let cell = |column: usize| match of(arm, column) {
            None => "–".to_owned(),
            Some(value) if best[column] == Some(shown(value.mean)) => {
                format!("<strong>{}</strong>", with_spread(&value))
            }
            Some(value) => with_spread(&value),
        };
        let cells: Vec<String> = (0..=2 * columns).map(cell).collect();
        table.rows(&names.head(&arm.strategy, evidence.fewer_seeds(arm)), &cells);
    }
    table.finish()
}
