//! Scores of all pairs without gradients on the matrix units of a GPU, in f16.
//!
//! What depends on a context or on an item alone is computed once ([`Contexts`], [`Queries`]). Then
//! blocks of contexts and queries go through the steps: a product by cuBLAS for what the memory makes
//! of refined queries, one kernel for everything around it, and one for the attention.
//!
//! Several members of an ensemble have equally many contexts and items each, and products have as many
//! matrices as there are members.

mod blocks;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use half::f16;
use nextpair_cuda::{Array, Grid, Kernels, Operand};

use super::Unit;
use super::tables::{EvenRows, MemoryArrays, Rows};
use crate::{Attention, Error};

/// Dimensions are taken so many at a time.
const COLUMNS: usize = 32;
/// Rows of a context are padded to a multiple of this, and are at most six times as many.
const TILE: usize = 16;
const TILES: usize = 6;

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
    members: usize,
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
    /// Which queries are whose, in single precision.
    rows: EvenRows,
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
        (dim, members): (usize, usize),
        attention: Attention,
        memory: Option<MemoryArrays<'_>>,
    ) -> Result<Self, Error> {
        let memory = memory.filter(|_| attention.steps > 1).map(|memory| {
            let weights = || unit.empty::<f16>(members * 2 * dim * dim);
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
            unit.run("round_memory", Unit::rows(members * 2 * dim), &arguments)?;
            Ok::<_, Error>(rounded)
        });
        let attending = unit.attending(&attention)?;
        Ok(Scoring { unit, dim, members, attention, attending, memory: memory.transpose()? })
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
            let (members, each) = (self.members, count / self.members);
            let left = Operand::new(&values, 0, dim).apart(each * rows * dim);
            let right = Operand::new(&memory.of_rows, 0, dim).apart(2 * dim * dim).turned();
            let to = Operand::new(&projected, 0, 2 * dim).apart(each * rows * 2 * dim);
            unit.multiply_each(members, (each * rows, 2 * dim, dim), left, right, 0.0, to)?;
            let out = unit.empty::<f16>(count * rows * 3 * dim)?;
            let [linear, gate] = &memory.biases;
            let arguments = [
                (&out).into(),
                (&projected).into(),
                (&values).into(),
                linear.into(),
                gate.into(),
                each.into(),
                dim.into(),
            ];
            let grid = Grid::plane(count, dim / COLUMNS, 128);
            unit.run_of(kernels, "order_tables", grid, &arguments)?;
            Ok::<_, Error>(out)
        });
        let tables = tables.transpose()?;
        Ok(Contexts { offsets, count, rows, kernels, width, values, grams, tables })
    }

    /// Prepares items of queries.
    pub(crate) fn queries(&self, queries: &EvenRows) -> Result<Queries, Error> {
        let (unit, dim, width) = (self.unit, self.dim, queries.width);
        let count = queries.values.len() / dim;
        let values = unit.empty::<f16>(count * dim)?;
        let stored = self.memory.as_ref().map(|_| unit.empty::<f16>(count * dim)).transpose()?;
        let arguments = [
            (&values).into(),
            stored.as_ref().into(),
            (&queries.values).into(),
            dim.into(),
            (count * dim).into(),
        ];
        unit.run("round_rows", Grid::each(count * dim), &arguments)?;
        let projected = self.memory.as_ref().map(|memory| {
            let out = unit.empty::<f16>(count * 2 * dim)?;
            let left = Operand::new(&values, 0, dim).apart(width * dim);
            let right = Operand::new(&memory.of_first, 0, dim).apart(2 * dim * dim).turned();
            let to = Operand::new(&out, 0, 2 * dim).apart(width * 2 * dim);
            unit.multiply_each(self.members, (width, 2 * dim, dim), left, right, 0.0, to)?;
            Ok::<_, Error>(out)
        });
        let (rows, norms) = (queries.clone(), unit.norms(&queries.values, dim)?);
        Ok(Queries { rows, values, stored, norms, projected: projected.transpose()? })
    }
}
