//! Small products of the queries of pairs with their contexts: on matrix units where scores are in half
//! precision, and in single precision elsewhere.

use nextpair_cuda::{Array, Grid};

use super::Lines;
use crate::cuda::Unit;
use crate::{Error, Precision};

/// Lines of a piece at most, unless one pair has more. Some contexts are in many pairs: their pieces
/// are added side by side.
const LINES: usize = 64;

/// The lines by context, in pieces.
pub(super) struct Pieces {
    /// The lines, those of a context side by side.
    pub(super) lines: Vec<u32>,
    /// Four numbers a piece, as kernels have them: first those that are added to their contexts, then
    /// those with places of their own.
    pub(super) described: Vec<u32>,
    /// How many have a place of their own.
    placed: usize,
    /// Lines of a piece at most.
    longest: usize,
}

impl Pieces {
    /// Of pairs with these contexts, whose lines begin at `firsts` and end at `ends`.
    pub(super) fn new(contexts: &[u32], firsts: &[u32], ends: &[u32]) -> Self {
        let mut pairs: Vec<u32> = (0..contexts.len() as u32).collect();
        pairs.sort_by_key(|&pair| contexts[pair as usize]);
        let (mut lines, mut pieces) = (Vec::new(), Vec::<[u32; 4]>::new());
        let mut placed = 0;
        for pair in pairs.into_iter().map(|pair| pair as usize) {
            let (context, from) = (contexts[pair], lines.len() as u32);
            lines.extend(firsts[pair]..ends[pair]);
            let to = lines.len() as u32;
            match pieces.last_mut() {
                Some([own, first, end, _]) if *own == context => {
                    if (to - *first) as usize <= LINES {
                        *end = to;
                    } else {
                        placed += 1;
                        pieces.push([context, from, to, placed]);
                    }
                }
                _ => pieces.push([context, from, to, 0]),
            }
        }
        pieces.sort_by_key(|piece| piece[3]);
        let longest = pieces.iter().map(|piece| (piece[2] - piece[1]) as usize).max();
        let (described, longest) = (pieces.concat(), longest.unwrap_or(0));
        Pieces { lines, described, placed: placed as usize, longest }
    }

    fn len(&self) -> usize {
        self.described.len() / 4
    }
}

impl Unit {
    /// Whether small products of pairs are computed by the matrix units.
    pub(in crate::cuda) fn has_matrix_units(&self) -> bool {
        self.precision() == Precision::Fp16
    }
}

impl Lines {
    /// Products of `left`, lines of numbers, with the rows of the contexts of the pairs in a table:
    /// lines by rows.
    pub(in crate::cuda) fn multiply_by_rows(
        &self,
        unit: &Unit,
        left: &Array<f32>,
        (table, width): (&Array<f32>, usize),
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let arguments =
            [out.into(), left.into(), table.into(), (&self.described).into(), width.into()];
        if unit.has_matrix_units() {
            let grid = Grid::plane(self.count, self.rows.div_ceil(40), 256);
            return unit.run("multiply_by_rows_tf32", grid, &arguments);
        }
        // A warp has 3 rows, and a block 36: the numbers of queries come to its cache once.
        let grid = Grid::plane(self.count, self.rows.div_ceil(36), 12 * 32);
        unit.run("multiply_by_rows", grid, &arguments)
    }

    /// Adds, to `keep` times what is there, the rows of the contexts of the pairs in a table, with the
    /// factors `left`, lines by rows.
    pub(in crate::cuda) fn add_rows(
        &self,
        unit: &Unit,
        left: &Array<f32>,
        (table, width): (&Array<f32>, usize),
        keep: f32,
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let arguments = [
            out.into(),
            left.into(),
            table.into(),
            (&self.described).into(),
            width.into(),
            keep.into(),
        ];
        if unit.has_matrix_units() {
            // A warp has 64 columns.
            let grid = Grid::plane(width.div_ceil(4 * 64), self.count, 128);
            return unit.run("add_rows_of_contexts_tf32", grid, &arguments);
        }
        let grid = Grid::plane(width.div_ceil(4 * 128), self.count, 128);
        unit.run("add_rows_of_contexts", grid.shared(4 * 12 * self.rows), &arguments)
    }

    /// Adds to the padded gradients of contexts the products of `left`, lines by rows, and `right`,
    /// lines by columns.
    pub(in crate::cuda) fn add_to_contexts(
        &self,
        unit: &Unit,
        left: &Array<f32>,
        right: &Array<f32>,
        columns: usize,
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let placed = self.pieces.placed;
        let (size, count) = (self.rows * columns, self.pieces.len());
        let places = unit.empty::<f32>(placed * size)?;
        let (lines, pieces) = self.pieces_on_device();
        let arguments = [
            out.into(),
            (&places).into(),
            left.into(),
            right.into(),
            pieces.into(),
            lines.into(),
            (&self.described).into(),
            columns.into(),
        ];
        // Rows of a block, and the numbers it keeps of a line.
        let (kernel, rows, kept) = match unit.has_matrix_units() {
            true => ("add_to_contexts_tf32", 48, 56),
            false => ("add_to_contexts", 12, 12),
        };
        let blocks = (columns.div_ceil(128) as u32, self.rows.div_ceil(rows) as u32, count as u32);
        let shared = 4 * kept * self.pieces.longest;
        let grid = Grid { blocks, threads: 128, shared: 0 }.shared(shared);
        unit.run(kernel, grid, &arguments)?;
        if placed == 0 {
            return Ok(());
        }
        let own = pieces.after::<u32>(4 * (count - placed));
        let arguments = [out.into(), (&places).into(), own.into(), placed.into(), size.into()];
        unit.run("add_places", Grid::plane(size.div_ceil(256), placed, 256), &arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_every_line_once() {
        // Every other pair has the same context, and pairs have 1 to 7 lines, but one has many.
        let contexts: Vec<u32> =
            (0..40).map(|pair| if pair % 2 == 0 { 7 } else { 100 + pair }).collect();
        let (mut firsts, mut context_of) = (vec![0], Vec::new());
        for (pair, &context) in contexts.iter().enumerate() {
            let count = if pair == 20 { LINES + 5 } else { 1 + pair % 7 };
            context_of.extend(std::iter::repeat_n(context, count));
            firsts.push(context_of.len() as u32);
        }
        let Pieces { lines, described, placed, longest } =
            Pieces::new(&contexts, &firsts, &firsts[1..]);
        let pieces: Vec<&[u32]> = described.chunks(4).collect();
        assert_eq!((longest, pieces.len()), (LINES + 5, 21 + placed));
        assert!(placed >= 2);
        let mut seen = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            let own = &lines[piece[1] as usize..piece[2] as usize];
            assert!(!own.is_empty());
            assert!(own.iter().all(|&line| context_of[line as usize] == piece[0]));
            assert_eq!(piece[3] as usize, at.saturating_sub(20), "{piece:?}");
            seen.extend_from_slice(own);
        }
        seen.sort();
        assert_eq!(seen, (0..context_of.len() as u32).collect::<Vec<u32>>());
    }
}
