//! The steps of some pairs, one after the other, with what the way back needs.

use nextpair_cuda::{Array, Grid};

use super::layers::pad;
use super::{Matched, PAIR_THREADS};
use crate::Error;
use crate::cuda::Unit;

/// Pairs of a piece at most. Some contexts are in many pairs: their pieces are added side by side.
pub(super) const PIECE: usize = 8;

/// The buffers of some pairs, of every step.
pub(super) struct Pass {
    pub(super) count: usize,
    /// The pairs, as kernels read them.
    pub(super) described: Array<u64>,
    /// What the description points to.
    pub(super) _named: [Array<u32>; 2],
    pub(super) contexts: Vec<u32>,
    pub(super) items: Vec<u32>,
    /// The pairs by context, and pieces of them: first those that are added to their contexts, then
    /// those with places of their own.
    pub(super) members: Array<u32>,
    pub(super) pieces: Array<u32>,
    pub(super) placed: usize,
    /// Queries of every step.
    pub(super) queries: Vec<Array<f32>>,
    /// Raw scores and weights of every step.
    pub(super) raw: Vec<Array<f32>>,
    pub(super) weights: Vec<Array<f32>>,
    /// The values of both layers between steps, and the norms of what they refine.
    pub(super) layers: Vec<Array<f32>>,
    pub(super) norms: Vec<Option<Array<f32>>>,
    pub(super) scores: Array<f32>,
    /// Gradients of raw scores, of weights and of queries, of the step in hand.
    pub(super) of_raw: Array<f32>,
    pub(super) of_weights: Array<f32>,
    pub(super) of_queries: Array<f32>,
}

impl Pass {
    /// `(context, pair)` of all pairs.
    pub(super) fn by_context(&self) -> impl Iterator<Item = (u32, u32)> {
        self.contexts.iter().enumerate().map(|(pair, &context)| (context, pair as u32))
    }
}

