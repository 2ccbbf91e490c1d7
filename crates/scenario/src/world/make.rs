//! Writes the dataset of a world.

use std::path::Path;

use nextpair_data::dataset::{AddedImages, AddedItem, Dataset, FeatureSet, Features, Item};
use nextpair_data::{Matrix, Progress, Side, draw};
use nextpair_models::Corpus;

use super::layout::SEED;
use super::rows::Rows;
use super::{COPIES, JUNK, JunkKind, Layout, World};
use crate::Error;
use crate::Experiment;
use crate::plan::{Ground, world_layout};

/// The file that says how the dataset was made.
const SETTINGS: &str = "world.toml";

/// The purpose of the draw of junk from another dataset.
const OTHERS: u64 = 7;

/// Writes the dataset of a world of `corpus` to `out`, whole or not at all.
pub(crate) fn make(
    world: &World,
    experiment: &Experiment,
    corpus: &Corpus,
    out: &Path,
    progress: &dyn Progress,
) -> Result<Dataset, Error> {
    let (dataset, items) = (corpus.dataset(), corpus.dataset().items());
    let ours = |split: &Option<&str>| split.is_some_and(|split| [COPIES, JUNK].contains(&split));
    if let Some(split) = items.splits().find(ours).flatten() {
        let what = format!("a split is called {split}, as the added items of a world are");
        return Err(Error::file(dataset.folder(), what));
    }
    let ground = Ground::new(experiment, corpus)?;
    let layout = world_layout(world, experiment, corpus, &ground);
    let (set, features) = corpus.image_features();
    let others = match &world.junk_kind {
        JunkKind::Dataset(path) if layout.junk > 0 => {
            Some(others(path, set, features, layout.junk)?)
        }
        _ => None,
    };
    let rows = Rows::new(world, features, ground.candidates(), &layout.sources, others);
    let images = AddedImages { set: &set.name, row: &|at, out| rows.write(at, out) };
    let text = toml::to_string(world).map_err(|e| Error::setting("world", e.to_string()))?;
    let about = format!(
        "# Made of {} by the table [world] of an experiment.\n{text}",
        dataset.folder().display()
    );
    let added = added(corpus, &layout);
    // The features are read while the rows are made.
    corpus.steady(|| {
        dataset.extended(out, (SETTINGS, &about), &added, &images, progress).map_err(Error::from)
    })
}

/// Returns the copies, then the junk.
fn added(corpus: &Corpus, layout: &Layout) -> Vec<AddedItem> {
    let items = corpus.dataset().items();
    let mut added = Vec::with_capacity(layout.sources.len() + layout.junk);
    for of_source in layout.sources.chunk_by(|a, b| a == b) {
        let source = items.get(of_source[0]);
        let numbers: Vec<usize> = items.captions_of(of_source[0]).collect();
        for number in 0..of_source.len() {
            // The first caption of a copy is never that of its source, if there is another one.
            let count = numbers.len();
            let first = if count > 1 { 1 + number % (count - 1) } else { 0 };
            let (mut captions, mut captions_of) = (source.captions.clone(), numbers.clone());
            captions.rotate_left(first);
            captions_of.rotate_left(first);
            let item = Item {
                id: format!("{}~{}", source.id, number + 1),
                split: Some(COPIES.to_owned()),
                image: source.image.clone(),
                captions,
            };
            added.push(AddedItem { item, captions_of });
        }
    }
    let junk = |number: usize| Item {
        id: format!("junk-{number}"),
        split: Some(JUNK.to_owned()),
        ..Item::default()
    };
    added.extend((1..=layout.junk).map(|n| AddedItem { item: junk(n), captions_of: Vec::new() }));
    added
}

/// Returns features of another dataset, and a draw of their rows.
fn others(
    path: &Path,
    set: &FeatureSet,
    own: &Features,
    count: usize,
) -> Result<(Matrix, Vec<usize>), Error> {
    let dataset = Dataset::open(path)?;
    let named = dataset.features(Side::Image, Some(&set.name));
    let (other, features) = named.or_else(|_| dataset.features(Side::Image, None))?;
    let shape = |features: &Features| {
        let matrix = features.matrix();
        format!("{} x {}", matrix.locals(), matrix.dim())
    };
    if shape(own) != shape(&features) {
        let what = format!(
            "the image features {} are {} numbers an item; those of the experiment are {}",
            other.name,
            shape(&features),
            shape(own)
        );
        return Err(Error::file(path, what));
    }
    let rows: Vec<usize> =
        (0..dataset.items().len()).filter_map(|item| features.row(item)).collect();
    if rows.len() < count {
        let what = format!("{} images, and {count} items of junk are asked for", rows.len());
        return Err(Error::file(path, what));
    }
    let drawn = draw::sample(SEED, OTHERS, rows.len(), count);
    let drawn = drawn.into_iter().map(|at| rows[at as usize]).collect();
    Ok((features.matrix().clone(), drawn))
}
