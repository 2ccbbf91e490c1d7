//! Items with several vectors each: the regions of images, the words of captions.

use crate::cuda::Rows;
use crate::{Error, Ragged, Tensor, Values};

/// Encoded images or captions: the vectors of all items, one after the other.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// Vectors by dimensions.
    pub rows: Tensor,
    /// The first row of each item, then the end of the last.
    pub offsets: Vec<usize>,
}

impl Encoded {
    /// Items with `each` vectors.
    ///
    /// # Errors
    /// If `rows` is not a matrix, or does not divide into items.
    pub fn uniform(rows: Tensor, each: usize) -> Result<Self, Error> {
        let (count, _) = rows.matrix_shape()?;
        Error::check_len("the vectors of items", count, count / each.max(1) * each)?;
        Ok(Encoded { rows, offsets: (0..=count).step_by(each.max(1)).collect() })
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Dimensions of a vector.
    ///
    /// # Errors
    /// If the vectors are not a matrix.
    pub fn dim(&self) -> Result<usize, Error> {
        Ok(self.rows.matrix_shape()?.1)
    }

    /// Vectors of an item at most.
    pub(crate) fn longest(&self) -> usize {
        self.offsets.windows(2).map(|span| span[1].saturating_sub(span[0])).max().unwrap_or(0)
    }

    /// The same numbers, detached from the graph.
    pub fn detached(&self) -> Self {
        Encoded { rows: self.rows.detached(), offsets: self.offsets.clone() }
    }

    /// A copy of the numbers.
    ///
    /// # Errors
    /// If their device, or work on it, failed.
    pub fn to_f32s(&self) -> Result<Vec<f32>, Error> {
        self.rows.to_f32s()
    }

    /// The vectors for the CPU kernels, or an error if they are on another device.
    pub(crate) fn ragged(&self) -> Result<Ragged<'_>, Error> {
        let Values::Cpu(values) = self.rows.values() else { return Err(Error::Devices) };
        Ok(Ragged { dim: self.dim()?, values, offsets: &self.offsets })
    }

    /// The vectors for a GPU, or an error if they are on another device.
    pub(crate) fn gpu_rows(&self) -> Result<Rows<'_>, Error> {
        Ok(Rows { values: self.rows.array()?, offsets: &self.offsets })
    }

    /// Every image with every caption.
    pub fn all_pairs(images: &Encoded, texts: &Encoded) -> Vec<(u32, u32)> {
        Self::pairs_of_members(images, texts, 1)
    }

    /// Every image with every caption of its member, where images and captions are those of the first of
    /// `members`, of the second, and so on: equally many of each.
    pub fn pairs_of_members(images: &Encoded, texts: &Encoded, members: usize) -> Vec<(u32, u32)> {
        let [rows, columns] = [images, texts].map(|items| (items.len() / members.max(1)) as u32);
        let of_image = |image: u32| {
            let member = image / rows.max(1);
            (member * columns..(member + 1) * columns).map(move |text| (image, text))
        };
        (0..images.len() as u32).flat_map(of_image).collect()
    }
}