impl Matched<'_> {
    pub(super) fn forward(&self, pairs: &[(u32, u32)]) -> Result<Pass, Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let count = pairs.len();
        let (contexts, items): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        let named = [unit.array(&contexts)?, unit.array(&items)?];
        let described = unit.array(&[
            named[0].pointer().bits(),
            named[1].pointer().bits(),
            self.context_offsets.pointer().bits(),
            self.query_offsets.pointer().bits(),
            self.grams.pointer().bits(),
            self.norms.pointer().bits(),
            most as u64 | (rows as u64) << 32,
        ])?;
        let (members, pieces, placed) = pieces(&contexts);
        let steps = self.attention.steps;
        let each = |width: usize, count: usize| -> Result<Vec<Array<f32>>, Error> {
            (0..count).map(|_| unit.empty(pairs.len() * most * width)).collect()
        };
        let size = (count, most, dim);
        let mut queries =
            vec![pad(unit, self.queries.values, &self.query_offsets, Some(&named[1]), size)?];
        queries.extend(each(dim, steps - 1)?);
        let mut layers = Vec::new();
        if let Some((_, of_queries)) = &self.tables {
            let (size, items) = ((count, most, 2 * dim), Some(&named[1]));
            layers.push(pad(unit, of_queries, &self.query_offsets, items, size)?);
            layers.extend(each(2 * dim, steps - 2)?);
        }
        let (raw, weights) = (each(rows, steps)?, each(rows, steps)?);
        let [of_raw, of_weights] =
            [unit.empty(count * most * rows)?, unit.empty(count * most * rows)?];
        let of_queries = unit.empty(count * most * dim)?;
        let pass = Pass {
            count,
            described,
            contexts,
            items,
            members: unit.array(&members)?,
            pieces: unit.array(&pieces)?,
            placed,
            queries,
            raw,
            weights,
            layers,
            norms: (0..steps)
                .map(|_| {
                    self.attention.normalise_memory.then(|| unit.empty(count * most)).transpose()
                })
                .collect::<Result<_, Error>>()?,
            scores: unit.zeros(count)?,
            of_raw,
            of_weights,
            of_queries,
            _named: named,
        };
        for step in 0..steps {
            let queries = &pass.queries[step];
            self.multiply_by_rows(&pass, queries, (&self.padded, dim), &pass.raw[step])?;
            let arguments = [
                (&pass.weights[step]).into(),
                (&pass.scores).into(),
                (&pass.raw[step]).into(),
                (&pass.raw[0]).into(),
                (&pass.described).into(),
                (&self.attending).into(),
            ];
            let shared = 4 * (most * rows + 2 * most);
            let grid = Grid::blocks(count, PAIR_THREADS).shared(shared);
            unit.run("attend_pairs", grid, &arguments)?;
            if step + 1 < steps {
                self.refine(&pass, step)?;
            }
        }
        Ok(pass)
    }

    /// Refines the queries of a step.
    fn refine(&self, pass: &Pass, step: usize) -> Result<(), Error> {
        let Matched { unit, dim, most, .. } = *self;
        let (Some(memory), Some((projected, _))) = (&self.memory, &self.tables) else {
            return Err(Error::NoMemory { steps: self.attention.steps });
        };
        let (lines, layers) = (pass.count * most, &pass.layers[step]);
        if step > 0 {
            memory.biased(unit, lines, layers)?;
            memory.project(unit, (&pass.queries[step], lines), 0, 1.0, layers)?;
        }
        self.add_rows(pass, &pass.weights[step], (projected, 2 * dim), 1.0, layers)?;
        let arguments = [
            (&pass.queries[step + 1]).into(),
            layers.into(),
            (&pass.queries[step]).into(),
            pass.norms[step].as_ref().into(),
            dim.into(),
        ];
        unit.run("refine", Unit::rows(lines), &arguments)
    }

    /// Products of `left`, pairs by queries by numbers, with the rows of the contexts of the pairs in
    /// a table: pairs by queries by rows.
    pub(super) fn multiply_by_rows(
        &self,
        pass: &Pass,
        left: &Array<f32>,
        (table, width): (&Array<f32>, usize),
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let arguments =
            [out.into(), left.into(), table.into(), (&pass.described).into(), width.into()];
        // A warp has 3 rows, and a block 36: the numbers of queries come to its cache once.
        let grid = Grid::plane(pass.count, self.rows.div_ceil(36), 12 * 32);
        self.unit.run("multiply_by_rows", grid, &arguments)
    }

    /// Adds, to `keep` times what is there, the rows of the contexts of the pairs in a table, with the
    /// factors `left`, pairs by queries by rows.
    pub(super) fn add_rows(
        &self,
        pass: &Pass,
        left: &Array<f32>,
        (table, width): (&Array<f32>, usize),
        keep: f32,
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let arguments = [
            out.into(),
            left.into(),
            table.into(),
            (&pass.described).into(),
            width.into(),
            keep.into(),
        ];
        let grid = Grid::plane(width.div_ceil(4 * PAIR_THREADS as usize), pass.count, PAIR_THREADS);
        self.unit.run("add_rows_of_contexts", grid.shared(4 * 12 * self.rows), &arguments)
    }
}

/// The pairs by context, their pieces as the kernels have them, and how many of these have a place of
/// their own.
fn pieces(contexts: &[u32]) -> (Vec<u32>, Vec<u32>, usize) {
    let mut members: Vec<u32> = (0..contexts.len() as u32).collect();
    members.sort_by_key(|&pair| contexts[pair as usize]);
    let (mut firsts, mut others, mut from, mut placed) = (Vec::new(), Vec::new(), 0, 0);
    for of_context in members.chunk_by(|&a, &b| contexts[a as usize] == contexts[b as usize]) {
        let context = contexts[of_context[0] as usize];
        for (piece, pairs) in of_context.chunks(PIECE).enumerate() {
            let to = from + pairs.len() as u32;
            if piece == 0 {
                firsts.extend([context, from, to, 0]);
            } else {
                placed += 1;
                others.extend([context, from, to, placed]);
            }
            from = to;
        }
    }
    firsts.extend(others);
    (members, firsts, placed as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_every_pair_once() {
        let contexts: Vec<u32> =
            (0..40).map(|pair| if pair % 2 == 0 { 7 } else { 100 + pair }).collect();
        let (members, pieces, placed) = pieces(&contexts);
        let pieces: Vec<&[u32]> = pieces.chunks(4).collect();
        assert_eq!((placed, pieces.len()), (2, 21 + 2));
        let mut seen = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            let of_piece = &members[piece[1] as usize..piece[2] as usize];
            assert!((1..=PIECE).contains(&of_piece.len()));
            assert!(of_piece.iter().all(|&pair| contexts[pair as usize] == piece[0]));
            assert_eq!(piece[3] as usize, at.saturating_sub(20), "{piece:?}");
            seen.extend_from_slice(of_piece);
        }
        seen.sort();
        assert_eq!(seen, (0..40).collect::<Vec<u32>>());
    }
}
