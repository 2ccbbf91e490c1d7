//! The samples of a contact sheet.

use anyhow::{Result, ensure};
use image::RgbImage;
use image::imageops::{FilterType, resize};
use nextpair_data::dataset::{Dataset, Item};
use nextpair_data::{Draws, picture};
use rayon::prelude::*;

/// Thumbnails fit into this.
pub(super) const WIDTH: u32 = 288;
pub(super) const HEIGHT: u32 = 216;

/// An item with what can be seen of it.
pub(super) struct Card {
    pub(super) item: Item,
    pub(super) thumbnail: Result<RgbImage, &'static str>,
}

/// Draws samples of a split, or of everything, in the order of the dataset.
pub(super) fn choose(
    dataset: &Dataset,
    split: Option<&str>,
    samples: usize,
    seed: u64,
) -> Result<Vec<Card>> {
    let items = dataset.items();
    let mut indices: Vec<usize> = match split {
        Some(_) => items.in_split(split),
        None => (0..items.len()).collect(),
    };
    ensure!(!indices.is_empty(), "there is no item in the split {}", split.unwrap_or_default());
    let mut draws = Draws::new(seed);
    let samples = samples.min(indices.len());
    for at in 0..samples {
        let other = at + (draws.bits() % (indices.len() - at) as u64) as usize;
        indices.swap(at, other);
    }
    indices.truncate(samples);
    indices.sort_unstable();
    let folder = dataset.image_folder();
    let card = |index: usize| {
        let item = items.get(index);
        let thumbnail = match (&folder, &item.image) {
            (_, None) => Err("no image"),
            (None, Some(_)) => Err("image not at hand"),
            (Some(folder), Some(image)) => picture::read(&folder.join(image))
                .ok()
                .and_then(thumbnail)
                .ok_or("image cannot be read"),
        };
        Card { item, thumbnail }
    };
    Ok(indices.into_par_iter().map(card).collect())
}

/// The whole picture, smaller or larger, in the frame.
fn thumbnail(picture: picture::Picture) -> Option<RgbImage> {
    let picture::Picture { width, height, pixels } = picture;
    let whole = RgbImage::from_raw(width, height, pixels)?;
    let scale = (f64::from(WIDTH) / f64::from(width)).min(f64::from(HEIGHT) / f64::from(height));
    let side = |length: u32| ((f64::from(length) * scale).round() as u32).max(1);
    Some(resize(&whole, side(width), side(height), FilterType::CatmullRom))
}
