//! The inputs of encoders: images by item, captions by number.

use nextpair_data::dataset::{Dataset, Items, TRAIN};
use nextpair_data::{Side, picture};

use crate::{Error, ImageEncoder, TextEncoder, Worker};

/// The result for one item or caption.
pub(super) enum Encoded {
    /// Its features.
    Row(Vec<f32>),
    /// There is nothing to encode.
    Nothing,
    /// It could not be encoded, for this reason.
    Bad(String),
}

/// Items or captions, and an encoder for them.
pub(super) trait Rows: Sync {
    fn side(&self) -> Side;
    fn phase(&self) -> &'static str;
    /// Number of items or captions, with and without something to encode.
    fn count(&self) -> usize;
    /// How many are encoded and recorded together: about a second's work, which is little to lose,
    /// and enough that waiting for the last one and for the disk does not matter.
    fn chunk(&self) -> usize;
    /// Vectors per row, and their dimensions.
    fn shape(&self) -> (usize, usize);
    /// Encodes one item or caption. An error is one of the encoder itself, which would affect every
    /// row.
    fn make(&self, worker: &Worker, at: usize) -> Result<Encoded, Error>;
    /// A name for people.
    fn name(&self, at: usize) -> String;
    /// Whether to fit principal components on it, if there is a training split.
    fn in_train(&self, at: usize) -> bool;
    /// Everything about the encoder that the numbers depend on.
    fn describe(&self) -> Result<toml::Table, Error>;
}

pub(super) struct Images<'a> {
    pub(super) dataset: &'a Dataset,
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
        self.dataset.items().len()
    }

    fn chunk(&self) -> usize {
        128
    }

    fn shape(&self) -> (usize, usize) {
        (self.encoder.locals(), self.encoder.dim())
    }

    fn make(&self, worker: &Worker, at: usize) -> Result<Encoded, Error> {
        let item = self.dataset.items().get(at);
        let Some(file) = self.dataset.image_path(&item) else { return Ok(Encoded::Nothing) };
        match picture::read(&file) {
            Ok(picture) => row(self.encoder.encode(worker, &picture)),
            Err(error) => Ok(Encoded::Bad(error.to_string())),
        }
    }

    fn name(&self, at: usize) -> String {
        self.dataset.items().get(at).id
    }

    fn in_train(&self, at: usize) -> bool {
        self.dataset.items().split_of(at) == Some(TRAIN)
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

    fn chunk(&self) -> usize {
        1024
    }

    fn shape(&self) -> (usize, usize) {
        (1, self.encoder.dim())
    }

    fn make(&self, worker: &Worker, at: usize) -> Result<Encoded, Error> {
        let (_, caption) = self.caption(at);
        row(self.encoder.encode(worker, &caption))
    }

    fn name(&self, at: usize) -> String {
        let (id, caption) = self.caption(at);
        format!("{id}: {}", caption.chars().take(80).collect::<String>())
    }

    fn in_train(&self, at: usize) -> bool {
        self.items.split_of(self.items.item_of_caption(at)) == Some(TRAIN)
    }

    fn describe(&self) -> Result<toml::Table, Error> {
        self.encoder.describe()
    }
}

impl Captions<'_> {
    /// A caption and the id of its item.
    fn caption(&self, at: usize) -> (String, String) {
        let index = self.items.item_of_caption(at);
        let mut item = self.items.get(index);
        let caption = item.captions.swap_remove(at - self.items.captions_of(index).start);
        (item.id, caption)
    }
}

/// Checks the output of an encoder.
fn row(encoded: Result<Vec<f32>, Error>) -> Result<Encoded, Error> {
    Ok(match encoded {
        Ok(numbers) if numbers.iter().all(|number| number.is_finite()) => Encoded::Row(numbers),
        Ok(_) => Encoded::Bad("the encoder gave a number that is not finite".to_owned()),
        Err(error) if error.is_of_any_input() => return Err(error),
        Err(error) => Encoded::Bad(error.to_string()),
    })
}
