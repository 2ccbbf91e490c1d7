//! The hand-written loops: an 8-bit product that tests the bound in registers, and a dot product.
//!
//! The gemm crate computes every dense product in single precision. It can neither multiply bytes,
//! four times as many per cycle, nor drop a tile without writing it.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::widest::widest;

/// Rows per kernel call.
pub(super) const ROWS: usize = 12;
/// Columns of one panel.
pub(super) const PANEL: usize = 32;
/// Bytes multiplied into one 32-bit sum by one instruction.
pub(super) const GROUP: usize = 4;

/// One cache line of codes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [i8; 64]);

/// Lines of one group of a panel, 16 columns each.
const LINES: usize = PANEL / 16;

/// The signed codes of a panel of columns, in the order the kernel reads them.
pub(super) struct PanelCodes {
    lines: Vec<Line>,
    /// Sums due to the shift of the row codes, subtracted in advance.
    starts: [i32; PANEL],
}

impl PanelCodes {
    /// Zero codes of `dim` numbers each.
    pub(super) fn new(dim: usize) -> Self {
        let lines = vec![Line([0; 64]); dim.div_ceil(GROUP) * LINES];
        PanelCodes { lines, starts: [0; PANEL] }
    }

    /// Stores the codes of the column at `position`.
    pub(super) fn set(&mut self, position: usize, codes: &[i8]) {
        let (line, slot) = (position / 16, position % 16);
        for (group, codes) in codes.chunks(GROUP).enumerate() {
            let target = &mut self.lines[group * LINES + line].0[slot * GROUP..];
            target[..codes.len()].copy_from_slice(codes);
        }
        self.starts[position] = start(codes);
    }
}

fn start(codes: &[i8]) -> i32 {
    -128 * codes.iter().map(|&code| code as i32).sum::<i32>()
}

/// The codes of a block of rows, shifted by 128 to be unsigned and padded to whole kernels.
pub(super) struct RowCodes {
    count: usize,
    stride: usize,
    codes: Vec<u8>,
    pub(super) scales: Vec<f32>,
    pub(super) residuals: Vec<f32>,
    pub(super) offsets: Vec<f32>,
}

impl RowCodes {
    /// Zero codes of `dim` numbers each.
    pub(super) fn new(count: usize, dim: usize) -> Self {
        let (padded, stride) = (count.next_multiple_of(ROWS), dim.next_multiple_of(GROUP));
        RowCodes {
            count,
            stride,
            codes: vec![128; padded * stride],
            scales: vec![0.0; padded],
            residuals: vec![0.0; padded],
            offsets: vec![0.0; padded],
        }
    }

    /// Stores the codes of a row.
    pub(super) fn set(&mut self, row: usize, codes: &[i8]) {
        let target = &mut self.codes[row * self.stride..][..codes.len()];
        for (target, &code) in target.iter_mut().zip(codes) {
            *target = (code as u8) ^ 128;
        }
    }
}

/// Codes of single vectors, each on cache lines of its own, for products of single pairs.
pub(super) struct VectorCodes {
    lines_each: usize,
    lines: Vec<Line>,
    starts: Vec<i32>,
}

impl VectorCodes {
    /// Zero codes of `dim` numbers each.
    pub(super) fn new(count: usize, dim: usize) -> Self {
        let lines_each = dim.div_ceil(64);
        let lines = vec![Line([0; 64]); count * lines_each];
        VectorCodes { lines_each, lines, starts: vec![0; count] }
    }

    /// Stores codes as they are, for the signed side of a product.
    pub(super) fn set_signed(&mut self, vector: usize, codes: &[i8]) {
        for (line, codes) in self.lines_of(vector).iter_mut().zip(codes.chunks(64)) {
            line.0[..codes.len()].copy_from_slice(codes);
        }
        self.starts[vector] = start(codes);
    }

