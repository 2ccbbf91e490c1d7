//! Blocks of contexts and queries, and their steps.

use std::ops::{Range, RangeInclusive};

use half::f16;
use nextpair_cuda::{Array, Grid, Operand};

use super::{Contexts, Queries, Scoring, TILE};
use crate::Error;
use crate::cuda::Unit;

/// Rows of (context, query) computed together: enough to fill a device, as memory allows. Tests have
/// several blocks of few.
const ROWS: RangeInclusive<usize> = if cfg!(test) { 1..=1 << 7 } else { 1 << 14..=1 << 18 };
/// The share of a device's memory that they may take, as one part of so many.
const PARTS_OF_MEMORY: usize = 16;
/// Queries of a block at most, unless one item has more.
const QUERIES: usize = 1 << 12;
/// Queries of a group of items at most, unless one item has more: the threads of a block.
const GROUP: usize = 128;
/// Blocks of columns that are on their way or computed at a time, as the kernel has it.
const STAGES: usize = 3;
/// Contexts of a block at most: a grid has no more blocks in its second direction.
const CONTEXTS: usize = (1 << 16) - 1;

impl Scoring<'_> {
    /// The scores of all pairs of each member: one row per context, one number per item of its member.
    pub(crate) fn scores(
        &self,
        contexts: &Contexts,
        queries: &Queries,
    ) -> Result<Array<f32>, Error> {
        let (items, spans) = (queries.rows.items(), &queries.rows.spans);
        let out = self.unit.empty::<f32>(contexts.count * items)?;
        let mut first = 0;
        while first < items {
            let begin = spans[first].start;
            let fits = spans[first..items].partition_point(|span| span.end - begin <= QUERIES);
            let end = match self.members {
                1 => first + fits.max(1),
                // Members have other items at other places.
                _ => items,
            };
            let block = Block::new(self.unit, queries, first..end)?;
            for part in self.parts(contexts, block.count) {
                self.score_block(contexts, &part, queries, &block, &out)?;
            }
            first = end;
        }
        Ok(out)
    }

    /// Divides contexts into those that are computed together with so many queries: those of some
    /// members, or some of one.
    fn parts(&self, contexts: &Contexts, queries: usize) -> Vec<Part> {
        let of_member = contexts.count / self.members;
        let at_once = (self.rows_at_once() / queries.max(1)).clamp(1, CONTEXTS);
        // Blocks of one size: a small last one would leave the device idle.
        let even = |all: usize, at_once: usize| all.div_ceil(all.div_ceil(at_once).max(1)).max(1);
        if self.members > 1 && of_member <= at_once {
            let members = even(self.members, at_once / of_member.max(1));
            let of = |member: usize| {
                let end = self.members.min(member + members);
                Part { contexts: member * of_member..end * of_member, member, each: of_member }
            };
            return (0..self.members).step_by(members).map(of).collect();
        }
        let at_once = even(of_member, at_once);
        let of = |member: usize| {
            let (first, end) = (member * of_member, (member + 1) * of_member);
            (first..end).step_by(at_once).map(move |from| {
                let to = end.min(from + at_once);
                Part { contexts: from..to, member, each: to - from }
            })
        };
        (0..self.members).flat_map(of).collect()
    }

    fn rows_at_once(&self) -> usize {
        // What the layers make of a row, twice as long, and the row itself, in f16.
        let of_row = 3 * 2 * self.dim;
        let fit = self.unit.gpu().all_memory() / PARTS_OF_MEMORY / of_row;
        fit.clamp(*ROWS.start(), *ROWS.end())
    }

    fn score_block(
        &self,
        contexts: &Contexts,
        part: &Part,
        queries: &Queries,
        block: &Block,
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let (unit, dim, rows, count) = (self.unit, self.dim, contexts.rows, block.count);
        let (steps, items) = (self.attention.steps, queries.rows.items());
        let Part { contexts: of, member, each } = part;
        let (each, members, all) = (*each, of.len() / each, queries.rows.width);
        // The first query of the block, and of the first member.
        let begin = member * all + block.begin;
        // The first raw scores of all contexts of a member are one product: query by context by row.
        let width = each * rows;
        let first = unit.empty::<f32>(members * count * width)?;
        let left = Operand::new(&queries.values, begin * dim, dim).apart(all * dim);
        let right = Operand::new(&contexts.values, of.start * rows * dim, dim);
        let right = right.apart(width * dim).turned();
        let to = Operand::new(&first, 0, width).apart(count * width);
        unit.multiply_each(members, (count, width, dim), left, right, 0.0, to)?;
        let weights =
            (steps > 1).then(|| unit.empty::<f16>(of.len() * count * rows)).transpose()?;
        let mut raw: Option<Array<f32>> = None;
        let mut refined: Option<Array<f16>> = None;
        let mut scale: Option<Array<f32>> = None;
        for step in 0..steps {
            let last = step + 1 == steps;
            // From one member to the next, beside what its contexts are apart.
            let by_member = (count - 1) * width;
            // Refined queries stand context by context.
            let (scores, by_context, by_query, raw_by_member) = match &raw {
                None => (&first, rows, width, by_member),
                Some(raw) => (raw, count * rows, rows, 0),
            };
            let arguments = [
                weights.as_ref().filter(|_| !last).into(),
                out.at(of.start * items + block.first).into(),
                scores.into(),
                (&first).into(),
                contexts.grams.at(of.start * rows * rows).into(),
                queries.norms.at(begin).into(),
                contexts.offsets.at(of.start).into(),
                block.offsets.at(member * (block.items + 1)).into(),
                block.groups.at(member * (block.group_count + 1)).into(),
                (&self.attending).into(),
                count.into(),
                (by_context as u64).into(),
                (by_query as u64).into(),
                (raw_by_member as u64).into(),
                (rows as u64).into(),
                (width as u64).into(),
                (by_member as u64).into(),
                (items as u64).into(),
                each.into(),
                (step > 0).into(),
            ];
            let width = contexts.width;
            // The kernel keeps rows an odd number of 16 bytes apart.
            let stride = if width.is_multiple_of(8) { width + 4 } else { width };
            let shared = 4 * (width * width + block.widest * (2 * stride + 1));
            let grid = Grid::plane(block.group_count, of.len(), GROUP as u32).shared(shared);
            unit.run_of(contexts.kernels, "attend_all", grid, &arguments)?;
            if last {
                break;
            }
            let (Some(memory), Some(tables), Some(weights)) =
                (&self.memory, &contexts.tables, &weights)
            else {
                return Err(Error::NoMemory { steps });
            };
            // What the memory makes of the queries: of first ones, the same for every context of a member.
            let layers = refined.as_ref().map(|refined| {
                let layers = unit.empty::<f16>(of.len() * count * 2 * dim)?;
                let left = Operand::new(refined, 0, dim).apart(each * count * dim);
                let right = Operand::new(&memory.of_refined, member * 2 * dim * dim, dim);
                let right = right.apart(2 * dim * dim).turned();
                let to = Operand::new(&layers, 0, 2 * dim).apart(each * count * 2 * dim);
                unit.multiply_each(members, (each * count, 2 * dim, dim), left, right, 0.0, to)?;
                Ok::<_, Error>(layers)
            });
            let layers = layers.transpose()?;
            let (base, query, by_context, by_member) = match (&layers, &refined) {
                (Some(layers), Some(refined)) => (layers.pointer(), refined.pointer(), count, 0),
                _ => match (&queries.projected, &queries.stored) {
                    (Some(projected), Some(stored)) => {
                        (projected.at(begin * 2 * dim), stored.at(begin * dim), 0, all)
                    }
                    _ => return Err(Error::NoMemory { steps }),
                },
            };
            // The queries of the last step are scored and not kept.
            let kept = (step + 2 < steps)
                .then(|| unit.empty::<f16>(of.len() * count * dim))
                .transpose()?;
            let next = unit.empty::<f32>(of.len() * count * rows)?;
            let new_scale = self
                .attention
                .normalise_memory
                .then(|| unit.empty::<f32>(of.len() * count))
                .transpose()?;
            let arguments = [
                (&next).into(),
                kept.as_ref().into(),
                new_scale.as_ref().into(),
                weights.into(),
                base.into(),
                query.into(),
                scale.as_ref().into(),
                tables.at(of.start * rows * 3 * dim).into(),
                count.into(),
                dim.into(),
                (by_context as u64).into(),
                (by_member as u64).into(),
                each.into(),
            ];
            let (threads, shared) = refining_block(unit, rows / TILE);
            let grid = Grid::plane(count.div_ceil(threads), of.len(), threads as u32);
            let grid = grid.shared(shared);
            unit.run_of(contexts.kernels, "refine_and_score", grid, &arguments)?;
            (raw, refined, scale) = (Some(next), kept, new_scale);
        }
        Ok(())
    }
}

