//! The hand-written loops: an 8-bit product with the bound test in its registers, and a dot product.
//!
//! The gemm crate does every dense product in single precision. What it cannot do is multiply
//! bytes, four times as many per cycle, and drop a tile without ever writing it.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Rows the kernel takes at once.
pub(super) const ROWS: usize = 12;
/// Columns of one panel.
pub(super) const PANEL: usize = 32;
/// Bytes multiplied into one 32-bit sum by one instruction.
pub(super) const GROUP: usize = 4;

/// One cache line of codes: a group of 16 columns.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [i8; 64]);

/// Lines of one group of a panel.
const LINES: usize = PANEL / 16;

/// The signed codes of many columns, in the order the kernel reads them.
pub(super) struct Panels {
    groups: usize,
    lines: Vec<Line>,
    /// The sum that belongs to the shift of the row codes, taken off in advance.
    starts: Vec<i32>,
}

impl Panels {
    /// Zero codes for `columns` columns of `dim` numbers.
    pub(super) fn new(columns: usize, dim: usize) -> Self {
        let (panels, groups) = (columns.div_ceil(PANEL), dim.div_ceil(GROUP));
        Panels {
            groups,
            lines: vec![Line([0; 64]); panels * groups * LINES],
            starts: vec![0; panels * PANEL],
        }
    }

    /// The panels apart, to be filled in parallel: the lines and the starts of each.
    pub(super) fn split(&mut self) -> Vec<PanelMut<'_>> {
        let lines = self.lines.chunks_exact_mut(self.groups * LINES);
        lines
            .zip(self.starts.chunks_exact_mut(PANEL))
            .map(|(lines, starts)| PanelMut { lines, starts })
            .collect()
    }
}

/// One panel while it is being filled.
pub(super) struct PanelMut<'a> {
    lines: &'a mut [Line],
    starts: &'a mut [i32],
}

impl PanelMut<'_> {
    /// Stores the codes of the column at `position` of the panel.
    pub(super) fn set(&mut self, position: usize, codes: &[i8]) {
        let (line, slot) = (position / 16, position % 16);
        for (group, codes) in codes.chunks(GROUP).enumerate() {
            let target = &mut self.lines[group * LINES + line].0[slot * GROUP..];
            target[..codes.len()].copy_from_slice(codes);
        }
        self.starts[position] = -128 * codes.iter().map(|&c| c as i32).sum::<i32>();
    }
}

/// The codes of a block of rows, shifted by 128 to be unsigned, padded to whole kernels.
pub(super) struct RowCodes {
    pub(super) count: usize,
    pub(super) stride: usize,
    pub(super) codes: Vec<u8>,
    pub(super) scales: Vec<f32>,
    pub(super) residuals: Vec<f32>,
}

impl RowCodes {
    pub(super) fn new(count: usize, dim: usize) -> Self {
        let (padded, stride) = (count.next_multiple_of(ROWS), dim.next_multiple_of(GROUP));
        RowCodes {
            count,
            stride,
            codes: vec![128; padded * stride],
            scales: vec![0.0; padded],
            residuals: vec![0.0; padded],
        }
    }
}

