//! Scores of all pairs without gradients on the matrix units of a GPU, in f16.
//!
//! What depends on a context or on an item alone is computed once ([`Contexts`], [`Queries`]). Then
//! blocks of contexts and queries go through the steps: a product by cuBLAS for what the memory makes
//! of refined queries, one kernel for everything around it, and one for the attention.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use half::f16;
use nextpair_cuda::{Array, Grid, Kernels, Operand};

use super::Unit;
use super::tables::{MemoryArrays, Rows};
use super::tiles::{context_blocks, item_blocks};
use crate::{Attention, Error};

/// Dimensions are taken so many at a time.
const COLUMNS: usize = 32;
/// Rows of a context are padded to a multiple of this, and are at most six times as many.
const TILE: usize = 16;
const TILES: usize = 6;
/// Queries of a group of items at most, unless one item has more: the threads of a block.
const GROUP: usize = 128;
/// Blocks of columns that are on their way or computed at a time, as the kernel has it.
const STAGES: usize = 3;

/// The weights of a memory in f16, as the kernels take them.
struct Rounded {
    of_first: Array<f16>,
    of_refined: Array<f16>,
    of_rows: Array<f16>,
    biases: [Array<f32>; 2],
}

/// Attention in one direction with the current weights, for scores of all pairs.
pub(crate) struct Scoring<'a> {
    unit: &'a Unit,
    dim: usize,
    attention: Attention,
    attending: Array<u32>,
    memory: Option<Rounded>,
}

/// Contexts, such as the regions of images, with what depends on them alone.
pub(crate) struct Contexts {
    offsets: Array<u32>,
    count: usize,
    /// Rows of a context, padded.
    rows: usize,
    /// Kernels for contexts of so many rows.
    kernels: &'static Kernels,
    width: usize,
    values: Array<f16>,
    grams: Array<f32>,
    /// What the memory makes of the rows, and the rows, as `refine_and_score` reads them.
    tables: Option<Array<f16>>,
}

/// Items of queries, such as the words of captions, with what depends on them alone.
pub(crate) struct Queries {
    /// The first query of each item, then the end of the last.
    offsets: Vec<usize>,
    values: Array<f16>,
    /// In the order in which refined queries are stored.
    stored: Option<Array<f16>>,
    norms: Array<f32>,
    projected: Option<Array<f16>>,
}

/// The kernels for contexts of at most `width` rows.
fn kernels_of(width: usize, normalised: bool) -> &'static Kernels {
    static MADE: Mutex<BTreeMap<(usize, bool), &'static Kernels>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry((width, normalised)).or_insert_with(|| {
        let (tiles, normalised) = (width.div_ceil(TILE), u8::from(normalised));
        let sizes = format!(
            "#define WIDTH {width}\n#define TILES {tiles}\n#define NORMALISED {normalised}\n"
        );
        // As many as there are widths, for as long as the process lives.
        Box::leak(Box::new(Kernels {
            name: Box::leak(format!("nextpair-scoring-{width}-{normalised}").into_boxed_str()),
            sources: Box::leak(Box::new([
                Box::leak(sizes.into_boxed_str()),
                include_str!("../../cuda/common.cu"),
                include_str!("../../cuda/attention.cu"),
                include_str!("../../cuda/scoring.cu"),
            ])),
        }))
    })
}

/// Whether the kernels take vectors of these dimensions and contexts of so many rows.
pub(crate) fn can_score(dim: usize, longest_context: usize) -> bool {
    dim.is_multiple_of(COLUMNS) && longest_context <= TILE * TILES
}

impl<'a> Scoring<'a> {
    pub(crate) fn new(
        unit: &'a Unit,
        dim: usize,
        attention: Attention,
        memory: Option<MemoryArrays<'_>>,
    ) -> Result<Self, Error> {
        let memory = memory.filter(|_| attention.steps > 1).map(|memory| {
            let weights = || unit.empty::<f16>(2 * dim * dim);
            let rounded = Rounded {
                of_first: weights()?,
                of_refined: weights()?,
                of_rows: weights()?,
                biases: [memory[1].clone(), memory[3].clone()],
            };
            let [linear, _, gate, _] = memory;
            let arguments = [
                (&rounded.of_first).into(),
                (&rounded.of_refined).into(),
                (&rounded.of_rows).into(),
                linear.into(),
                gate.into(),
                dim.into(),
            ];
            unit.run("round_memory", Unit::rows(2 * dim), &arguments)?;
            Ok::<_, Error>(rounded)
        });
        let attending = unit.attending(&attention)?;
        Ok(Scoring { unit, dim, attention, attending, memory: memory.transpose()? })
    }

