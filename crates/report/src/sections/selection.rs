//! Pictures and maps of picks, and galleries of them with their reasons.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use nextpair_data::dataset::Dataset;
use nextpair_data::queue::Task;
use nextpair_data::{Progress, Side, queue};
use nextpair_engine::Strategy;
use nextpair_scenario::numbers::grouped;
use nextpair_scenario::{Arm, Evidence, Round, Study};

use super::super::Options;
use super::super::page::escaped;
use super::super::pool_map::{PoolMap, Request, pool_map};
use super::Sections;
use super::curves::styles;
use crate::Error;
use crate::gallery::{Budget, PickedBatch, ShownNear, ShownPick, ShownReason, embedded, gallery};
use crate::memory::Memory;
use crate::words::counted;

/// Maximum number of strategies on a map: the first ones.
const PANELS: usize = 6;
/// Picks listed over all batches of an experiment. A page of a hundred thousand would not open.
const LISTED: usize = 8_000;
/// The fewest picks listed of a batch.
const FEWEST: usize = 8;

/// The first batch of a seed.
pub(super) struct FirstBatch {
    map: Result<PoolMap, Error>,
    dataset: PathBuf,
}

impl FirstBatch {
    /// Looks at the first batch of every strategy. `None` while nothing was bought.
    pub(super) fn of(
        evidence: &Evidence,
        studies: &[Study],
        options: &Options,
        prefix: &str,
        (memory, progress): (&Memory, &dyn Progress),
    ) -> Option<Self> {
        let bought = |study: &&Study| study.rounds.iter().any(|round| round.round > 0);
        let study = studies.iter().find(bought)?;
        // Prefer a seed whose first model still exists: the map needs it.
        let seeds = || study.rounds.iter().filter(|round| round.round > 0).map(|round| round.seed);
        let kept = |seed: &u64| study.folder.model(*seed, None, 0).exists();
        let seed = seeds().find(kept).or_else(|| seeds().next())?;
        let dataset =
            options.dataset.clone().unwrap_or_else(|| study.experiment.items_in(&study.folder));
        let arms = evidence.arms.iter().map(|arm| arm.strategy).zip(styles(evidence));
        let arms: Vec<(Arm, usize)> = arms.take(PANELS).collect();
        let (device, pictures) = (options.device, options.pictures > 0);
        let request =
            Request { study, dataset: &dataset, seed, arms: &arms, prefix, device, pictures };
        let map = memory.map(request.key(), || pool_map(&request, progress));
        Some(FirstBatch { map, dataset })
    }
}

impl Sections {
    /// Adds the pictures of what was bought first, if there are any.
    pub(super) fn bought(&mut self, first: Option<&FirstBatch>) {
        let chart = first.and_then(|first| first.map.as_ref().ok()?.bought.clone());
        if let Some(chart) = chart {
            let figure = self.figure(chart, "", "");
            self.section("bought", "What was bought, in pictures", &figure);
        }
    }

    /// Adds the map and the gallery. Without the dataset, the page says so instead.
    pub(super) fn selection(
        &mut self,
        evidence: &Evidence,
        studies: &[Study],
        options: &Options,
        first: Option<FirstBatch>,
        memory: &Memory,
    ) {
        let Some(FirstBatch { map, dataset }) = first else { return };
        let heading = "Where the picks lie";
        match map {
            Ok(map) => {
                let figure = self.figure(map.chart, "alone map", &map.note);
                let data = embedded(&map.data) + "</figure>";
                self.section("map", heading, &figure.replacen("</figure>", &data, 1));
            }
            Err(error) => self.leave_out("map", heading, &error),
        }
        self.picks(evidence, studies, (&dataset, options), memory);
    }

    /// Adds the picks of every strategy, batch and seed.
    fn picks(
        &mut self,
        evidence: &Evidence,
        studies: &[Study],
        (dataset, options): (&Path, &Options),
        memory: &Memory,
    ) {
        let heading = "What was picked, and why";
        let rendered = || {
            let batches = batches(evidence, studies, dataset)?;
            let dataset = Dataset::open(dataset)?;
            let budget = Budget::of(options.pictures).shared_by(self.experiments);
            let rendered = gallery(&self.id("gallery"), &batches, Some(&dataset), budget, memory);
            Ok::<_, Error>((rendered, batches))
        };
        let (rendered, batches) = match rendered() {
            Ok(found) => found,
            Err(error) => return self.leave_out("picks", heading, &error),
        };
        if batches.is_empty() {
            return;
        }
        let (shown, all) = rendered.pictures;
        let cut = batches.iter().any(|batch| batch.picks.len() < batch.total);
        let cut = if cut {
            " Long batches are cut; all of a batch are in its picks-N.jsonl."
        } else {
            ""
        };
        let mut picks = batches.iter().flat_map(|batch| &batch.picks);
        let bars = if picks.any(|pick| !pick.why.is_empty()) {
            " Bars are similarities; the mark is the threshold, the similarity of the hardest rival among the pairs \
             that were looked at (with top-K: of the K-th)."
        } else {
            ""
        };
        let html = format!(
            "<p class=\"note\">{} of {}.{bars} {} of {} have their picture on this page; --pictures changes \
             how many.{cut}</p>{}",
            counted_batches(batches.len()),
            counted(evidence.seeds.len(), "seed"),
            grouped(shown),
            counted(all, "item"),
            rendered.html
        );
        self.section("picks", heading, &html);
    }

    fn leave_out(&mut self, id: &str, heading: &str, error: &Error) {
        let why = format!("Left out: {error}");
        self.section(id, heading, &format!("<p class=\"note\">{}</p>", escaped(&why)));
        self.left_out.push(format!("{heading}: {error}"));
    }
}

