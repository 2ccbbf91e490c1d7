//! All pairs of contexts and items of queries, some at a time.

use std::ops::{Range, RangeInclusive};

use nextpair_cuda::{Array, Grid};

use super::Unit;
use crate::Error;

/// Queries of a block at most, unless one item has more. Tests see several blocks.
const QUERIES: usize = if cfg!(test) { 1 << 6 } else { 1 << 12 };
/// Rows of (context, query) computed together: enough to fill a device, as memory allows.
const ROWS: RangeInclusive<usize> = if cfg!(test) { 1 << 7..=1 << 8 } else { 1 << 14..=1 << 18 };
/// The share of a device's memory that they may take, as one part of so many.
const PARTS_OF_MEMORY: usize = 16;

/// Items of queries in blocks, by the first query of each item, then the end of the last.
pub(super) fn item_blocks(offsets: &[usize]) -> Vec<Range<usize>> {
    let (items, mut first, mut blocks) = (offsets.len() - 1, 0, Vec::new());
    while first < items {
        let begin = offsets[first];
        let fits = offsets[first..].partition_point(|end| end - begin <= QUERIES);
        let end = (first + fits - 1).clamp(first + 1, items);
        blocks.push(first..end);
        first = end;
    }
    blocks
}

/// Contexts in blocks for items of so many queries, as rows of (context, query) fit. Blocks are of one
/// size: a small last one would leave the device idle.
pub(super) fn context_blocks(
    contexts: usize,
    queries: usize,
    rows_at_once: usize,
) -> impl Iterator<Item = Range<usize>> {
    let blocks = contexts.div_ceil((rows_at_once / queries.max(1)).max(1)).max(1);
    let at_once = contexts.div_ceil(blocks).max(1);
    (0..contexts).step_by(at_once).map(move |from| from..contexts.min(from + at_once))
}

impl Unit {
    /// Rows of (context, query) that are computed together, if each takes so many bytes.
    pub(super) fn rows_at_once(&self, bytes_of_row: usize) -> usize {
        let fit = self.gpu().all_memory() / PARTS_OF_MEMORY / bytes_of_row;
        fit.clamp(*ROWS.start(), *ROWS.end())
    }

    /// Writes rows of `width` numbers to their place in a matrix, from row and column `first` on.
    pub(super) fn place_tile(
        &self,
        (tile, width): (&Array<f32>, usize),
        (out, columns): (&Array<f32>, usize),
        first: (usize, usize),
    ) -> Result<(), Error> {
        let rows = tile.len() / width.max(1);
        let to = out.at(first.0 * columns + first.1);
        let arguments = [to.into(), tile.into(), columns.into(), width.into()];
        self.run("place_tile", Grid::plane(rows, width.div_ceil(256), 256), &arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_every_item_once() {
        let lengths = [1, QUERIES - 7, 6, 6, 1, 3 * QUERIES, 2, QUERIES, 1];
        let offsets: Vec<usize> = lengths.iter().fold(vec![0], |mut offsets, length| {
            offsets.push(offsets[offsets.len() - 1] + length);
            offsets
        });
        let blocks = item_blocks(&offsets);
        assert_eq!(blocks, [0..3, 3..5, 5..6, 6..7, 7..8, 8..9]);
        assert_eq!(item_blocks(&[0]), []);
        for (contexts, queries, rows) in [(10, 3, 9), (10, 100, 9), (1, 1, 1), (7, 1, 100)] {
            let blocks: Vec<_> = context_blocks(contexts, queries, rows).collect();
            let all: Vec<usize> = blocks.iter().cloned().flatten().collect();
            assert_eq!(all, (0..contexts).collect::<Vec<_>>());
            assert!(blocks.iter().all(|block| block.len() * queries <= rows.max(queries)));
        }
        assert_eq!(context_blocks(0, 3, 9).count(), 0);
    }
}
