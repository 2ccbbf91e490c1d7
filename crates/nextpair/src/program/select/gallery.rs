//! `nextpair select --html PAGE`: the picks as a gallery.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::data::dataset::{Dataset, Items};
use crate::data::queue::Anchor;
use crate::data::{AtomicFile, Side};
use crate::engine::{BuiltIn, Near, Neighbour, Pick, Picks, Strategy};
use crate::report::{PickedBatch, ShownNear, ShownPick, ShownReason, gallery_page};
use anyhow::{Context, Result, ensure};

use crate::program::numbers::grouped;
use crate::program::selection::Names;
use crate::program::warnings::Warning;

/// The most pictures of picks and anchors on the page.
const PICTURES: usize = 1000;

/// The flags of the page.
#[derive(clap::Args)]
pub(crate) struct GalleryArgs {
    /// Write the picks as a page too: their images, the captions they would be confused with, filters
    #[arg(long, value_name = "PAGE")]
    html: Option<PathBuf>,
    /// --html with embeddings: the dataset that has the images and captions, by --ids and --paired-ids
    #[arg(long, value_name = "DIR", requires = "html", conflicts_with = "dataset")]
    html_dataset: Option<PathBuf>,
}

/// A page that can be written once the picks are known.
pub(crate) struct GalleryPage<'a> {
    path: &'a Path,
    dataset: Option<Dataset>,
}

impl GalleryArgs {
    /// Returns the dataset that has the picks, if it was named.
    pub(crate) fn dataset(&self) -> Option<&Path> {
        self.html_dataset.as_deref()
    }

    /// Checks the page before the work begins. The dataset is the one that the pool is taken from, if it
    /// is one.
    pub(crate) fn open(&self, dataset: Option<&Path>) -> Result<Option<GalleryPage<'_>>> {
        let Some(path) = self.html.as_deref() else { return Ok(None) };
        let ending = path.extension().and_then(|ending| ending.to_str());
        ensure!(
            matches!(ending, Some("html" | "htm")),
            "--html {}: a page ends in .html",
            path.display()
        );
        AtomicFile::check(path)?;
        let dataset = self.dataset().or(dataset).map(Dataset::open).transpose()?;
        Ok(Some(GalleryPage { path, dataset }))
    }
}

impl GalleryPage<'_> {
    /// Writes the page of picks.
    pub(crate) fn write(
        &self,
        (strategy, side): (BuiltIn, Side),
        names: &dyn Names,
        picks: &Picks,
        warnings: &[Warning],
    ) -> Result<()> {
        let dataset = self.dataset.as_ref();
        let cards = Cards::of(names, picks, dataset.map(Dataset::items), side);
        let batch = PickedBatch {
            strategy: strategy.name().to_owned(),
            said: said(strategy, side, picks),
            batch: 1,
            seed: None,
            total: picks.picks.len(),
            picks: picks.picks.iter().map(|pick| cards.pick(pick)).collect(),
            pool: side,
            effect: picks.effect,
        };
        let title = format!(
            "{} of {} picked by {}",
            grouped(picks.picks.len()),
            grouped(picks.pool),
            strategy.name()
        );
        let warnings: Vec<String> = warnings.iter().map(Warning::line).collect();
        let html = gallery_page(&title, &warnings, batch, dataset, PICTURES);
        AtomicFile::write_whole(self.path, html.as_bytes())
            .with_context(|| self.path.display().to_string())?;
        say!("page        {}", self.path.display());
        Ok(())
    }
}

/// Says what the bars of a gallery mean.
fn said(strategy: BuiltIn, side: Side, picks: &Picks) -> String {
    let (half, other) = side.own_and_other("image", "caption");
    if picks.picks.iter().all(|pick| pick.why.is_empty()) {
        return String::new();
    }
    match strategy {
        BuiltIn::HardNegative(_) => format!(
            "Each {half} is more similar to the {other}s under it than their rivals among the pairs are: the \
             model would confuse it with them. Bars are similarities, marks are thresholds."
        ),
        _ => format!(
            "Under each {half} are the {other}s that the model would confuse it with. Bars are similarities, \
             marks are thresholds."
        ),
    }
}

