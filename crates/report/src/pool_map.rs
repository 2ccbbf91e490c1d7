//! Maps of the picks in the pool, in the embedding space of the model of round 0.

use std::collections::HashMap;
use std::path::Path;

use nextpair_data::dataset::Dataset;
use nextpair_data::{Progress, Side, draw, queue};
use nextpair_models::{Corpus, Device, Encodings, ModelFolder};
use nextpair_scenario::numbers::grouped;
use nextpair_scenario::{Arm, Study};
use serde_json::{Value, json};

use crate::Error;
use crate::bought::bought;
use crate::chart::{self, Chart, Panel};
use crate::tiles::Tiles;
use crate::tsne::tsne;

/// Maximum number of points on a map.
const MOST: usize = 1500;
/// Up to this number, all picks are shown. Beyond it, only those in a sample of the pool.
const MOST_PICKS: usize = 1000;
/// Keeps this sample apart from other draws with the same seed.
const SAMPLE: u64 = 0x3a9;

/// A map with its caption, and what the script of the page needs to know about its points.
#[derive(Clone)]
pub(super) struct PoolMap {
    pub(super) chart: Chart,
    /// The pictures of what the strategies picked, if they have any.
    pub(super) bought: Option<Chart>,
    pub(super) note: String,
    pub(super) data: Value,
}

/// The batch to map, and the device of the model.
pub(super) struct Request<'a> {
    pub(super) study: &'a Study,
    pub(super) dataset: &'a Path,
    pub(super) seed: u64,
    /// Strategies, each with the number of its style.
    pub(super) arms: &'a [(Arm, usize)],
    /// The beginning of the names of the charts' files.
    pub(super) prefix: &'a str,
    pub(super) device: Device,
    /// Whether the points have small pictures.
    pub(super) pictures: bool,
}

impl Request<'_> {
    /// Returns a name of what the map shows: the picks that exist by now.
    pub(super) fn key(&self) -> String {
        let picked = |(arm, _): &&(Arm, usize)| self.study.folder.picks(self.seed, arm, 1).exists();
        let arms = self.arms.iter().filter(picked).map(|(arm, style)| format!("{arm} {style}"));
        let arms: Vec<String> = arms.collect();
        format!("{} {} {}", self.study.folder.path().display(), self.seed, arms.join(", "))
    }
}

/// Maps the first batch of a seed.
pub(super) fn pool_map(request: &Request<'_>, progress: &dyn Progress) -> Result<PoolMap, Error> {
    let &Request { study, dataset, seed, arms, prefix, device, pictures } = request;
    let run = ModelFolder::open(&study.folder.model(seed, None, 0))?;
    let corpus = run.corpus(Dataset::open(dataset)?)?;
    let paired: Vec<usize> = run.pairs(&corpus)?.iter().map(|pair| pair.item).collect();
    let pool = pool(study, &corpus, seed, &paired)?;
    let places: HashMap<String, usize> = (pool.iter().enumerate())
        .map(|(at, &(item, _))| (corpus.dataset().items().get(item).id, at))
        .collect();
    let mut picked: Vec<(Arm, usize, Vec<usize>)> = Vec::new();
    for &(arm, style) in arms {
        let path = study.folder.picks(seed, &arm, 1);
        if path.exists() {
            let tasks = queue::read(&path)?;
            let picks = tasks.iter().filter_map(|task| places.get(&task.id).copied());
            picked.push((arm, style, picks.collect()));
        }
    }
    let pictures = pictures && study.experiment.pool == Side::Image;
    let bought = pictures.then(|| {
        let items = |picks: &Vec<usize>| picks.iter().map(|&at| pool[at].0).collect();
        let batches: Vec<(String, Vec<usize>)> =
            picked.iter().map(|(arm, _, picks)| (arm.to_string(), items(picks))).collect();
        bought(&format!("{prefix}bought"), corpus.dataset(), &paired, &batches)
    });
    let shown = sample(pool.len(), seed, picked.iter().flat_map(|(_, _, picks)| picks));
    let which: Vec<usize> = shown.iter().map(|&at| pool[at].1).collect();
    let model = run.model(device)?;
    let encoded = match study.experiment.pool {
        Side::Image => Encodings::of_images(&model, &corpus, &which, progress)?,
        Side::Text => Encodings::of_texts(&model, &corpus, &which, progress)?,
    };
    let points = tsne(&unit_rows(&encoded)?, seed, progress);
    let point_of: HashMap<usize, usize> =
        shown.iter().enumerate().map(|(point, &at)| (at, point)).collect();
    let panels: Vec<Panel> = (picked.iter())
        .map(|(arm, style, picks)| Panel {
            name: arm.to_string(),
            style: *style,
            picks: picks.iter().filter_map(|at| point_of.get(at).copied()).collect(),
        })
        .collect();
    let all = if shown.len() == pool.len() {
        "all".to_owned()
    } else {
        format!("{} of {}", grouped(shown.len()), grouped(pool.len()))
    };
    let note = format!(
        "The first batch of seed {seed} among {all} pool items (grey), placed by t-SNE (perplexity \
         30) of what the model of round 0 makes of them. Neighbours are alike to the model; \
         distances between far places mean little."
    );
    let (chart, places) =
        chart::map(&format!("{prefix}picks"), "First batch against the pool", &points, &panels);
    let items: Vec<usize> = shown.iter().map(|&at| pool[at].0).collect();
    let data = data(&corpus, &items, &which, study.experiment.pool, &places, &panels, pictures);
    Ok(PoolMap { chart, bought: bought.flatten(), note, data })
}

