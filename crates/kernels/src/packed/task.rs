//! Products cut into tasks, one after the other or on several threads.

use std::cell::RefCell;
use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::tile::{self, TALLEST, tallest, with_height};
use super::{Left, Packed, Plan, Tiles};
use crate::unit::arch;

/// Numbers of the left side that stay in cache while all panels pass by.
const BLOCK: usize = 128 << 10;

/// Multiply-adds that are worth a task of their own.
const TASK: usize = 1 << 19;

thread_local! {
    /// Memory for left sides, kept because allocating it may take longer than a product.
    static TILES: RefCell<Tiles> = RefCell::default();
}

/// A product to compute.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) packed: &'a Packed,
    pub(super) left: Left<'a>,
    /// Whether to add to the numbers in `out`.
    pub(super) add: bool,
}

impl<'a> Job<'a> {
    /// Computes the product on at most `threads` threads.
    pub(super) fn run(self, out: &mut [f32], threads: usize) {
        let (depth, rows) = (self.packed.depth, out.len() / self.packed.columns);
        let blocks = rows.div_ceil((BLOCK / depth.max(1)).max(TALLEST));
        let tasks = self.split(out, rows, blocks, self.groups(rows, blocks, threads));
        if threads == 1 || tasks.len() == 1 {
            tasks.into_iter().for_each(Task::run);
        } else {
            tasks.into_par_iter().with_max_len(1).for_each(Task::run);
        }
    }

    /// Number of groups of panels per block of rows: enough to occupy all threads, but no group too
    /// small.
    fn groups(&self, rows: usize, blocks: usize, threads: usize) -> usize {
        let wanted = if threads == 1 { 1 } else { (2 * threads).div_ceil(blocks) };
        let worth = rows / blocks * self.packed.depth * self.packed.columns / TASK;
        wanted.min(worth.max(1)).min(self.packed.panels())
    }

    /// One task per block of rows and group of panels. The rows of `out` are cut at the groups, so
    /// that every task has slices of its own.
    fn split<'o>(
        self,
        out: &'o mut [f32],
        rows: usize,
        blocks: usize,
        groups: usize,
    ) -> Vec<Task<'a, 'o>> {
        let panels = self.packed.panels();
        let mut tasks = Vec::with_capacity(blocks * groups);
        let mut lines = out.chunks_exact_mut(self.packed.columns);
        for block in 0..blocks {
            let rows = rows * block / blocks..rows * (block + 1) / blocks;
            let first = tasks.len();
            tasks.extend((0..groups).map(|group| {
                let panels = panels * group / groups..panels * (group + 1) / groups;
                Task { job: self, rows: rows.clone(), panels, out: Vec::with_capacity(rows.len()) }
            }));
            for mut line in lines.by_ref().take(rows.len()) {
                for task in &mut tasks[first..] {
                    let width = task.columns().len();
                    task.out.push(line.split_off_mut(..width).expect("groups are whole panels"));
                }
            }
        }
        tasks
    }
}

/// The part of a product for some rows and some panels.
struct Task<'a, 'o> {
    job: Job<'a>,
    rows: Range<usize>,
    panels: Range<usize>,
    out: Vec<&'o mut [f32]>,
}

impl Task<'_, '_> {
    fn columns(&self) -> Range<usize> {
        let packed = self.job.packed;
        packed.columns_of(self.panels.start).start..packed.columns_of(self.panels.end - 1).end
    }

    fn run(self) {
        TILES.with_borrow_mut(|tiles| arch().dispatch(Run { task: self, tiles }));
    }
}

struct Run<'a, 'o, 't> {
    task: Task<'a, 'o>,
    tiles: &'t mut Tiles,
}

impl WithSimd for Run<'_, '_, '_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Run { task, tiles } = self;
        let Job { packed, left, add } = task.job;
        let first = task.columns().start;
        let Task { rows, panels, mut out, .. } = task;
        let plan = Plan::new(rows.len(), 1, tallest::<S>());
        tiles.fill(left, rows.start, packed.depth, plan);
        for panel in panels {
            let Range { start, end } = packed.columns_of(panel);
            let (columns, panel) = (start - first..end - first, packed.panel(panel));
            for t in 0..plan.count() {
                let (left, out) = (tiles.values_of(t), &mut out[plan.rows_of(t)]);
                let columns = columns.clone();
                with_height!(out.len(), R => {
                    tile::product::<S, R>(simd, left, panel, columns, add, out)
                });
            }
        }
    }
}
