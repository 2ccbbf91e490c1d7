//! Items of several vectors each: the regions of images, the words of captions.

use candle_core::{Device, Tensor};

use crate::Error;

/// Encoded images or captions: the vectors of all of them, one after the other.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// Vectors by coordinates.
    pub rows: Tensor,
    /// Where each item begins, and the end of the last.
    pub offsets: Vec<usize>,
}

impl Encoded {
    /// Items of `each` vectors.
    pub(crate) fn uniform(rows: Tensor, each: usize) -> Result<Self, Error> {
        let count = rows.dim(0)?;
        Ok(Encoded { rows, offsets: (0..=count).step_by(each).collect() })
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Coordinates of a vector.
    pub fn dim(&self) -> Result<usize, Error> {
        Ok(self.rows.dim(1)?)
    }

    /// The same numbers, cut off from what they were computed from.
    pub fn detached(&self) -> Self {
        Encoded { rows: self.rows.detach(), offsets: self.offsets.clone() }
    }

    /// The numbers.
    pub fn values(&self) -> Result<Vec<f32>, Error> {
        Ok(self.rows.flatten_all()?.to_vec1()?)
    }

    /// The rows of some items, each filled up with its own last row to the longest of them:
    /// indices, item by item, and the length of each.
    pub(crate) fn padded(&self, items: &[u32]) -> (Vec<u32>, Vec<usize>, usize) {
        let length = |item: u32| self.offsets[item as usize + 1] - self.offsets[item as usize];
        let lengths: Vec<usize> = items.iter().map(|&item| length(item)).collect();
        let width = lengths.iter().copied().max().unwrap_or(0);
        let mut rows = Vec::with_capacity(width * items.len());
        for (&item, &length) in items.iter().zip(&lengths) {
            let first = self.offsets[item as usize];
            rows.extend((0..width).map(|at| (first + at.min(length - 1)) as u32));
        }
        (rows, lengths, width)
    }
}

/// Indices as a tensor.
pub(crate) fn indices(values: Vec<u32>, device: &Device) -> Result<Tensor, Error> {
    let count = values.len();
    Ok(Tensor::from_vec(values, count, device)?)
}
