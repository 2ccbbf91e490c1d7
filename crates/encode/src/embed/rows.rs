//! What is encoded: images by item, captions by number.

use std::path::PathBuf;

use nextpair_data::dataset::{Items, TRAIN};
use nextpair_data::{Side, picture};

use crate::{Error, ImageEncoder, TextEncoder, Worker};

/// What came of one item or caption.
pub(super) enum Made {
    /// Its numbers.
    Row(Vec<f32>),
    /// There is nothing to encode.
    Nothing,
    /// It could not be encoded: a line for the list of those.
    Bad(String),
}

/// Items or captions, and an encoder for them.
pub(super) trait Rows: Sync {
    fn side(&self) -> Side;
    fn phase(&self) -> &'static str;
    /// How many there are, with and without something to encode.
    fn count(&self) -> usize;
    /// Vectors, and numbers per vector.
    fn shape(&self) -> (usize, usize);
    fn make(&self, worker: &Worker, at: usize) -> Result<Made, Error>;
    /// Whether principal components are fitted on it, where there is such a split.
    fn in_train(&self, at: usize) -> bool;
    /// Everything about the encoder that the numbers depend on.
    fn describe(&self) -> Result<toml::Table, Error>;
}

pub(super) struct Images<'a> {
    pub(super) items: &'a Items,
    pub(super) folder: PathBuf,
    pub(super) encoder: &'a ImageEncoder,
}

impl Rows for Images<'_> {
    fn side(&self) -> Side {
        Side::Image
    }

    fn phase(&self) -> &'static str {
        "images"
    }

    fn count(&self) -> usize {
        self.items.len()
    }

    fn shape(&self) -> (usize, usize) {
        (self.encoder.locals(), self.encoder.dim())
    }

    fn make(&self, worker: &Worker, at: usize) -> Result<Made, Error> {
        let item = self.items.get(at);
        let Some(image) = item.image else { return Ok(Made::Nothing) };
        let path = self.folder.join(&image);
        match picture::read(&path) {
            Ok(picture) => match self.encoder.encode(worker, &picture) {
                Ok(numbers) => Ok(finite(numbers, &item.id)),
                Err(error @ Error::Picture { .. }) => Ok(bad(&item.id, &error.to_string())),
                Err(error) => Err(error),
            },
            Err(error) => Ok(bad(&item.id, &error.to_string())),
        }
    }

    fn in_train(&self, at: usize) -> bool {
        self.items.split_of(at) == Some(TRAIN)
    }

    fn describe(&self) -> Result<toml::Table, Error> {
        self.encoder.describe()
    }
}

pub(super) struct Captions<'a> {
    pub(super) items: &'a Items,
    pub(super) encoder: &'a TextEncoder,
}

impl Rows for Captions<'_> {
    fn side(&self) -> Side {
        Side::Text
    }

    fn phase(&self) -> &'static str {
        "captions"
    }

    fn count(&self) -> usize {
        self.items.captions()
    }

    fn shape(&self) -> (usize, usize) {
        (1, self.encoder.dim())
    }

    fn make(&self, worker: &Worker, at: usize) -> Result<Made, Error> {
        let index = self.items.item_of_caption(at);
        let mut item = self.items.get(index);
        let caption = item.captions.swap_remove(at - self.items.captions_of(index).start);
        Ok(finite(self.encoder.encode(worker, &caption)?, &format!("{}: {caption}", item.id)))
    }

    fn in_train(&self, at: usize) -> bool {
        self.items.split_of(self.items.item_of_caption(at)) == Some(TRAIN)
    }

    fn describe(&self) -> Result<toml::Table, Error> {
        self.encoder.describe()
    }
}

/// A row, unless there is no meaning in it.
fn finite(numbers: Vec<f32>, id: &str) -> Made {
    match numbers.iter().all(|number| number.is_finite()) {
        true => Made::Row(numbers),
        false => bad(id, "the encoder gave a number that is not finite"),
    }
}

fn bad(id: &str, what: &str) -> Made {
    let mut line = serde_json::json!({ "id": id, "what": what }).to_string();
    line.push('\n');
    Made::Bad(line)
}
