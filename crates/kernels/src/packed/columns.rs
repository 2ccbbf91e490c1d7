//! Moves vectors in and out of matrices whose columns they are.

use std::ops::Range;

use super::Packed;

/// Steps of the depth moved together, in the nearest cache.
const STRETCH: usize = 16;

impl Packed {
    /// Lays out `columns` columns of `depth` numbers from anywhere in memory.
    pub(crate) fn repack_columns<'a>(
        &mut self,
        depth: usize,
        columns: usize,
        column: impl Fn(usize) -> &'a [f32],
    ) {
        self.shape(depth, columns);
        let width = self.width;
        for (p, panel) in self.panels_mut().enumerate() {
            for (stretch, lines) in panel.chunks_mut(STRETCH * width).enumerate() {
                let depths = stretch * STRETCH..depth.min((stretch + 1) * STRETCH);
                for position in 0..width {
                    let places = lines[position..].iter_mut().step_by(width);
                    match p * width + position {
                        c if c < columns => {
                            let from = &column(c)[depths.clone()];
                            places.zip(from).for_each(|(to, from)| *to = *from);
                        }
                        _ => places.for_each(|to| *to = 0.0),
                    }
                }
            }
        }
    }

    /// Writes some columns as rows, one after the other.
    pub(crate) fn unpack_columns(&self, columns: Range<usize>, rows: &mut [f32]) {
        if self.depth == 0 {
            return;
        }
        let width = self.width;
        for (stretch, first) in (0..self.depth).step_by(STRETCH).enumerate() {
            let depths = first..self.depth.min(first + STRETCH);
            for (column, row) in columns.clone().zip(rows.chunks_exact_mut(self.depth)) {
                let panel = self.panel(column / width);
                let from =
                    panel[stretch * STRETCH * width + column % width..].iter().step_by(width);
                row[depths.clone()].iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
        }
    }

    /// Some columns as rows, one after the other.
    pub(crate) fn rows(&self, columns: Range<usize>) -> Vec<f32> {
        let mut rows = vec![0.0; columns.len() * self.depth];
        self.unpack_columns(columns, &mut rows);
        rows
    }

    /// Makes this a matrix of zeros.
    pub(crate) fn clear(&mut self, depth: usize, columns: usize) {
        self.shape(depth, columns);
        self.values.fill(0.0);
    }

    /// Adds a matrix of the same shape.
    pub(crate) fn add(&mut self, other: &Packed) {
        self.values.iter_mut().zip(other.values.iter()).for_each(|(to, from)| *to += *from);
    }
}
