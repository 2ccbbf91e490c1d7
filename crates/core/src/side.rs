//! The two halves of a pair.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One half of every pair, or of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The images.
    Image,
    /// The texts.
    Text,
}

impl Side {
    /// The other half.
    pub fn other(self) -> Self {
        match self {
            Side::Image => Side::Text,
            Side::Text => Side::Image,
        }
    }

    /// Orders a pair of values, for images and for texts, as (this side's, the other side's).
    pub fn own_and_other<T>(self, of_images: T, of_texts: T) -> (T, T) {
        match self {
            Side::Image => (of_images, of_texts),
            Side::Text => (of_texts, of_images),
        }
    }

    /// Orders a pair of values, for this side and for the other, as (the images', the texts').
    pub fn image_and_text<T>(self, of_own: T, of_other: T) -> (T, T) {
        match self {
            Side::Image => (of_own, of_other),
            Side::Text => (of_other, of_own),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Image => "image",
            Side::Text => "text",
        })
    }
}
