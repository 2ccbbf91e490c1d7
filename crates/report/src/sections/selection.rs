//! Maps of picks, and their reasons.

use std::path::Path;

use nextpair_data::dataset::Dataset;
use nextpair_data::{Progress, Side, queue};
use nextpair_scenario::{Arm, Evidence, Study};

use super::super::Options;
use super::super::page::escaped;
use super::super::picks::{Half, cards, reason};
use super::super::pool_map::{Request, pool_map};
use super::Sections;
use super::curves::styles;
use crate::Error;

/// Maximum number of strategies on a map: the first ones.
const PANELS: usize = 6;

impl Sections {
    /// Adds both sections. Without the dataset, the page says so instead.
    pub(super) fn selection(
        &mut self,
        evidence: &Evidence,
        studies: &[Study],
        options: &Options,
        prefix: &str,
        progress: &dyn Progress,
    ) {
        let bought = |study: &&Study| study.rounds.iter().any(|round| round.round > 0);
        let Some(study) = studies.iter().find(bought) else { return };
        // Prefer a seed whose first model still exists: the map needs it.
        let seeds = || study.rounds.iter().filter(|round| round.round > 0).map(|round| round.seed);
        let kept = |seed: &u64| study.folder.model(*seed, None, 0).exists();
        let Some(seed) = seeds().find(kept).or_else(|| seeds().next()) else { return };
        let own = study.experiment.items_in(&study.folder);
        let dataset = options.dataset.as_deref().unwrap_or(&own);
        let heading = "Where the picks lie";
        let arms: Vec<(Arm, usize)> = evidence
            .arms
            .iter()
            .map(|arm| arm.strategy)
            .zip(styles(evidence))
            .take(PANELS)
            .collect();
        let name = format!("{prefix}picks");
        let device = options.device;
        let request = Request { study, dataset, seed, arms: &arms, name: &name, device };
        match pool_map(&request, progress) {
            Ok(map) => {
                let figure = self.figure(map.chart, "alone map", &map.note);
                self.section("map", heading, &figure);
            }
            Err(error) => self.leave_out("map", heading, &error),
        }
        self.why(evidence, study, seed, dataset);
    }

    fn why(&mut self, evidence: &Evidence, study: &Study, seed: u64, dataset: &Path) {
        let heading = "Why these items";
        let looks =
            |arm: &&Arm| arm.strategy.needs().matching && study.folder.picks(seed, arm, 1).exists();
        let Some(arm) = study.experiment.strategies.iter().find(looks) else { return };
        let cards = || {
            let tasks = queue::read(&study.folder.picks(seed, arm, 1))?;
            let dataset = Dataset::open(dataset)?;
            match study.experiment.pool {
                Side::Image => Ok(cards(&tasks, arm, &Half::Image, &dataset)),
                Side::Text => {
                    let corpus = study.corpus(seed, dataset)?;
                    let text = |item: usize| study.text_of(&corpus, item, seed);
                    Ok::<_, Error>(cards(&tasks, arm, &Half::Text(&text), corpus.dataset()))
                }
            }
        };
        let said = reason(arm, evidence.pool);
        match cards() {
            Ok(cards) => {
                let html = format!(
                    "<p>The first picks of {} (first batch, seed {seed}). {said}</p>{cards}",
                    escaped(&arm.to_string())
                );
                self.section("picks", heading, &html);
            }
            Err(error) => self.leave_out("picks", heading, &error),
        }
    }

    fn leave_out(&mut self, id: &str, heading: &str, error: &Error) {
        let why = format!("Left out: {error}");
        self.section(id, heading, &format!("<p class=\"note\">{}</p>", escaped(&why)));
        self.left_out.push(format!("{heading}: {error}"));
    }
}