/// Returns the points for the script of the page: names, places, panels, and pictures or texts.
fn data(
    corpus: &Corpus,
    items: &[usize],
    which: &[usize],
    side: Side,
    places: &[(f64, f64)],
    panels: &[Panel],
    pictures: bool,
) -> Value {
    let all = corpus.dataset().items();
    let ids: Vec<String> = items.iter().map(|&item| all.get(item).id).collect();
    let short = |value: f64| (value * 10.0).round() / 10.0;
    let places: Vec<[f64; 2]> = places.iter().map(|&(x, y)| [short(x), short(y)]).collect();
    let panels: Vec<Value> =
        panels.iter().map(|panel| json!({ "name": panel.name, "picks": panel.picks })).collect();
    let mut data = json!({ "ids": ids, "places": places, "panels": panels });
    match side {
        Side::Text => {
            let text = |(&item, &text): (&usize, &usize)| {
                let at = text - all.captions_of(item).start;
                all.get(item).captions.get(at).cloned().unwrap_or_default()
            };
            data["texts"] = items.iter().zip(which).map(text).collect::<Vec<_>>().into();
        }
        Side::Image if pictures => {
            if let Some(tiles) = Tiles::of(corpus.dataset(), items) {
                data["tiles"] = tiles.data();
            }
        }
        Side::Image => {}
    }
    data
}

/// Returns the items that were unpaired in round 0, each with the input of the model: the item
/// itself or the caption that represents it.
fn pool(
    study: &Study,
    corpus: &Corpus,
    seed: u64,
    paired: &[usize],
) -> Result<Vec<(usize, usize)>, Error> {
    let own = |item: usize| match study.experiment.pool {
        Side::Image => Some((item, item)),
        Side::Text => study.text_of(corpus, item, seed).map(|text| (item, text)),
    };
    Ok(study.pool(corpus, seed, paired)?.into_iter().filter_map(own).collect())
}

/// Returns indices into the pool, ascending: all picks if they are few enough, and a sample of the
/// rest.
fn sample<'a>(pool: usize, seed: u64, picks: impl Iterator<Item = &'a usize>) -> Vec<usize> {
    let mut shown: Vec<usize> = picks.copied().collect();
    shown.sort_unstable();
    shown.dedup();
    if shown.len() > MOST_PICKS {
        shown.clear();
    }
    let rest: Vec<usize> = (0..pool).filter(|at| shown.binary_search(at).is_err()).collect();
    let sample = draw::sample(seed, SAMPLE, rest.len(), MOST - shown.len());
    shown.extend(sample.into_iter().map(|at| rest[at as usize]));
    shown.sort_unstable();
    shown
}

/// Returns one vector of unit norm per item: models compare directions.
fn unit_rows(encoded: &Encodings) -> Result<Vec<Vec<f64>>, Error> {
    let means = encoded.means()?;
    let row = |at: usize| {
        let mut row = vec![0.0; means.dim()];
        means.read_f64(at, &mut row);
        let norm = row.iter().map(|value| value * value).sum::<f64>().sqrt();
        row.iter_mut().for_each(|value| *value /= norm.max(1e-300));
        row
    };
    Ok((0..encoded.len()).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_picks_are_shown_while_they_are_few() {
        let picks = [3, 9999, 3, 77];
        let shown = sample(10_000, 1, picks.iter());
        assert_eq!(shown.len(), MOST);
        assert!(picks.iter().all(|pick| shown.contains(pick)));
        assert!(shown.windows(2).all(|two| two[0] < two[1]));
        let many: Vec<usize> = (0..2000).collect();
        let shown = sample(10_000, 1, many.iter());
        assert_eq!(shown.len(), MOST);
        assert!(shown.iter().filter(|&&at| at < 2000).count() < 450);
        assert_eq!(sample(5, 1, [].iter()), [0, 1, 2, 3, 4]);
    }
}
