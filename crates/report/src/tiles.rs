//! Small pictures of many items in one image, for maps.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::imageops::{FilterType, overlay};
use image::{DynamicImage, RgbImage};
use nextpair_data::dataset::Dataset;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::card::Card;
use crate::gallery::jpeg;

const WIDTH: u32 = 80;
const HEIGHT: u32 = 60;
const COLUMNS: u32 = 32;
/// Qualities to try, the best first, and the size that is small enough.
const QUALITIES: [u8; 4] = [70, 50, 30, 10];
const SMALL: usize = 1_350_000;

/// Pictures of items, in their order, as tiles of one image.
pub(crate) struct Tiles {
    image: String,
    /// Whether an item has a picture.
    known: Vec<bool>,
}

impl Tiles {
    /// Reads the pictures. Returns `None` if there are none.
    pub(crate) fn of(dataset: &Dataset, items: &[usize]) -> Option<Self> {
        let tile = |&item: &usize| {
            let picture = DynamicImage::ImageRgb8(Card::of(dataset, item).thumbnail.ok()?);
            Some(picture.resize_to_fill(WIDTH, HEIGHT, FilterType::Triangle).into_rgb8())
        };
        let tiles: Vec<Option<RgbImage>> = items.par_iter().map(tile).collect();
        if tiles.iter().all(Option::is_none) {
            return None;
        }
        let rows = (tiles.len() as u32).div_ceil(COLUMNS);
        let mut sheet = RgbImage::new(COLUMNS * WIDTH, rows * HEIGHT);
        for (at, tile) in tiles.iter().enumerate() {
            let (row, column) = (at as u32 / COLUMNS, at as u32 % COLUMNS);
            if let Some(tile) = tile {
                overlay(&mut sheet, tile, i64::from(column * WIDTH), i64::from(row * HEIGHT));
            }
        }
        let known = tiles.iter().map(Option::is_some).collect();
        let mut image = Vec::new();
        for quality in QUALITIES {
            image = jpeg(&sheet, quality)?;
            if image.len() <= SMALL {
                break;
            }
        }
        Some(Tiles { image: STANDARD.encode(image), known })
    }

    /// Returns the image and its measures for the script of the page.
    pub(crate) fn data(&self) -> Value {
        let missing = self.known.iter().enumerate().filter(|(_, known)| !**known);
        let missing: Vec<usize> = missing.map(|(at, _)| at).collect();
        json!({
            "image": self.image, "missing": missing, "columns": COLUMNS, "width": WIDTH,
            "height": HEIGHT,
        })
    }
}
