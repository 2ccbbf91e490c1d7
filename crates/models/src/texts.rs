//! Captions in the form that models take.

use nextpair_kernels::{Device, Tensor};

use crate::Error;

/// A batch of captions: word ids for models that read words, vectors for heads on frozen
/// embeddings.
#[derive(Clone, Debug)]
pub enum Texts {
    /// The ids of all words, caption after caption, start and end markers included.
    Words {
        /// The ids.
        ids: Vec<u32>,
        /// The first word of each caption, then the end of the last.
        offsets: Vec<usize>,
    },
    /// One vector per caption.
    Vectors(Tensor),
}

impl Texts {
    /// Captions from lists of word ids.
    ///
    /// # Errors
    /// If a caption is empty.
    pub fn words(captions: &[impl AsRef<[u32]>]) -> Result<Self, Error> {
        let mut offsets = vec![0];
        let mut ids = Vec::new();
        for (caption, words) in captions.iter().enumerate() {
            if words.as_ref().is_empty() {
                return Err(Error::NoWords { caption });
            }
            ids.extend_from_slice(words.as_ref());
            offsets.push(ids.len());
        }
        Ok(Texts::Words { ids, offsets })
    }

    /// Captions that are words, one part after the other.
    pub(crate) fn joined(parts: Vec<Texts>) -> Result<Self, Error> {
        let (mut all, mut offsets) = (Vec::new(), vec![0]);
        for part in parts {
            let Texts::Words { ids, offsets: own } = part else {
                return Err(Error::Shape {
                    what: "the captions of several models".to_owned(),
                    found: "vectors".to_owned(),
                    expected: "words".to_owned(),
                });
            };
            offsets.extend(own.iter().skip(1).map(|offset| all.len() + offset));
            all.extend(ids);
        }
        Ok(Texts::Words { ids: all, offsets })
    }

    /// Captions from vectors of `dim` numbers each.
    pub fn vectors(values: Vec<f32>, dim: usize, device: Device) -> Result<Self, Error> {
        let count = values.len() / dim.max(1);
        Ok(Texts::Vectors(Tensor::new(values, &[count, dim], device)?))
    }

    /// Number of captions.
    pub fn len(&self) -> usize {
        match self {
            Texts::Words { offsets, .. } => offsets.len() - 1,
            Texts::Vectors(vectors) => vectors.shape().first().copied().unwrap_or(0),
        }
    }

    /// Whether there are no captions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