/// The threads of a block that refines queries, and its shared memory: as many as there is room for.
/// There are as many queries as threads.
fn refining_block(unit: &Unit, tiles: usize) -> (usize, usize) {
    // Twelve pieces of 16 bytes a thread, and tables.
    let shared = |threads: usize| STAGES * (12 * 16 * threads + 6 * tiles * 32 * 16);
    let fits = |threads: &usize| shared(*threads) <= unit.gpu().shared_memory();
    let threads = [128, 64].into_iter().find(fits).unwrap_or(32);
    (threads, shared(threads))
}

/// Some contexts, computed together.
struct Part {
    contexts: Range<usize>,
    /// The first member, and the contexts of each.
    member: usize,
    each: usize,
}

/// Some items of queries of every member, computed together.
struct Block {
    /// The first item, and the number of items.
    first: usize,
    items: usize,
    /// The first query of a member, and the number of queries.
    begin: usize,
    count: usize,
    /// Of every member, offsets from the first query on.
    offsets: Array<u32>,
    /// Of every member, the first item of each group, then the end of the last; and the most queries of a
    /// group.
    groups: Array<u32>,
    group_count: usize,
    widest: usize,
}

impl Block {
    fn new(unit: &Unit, queries: &Queries, items: Range<usize>) -> Result<Self, Error> {
        let rows = &queries.rows;
        let (mut offsets, mut groups) = (Vec::new(), Vec::new());
        for member in 0..rows.members {
            let spans = &rows.spans[member * rows.items()..][items.clone()];
            let first = spans[0].start;
            offsets.push(0);
            offsets.extend(spans.iter().map(|span| (span.end - first) as u32));
            groups.push(grouped(&offsets[offsets.len() - items.len() - 1..]));
        }
        // Members with fewer groups have empty ones.
        let group_count = groups.iter().map(|groups| groups.len() - 1).max().unwrap_or(0);
        let end = items.len() as u32;
        groups.iter_mut().for_each(|groups| groups.resize(group_count + 1, end));
        let widest =
            offsets.chunks_exact(items.len() + 1).zip(&groups).flat_map(|(own, groups)| {
                groups.windows(2).map(|group| own[group[1] as usize] - own[group[0] as usize])
            });
        let widest = widest.max().unwrap_or(0) as usize;
        let begin = rows.spans[items.start].start;
        let count = match rows.members {
            1 => offsets[items.len()] as usize,
            _ => rows.width,
        };
        let (first, items) = (items.start, items.len());
        let (offsets, groups) = (unit.array(&offsets)?, unit.array(&groups.concat())?);
        Ok(Block { first, items, begin, count, offsets, groups, group_count, widest })
    }
}

/// The first item of each group of items with these offsets, then the end of the last.
fn grouped(offsets: &[u32]) -> Vec<u32> {
    let mut groups = vec![0];
    for item in 0..offsets.len() - 1 {
        let first = offsets[groups[groups.len() - 1] as usize];
        if offsets[item + 1] - first > GROUP as u32 && offsets[item] > first {
            groups.push(item as u32);
        }
    }
    groups.push(offsets.len() as u32 - 1);
    groups
}
