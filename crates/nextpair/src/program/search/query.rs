//! Queries, encoded by the model.

use std::path::Path;

use crate::data::Side;
use crate::data::picture;
use crate::data::text::tokenize;
use crate::encode::{ImageRecipe, TextRecipe};
use crate::models::{Encodings, Tensor, Texts};
use anyhow::{Context, Result, bail, ensure};

use crate::program::trained::Trained;
use crate::report::card::{Card, Thumbnail, thumbnail};

/// An encoded query.
pub(super) struct Query {
    /// The query as typed: the text, the file or the id.
    pub(super) said: String,
    pub(super) kind: Kind,
    /// The side of the query. The search returns the other side.
    pub(super) rows: Side,
    pub(super) encoded: Encodings,
    /// Words missing from the vocabulary of the model.
    pub(super) unknown_words: Vec<String>,
    /// Thumbnail of a query that is an image.
    pub(super) thumbnail: Option<Thumbnail>,
}

/// Returns a few words from all over a vocabulary.
fn samples(words: &[String]) -> Vec<&str> {
    let is_plain = |word: &&String| word.len() > 2 && word.chars().all(char::is_alphabetic);
    let plain: Vec<&String> = words.iter().filter(is_plain).collect();
    let step = (plain.len() / SAMPLES).max(1);
    plain.iter().step_by(step).take(SAMPLES).map(|word| word.as_str()).collect()
}

/// Number of words to name.
const SAMPLES: usize = 5;

/// The kind of a query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Image,
    /// An item of the dataset, by its number.
    Item(usize),
}

impl Query {
    /// Encodes a text: as words of the model's vocabulary, or with the encoder that made the text
    /// features of the dataset.
    pub(super) fn text(trained: &Trained, text: &str) -> Result<Self> {
        let mut unknown_words = Vec::new();
        let texts = match (trained.folder.vocabulary(), trained.corpus.text_features()) {
            (Some(vocabulary), _) => {
                let tokens = tokenize(text);
                let is_word = |token: &&String| token.chars().any(char::is_alphanumeric);
                let (known, unknown): (Vec<_>, Vec<_>) =
                    tokens.iter().filter(is_word).partition(|word| vocabulary.id(word).is_some());
                ensure!(
                    !known.is_empty(),
                    "not one word of {text:?} is in the vocabulary of the model, which has words such as \
                     {}",
                    samples(vocabulary.words()).join(", ")
                );
                unknown_words = unknown.into_iter().cloned().collect();
                Texts::words(&[vocabulary.encode(text)])?
            }
            (None, Some((set, _))) => {
                ensure!(!text.trim().is_empty(), "the text is empty");
                let row = TextRecipe::open(trained.dataset(), set)
                    .and_then(|recipe| recipe.row(text))
                    .context(
                        "the text cannot be encoded as the captions of the dataset were; --item \
                         searches by what the dataset has",
                    )?;
                let dim = trained.model.inputs().text;
                ensure!(row.len() == dim, "{} numbers for a text, not {dim}", row.len());
                Texts::vectors(row, dim, trained.model.device())?
            }
            (None, None) => bail!("the model takes no text"),
        };
        Ok(Query {
            said: text.to_owned(),
            kind: Kind::Text,
            rows: Side::Text,
            encoded: Encodings::of(&trained.model.encode_texts(&texts)?)?,
            unknown_words,
            thumbnail: None,
        })
    }

    /// Encodes an image, with features made like those of the dataset.
    pub(super) fn image(trained: &Trained, path: &Path) -> Result<Self> {
        let picture = picture::read(path)?;
        let (set, features) = trained.corpus.image_features();
        let row = ImageRecipe::open(trained.dataset(), set)
            .and_then(|recipe| recipe.row(&picture))
            .context(
                "the picture cannot be described as the images of the dataset were; --item \
                 searches by an image whose features are there",
            )?;
        let shape = [1, features.matrix().locals(), features.matrix().dim()];
        let expected = shape[1] * shape[2];
        ensure!(row.len() == expected, "{} numbers for a picture, not {expected}", row.len());
        let features = Tensor::new(row, &shape, trained.model.device())?;
        Ok(Query {
            said: path.display().to_string(),
            kind: Kind::Image,
            rows: Side::Image,
            encoded: Encodings::of(&trained.model.encode_images(&features)?)?,
            unknown_words: Vec::new(),
            thumbnail: Some(thumbnail(picture)),
        })
    }

    /// Encodes an item of the dataset from its features.
    pub(super) fn item(trained: &Trained, id: &str) -> Result<Self> {
        let mut items = trained.dataset().items().iter();
        let index = items.position(|item| item.id == id);
        let index = index.with_context(|| format!("there is no item {id} in the dataset"))?;
        ensure!(trained.corpus.has_image(index), "the item {id} has no image features");
        Ok(Query {
            said: id.to_owned(),
            kind: Kind::Item(index),
            rows: Side::Image,
            encoded: trained.encode(Side::Image, &[index], &())?,
            unknown_words: Vec::new(),
            thumbnail: Some(Card::of(trained.dataset(), index).thumbnail),
        })
    }

    /// Returns the side to search.
    pub(super) fn wanted(&self) -> Side {
        self.rows.other()
    }
}
