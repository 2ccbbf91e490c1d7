//! Differences to the baseline, and captions saved.

use nextpair_scenario::numbers::{few_seeds, grouped, tenths};
use nextpair_scenario::{Estimate, Evidence, Saved, Scrutiny};

use super::Table;
use crate::page::escaped;
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

/// Where captions saved are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SavedAt {
    /// At equal R@1, text plus image.
    R1,
    /// At equal mean log rank of image retrieval.
    LogRank,
}

/// Captions saved at equal R@1 or mean log rank. Empty if no strategy has the measure.
pub(crate) fn saved(evidence: &Evidence, at: SavedAt) -> String {
    let (measure, digits) = match at {
        SavedAt::R1 => ("R@1", 1),
        SavedAt::LogRank => ("mean log rank of image retrieval", 3),
    };
    let caption =
        format!("Captions that {} needed more to reach the same {measure}", evidence.baseline);
    let bought = format!("{} bought", evidence.baseline);
    let level = if at == SavedAt::R1 { "At R@1" } else { "At log rank" };
    let heads = ["Strategy", level, "Saved", "95 % interval", &bought, "Seeds"];
    let mut table = Table::new(&caption, &heads);
    let mut any = false;
    for arm in &evidence.arms {
        let dash = || "–".to_owned();
        let saved = match at {
            SavedAt::R1 => &arm.saved,
            SavedAt::LogRank => &arm.saved_by_log_rank,
        };
        let cells = match saved {
            None => continue,
            Some(Saved::Unknown { why }) => {
                let why = format!("cannot be told: {}", escaped(why));
                vec![dash(), dash(), why, dash(), dash()]
            }
            Some(Saved::Known { level, captions, of, low, high, seeds }) => vec![
                format!("{level:.digits$}"),
                format!("{captions:+.0}"),
                match (low.zip(*high), seeds) {
                    (Some((low, high)), _) => format!("[{low:+.0}, {high:+.0}]"),
                    (None, 1) => "one seed: no interval".to_owned(),
                    (None, _) => "undefined too often".to_owned(),
                },
                grouped(of.max(0.0).round() as usize),
                seeds.to_string(),
            ],
        };
        any = true;
        table.row(&evidence.compared_name(arm), &cells);
    }
    if any { table.finish() } else { String::new() }
}
