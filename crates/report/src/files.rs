//! Results as JSON and CSV.

use std::path::Path;

use nextpair_data::escape::csv_cell;
use nextpair_scenario::{Analysis, Evidence, Round, Study};

use crate::Error;

/// Returns every number of the report as JSON.
pub(super) fn json(analysis: &Analysis, out: &Path) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(analysis);
    Ok(text.map_err(|e| Error::file(out, e.to_string()))? + "\n")
}

/// Returns every measurement as CSV: run, seed, strategy, round, paired, metric, value, folds. Rows
/// of the shared round 0 have no strategy; rows that are not from a test have no folds.
pub(super) fn csv(studies: &[Study], analysis: &Analysis) -> String {
    let mut text = "run,seed,strategy,round,paired,metric,value,folds\n".to_owned();
    for study in studies {
        let of_study = |run: &&Evidence| run.folders.iter().any(|f| f == study.folder.path());
        let run = analysis.runs.iter().find(of_study).map_or("", |run| run.label.as_str());
        for round in &study.rounds {
            let strategy = round.strategy.map_or(String::new(), |arm| arm.to_string());
            let Round { seed, round: number, paired, .. } = round;
            let place =
                format!("{},{seed},{},{number},{paired}", csv_cell(run), csv_cell(&strategy));
            for Measurement { metric, value, folds } in measurements(round) {
                let folds = folds.map_or(String::new(), |folds| folds.to_string());
                text.push_str(&format!("{place},{metric},{value},{folds}\n"));
            }
        }
    }
    text
}

/// A measurement of a round.
struct Measurement {
    metric: String,
    value: f64,
    /// Number of folds of its test.
    folds: Option<usize>,
}

fn measurements(round: &Round) -> Vec<Measurement> {
    let mut values = Vec::new();
    for test in &round.test {
        for (side, of) in [("text", &test.text), ("image", &test.image)] {
            let recalls = [("r1", of.r1), ("r5", of.r5), ("r10", of.r10)];
            let ranks = [("median_rank", of.median_rank), ("mean_rank", of.mean_rank)];
            let means = [
                ("mean_reciprocal_rank", of.mean_reciprocal_rank),
                ("mean_log_rank", of.mean_log_rank),
            ];
            let named = |(name, value): (&str, f64)| {
                let (metric, folds) = (format!("{side}_{name}"), Some(test.folds));
                Measurement { metric, value, folds }
            };
            values.extend(recalls.into_iter().chain(ranks).chain(means).map(named));
        }
    }
    let plain = |metric: String, value: f64| Measurement { metric, value, folds: None };
    let share = round.batch.as_ref().and_then(|batch| batch.hard_negative_share());
    values.extend(share.map(|share| plain("hard_negative_share".to_owned(), share)));
    for phase in &round.phases {
        let metric = format!("{}_seconds", phase.name);
        // A phase may have several parts: evaluation on dev and on test.
        match values.iter_mut().find(|known| known.metric == metric) {
            Some(known) => known.value += phase.seconds,
            None => values.push(plain(metric, phase.seconds)),
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::round;

    #[test]
    fn a_metric_has_one_value() {
        let mut round = round(0, None, 0, 10, 5.0);
        let again = round.phases.iter().find(|phase| phase.name == "evaluation").unwrap().clone();
        round.phases.push(again);
        let values = measurements(&round);
        let evaluation: Vec<f64> = (values.iter())
            .filter(|measured| measured.metric == "evaluation_seconds")
            .map(|measured| measured.value)
            .collect();
        assert_eq!(evaluation, [3.0]);
    }
}