/// Whether this machine has the 8-bit kernel.
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
/// `scale[row] * codes·codes + residual[row] * spread[column]` is not at most `cut[column]`.
///
/// Must only be called where [`has_int8`] holds.
pub(super) fn survivors(
    panels: &Panels,
    panel: usize,
    rows: &RowCodes,
    spread: &[f32],
    cut: &[f32],
    found: &mut Vec<(u32, u32)>,
) {
    assert_eq!(rows.stride, panels.groups * GROUP);
    assert_eq!((spread.len(), cut.len()), (PANEL, PANEL));
    #[cfg(target_arch = "x86_64")]
    {
        assert!(has_int8());
        let lines = &panels.lines[panel * panels.groups * LINES..][..panels.groups * LINES];
        let starts = &panels.starts[panel * PANEL..][..PANEL];
        for first in (0..rows.count).step_by(ROWS) {
            // SAFETY: the features were just checked. `codes` is padded to whole kernels of
            // `ROWS` rows of `stride` bytes, so the kernel's reads of `ROWS` rows from `first`
            // stay inside; `lines` holds LINES lines for each of its `groups`; `starts`,
            // `spread` and `cut` hold PANEL values each, `scales` and `residuals` are padded.
            let masks =
                unsafe { survivors_avx512(lines, starts, rows, first, spread, cut) };
            for (r, &mask) in masks.iter().enumerate().take(rows.count - first) {
                let mut mask = mask;
                while mask != 0 {
                    found.push(((first + r) as u32, mask.trailing_zeros()));
                    mask &= mask - 1;
                }
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (panel, found);
        unreachable!("has_int8 holds on x86-64 alone");
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn survivors_avx512(
    lines: &[Line],
    starts: &[i32],
    rows: &RowCodes,
    first: usize,
    spread: &[f32],
    cut: &[f32],
) -> [u32; ROWS] {
    let groups = lines.len() / LINES;
    // SAFETY: the caller guarantees PANEL = 2 x 16 values behind `starts`, `spread` and `cut`,
    // `ROWS` padded rows from `first`, and LINES lines per group.
    unsafe {
        let low = _mm512_loadu_si512(starts.as_ptr().cast());
        let high = _mm512_loadu_si512(starts.as_ptr().add(16).cast());
        let mut sums = [[low, high]; ROWS];
        let mut line = lines.as_ptr();
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
        for half in 0..2 {
            let spread = _mm512_loadu_ps(spread.as_ptr().add(16 * half));
            let cut = _mm512_loadu_ps(cut.as_ptr().add(16 * half));
            for (r, mask) in masks.iter_mut().enumerate() {
                let scale = _mm512_set1_ps(*rows.scales.get_unchecked(first + r));
                let residual = _mm512_set1_ps(*rows.residuals.get_unchecked(first + r));
                let product = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r][half]), scale);
                let bound = _mm512_fmadd_ps(residual, spread, product);
                let above = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(bound, cut);
                *mask |= (above as u32) << (16 * half);
            }
        }
        masks
    }
}

/// The dot product in single precision, in whatever order is fastest here.
#[inline]
pub(crate) fn dot(x: &[f32], y: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f")]
        fn avx512(x: &[f32], y: &[f32]) -> f32 {
            fold_lanes(x, y, |sum, x, y| sum + x * y)
        }
        #[target_feature(enable = "avx2")]
        fn avx2(x: &[f32], y: &[f32]) -> f32 {
            fold_lanes(x, y, |sum, x, y| sum + x * y)
        }
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was just checked.
            return unsafe { avx512(x, y) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was just checked.
            return unsafe { avx2(x, y) };
        }
    }
    fold_lanes(x, y, |sum, x, y| sum + x * y)
}

/// The squared distance in single precision, in whatever order is fastest here.
#[inline]
pub(crate) fn squared_distance(x: &[f32], y: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f")]
        fn avx512(x: &[f32], y: &[f32]) -> f32 {
            fold_lanes(x, y, |sum, x, y| sum + (x - y) * (x - y))
        }
        #[target_feature(enable = "avx2")]
        fn avx2(x: &[f32], y: &[f32]) -> f32 {
            fold_lanes(x, y, |sum, x, y| sum + (x - y) * (x - y))
        }
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was just checked.
            return unsafe { avx512(x, y) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was just checked.
            return unsafe { avx2(x, y) };
        }
    }
    fold_lanes(x, y, |sum, x, y| sum + (x - y) * (x - y))
}

/// Sums in 64 independent lanes, written so that the compiler turns each step into whole vectors.
#[inline(always)]
fn fold_lanes(x: &[f32], y: &[f32], step: impl Fn(f32, f32, f32) -> f32) -> f32 {
    const LANES: usize = 64;
    let y = &y[..x.len()];
    let mut sums = [0.0f32; LANES];
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let mut rest = 0.0;
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
            sums[l] += sums[l + width];
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
    fn int8_survivors_are_the_pairs_above_the_cut() {
        if !has_int8() {
            return;
        }
        let (rows, columns, dim) = (29, 45, 10);
        let code = |i: usize, k: usize| ((i * 31 + k * 17) % 255) as i32 - 127;
        let mut panels = Panels::new(columns, dim);
        for (p, mut panel) in panels.split().into_iter().enumerate() {
            for position in 0..PANEL.min(columns - p * PANEL) {
                let column = p * PANEL + position;
                let codes: Vec<i8> = (0..dim).map(|k| code(column + 5, k) as i8).collect();
                panel.set(position, &codes);
            }
        }
        let mut block = RowCodes::new(rows, dim);
        for r in 0..rows {
            for k in 0..dim {
                block.codes[r * block.stride + k] = (code(r, k) + 128) as u8;
            }
            block.scales[r] = 1.0;
            block.residuals[r] = r as f32;
        }
        let (spread, cut) = ([2.0; PANEL], [9000.0; PANEL]);
        for p in 0..columns.div_ceil(PANEL) {
            let mut found = Vec::new();
            survivors(&panels, p, &block, &spread, &cut, &mut found);
            for r in 0..rows {
                for c in 0..PANEL {
                    let inside = p * PANEL + c < columns;
                    let product: i32 = match inside {
                        true => (0..dim).map(|k| code(r, k) * code(p * PANEL + c + 5, k)).sum(),
                        false => 0,
                    };
                    let above = product as f32 + 2.0 * r as f32 > 9000.0;
                    assert_eq!(found.contains(&(r as u32, c as u32)), above, "{r} {c}");
                }
            }
        }
    }
}
