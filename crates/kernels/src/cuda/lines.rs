//! The queries of some pairs, one line each, and small products with the contexts of the pairs.
//!
//! Queries stand one pair after the other. Contexts are padded to the longest, so that those of all pairs
//! are one table.

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
    /// Queries of all pairs.
    pub(super) len: usize,
    /// Rows of a context at most.
    rows: usize,
    pub(super) described: Array<u64>,
    /// What the description points to: contexts, first lines and queries; then lines by context, and
    /// pieces of them.
    indices: Array<u32>,
    contexts: Vec<u32>,
    /// The query of each line, as a row of a table.
    words: Vec<u32>,
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
    /// The first line of each pair, then the end of the last.
    pub(super) firsts: Vec<u32>,
    /// The query of each line.
    pub(super) words: Vec<u32>,
}

impl Paired {
    /// `(context, item)` pairs, where `queries` has the rows of an item.
    pub(super) fn new(
        pairs: &[(u32, u32)],
        queries: impl Fn(usize) -> std::ops::Range<usize>,
    ) -> Self {
        let contexts = pairs.iter().map(|&(context, _)| context).collect();
        let (mut firsts, mut words) = (vec![0], Vec::new());
        for &(_, item) in pairs {
            words.extend(queries(item as usize).map(|row| row as u32));
            firsts.push(words.len() as u32);
        }
        Paired { contexts, firsts, words }
    }
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
        let Paired { contexts, firsts, words } = paired;
        let (count, len, rows) = (contexts.len(), words.len(), padded.rows);
        let pieces = Pieces::new(&contexts, &firsts);
        let indices = [&contexts, &firsts, &words, &pieces.lines, &pieces.described];
        let indices = unit.array(&indices.map(Vec::as_slice).concat())?;
        let bits = |array: Option<&Array<f32>>| array.map_or(0, |array| array.pointer().bits());
        let described = unit.array(&[
            indices.at(0).bits(),
            indices.at(count).bits(),
            indices.at(2 * count + 1).bits(),
            padded.offsets.pointer().bits(),
            bits(padded.grams),
            bits(norms),
            most as u64 | (rows as u64) << 32,
        ])?;
        Ok(Lines { count, len, rows, described, indices, contexts, words, pieces })
    }

    /// `(context, pair)` of all pairs.
    pub(super) fn by_context(&self) -> impl Iterator<Item = (u32, u32)> {
        self.contexts.iter().enumerate().map(|(pair, &context)| (context, pair as u32))
    }

    /// `(query, line)` of all lines.
    pub(super) fn by_word(&self) -> impl Iterator<Item = (u32, u32)> {
        self.words.iter().enumerate().map(|(line, &word)| (word, line as u32))
    }

    /// Where the query of each line is on the device.
    pub(super) fn words_on_device(&self) -> Pointer {
        self.indices.at(2 * self.count + 1)
    }

    /// Where the lines by context are on the device, and their pieces.
    fn pieces_on_device(&self) -> (Pointer, Pointer) {
        let lines = 2 * self.count + 1 + self.len;
        (self.indices.at(lines), self.indices.at(lines + self.len))
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
