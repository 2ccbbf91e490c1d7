//! The queries of some pairs, one line each, and small products with the contexts of the pairs.
//!
//! Queries stand one pair after the other; those of the members of an ensemble may be padded to equally many
//! lines. Contexts are padded to the longest, so that those of all pairs are one table.

mod products;

use nextpair_cuda::{Array, Pointer};

use super::Unit;
use crate::Error;
use products::Pieces;

/// Threads of a block that handles a pair.
pub(super) const PAIR_THREADS: u32 = 128;

/// Some pairs, as kernels read them.
pub(super) struct Lines {
    /// Pairs.
    pub(super) count: usize,
    /// Lines of all pairs, with those that no pair has.
    pub(super) len: usize,
    /// Rows of a context at most.
    rows: usize,
    pub(super) described: Array<u64>,
    /// What the description points to: contexts, first lines, their ends and queries; then lines by
    /// context, and pieces of them.
    indices: Array<u32>,
    paired: Paired,
    /// Lines that no pair has, which still are in products of all lines of a member.
    unused: Option<Array<u32>>,
    /// The lines by context.
    pieces: Pieces,
}

/// Contexts on a device, padded to as many rows.
#[derive(Clone, Copy)]
pub(super) struct Padded<'a> {
    /// Their first rows before they were padded, then the end of the last.
    pub(super) offsets: &'a Array<u32>,
    /// Products of the rows of each, where kernels read them.
    pub(super) grams: Option<&'a Array<f32>>,
    /// Rows of a context at most.
    pub(super) rows: usize,
}

/// Pairs of contexts and items of queries.
pub(super) struct Paired {
    /// The context of each pair.
    pub(super) contexts: Vec<u32>,
    /// The first line of each pair, and the end of its lines.
    pub(super) firsts: Vec<u32>,
    pub(super) ends: Vec<u32>,
    /// The query of each line, as a row of a table. Lines that no pair has have any query.
    pub(super) words: Vec<u32>,
    /// Lines that no pair has.
    pub(super) unused: Vec<u32>,
}

impl Lines {
    /// Of pairs whose items have at most `most` queries, with the norms of all queries where kernels read
    /// them.
    pub(super) fn new(
        unit: &Unit,
        paired: Paired,
        padded: Padded<'_>,
        norms: Option<&Array<f32>>,
        most: usize,
    ) -> Result<Self, Error> {
        let Paired { contexts, firsts, ends, words, unused } = &paired;
        let (count, len, rows) = (contexts.len(), words.len(), padded.rows);
        let pieces = Pieces::new(contexts, firsts, ends);
        let indices = [contexts, firsts, ends, words, &pieces.lines, &pieces.described];
        let indices = unit.array(&indices.map(Vec::as_slice).concat())?;
        let unused = (!unused.is_empty()).then(|| unit.array(unused)).transpose()?;
        let bits = |array: Option<&Array<f32>>| array.map_or(0, |array| array.pointer().bits());
        let described = unit.array(&[
            indices.at(0).bits(),
            indices.at(count).bits(),
            indices.at(2 * count).bits(),
            indices.at(3 * count).bits(),
            padded.offsets.pointer().bits(),
            bits(padded.grams),
            bits(norms),
            most as u64 | (rows as u64) << 32,
        ])?;
        Ok(Lines { count, len, rows, described, indices, paired, unused, pieces })
    }

    /// `(context, pair)` of all pairs.
    pub(super) fn by_context(&self) -> impl Iterator<Item = (u32, u32)> {
        self.paired.contexts.iter().enumerate().map(|(pair, &context)| (context, pair as u32))
    }

    /// `(query, line)` of all lines of pairs.
    pub(super) fn by_word(&self) -> impl Iterator<Item = (u32, u32)> {
        let Paired { firsts, ends, words, .. } = &self.paired;
        let lines = firsts.iter().zip(ends).flat_map(|(&first, &end)| first..end);
        lines.map(|line| (words[line as usize], line))
    }

    /// Sets the lines that no pair has to zero, in rows of `width` numbers.
    pub(super) fn clear_unused(
        &self,
        unit: &Unit,
        lines: &Array<f32>,
        width: usize,
    ) -> Result<(), Error> {
        let Some(unused) = &self.unused else { return Ok(()) };
        let arguments = [lines.into(), unused.into(), width.into()];
        unit.run("clear_rows", Unit::rows(unused.len()), &arguments)
    }

    /// Where the query of each line is on the device.
    pub(super) fn words_on_device(&self) -> Pointer {
        self.indices.at(3 * self.count)
    }

    /// Where the lines by context are on the device, and their pieces.
    fn pieces_on_device(&self) -> (Pointer, Pointer) {
        let lines = 3 * self.count + self.len;
        (self.indices.at(lines), self.indices.at(lines + self.pieces.lines.len()))
    }

    /// Copies the rows of a table that has one of `width` numbers for each query to the lines.
    pub(super) fn gather(
        &self,
        unit: &Unit,
        (table, width): (&Array<f32>, usize),
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let arguments = [out.into(), table.into(), self.words_on_device().into(), width.into()];
        unit.run("gather", Unit::rows(self.len), &arguments)
    }
}
