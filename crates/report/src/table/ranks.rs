//! Mean log ranks and mean reciprocal ranks, and what a caption is worth.

use nextpair_scenario::numbers::{signed_fine, worth as in_captions};
use nextpair_scenario::{ArmEvidence, Estimate, Evidence, Recalls};

use super::compared::needed_and_flips;
use super::{Table, with_spread};
use crate::words::in_a_word;

/// Recall and ranks after the last round.
pub(crate) fn ranks(evidence: &Evidence) -> String {
    let heads = [
        "Strategy",
        "Text R@1",
        "Image R@1",
        "Text log rank",
        "Image log rank",
        "Text reciprocal rank",
        "Image reciprocal rank",
    ];
    let spread = match evidence.seeds.len() {
        1 => "one seed: no interval",
        _ => "mean over seeds ± half the 95 % interval",
    };
    let mut table = Table::new(&format!("Recall and ranks after the last batch, {spread}"), &heads);
    let last = |rounds: &[Recalls]| rounds.get(evidence.rounds).copied();
    for arm in &evidence.arms {
        let r1 = last(arm.r1());
        let mut cells = vec![
            r1.map_or("–".to_owned(), |r| with_spread(&r.text)),
            r1.map_or("–".to_owned(), |r| with_spread(&r.image)),
        ];
        for of in [last(&arm.log_rank), last(&arm.reciprocal_rank)] {
            cells.push(of.map_or("–".to_owned(), |r| with_fine_spread(&r.text)));
            cells.push(of.map_or("–".to_owned(), |r| with_fine_spread(&r.image)));
        }
        table.row(&evidence.name_of(arm), &cells);
    }
    table.finish()
}

/// Means of ranks by round.
pub(crate) fn ranks_by_round(evidence: &Evidence) -> String {
    type Of = fn(&ArmEvidence) -> &Vec<Recalls>;
    let measures: [(&str, Of); 2] = [
        ("Mean log rank after every round", |arm| &arm.log_rank),
        ("Mean reciprocal rank after every round", |arm| &arm.reciprocal_rank),
    ];
    let rounds = || (0..=evidence.rounds).map(|at| format!("e={at}"));
    let heads: Vec<String> = std::iter::once("Strategy".to_owned())
        .chain(rounds().map(|round| format!("Text {round}")))
        .chain(rounds().map(|round| format!("Image {round}")))
        .collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut html = String::new();
    for (caption, of) in measures {
        let mut table = Table::new(caption, &heads);
        for arm in &evidence.arms {
            let cell = |at: usize, value: fn(&Recalls) -> Estimate| {
                of(arm).get(at).map_or("–".to_owned(), |r| with_fine_spread(&value(r)))
            };
            let text = (0..=evidence.rounds).map(|at| cell(at, |r| r.text));
            let image = (0..=evidence.rounds).map(|at| cell(at, |r| r.image));
            table.row(&evidence.name_of(arm), &text.chain(image).collect::<Vec<_>>());
        }
        html += &table.finish();
    }
    html
}

/// Formats a small number with half its interval.
fn with_fine_spread(estimate: &Estimate) -> String {
    let mean = format!("{:.3}", estimate.mean);
    match estimate.interval() {
        Some((low, high)) => format!("{mean}<small>±{:.3}</small>", (high - low) / 2.0),
        None => mean,
    }
}

/// The worth of captions, and the difference of ranks behind it.
pub(crate) fn worth(evidence: &Evidence) -> String {
    let heads = [
        "Strategy",
        "Random captions that one replaces",
        "Log rank to the baseline",
        "The same, new images too",
        "R@1 to the baseline",
        "Seeds",
        "Seeds needed",
        "Sign flips",
        "By log rank",
    ];
    let caption = format!(
        "After the last batch, less {} with the same seed; a lower log rank is better. 95 % simultaneous \
         intervals",
        evidence.baseline
    );
    let mut table = Table::new(&caption, &heads);
    for arm in &evidence.arms {
        let dash = || "–".to_owned();
        let Some(difference) = &arm.difference else {
            if evidence.baseline.holds(&arm.strategy) {
                let mut cells = vec!["1, by definition".to_owned()];
                cells.resize_with(heads.len() - 1, dash);
                table.row(&evidence.compared_name(arm), &cells);
            }
            continue;
        };
        let r1 = difference.rounds.last().map(|recalls| super::compared::interval(&recalls.both));
        let mut cells = vec![
            difference.worth.as_ref().map_or("cannot be told".to_owned(), in_captions),
            signed_fine(&difference.last_log_rank),
            difference.by_log_rank.new_images.as_ref().map_or_else(dash, signed_fine),
            r1.unwrap_or_else(dash),
            difference.seeds.to_string(),
        ];
        cells.extend(needed_and_flips(&difference.by_log_rank));
        cells.push(in_a_word(&difference.gain()).to_owned());
        table.row(&evidence.compared_name(arm), &cells);
    }
    table.finish()
}