fn counted_batches(count: usize) -> String {
    if count == 1 { "One batch".to_owned() } else { format!("{} batches", grouped(count)) }
}

/// Reads the picks of every strategy, batch and seed.
fn batches(
    evidence: &Evidence,
    studies: &[Study],
    dataset: &Path,
) -> Result<Vec<PickedBatch>, Error> {
    let mut found = Vec::new();
    for study in studies {
        for &seed in &study.experiment.seeds {
            for arm in &study.experiment.strategies {
                for batch in 1..=study.experiment.rounds {
                    let path = study.folder.picks(seed, arm, batch);
                    if path.exists() {
                        found.push((study, seed, *arm, batch, path));
                    }
                }
            }
        }
    }
    // Several experiments may hold the same batch.
    let mut seen = HashSet::new();
    found.retain(|(_, seed, arm, batch, _)| seen.insert((*seed, arm.to_string(), *batch)));
    let listed = (LISTED / found.len().max(1)).max(FEWEST);
    let mut batches = Vec::with_capacity(found.len());
    let mut texts: Option<Texts<'_>> = None;
    for (study, seed, arm, batch, path) in found {
        let tasks = queue::read(&path)?;
        let text_pool = study.experiment.pool == Side::Text;
        if text_pool && texts.as_ref().is_none_or(|texts| texts.seed != seed) {
            texts = Some(Texts::of(study, seed, dataset)?);
        }
        let confused = tasks.iter().any(|task| !task.why.is_empty());
        let own =
            |round: &&Round| (round.seed, round.round, round.strategy) == (seed, batch, Some(arm));
        let round = study.rounds.iter().find(own).and_then(|round| round.batch.as_ref());
        batches.push(PickedBatch {
            strategy: arm.to_string(),
            said: if confused { reason(&arm, evidence.pool) } else { String::new() },
            batch,
            seed: Some(seed),
            total: tasks.len(),
            picks: tasks.iter().take(listed).map(|task| shown(task, texts.as_ref())).collect(),
            pool: evidence.pool,
            effect: round.and_then(|batch| batch.effect),
        });
    }
    Ok(batches)
}

fn shown(task: &Task, texts: Option<&Texts<'_>>) -> ShownPick {
    let reason = |why: &queue::Why| {
        let (id, caption) = why.pair()?;
        let (similarity, threshold) = (why.similarity, why.threshold);
        Some(ShownReason { id: id.into(), caption: caption.into(), similarity, threshold })
    };
    let near = |near: &queue::Near| match near {
        queue::Near::Paired { pair_id, id, caption, cosine, .. } => ShownNear {
            id: id.as_ref().unwrap_or(pair_id).clone(),
            text: caption.clone(),
            is_paired: true,
            value: *cosine,
        },
        queue::Near::Pool { id, share, .. } => ShownNear {
            id: id.clone(),
            text: texts.and_then(|texts| texts.of_item(id)),
            is_paired: false,
            value: *share,
        },
    };
    ShownPick {
        id: task.id.clone(),
        score: task.score,
        hits: task.hits,
        text: texts.map(|texts| texts.of_item(&task.id).unwrap_or_default()),
        why: task.why.iter().filter_map(reason).collect(),
        near: task.near.iter().map(near).collect(),
    }
}

/// The captions that stand for items in a pool of texts.
struct Texts<'a> {
    study: &'a Study,
    seed: u64,
    corpus: nextpair_models::Corpus,
    places: std::collections::HashMap<String, usize>,
}

impl<'a> Texts<'a> {
    fn of(study: &'a Study, seed: u64, dataset: &Path) -> Result<Self, Error> {
        let corpus = study.corpus(seed, Dataset::open(dataset)?)?;
        let items = corpus.dataset().items().iter().enumerate();
        let places = items.map(|(at, item)| (item.id, at)).collect();
        Ok(Texts { study, seed, corpus, places })
    }

    fn of_item(&self, id: &str) -> Option<String> {
        let item = *self.places.get(id)?;
        let text = self.study.text_of(&self.corpus, item, self.seed)?;
        let items = self.corpus.dataset().items();
        items.get(item).captions.get(text - items.captions_of(item).start).cloned()
    }
}

/// Explains the picks of a strategy: the statement holds for every reason on a card.
pub(crate) fn reason(arm: &Arm, pool: Side) -> String {
    let (half, other) = pool.own_and_other("image", "caption");
    let hits = arm.strategy.needs().matching.unwrap_or_default();
    let each = match hits.sample {
        None => format!("Each {half}"),
        Some(mini) => format!("In a draw of the pairs (mini batch {mini}), each {half}"),
    };
    let than = match hits.top_k {
        1 => format!("any other paired {half} is"),
        k => format!("all but at most {} of the other paired {half}s are", k - 1),
    };
    let article = if other == "image" { "an" } else { "a" };
    format!(
        "{each} is more similar to these {other}s than {than}. Once it has {article} {other} of \
         its own, the model has to learn the difference."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_picks_is_what_the_strategy_does() {
        let said = |name: &str, pool| reason(&name.parse().unwrap(), pool);
        let plain = said("hard-negative", Side::Image);
        assert!(plain.contains("to these captions than any other paired image is."), "{plain}");
        let loose = said("hard-negative+mini-2560+top-5", Side::Text);
        let says = "In a draw of the pairs (mini batch 2560), each caption is more similar to these \
                    images than all but at most 4 of the other paired captions are. Once it has an \
                    image of its own";
        assert!(loose.starts_with(says), "{loose}");
    }
}