    /// Stores codes shifted by 128, for the unsigned side.
    pub(super) fn set_shifted(&mut self, vector: usize, codes: &[i8]) {
        for (line, codes) in self.lines_of(vector).iter_mut().zip(codes.chunks(64)) {
            for (target, &code) in line.0.iter_mut().zip(codes) {
                *target = (code as u8 ^ 128) as i8;
            }
        }
    }

    fn lines_of(&mut self, vector: usize) -> &mut [Line] {
        &mut self.lines[vector * self.lines_each..][..self.lines_each]
    }
}

/// Keeps the pairs for which `stands(row, column, product of their codes)`; `rows` were stored
/// shifted, `columns` signed.
///
/// Call it only where [`has_int8`] holds.
pub(super) fn retain_by_product(
    rows: &VectorCodes,
    columns: &VectorCodes,
    pairs: &mut Vec<(u32, u32)>,
    stands: impl Fn(usize, usize, i32) -> bool,
) {
    assert_eq!(rows.lines_each, columns.lines_each);
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
        fn avx512(
            rows: &VectorCodes,
            columns: &VectorCodes,
            pairs: &mut [(u32, u32)],
            stands: impl Fn(usize, usize, i32) -> bool,
        ) -> usize {
            let each = rows.lines_each;
            let mut kept = 0;
            for i in 0..pairs.len() {
                let (r, c) = (pairs[i].0 as usize, pairs[i].1 as usize);
                let x = &rows.lines[r * each..][..each];
                let y = &columns.lines[c * each..][..each];
                let mut sums = [_mm512_setzero_si512(); 2];
                for (k, (x, y)) in x.iter().zip(y).enumerate() {
                    // SAFETY: a line is 64 bytes, aligned to 64.
                    let (x, y) = unsafe {
                        (
                            _mm512_load_si512((&raw const *x).cast()),
                            _mm512_load_si512((&raw const *y).cast()),
                        )
                    };
                    sums[k % 2] = _mm512_dpbusd_epi32(sums[k % 2], x, y);
                }
                let sum = _mm512_reduce_add_epi32(_mm512_add_epi32(sums[0], sums[1]));
                // Write every time and count only if it stands: no branch to mispredict.
                pairs[kept] = pairs[i];
                kept += usize::from(stands(r, c, sum + columns.starts[c]));
            }
            kept
        }
        assert!(has_int8());
        // SAFETY: the features were just checked.
        let kept = unsafe { avx512(rows, columns, pairs, stands) };
        pairs.truncate(kept);
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = stands;
        unreachable!("has_int8 holds on x86-64 alone, not for {} pairs", pairs.len());
    }
}