    /// Prepares contexts.
    pub(crate) fn contexts(&self, contexts: Rows<'_>) -> Result<Contexts, Error> {
        let (unit, dim, count) = (self.unit, self.dim, contexts.len());
        let rows = contexts.longest().next_multiple_of(TILE);
        // The lengths of captions change from call to call: not so many kernels for them.
        let width = match contexts.is_uniform() {
            true => contexts.longest().next_multiple_of(4),
            false => rows,
        };
        let offsets = unit.offsets(contexts.offsets)?;
        let values = unit.empty::<f16>(count * rows * dim)?;
        let arguments =
            [(&values).into(), contexts.values.into(), (&offsets).into(), rows.into(), dim.into()];
        unit.run("pad_items_f16", Unit::rows(count * rows), &arguments)?;
        let grams = unit.empty::<f32>(count * rows * rows)?;
        let own = Operand::new(&values, 0, dim).apart(rows * dim);
        let to = Operand::new(&grams, 0, rows).apart(rows * rows);
        unit.multiply_each(count, (rows, rows, dim), own, own.turned(), 0.0, to)?;
        let kernels = kernels_of(width, self.attention.normalise_memory);
        let tables = self.memory.as_ref().map(|memory| {
            let projected = unit.empty::<f16>(count * rows * 2 * dim)?;
            let left = Operand::new(&values, 0, dim);
            let right = Operand::new(&memory.of_rows, 0, dim).turned();
            let to = Operand::new(&projected, 0, 2 * dim);
            unit.multiply((count * rows, 2 * dim, dim), left, right, 0.0, to)?;
            let out = unit.empty::<f16>(count * rows * 3 * dim)?;
            let [linear, gate] = &memory.biases;
            let arguments = [
                (&out).into(),
                (&projected).into(),
                (&values).into(),
                linear.into(),
                gate.into(),
                dim.into(),
            ];
            let grid = Grid::plane(dim / COLUMNS, count, 128);
            unit.run_of(kernels, "order_tables", grid, &arguments)?;
            Ok::<_, Error>(out)
        });
        let tables = tables.transpose()?;
        Ok(Contexts { offsets, count, rows, kernels, width, values, grams, tables })
    }

    /// Prepares items of queries.
    pub(crate) fn queries(&self, queries: Rows<'_>) -> Result<Queries, Error> {
        let (unit, dim) = (self.unit, self.dim);
        let count = queries.values.len() / dim;
        let values = unit.empty::<f16>(count * dim)?;
        let stored = self.memory.as_ref().map(|_| unit.empty::<f16>(count * dim)).transpose()?;
        let arguments = [
            (&values).into(),
            stored.as_ref().into(),
            queries.values.into(),
            dim.into(),
            (count * dim).into(),
        ];
        unit.run("round_rows", Grid::each(count * dim), &arguments)?;
        let projected = self.memory.as_ref().map(|memory| {
            let out = unit.empty::<f16>(count * 2 * dim)?;
            let left = Operand::new(&values, 0, dim);
            let right = Operand::new(&memory.of_first, 0, dim).turned();
            let to = Operand::new(&out, 0, 2 * dim);
            unit.multiply((count, 2 * dim, dim), left, right, 0.0, to)?;
            Ok::<_, Error>(out)
        });
        let (offsets, norms) = (queries.offsets.to_vec(), unit.norms(queries.values, dim)?);
        Ok(Queries { offsets, values, stored, norms, projected: projected.transpose()? })
    }

    /// The scores of all pairs: one row per context, one number per item.
    pub(crate) fn scores(
        &self,
        contexts: &Contexts,
        queries: &Queries,
    ) -> Result<Array<f32>, Error> {
        let items = queries.offsets.len() - 1;
        let out = self.unit.empty::<f32>(contexts.count * items)?;
        // What the layers make of a row, twice as long, and the row itself, in f16.
        let rows_at_once = self.unit.rows_at_once(3 * 2 * self.dim);
        for items_of in item_blocks(&queries.offsets) {
            let block = Block::new(self.unit, queries, items_of)?;
            for contexts_of in context_blocks(contexts.count, block.count, rows_at_once) {
                self.score_block(contexts, contexts_of, queries, &block, items, &out)?;
            }
        }
        Ok(out)
    }

