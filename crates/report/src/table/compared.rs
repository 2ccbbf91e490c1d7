//! Differences to the baseline.

use nextpair_scenario::numbers::{few_seeds, grouped, tenths};
use nextpair_scenario::{Estimate, Evidence, Scrutiny};

use super::Table;
use crate::words::in_a_word;

/// Differences to the baseline in R@1 (text plus image), by round.
pub(crate) fn differences(evidence: &Evidence) -> String {
    let names: Vec<String> = (1..=evidence.rounds).map(|at| format!("e={at}")).collect();
    let mut heads = vec!["Strategy"];
    heads.extend(names.iter().map(String::as_str));
    heads.extend(["R@1-sum", "R@1-sum, new images too", "Seeds", "Seeds needed", "Sign flips"]);
    heads.push("By R@1-sum");
    let caption = format!(
        "R@1 (text and image added) less that of {} with the same seed, mean and 95 % simultaneous \
         interval",
        evidence.baseline
    );
    let mut table = Table::new(&caption, &heads);
    for arm in &evidence.arms {
        let Some(difference) = &arm.difference else { continue };
        let mut cells: Vec<String> =
            difference.rounds.iter().skip(1).map(|recalls| interval(&recalls.both)).collect();
        cells.push(interval(&difference.sum));
        cells.push(difference.by_sum.new_images.as_ref().map_or("–".to_owned(), interval));
        cells.push(difference.seeds.to_string());
        cells.extend(needed_and_flips(&difference.by_sum));
        cells.push(in_a_word(&difference.sum).to_owned());
        table.row(&evidence.compared_name(arm), &cells);
    }
    table.finish()
}

/// Formats the seeds that a difference needs, and the p-value of sign flips.
pub(super) fn needed_and_flips(scrutiny: &Scrutiny) -> [String; 2] {
    let dash = || "–".to_owned();
    [
        scrutiny.seeds_needed.map_or_else(dash, |seeds| format!("about {}", grouped(seeds))),
        scrutiny.sign_flip.map_or_else(dash, |p| format!("p = {p:.3}")),
    ]
}

pub(super) fn interval(estimate: &Estimate) -> String {
    match estimate.interval() {
        Some((low, high)) => {
            let [mean, low, high] = [estimate.mean, low, high].map(tenths);
            format!("{mean:+.1}<small> [{low:+.1}, {high:+.1}]</small>")
        }
        None => {
            let few = few_seeds(estimate.count);
            format!("{:+.1}<small> {few}: no interval</small>", tenths(estimate.mean))
        }
    }
}
