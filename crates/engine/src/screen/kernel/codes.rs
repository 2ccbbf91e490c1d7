//! Codes of vectors in the order in which kernels read them.

use super::{OperandLayout, PANEL, ROWS, Unit};

/// One cache line of codes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [i8; 64]);

/// The codes that a unit multiplies exactly.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Range {
    /// The largest code.
    pub(super) largest: f32,
    /// Codes of a step and the largest norm, before they are rounded, of the half of them that
    /// makes a sum of 16 bits.
    pub(super) short: Option<(usize, f32)>,
}

impl Range {
    /// All codes of 8 bits but -128, which has no opposite.
    pub(in super::super) const FULL: Range = Range { largest: 127.0, short: None };

    /// The smallest scale that brings values, of which the largest is given, into the range.
    pub(in super::super) fn scale(self, values: &[f32], largest: f32) -> f32 {
        let scale = largest / self.largest;
        let Some((step, norm)) = self.short else { return scale };
        let square = |step: &[f32]| {
            let mut squares = [0.0; 4];
            let (fours, rest) = step.as_chunks::<4>();
            for four in fours {
                (0..4).for_each(|k| squares[k] += four[k] * four[k]);
            }
            rest.iter().zip(&mut squares).for_each(|(value, square)| *square += value * value);
            f32::max(squares[0] + squares[1], squares[2] + squares[3])
        };
        scale.max(values.chunks(step).map(square).fold(0.0, f32::max).sqrt() / norm)
    }
}

/// Codes of a panel of columns: group after group, each with its codes of all columns.
pub(in super::super) struct PanelCodes {
    pub(super) unit: Unit,
    /// Codes per column.
    pub(super) stride: usize,
    pub(super) lines: Vec<Line>,
    /// What sums begin with to make up for the shift of the row codes: four bytes for each column,
    /// once, or once for every step if sums are short.
    pub(super) starts: Vec<Line>,
}

/// Lines of one group of four codes, or of one set of starts.
pub(super) const LINES: usize = PANEL * 4 / 64;

impl PanelCodes {
    /// Zero codes of `dim` numbers each.
    pub(in super::super) fn new(unit: Unit, dim: usize) -> Self {
        let OperandLayout { step, short, .. } = unit.form();
        let stride = dim.next_multiple_of(step);
        let sets = if short { stride / step } else { 1 };
        PanelCodes {
            unit,
            stride,
            lines: vec![Line([0; 64]); stride * PANEL / 64],
            starts: vec![Line([0; 64]); sets * LINES],
        }
    }

    /// Stores the codes of the column at `position`.
    pub(in super::super) fn set(&mut self, position: usize, codes: &[i8]) {
        let OperandLayout { group, step, shift, short } = self.unit.form();
        for (g, codes) in codes.chunks(group).enumerate() {
            put(&mut self.lines, (g * PANEL + position) * group, codes);
        }
        let start = |codes: &mut dyn Iterator<Item = &i8>| -> i32 {
            -(shift as i32) * codes.map(|&code| code as i32).sum::<i32>()
        };
        if !short {
            let bytes = start(&mut codes.iter()).to_le_bytes();
            put(&mut self.starts, position * 4, &bytes.map(|byte| byte as i8));
            return;
        }
        for (s, codes) in codes.chunks(step).enumerate() {
            for half in 0..2 {
                // Only the lowest 16 bits matter: what the sum ends with fits again.
                let start = start(&mut half_of(codes, half)) as i16;
                let at = (s * PANEL + position) * 4 + half * 2;
                put(&mut self.starts, at, &start.to_le_bytes().map(|byte| byte as i8));
            }
        }
    }
}

/// The codes behind a sum of 16 bits: of each four, the first or the last two.
fn half_of<T>(codes: &[T], half: usize) -> impl Iterator<Item = &T> {
    codes.chunks(4).flat_map(move |four| four.iter().skip(2 * half).take(2))
}

/// Writes bytes, which do not cross a line, at `at`.
fn put(lines: &mut [Line], at: usize, bytes: &[i8]) {
    lines[at / 64].0[at % 64..][..bytes.len()].copy_from_slice(bytes);
}

/// Codes of a block of rows, shifted as the unit wants and padded to whole kernel calls.
pub(in super::super) struct RowCodes {
    pub(super) unit: Unit,
    count: usize,
    pub(super) stride: usize,
    pub(super) codes: Vec<u8>,
    pub(in super::super) scales: Vec<f32>,
    pub(in super::super) residuals: Vec<f32>,
    pub(in super::super) offsets: Vec<f32>,
}

impl RowCodes {
    /// Zero codes of `dim` numbers each.
    pub(in super::super) fn new(unit: Unit, count: usize, dim: usize) -> Self {
        let OperandLayout { step, shift, .. } = unit.form();
        let (padded, stride) = (count.next_multiple_of(ROWS), dim.next_multiple_of(step));
        RowCodes {
            unit,
            count,
            stride,
            codes: vec![shift; padded * stride],
            scales: vec![0.0; padded],
            residuals: vec![0.0; padded],
            offsets: vec![0.0; padded],
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The codes of a row and all after it.
    pub(super) fn from(&self, row: usize) -> *const u8 {
        self.codes[row * self.stride..].as_ptr()
    }

    /// Stores the codes of a row.
    pub(in super::super) fn set(&mut self, row: usize, codes: &[i8]) {
        let shift = self.unit.form().shift;
        let target = &mut self.codes[row * self.stride..][..codes.len()];
        for (target, &code) in target.iter_mut().zip(codes) {
            *target = (code as u8).wrapping_add(shift);
        }
    }
}

/// Codes of single vectors, each on cache lines of its own, for products of single pairs.
pub(in super::super) struct VectorCodes {
    pub(super) lines_each: usize,
    pub(super) lines: Vec<Line>,
    /// Sums of the codes.
    pub(super) sums: Vec<i32>,
}

impl VectorCodes {
    /// Zero codes of `dim` numbers each.
    pub(in super::super) fn new(count: usize, dim: usize) -> Self {
        let lines_each = dim.div_ceil(64);
        let lines = vec![Line([0; 64]); count * lines_each];
        VectorCodes { lines_each, lines, sums: vec![0; count] }
    }

    /// Stores the codes of a vector.
    pub(in super::super) fn set(&mut self, vector: usize, codes: &[i8]) {
        let lines = &mut self.lines[vector * self.lines_each..][..self.lines_each];
        for (line, codes) in lines.iter_mut().zip(codes.chunks(64)) {
            line.0[..codes.len()].copy_from_slice(codes);
        }
        self.sums[vector] = codes.iter().map(|&code| code as i32).sum();
    }

    pub(super) fn lines_of(&self, vector: usize) -> &[Line] {
        &self.lines[vector * self.lines_each..][..self.lines_each]
    }
}
