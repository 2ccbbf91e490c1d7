//! Which images, captions and pairs belong to which member.

use std::ops::Range;

use super::Matching;
use crate::{Encoded, Error, Ragged};

/// Some neighbouring items.
pub(super) struct Own {
    items: Range<usize>,
    /// Offsets from their first row on.
    offsets: Vec<usize>,
    /// Their rows among all.
    rows: Range<usize>,
}

/// The images and captions of a member.
pub(super) struct Share {
    pub(super) images: Own,
    pub(super) texts: Own,
}

/// The pairs of a member, numbered among its own images and captions.
pub(super) struct OwnPairs {
    pub(super) pairs: Vec<(u32, u32)>,
    /// Their places among all pairs.
    pub(super) places: Vec<usize>,
}

impl Own {
    fn new(offsets: &[usize], items: Range<usize>) -> Self {
        let offsets = &offsets[items.start..=items.end];
        let (first, end) = (offsets[0], offsets[items.len()]);
        let own = offsets.iter().map(|offset| offset - first).collect();
        Own { items, offsets: own, rows: first..end }
    }

    /// These of all items.
    pub(super) fn of<'a>(&'a self, all: Ragged<'a>) -> Ragged<'a> {
        let Ragged { dim, values, .. } = all;
        let values = &values[self.rows.start * dim..self.rows.end * dim];
        Ragged { dim, values, offsets: &self.offsets }
    }

    /// The numbers of these among those of all.
    pub(super) fn numbers<'a>(&self, all: &'a mut [f32], dim: usize) -> &'a mut [f32] {
        &mut all[self.rows.start * dim..self.rows.end * dim]
    }
}

impl Share {
    /// Those of the pairs that are of this member.
    pub(super) fn pairs(&self, all: &[(u32, u32)]) -> OwnPairs {
        let (first_image, first_text) = (self.images.items.start, self.texts.items.start);
        let own = |&(_, &(image, _)): &(usize, &(u32, u32))| {
            self.images.items.contains(&(image as usize))
        };
        let numbered = |(place, &(image, text)): (usize, &(u32, u32))| {
            ((image - first_image as u32, text - first_text as u32), place)
        };
        let (pairs, places) = all.iter().enumerate().filter(own).map(numbered).unzip();
        OwnPairs { pairs, places }
    }
}

impl Matching {
    /// The parts of all members in items with these offsets.
    pub(super) fn shares(&self, images: &[usize], texts: &[usize]) -> Result<Vec<Share>, Error> {
        let (rows, columns) = self.items_of_each(images.len() - 1, texts.len() - 1)?;
        let share = |member: usize| Share {
            images: Own::new(images, member * rows..(member + 1) * rows),
            texts: Own::new(texts, member * columns..(member + 1) * columns),
        };
        Ok((0..self.0.members).map(share).collect())
    }

    /// The images and captions of each member, of so many.
    pub(super) fn items_of_each(
        &self,
        images: usize,
        texts: usize,
    ) -> Result<(usize, usize), Error> {
        let members = self.0.members;
        let (rows, columns) = (images / members, texts / members);
        Error::check_len("the images of members", images, rows * members)?;
        Error::check_len("the captions of members", texts, columns * members)?;
        Ok((rows, columns))
    }

    /// Refuses pairs of an image of one member and a caption of another.
    pub(super) fn check_pairs(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
    ) -> Result<(), Error> {
        let (rows, columns) = self.items_of_each(images.len(), texts.len())?;
        if self.0.members == 1 {
            return Ok(());
        }
        let apart = |&(image, text): &(u32, u32)| image as usize / rows != text as usize / columns;
        match pairs.iter().position(apart) {
            None => Ok(()),
            Some(position) => {
                let set = "captions of the pairs, of the member of the image";
                let index = pairs[position].1 as usize;
                let len = (pairs[position].0 as usize / rows + 1) * columns;
                Err(Error::IndexOutOfRange { set, position, index, len })
            }
        }
    }
}