/// Whether this CPU has the 8-bit kernel.
pub(super) fn has_int8() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vnni")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Appends to `found` the pairs (row, column within the panel) for which
/// `scale[row] * codes·codes + residual[row] * spread[column] + offset[row] * tilt[column]` is
/// not at most `cut[column]`, for the first `columns` columns.
///
/// Call it only where [`has_int8`] holds.
pub(super) fn survivors(
    panel: &PanelCodes,
    columns: usize,
    rows: &RowCodes,
    [spread, tilt, cut]: [&[f32; PANEL]; 3],
    found: &mut Vec<(u32, u32)>,
) {
    assert_eq!(rows.stride * LINES, panel.lines.len() * GROUP);
    let padded = rows.count.next_multiple_of(ROWS);
    assert_eq!(rows.codes.len(), padded * rows.stride);
    let lengths = [rows.scales.len(), rows.residuals.len(), rows.offsets.len()];
    assert_eq!(lengths, [padded; 3]);
    let wanted = if columns < PANEL { (1u32 << columns) - 1 } else { u32::MAX };
    #[cfg(target_arch = "x86_64")]
    {
        assert!(has_int8());
        for first in (0..rows.count).step_by(ROWS) {
            // SAFETY: the features were just checked. `codes` is padded to whole kernels of
            // `ROWS` rows of `stride` bytes, so the kernel's reads of `ROWS` rows from `first`
            // stay inside, as those of `scales`, `residuals` and `offsets` do; the panel has LINES
            // lines for each group of its rows' codes.
            let masks = unsafe { survivors_avx512(panel, rows, first, [spread, tilt, cut]) };
            for (r, &mask) in masks.iter().enumerate().take(rows.count - first) {
                let mut mask = mask & wanted;
                while mask != 0 {
                    found.push(((first + r) as u32, mask.trailing_zeros()));
                    mask &= mask - 1;
                }
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (found, wanted, spread, tilt, cut);
        unreachable!("has_int8 holds on x86-64 alone");
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn survivors_avx512(
    panel: &PanelCodes,
    rows: &RowCodes,
    first: usize,
    [spread, tilt, cut]: [&[f32; PANEL]; 3],
) -> [u32; ROWS] {
    let groups = panel.lines.len() / LINES;
    // SAFETY: the caller guarantees `ROWS` padded rows from `first` and LINES lines per group; all
    // arrays of columns hold PANEL = 2 x 16 values.
    unsafe {
        let low = _mm512_loadu_si512(panel.starts.as_ptr().cast());
        let high = _mm512_loadu_si512(panel.starts.as_ptr().add(16).cast());
        let mut sums = [[low, high]; ROWS];
        let mut line = panel.lines.as_ptr();
        let mut code = rows.codes.as_ptr().add(first * rows.stride);
        for _ in 0..groups {
            let low = _mm512_load_si512(line.cast());
            let high = _mm512_load_si512(line.add(1).cast());
            for (r, sum) in sums.iter_mut().enumerate() {
                let four = code.add(r * rows.stride).cast::<i32>().read_unaligned();
                let four = _mm512_set1_epi32(four);
                sum[0] = _mm512_dpbusd_epi32(sum[0], four, low);
                sum[1] = _mm512_dpbusd_epi32(sum[1], four, high);
            }
            line = line.add(LINES);
            code = code.add(GROUP);
        }
        let mut masks = [0; ROWS];
        for (half, first_column) in [(0, 0), (1, 16)] {
            let spread = _mm512_loadu_ps(spread.as_ptr().add(first_column));
            let tilt = _mm512_loadu_ps(tilt.as_ptr().add(first_column));
            let cut = _mm512_loadu_ps(cut.as_ptr().add(first_column));
            for (r, mask) in masks.iter_mut().enumerate() {
                let scale = _mm512_set1_ps(*rows.scales.get_unchecked(first + r));
                let residual = _mm512_set1_ps(*rows.residuals.get_unchecked(first + r));
                let product = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r][half]), scale);
                let offset = _mm512_set1_ps(*rows.offsets.get_unchecked(first + r));
                let bound = _mm512_fmadd_ps(residual, spread, product);
                let bound = _mm512_fmadd_ps(offset, tilt, bound);
                let above = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(bound, cut);
                *mask |= (above as u32) << first_column;
            }
        }
        masks
    }
}

widest! {
    /// The dot product in single precision, in the order that is fastest here.
    dot(x: &[f32], y: &[f32]) -> f32 {
        fold_lanes(x, y, |sum, x, y| sum + x * y)
    }
}

widest! {
    /// The squared distance in single precision, in the order that is fastest here.
    squared_distance(x: &[f32], y: &[f32]) -> f32 {
        fold_lanes(x, y, |sum, x, y| sum + (x - y) * (x - y))
    }
}

widest! {
    /// The dot product in double precision, in the order that is fastest here.
    dot_f64(x: &[f64], y: &[f64]) -> f64 {
        fold_lanes(x, y, |sum, x, y| sum + x * y)
    }
}

widest! {
    /// `x -= factor * y`.
    subtract(x: &mut [f32], factor: f32, y: &[f32]) -> () {
        x.iter_mut().zip(y).for_each(|(x, y)| *x -= factor * y);
    }
}

widest! {
    /// `x -= factor * y`.
    subtract_f64(x: &mut [f64], factor: f64, y: &[f64]) -> () {
        x.iter_mut().zip(y).for_each(|(x, y)| *x -= factor * y);
    }
}

/// Sums in 64 independent lanes, written so that the compiler vectorises each step.
#[inline(always)]
fn fold_lanes<T>(x: &[T], y: &[T], step: impl Fn(T, T, T) -> T) -> T
where
    T: Copy + Default + std::ops::Add<Output = T>,
{
    const LANES: usize = 64;
    let y = &y[..x.len()];
    let mut sums = [T::default(); LANES];
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let mut rest = T::default();
    for (&x, &y) in xs.remainder().iter().zip(ys.remainder()) {
        rest = step(rest, x, y);
    }
    for (x, y) in xs.zip(ys) {
        for l in 0..LANES {
            sums[l] = step(sums[l], x[l], y[l]);
        }
    }
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for l in 0..width {
            sums[l] = sums[l] + sums[l + width];
        }
    }
    sums[0] + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_agree_with_the_plain_sum() {
        for len in [0, 1, 7, 63, 64, 65, 200, 513] {
            let x: Vec<f32> = (0..len).map(|i| ((i * 7) % 11) as f32 - 5.0).collect();
            let y: Vec<f32> = (0..len).map(|i| ((i * 3) % 13) as f32 - 6.0).collect();
            let plain: f32 = x.iter().zip(&y).map(|(x, y)| x * y).sum();
            let apart: f32 = x.iter().zip(&y).map(|(x, y)| (x - y) * (x - y)).sum();
            assert_eq!(dot(&x, &y), plain, "whole numbers add exactly");
            assert_eq!(squared_distance(&x, &y), apart);
        }
    }

    #[test]
    fn int8_products_and_survivors_are_exact() {
        if !has_int8() {
            return;
        }
        let (rows, dim) = (29, 70);
        let codes = |i: usize| -> Vec<i8> {
            (0..dim).map(|k| (((i * 31 + k * 17) % 255) as i32 - 127) as i8).collect()
        };
        let mut panel = PanelCodes::new(dim);
        let mut block = RowCodes::new(rows, dim);
        let (mut x, mut y) = (VectorCodes::new(rows, dim), VectorCodes::new(PANEL, dim));
        for c in 0..PANEL {
            panel.set(c, &codes(c + 5));
            y.set_signed(c, &codes(c + 5));
        }
        for r in 0..rows {
            block.set(r, &codes(r));
            x.set_shifted(r, &codes(r));
            (block.scales[r], block.residuals[r], block.offsets[r]) = (1.0, r as f32, 7.0);
        }
        let pairs: Vec<(u32, u32)> =
            (0..rows as u32).flat_map(|r| (0..PANEL as u32).map(move |c| (r, c))).collect();
        let product = |r: u32, c: u32| -> i32 {
            let (a, b) = (codes(r as usize), codes(c as usize + 5));
            a.iter().zip(&b).map(|(&a, &b)| a as i32 * b as i32).sum()
        };
        let mut odd = pairs.clone();
        retain_by_product(&x, &y, &mut odd, |r, c, found| {
            assert_eq!(found, product(r as u32, c as u32));
            found % 2 != 0
        });
        assert!(odd.iter().all(|&(r, c)| product(r, c) % 2 != 0) && !odd.is_empty());
        let mut found = Vec::new();
        let columns = [&[2.0; PANEL], &[-3.0; PANEL], &[9000.0; PANEL]];
        survivors(&panel, PANEL, &block, columns, &mut found);
        for (r, c) in pairs {
            let above = product(r, c) as f32 + 2.0 * r as f32 - 21.0 > 9000.0;
            assert_eq!(found.contains(&(r, c)), above, "{r} {c}");
        }
    }
}
