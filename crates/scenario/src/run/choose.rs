//! Selection of the batch of a round, and the record of its picks.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use nextpair_data::queue::{self, Task};
use nextpair_data::{AtomicFile, Side, Within, draw, fingerprint, ordinary};
use nextpair_engine::{Effect, Finding, Selection, Settings};
use nextpair_models::{Corpus, Origin, Pair};
use serde::{Deserialize, Serialize};

use super::lane::{Known, Lane};
use super::learn::{Place, makers};
use super::{Observer, Scenario};
use crate::{Arm, Batch, Error, ModelCandidates, PairNames, Phase, Round, Warning, groups};

/// Keeps draws of selections apart from others with the same seed.
const SELECTION: u64 = 0x5e;

/// Keeps the streams of several random strategies apart.
const STREAM: u64 = 0x57;

/// Returns the seed of all draws of a strategy for the batch of a round, from 1.
pub(super) fn selection_seed(seed: u64, strategy: &Arm, round: usize) -> u64 {
    let first = draw::draw_of(seed, SELECTION, round as u64);
    match strategy.stream {
        1 => first,
        stream => draw::draw_of(first, STREAM, u64::from(stream)),
    }
}

/// Facts about a selection, in a file beside its picks.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    pool: usize,
    /// Number of pool items that look like refused ones, for strategies with `usable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left_out: Option<usize>,
    /// Number of pool items left out as duplicates, for strategies with `dedupe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duplicates: Option<usize>,
    hard_negatives: Option<u64>,
    without_hit: Option<usize>,
    /// What the picks change together, for strategies that measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effect: Option<Effect>,
    /// What guards found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
    phase: Option<Phase>,
    /// The origin of the picks.
    made_by: Origin,
}

impl Scenario {
    /// Picks the batch of a round, or reads it if it exists. Also returns the origin of the picks.
    pub(super) fn choose(
        &self,
        place: Place<'_>,
        strategy: &Arm,
        lane: &mut Lane<'_>,
        observer: &dyn Observer,
    ) -> Result<(Vec<Task>, Batch, Origin), Error> {
        let path = self.folder.picks(place.seed, strategy, place.round);
        let beside = path.with_extension("json");
        let was_lost = !path.exists();
        if was_lost {
            self.select(place, strategy, lane, (&path, &beside), observer)?;
        }
        let bytes = ordinary::read(&path)?;
        let tasks = queue::read(&path)?;
        let picks = fingerprint(&bytes);
        if let Some(Round { batch: Some(batch), made_by, .. }) = self.finished(place)
            && batch.picks != picks
        {
            if was_lost {
                // It must not pass for what was lost.
                [&path, &beside].into_iter().for_each(|file| drop(fs::remove_file(file)));
                let what = format!(
                    "was lost, and what is picked now is not what {place} was finished with; put it back, or go on \
                     with the very program and machine that made it: {}",
                    makers(&made_by)
                );
                return Err(Error::file(&path, what));
            }
            let what = format!(
                "not what {place} was finished with; put it back, or delete it to have it picked again"
            );
            return Err(Error::file(&path, what));
        }
        let facts = ordinary::read(&beside)?;
        let facts: Facts = serde_json::from_slice(&facts)
            .map_err(|e| Error::file(&beside, format!("not the facts of a selection: {e}")))?;
        if lane.clock.last().is_none() {
            facts.phase.into_iter().for_each(|phase| lane.clock.remember(phase));
        }
        let batch = Batch {
            picked: tasks.len(),
            skipped: 0,
            unanswered: 0,
            wrong: 0,
            pool: facts.pool,
            left_out: facts.left_out,
            duplicates: facts.duplicates,
            hard_negatives: facts.hard_negatives,
            without_hit: facts.without_hit,
            effect: facts.effect,
            warnings: facts.warnings,
            picks,
            answers: None,
            captions: None,
            images: None,
        };
        Ok((tasks, batch, facts.made_by))
    }

    fn select(
        &self,
        place: Place<'_>,
        strategy: &Arm,
        lane: &mut Lane<'_>,
        (path, beside): (&Path, &Path),
        observer: &dyn Observer,
    ) -> Result<(), Error> {
        let Lane { own, known, clock, .. } = lane;
        let Known { corpus, pairs, gone, refused, .. } = &*known;
        let corpus = corpus.as_ref().unwrap_or(own);
        let last = place.round - 1;
        let before = Place { round: last, strategy: place.strategy.filter(|_| last > 0), ..place };
        let model = self.model(corpus, before, pairs)?;
        let items = self.plan.pool(place.seed, gone);
        let of_pool = |items: &[usize]| -> Vec<usize> {
            match self.experiment.pool {
                Side::Image => items.to_vec(),
                Side::Text => {
                    let text = |&item: &usize| self.text_of(corpus, item, place.seed);
                    items.iter().filter_map(text).collect()
                }
            }
        };
        let (pool, refused) = (of_pool(&items), of_pool(refused));
        let seed = selection_seed(place.seed, strategy, place.round);
        let groups = groups(corpus.dataset().items(), pairs)?;
        let queries = self.queries_of(strategy, place, observer)?;
        let from = ModelCandidates {
            corpus,
            model: Cow::Borrowed(&model),
            side: self.experiment.pool,
            pool: pool.into(),
            pairs,
            vectors: &self.vectors,
            refused: strategy.usable.then_some(&refused),
            queries: queries.as_ref(),
        };
        let selection = Selection {
            from,
            strategy: strategy.strategy,
            budget: self.plan.budget(place.round),
            spend: None,
            settings: Settings { groups, seed, ..Settings::default() },
            dedupe: strategy.dedupe,
        };
        let progress = Within::new(observer, place.to_string(), &[]);
        let (picks, findings) =
            clock.time("selection", || selection.select_inspected(&progress))?;
        let facts = Facts {
            pool: picks.pool,
            left_out: picks.left_out,
            duplicates: picks.duplicates,
            hard_negatives: picks.hard_negatives,
            without_hit: picks.without_hit(),
            effect: picks.effect,
            warnings: warnings(&findings, corpus, &items, pairs),
            phase: clock.last().cloned(),
            made_by: Origin::of(place.device),
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        }
        write_facts(beside, &facts)?;
        // Write the picks last: if they exist, so do the facts.
        let (all, names) = (corpus.dataset().items(), PairNames::of(corpus, pairs));
        let id = |index: u32| all.get(items[index as usize]).id;
        Ok(queue::write(path, &queue::tasks(&picks, id, |pair| names.anchor(pair)))?)
    }
}

/// Returns what guards found in words, with the names of items.
fn warnings(
    findings: &[Finding],
    corpus: &Corpus,
    items: &[usize],
    pairs: &[Pair],
) -> Vec<Warning> {
    let all = corpus.dataset().items();
    let item = |index: u32| all.get(items[index as usize]).id;
    let pair = |index: u32| all.get(pairs[index as usize].item).id;
    let warning = |finding: &Finding| Warning {
        kind: finding.kind().to_owned(),
        text: finding.text(item, pair),
    };
    findings.iter().map(warning).collect()
}

fn write_facts(path: &Path, facts: &Facts) -> Result<(), Error> {
    let text = serde_json::to_vec(facts).map_err(|e| Error::file(path, e.to_string()))?;
    Ok(AtomicFile::write_whole(path, &text)?)
}
