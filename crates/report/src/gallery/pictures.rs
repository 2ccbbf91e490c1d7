//! Pictures that are part of a page, each of them once.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::RgbImage;
use image::codecs::jpeg::JpegEncoder;
use nextpair_data::dataset::Dataset;
use rayon::prelude::*;
use serde_json::Value;

use crate::card::Card;
use crate::memory::Memory;
use crate::page::escaped;

/// Size of a picture: sharp enough for a card, small enough for hundreds on a page.
const WIDTH: u32 = 200;
const HEIGHT: u32 = 150;
const QUALITY: u8 = 66;
/// Room for a picture on the page, in bytes: a little more than photographs take on average.
const EACH: usize = 8800;
/// Pictures read at a time. The budget is looked at in between.
const AT_ONCE: usize = 64;

/// How many pictures a page may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Number of pictures.
    pub(crate) pictures: usize,
    /// Bytes of all of them, as they stand on the page.
    pub(crate) bytes: usize,
}

impl Budget {
    /// Returns the budget of a page with this many pictures at most. The bytes suffice for photographs; with
    /// pictures that are hard to compress there are fewer.
    pub(crate) fn of(pictures: usize) -> Self {
        Budget { pictures, bytes: pictures * EACH }
    }

    /// Returns the share of one of several parts of a page.
    pub(crate) fn shared_by(self, parts: usize) -> Self {
        let parts = parts.max(1);
        Budget { pictures: self.pictures / parts, bytes: self.bytes / parts }
    }
}

/// Pictures by the ids of their items, as base64.
pub(crate) struct Pictures(HashMap<String, String>);

impl Pictures {
    /// Reads the pictures of items, most wanted first, until the budget is spent.
    pub(crate) fn of<'a>(
        ids: impl Iterator<Item = &'a str>,
        dataset: Option<&Dataset>,
        budget: Budget,
        memory: &Memory,
    ) -> Self {
        let mut pictures = HashMap::new();
        let Some(dataset) = dataset.filter(|_| budget.pictures > 0) else {
            return Pictures(pictures);
        };
        let mut wanted: Vec<&str> = Vec::new();
        let mut seen: std::collections::HashSet<&str> = Default::default();
        // Some items have no image; a few more than the budget make up for them.
        for id in ids {
            if seen.insert(id) {
                wanted.push(id);
            }
            if wanted.len() >= 2 * budget.pictures {
                break;
            }
        }
        let places = dataset.items().find(wanted.iter().copied());
        let mut bytes = 0;
        for some in wanted.chunks(AT_ONCE) {
            let read = |id: &&str| {
                let made = || {
                    let picture = Card::of(dataset, *places.get(*id)?).thumbnail.ok()?;
                    Some(STANDARD.encode(jpeg(&fitted(&picture), QUALITY)?))
                };
                Some(((*id).to_owned(), memory.picture(id, made)?))
            };
            let found: Vec<Option<(String, String)>> = some.par_iter().map(read).collect();
            for (id, picture) in found.into_iter().flatten() {
                if pictures.len() == budget.pictures || bytes + picture.len() > budget.bytes {
                    return Pictures(pictures);
                }
                bytes += picture.len();
                pictures.insert(id, picture);
            }
        }
        Pictures(pictures)
    }

    /// Returns the picture of an item as base64.
    pub(crate) fn get(&self, id: &str) -> Option<&str> {
        self.0.get(id).map(String::as_str)
    }

    /// Returns the picture of an item in a frame, or its name.
    pub(crate) fn frame(&self, id: &str) -> String {
        match self.get(id) {
            Some(picture) => format!(
                "<div class=\"frame\"><img alt=\"{}\" src=\"data:image/jpeg;base64,{picture}\"></div>",
                escaped(id)
            ),
            None => "<div class=\"frame\">no picture on this page</div>".to_owned(),
        }
    }
}

/// Scales a thumbnail to the size of the page.
fn fitted(picture: &RgbImage) -> RgbImage {
    let scale = f64::from(WIDTH) / f64::from(picture.width());
    let scale = scale.min(f64::from(HEIGHT) / f64::from(picture.height())).min(1.0);
    let side = |length: u32| ((f64::from(length) * scale).round() as u32).max(1);
    let (width, height) = (side(picture.width()), side(picture.height()));
    image::imageops::resize(picture, width, height, image::imageops::FilterType::CatmullRom)
}

/// Encodes a picture as JPEG.
pub(crate) fn jpeg(picture: &RgbImage, quality: u8) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut bytes, quality);
    picture.write_with_encoder(encoder).ok()?;
    Some(bytes)
}

/// Returns data as an element of the page that scripts read. No text in it can end the element.
pub(crate) fn embedded(data: &Value) -> String {
    let text = data.to_string().replace('<', "\\u003c");
    format!("<script type=\"application/json\">{text}</script>")
}