/// Names and captions of picks and anchors.
struct Cards<'a> {
    names: &'a dyn Names,
    side: Side,
    items: Option<&'a Items>,
    /// Items of the dataset by their ids.
    places: HashMap<String, usize>,
}

impl<'a> Cards<'a> {
    fn of(names: &'a dyn Names, picks: &Picks, items: Option<&'a Items>, side: Side) -> Self {
        let of_pair = |pair: u32| item_of(&names.anchor(pair).name).0.to_owned();
        let anchors = picks.picks.iter().flat_map(|pick| &pick.why).map(|why| of_pair(why.anchor));
        let near = picks.picks.iter().flat_map(|pick| &pick.near).map(|near| match near.item {
            Neighbour::Paired(pair) => of_pair(pair),
            Neighbour::Pool(index) => names.id(index),
        });
        let own = picks.picks.iter().map(|pick| names.id(pick.index));
        let ids: Vec<String> = own.chain(anchors).chain(near).collect();
        let places = items.map_or_else(HashMap::new, |items| {
            let found = items.find(ids.iter().map(String::as_str)).into_iter();
            found.map(|(id, place)| (id.to_owned(), place)).collect()
        });
        Cards { names, side, items, places }
    }

    fn pick(&self, pick: &Pick) -> ShownPick {
        let id = self.names.id(pick.index);
        let reason = |why: &crate::engine::Reason| {
            let (id, caption) = self.pair(why.anchor);
            ShownReason { id, caption, similarity: why.similarity, threshold: why.threshold }
        };
        let near = |&Near { item, value }: &Near| match item {
            Neighbour::Paired(pair) => {
                let (id, caption) = self.pair(pair);
                ShownNear { id, text: Some(caption), is_paired: true, value }
            }
            Neighbour::Pool(index) => {
                let id = self.names.id(index);
                ShownNear { text: self.text(index, &id), id, is_paired: false, value }
            }
        };
        let (why, near) = (pick.why.iter().map(reason), pick.near.iter().map(near));
        ShownPick {
            text: self.text(pick.index, &id),
            id,
            score: pick.score,
            hits: pick.hits,
            why: why.collect(),
            near: near.collect(),
        }
    }

    /// The item and the caption of a pair.
    fn pair(&self, pair: u32) -> (String, String) {
        let Anchor { name, pair } = self.names.anchor(pair);
        pair.unwrap_or_else(|| {
            let (item, number) = item_of(&name);
            (item.to_owned(), self.caption(item, number).unwrap_or_else(|| name.clone()))
        })
    }

    /// The text that stands for a pool item, in a pool of texts.
    fn text(&self, index: u32, id: &str) -> Option<String> {
        let known = || self.names.text(index).or_else(|| self.caption(id, 0));
        (self.side == Side::Text).then(|| known().unwrap_or_else(|| id.to_owned()))
    }

    fn caption(&self, id: &str, number: usize) -> Option<String> {
        let item = self.items?.get(*self.places.get(id)?);
        item.captions.get(number).or_else(|| item.captions.first()).cloned()
    }
}

/// Returns the item of an anchor and the number of its caption: `dog.jpg#2` is the third one of `dog.jpg`.
fn item_of(name: &str) -> (&str, usize) {
    let parts = name.rsplit_once('#').and_then(|(id, number)| Some((id, number.parse().ok()?)));
    parts.unwrap_or((name, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_name_an_item_and_a_caption() {
        assert_eq!(item_of("dog.jpg#2"), ("dog.jpg", 2));
        assert_eq!(item_of("dog.jpg"), ("dog.jpg", 0));
        assert_eq!(item_of("a#b"), ("a#b", 0));
    }
}
