//! Items with different numbers of rows, one after the other.

use std::ops::Range;

use crate::Error;

/// Items of one or more rows each: the regions of images, or the words of captions.
#[derive(Clone, Copy, Debug)]
pub struct Ragged<'a> {
    /// Numbers per row.
    pub dim: usize,
    /// All rows, one after the other.
    pub values: &'a [f32],
    /// The first row of every item, then the number of all rows.
    pub offsets: &'a [usize],
}

impl<'a> Ragged<'a> {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first row of the first item. It is not 0 in a slice of more items.
    pub(crate) fn first_row(&self) -> usize {
        self.offsets.first().copied().unwrap_or(0)
    }

    /// The numbers of all items.
    pub(crate) fn all_values(&self) -> &'a [f32] {
        let end = self.offsets.last().copied().unwrap_or(0);
        &self.values[self.first_row() * self.dim..end * self.dim]
    }

    /// Some neighbouring items; rows keep their places.
    pub(crate) fn slice(&self, items: Range<usize>) -> Ragged<'a> {
        Ragged { offsets: &self.offsets[items.start..items.end + 1], ..*self }
    }

    /// The rows of an item.
    pub(crate) fn rows_of(&self, item: usize) -> Range<usize> {
        self.offsets[item]..self.offsets[item + 1]
    }

    /// The numbers of an item.
    pub(crate) fn values_of(&self, item: usize) -> &'a [f32] {
        let Range { start, end } = self.rows_of(item);
        &self.values[start * self.dim..end * self.dim]
    }

    /// The numbers of a row.
    pub(crate) fn row(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.dim..][..self.dim]
    }

    /// Fails unless all rows have `dim` numbers, none is missing, and every item has one.
    pub(crate) fn check(&self, what: &'static str, dim: usize) -> Result<(), Error> {
        if self.dim != dim {
            let (left_dim, right, right_dim) = (self.dim, "the matcher's vectors", dim);
            return Err(Error::DimensionMismatch { left: what, left_dim, right, right_dim });
        }
        let rows = self.offsets.last().copied().unwrap_or(0);
        if self.offsets.first() != Some(&0) || rows.checked_mul(dim) != Some(self.values.len()) {
            let found = self.values.len();
            return Err(Error::Rows { what, rows, dim, found });
        }
        match self.offsets.windows(2).position(|pair| pair[0] >= pair[1]) {
            Some(item) => Err(Error::EmptyItem { what, item }),
            None => Ok(()),
        }
    }
}
