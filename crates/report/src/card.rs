//! Thumbnails of items, for pages and contact sheets.

use image::RgbImage;
use image::imageops::{FilterType, resize};
use nextpair_data::dataset::{Dataset, Item};
use nextpair_data::picture::{self, Picture};

/// Maximum width of a thumbnail.
pub const WIDTH: u32 = 288;
/// Maximum height of a thumbnail.
pub const HEIGHT: u32 = 216;

/// A thumbnail, or the reason why there is none.
pub type Thumbnail = Result<RgbImage, &'static str>;

/// An item with its thumbnail.
pub struct Card {
    /// The item.
    pub item: Item,
    /// Its thumbnail.
    pub thumbnail: Thumbnail,
}

impl Card {
    /// Creates the card of an item of a dataset.
    pub fn of(dataset: &Dataset, index: usize) -> Self {
        let item = dataset.items().get(index);
        let thumbnail = match (dataset.image_file(&item), &item.image) {
            (_, None) => Err("no image"),
            (None, Some(_)) => Err("image not at hand"),
            (Some(file), Some(_)) => match picture::read(&file) {
                Ok(picture) => thumbnail(picture),
                Err(_) => Err("image cannot be read"),
            },
        };
        Card { item, thumbnail }
    }
}

/// Scales an image to fit into the frame.
pub fn thumbnail(picture: Picture) -> Thumbnail {
    let Picture { width, height, pixels } = picture;
    let whole = RgbImage::from_raw(width, height, pixels).ok_or("image cannot be read")?;
    let scale = (f64::from(WIDTH) / f64::from(width)).min(f64::from(HEIGHT) / f64::from(height));
    let side = |length: u32| ((f64::from(length) * scale).round() as u32).max(1);
    Ok(resize(&whole, side(width), side(height), FilterType::CatmullRom))
}
