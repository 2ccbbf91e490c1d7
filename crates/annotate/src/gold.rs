//! Gold: tasks with known answers, mixed into a round so that nobody can tell them from others.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use nextpair_data::Side;
use nextpair_data::dataset::{Dataset, TRAIN};
use nextpair_data::queue::{Near, Task, Why};
use sha2::{Digest, Sha256};

use crate::event::{GoldTask, Submission};
use crate::word_overlap::{word_overlap, words};

/// Most items that are looked at to find what a gold item could be confused with.
const LOOKED_AT: usize = 20_000;

/// Known answers by item, and how much of a round they become.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gold {
    pub(crate) known: BTreeMap<String, Vec<String>>,
    /// Gold tasks for each task of a round.
    pub(crate) share: f64,
}

impl Gold {
    /// The gold of a round: as much as wanted, evenly spread, of items that are neither in the round
    /// nor were gold before. It depends on the round alone.
    pub(crate) fn mix(
        &self,
        tasks: &[Arc<Task>],
        used: &HashSet<String>,
        dataset: &Dataset,
        pool: Side,
    ) -> Vec<GoldTask> {
        let (Some(first), Some(last)) = (tasks.first(), tasks.last()) else { return Vec::new() };
        let seed = format!("gold {} {} {}", first.id, last.id, tasks.len());
        let asked: HashSet<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
        let is_new = |id: &&String| !asked.contains(id.as_str()) && !used.contains(*id);
        let mut ids: Vec<&String> = self.known.keys().filter(is_new).collect();
        ids.sort_by_key(|id| Sha256::digest(format!("{seed} {id}")).to_vec());
        ids.truncate((tasks.len() as f64 * self.share).ceil() as usize);
        let count = ids.len();
        let place = |(number, id): (usize, &String)| {
            let drawn = unit(&format!("{seed} place {id}"));
            let before = (number as f64 + drawn) * tasks.len() as f64 / count as f64;
            (number, (before as usize).min(tasks.len() - 1), id.clone())
        };
        let places: Vec<(usize, usize, String)> = ids.into_iter().enumerate().map(place).collect();
        let explained = |at: usize| !tasks[at].why.is_empty() || !tasks[at].near.is_empty();
        let reasons = ConfusablePairs::of(dataset, places.iter().any(|(_, at, _)| explained(*at)));
        let gold = |(number, before, id): (usize, usize, String)| {
            let (next, last) = (&tasks[before], &tasks[before.saturating_sub(1)]);
            let known = self.known[&id].clone();
            let described = match pool {
                Side::Image => known.clone(),
                Side::Text => texts_of(dataset, &id),
            };
            let task = Task {
                index: None,
                rank: before + number + 1,
                // Between its neighbours, in looks as in place.
                score: (next.score + last.score) / 2.0,
                hits: next.hits,
                why: reasons.like(&next.why, &id, &described),
                near: reasons.near(&next.near, &id, &described),
                facts: next.facts.clone(),
                id,
            };
            GoldTask { at: before + number, task, known }
        };
        places.into_iter().map(gold).collect()
    }
}

/// How well an answer agrees with the known ones, from 0 to 1: for every caption the overlap with the
/// known caption that is most like it, on average; for an image, whether it is a known one. A skip
/// agrees with nothing.
pub(crate) fn agreement(known: &[String], said: &Submission) -> f64 {
    match said {
        Submission::Captions(captions) => {
            let known: Vec<Vec<String>> = known.iter().map(|caption| words(caption)).collect();
            let best = |caption: &String| {
                let said = words(caption);
                known.iter().map(|other| word_overlap(&said, other)).fold(0.0, f64::max)
            };
            captions.iter().map(best).sum::<f64>() / captions.len().max(1) as f64
        }
        Submission::Image(image) => f64::from(u8::from(known.contains(image))),
        Submission::Skip(_) => 0.0,
    }
}

/// Training pairs, to look up those that a gold item could be confused with.
struct ConfusablePairs {
    pairs: Vec<CaptionedItem>,
}

/// A captioned item.
struct CaptionedItem {
    id: String,
    caption: String,
    words: Vec<String>,
}