    fn score_block(
        &self,
        contexts: &Contexts,
        of: Range<usize>,
        queries: &Queries,
        block: &Block,
        items: usize,
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let (unit, dim, rows, count) = (self.unit, self.dim, contexts.rows, block.count);
        let steps = self.attention.steps;
        // The first raw scores of all contexts are one product: query by context by row.
        let width = of.len() * rows;
        let first = unit.empty::<f32>(count * width)?;
        let left = Operand::new(&queries.values, block.begin * dim, dim);
        let right = Operand::new(&contexts.values, of.start * rows * dim, dim).turned();
        let to = Operand::new(&first, 0, width);
        unit.multiply((count, width, dim), left, right, 0.0, to)?;
        let weights =
            (steps > 1).then(|| unit.empty::<f16>(of.len() * count * rows)).transpose()?;
        let mut raw: Option<Array<f32>> = None;
        let mut refined: Option<Array<f16>> = None;
        let mut scale: Option<Array<f32>> = None;
        for step in 0..steps {
            let last = step + 1 == steps;
            // Refined queries stand context by context.
            let (scores, by_context, by_query) = match &raw {
                None => (&first, rows, width),
                Some(raw) => (raw, count * rows, rows),
            };
            let arguments = [
                weights.as_ref().filter(|_| !last).into(),
                out.at(of.start * items + block.first).into(),
                scores.into(),
                (&first).into(),
                contexts.grams.at(of.start * rows * rows).into(),
                queries.norms.at(block.begin).into(),
                contexts.offsets.at(of.start).into(),
                (&block.offsets).into(),
                (&block.groups).into(),
                (&self.attending).into(),
                count.into(),
                (by_context as u64).into(),
                (by_query as u64).into(),
                (rows as u64).into(),
                (width as u64).into(),
                (items as u64).into(),
                (step > 0).into(),
            ];
            let width = contexts.width;
            // The kernel keeps rows an odd number of 16 bytes apart.
            let stride = if width.is_multiple_of(8) { width + 4 } else { width };
            let shared = 4 * (width * width + block.widest * (2 * stride + 1));
            let grid = Grid::plane(block.groups.len() - 1, of.len(), GROUP as u32).shared(shared);
            unit.run_of(contexts.kernels, "attend_all", grid, &arguments)?;
            if last {
                break;
            }
            let (Some(memory), Some(tables), Some(weights)) =
                (&self.memory, &contexts.tables, &weights)
            else {
                return Err(Error::NoMemory { steps });
            };
            // What the memory makes of the queries: of first ones, the same for every context.
            let layers = refined.as_ref().map(|refined| {
                let layers = unit.empty::<f16>(of.len() * count * 2 * dim)?;
                let left = Operand::new(refined, 0, dim);
                let right = Operand::new(&memory.of_refined, 0, dim).turned();
                let to = Operand::new(&layers, 0, 2 * dim);
                unit.multiply((of.len() * count, 2 * dim, dim), left, right, 0.0, to)?;
                Ok::<_, Error>(layers)
            });
            let layers = layers.transpose()?;
            let (base, query, base_apart, query_apart) = match (&layers, &refined) {
                (Some(layers), Some(refined)) => {
                    (layers.pointer(), refined.pointer(), count * 2 * dim, count * dim)
                }
                _ => match (&queries.projected, &queries.stored) {
                    (Some(projected), Some(stored)) => {
                        (projected.at(block.begin * 2 * dim), stored.at(block.begin * dim), 0, 0)
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
                (base_apart as u64).into(),
                (query_apart as u64).into(),
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

/// Some items of queries, computed together.
struct Block {
    /// The first item.
    first: usize,
    /// The first query, and the number of queries.
    begin: usize,
    count: usize,
    /// Offsets from the first query on.
    offsets: Array<u32>,
    /// The first item of each group, then the end of the last, and the most queries of a group.
    groups: Array<u32>,
    widest: usize,
}

impl Block {
    fn new(unit: &Unit, queries: &Queries, items: Range<usize>) -> Result<Self, Error> {
        let offsets = &queries.offsets[items.start..=items.end];
        let begin = offsets[0];
        let (mut groups, mut widest) = (vec![0u32], 0);
        for item in 0..items.len() {
            let first = offsets[groups[groups.len() - 1] as usize];
            if offsets[item + 1] - first > GROUP && offsets[item] > first {
                groups.push(item as u32);
            }
            let first = offsets[groups[groups.len() - 1] as usize];
            widest = widest.max(offsets[item + 1] - first);
        }
        groups.push(items.len() as u32);
        let from_here: Vec<usize> = offsets.iter().map(|offset| offset - begin).collect();
        Ok(Block {
            first: items.start,
            begin,
            count: from_here[items.len()],
            offsets: unit.offsets(&from_here)?,
            groups: unit.array(&groups)?,
            widest,
        })
    }
}