impl ConfusablePairs {
    fn of(dataset: &Dataset, wanted: bool) -> Self {
        let items = dataset.items();
        let train = if wanted { items.in_split(Some(TRAIN)) } else { Vec::new() };
        let step = train.len().div_ceil(LOOKED_AT).max(1);
        let pair = |&at: &_| {
            let item = items.get(at);
            let caption = item.captions.into_iter().next()?;
            Some(CaptionedItem { id: item.id, words: words(&caption), caption })
        };
        ConfusablePairs { pairs: train.iter().step_by(step).filter_map(pair).collect() }
    }

    /// Pairs by the similarity of their captions to those of an item, highest first.
    fn nearest(&self, id: &str, described: &[String]) -> Vec<&CaptionedItem> {
        let described: Vec<Vec<String>> = described.iter().map(|text| words(text)).collect();
        let overlap = |said: &[String]| {
            described.iter().map(|text| word_overlap(text, said)).fold(0.0, f64::max)
        };
        let others = self.pairs.iter().filter(|pair| pair.id != id);
        let mut nearest: Vec<_> = others.map(|pair| (overlap(&pair.words), pair)).collect();
        nearest.sort_by(|one, other| other.0.total_cmp(&one.0));
        nearest.into_iter().map(|(_, pair)| pair).collect()
    }

    /// Near items for a gold task: as many as its neighbour in the queue has, and the same ones where the dataset
    /// has no others.
    fn near(&self, neighbour: &[Near], id: &str, described: &[String]) -> Vec<Near> {
        if neighbour.is_empty() {
            return Vec::new();
        }
        let mut others = self.nearest(id, described).into_iter();
        let like = |near: &Near| {
            let mut near = near.clone();
            let Some(other) = others.next() else { return near };
            let drawn = 0.02 * (unit(&format!("{id} {}", other.id)) - 0.5);
            match &mut near {
                Near::Paired { id, caption, cosine, .. } => {
                    (*id, *caption) = (Some(other.id.clone()), Some(other.caption.clone()));
                    *cosine += drawn;
                }
                Near::Pool { id, share, .. } => {
                    id.clone_from(&other.id);
                    *share += drawn;
                }
            }
            near
        };
        neighbour.iter().map(like).collect()
    }

    /// Reasons for a gold task: as many as its neighbour in the queue has, with similar numbers.
    fn like(&self, neighbour: &[Why], id: &str, described: &[String]) -> Vec<Why> {
        if neighbour.is_empty() {
            return Vec::new();
        }
        let nearest = self.nearest(id, described);
        let reason = |(why, pair): (&Why, &&CaptionedItem)| {
            // Jitter: equal numbers would give the gold task away.
            let drawn = 0.02 * (unit(&format!("{id} {}", pair.id)) - 0.5);
            let (similarity, threshold) = (why.similarity + drawn, why.threshold + drawn / 2.0);
            Why {
                id: Some(pair.id.clone()),
                caption: Some(pair.caption.clone()),
                similarity,
                threshold,
                surplus: similarity - threshold,
                own: why.own.map(|own| own + drawn),
                ..Why::default()
            }
        };
        neighbour.iter().zip(&nearest).map(reason).collect()
    }
}

fn texts_of(dataset: &Dataset, id: &str) -> Vec<String> {
    let found = dataset.items().find([id]);
    found.get(id).map(|&at| dataset.items().get(at).captions).unwrap_or_default()
}

/// A number from 0 to 1 that depends on a text.
fn unit(text: &str) -> f64 {
    let hash = Sha256::digest(text);
    let drawn = hash.iter().take(6).fold(0, |drawn, &byte| drawn << 8 | u64::from(byte));
    drawn as f64 / (1u64 << 48) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_agree_with_what_is_known() {
        let known = ["A red circle .".to_owned(), "Something round".to_owned()];
        let said =
            |texts: &[&str]| Submission::Captions(texts.iter().map(|&text| text.into()).collect());
        assert_eq!(agreement(&known, &said(&["a RED circle"])), 1.0);
        assert_eq!(agreement(&known, &said(&["a red circle", "two cats"])), 0.5);
        assert_eq!(agreement(&known, &Submission::Skip("dark".into())), 0.0);
        let images = ["b".to_owned()];
        assert_eq!(agreement(&images, &Submission::Image("b".into())), 1.0);
        assert_eq!(agreement(&images, &Submission::Image("c".into())), 0.0);
    }
}
