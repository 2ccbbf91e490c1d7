//! AVX-512 VNNI: `vpdpbusd` adds four products of bytes to each of sixteen sums.

use std::arch::x86_64::*;

use super::codes::LINES;
use super::{Line, OperandLayout, ROWS, Tile, VectorCodes, keep};

/// The first operand of `vpdpbusd` is unsigned.
pub(super) const FORM: OperandLayout =
    OperandLayout { group: 4, step: 4, shift: 128, short: false };

/// The columns that each row stands with, as bits.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn survivors(tile: &Tile<'_>) -> [u32; ROWS] {
    let Tile { panel, rows, first, columns } = tile;
    // SAFETY: the caller guarantees ROWS padded rows from `first`, of as many groups as the panel
    // has; a group and the starts are LINES = 2 lines; arrays of columns hold 2 x 16 values.
    unsafe {
        let low = _mm512_load_si512(panel.starts.as_ptr().cast());
        let high = _mm512_load_si512(panel.starts.as_ptr().add(1).cast());
        let mut sums = [[low, high]; ROWS];
        let mut line = panel.lines.as_ptr();
        let mut code = rows.from(*first);
        for _ in 0..panel.stride / FORM.group {
            let low = _mm512_load_si512(line.cast());
            let high = _mm512_load_si512(line.add(1).cast());
            for (r, sum) in sums.iter_mut().enumerate() {
                let four = code.add(r * rows.stride).cast::<i32>().read_unaligned();
                let four = _mm512_set1_epi32(four);
                sum[0] = _mm512_dpbusd_epi32(sum[0], four, low);
                sum[1] = _mm512_dpbusd_epi32(sum[1], four, high);
            }
            line = line.add(LINES);
            code = code.add(FORM.group);
        }
        let mut masks = [0; ROWS];
        for (half, first_column) in [(0, 0), (1, 16)] {
            let spread = _mm512_loadu_ps(columns.spread.as_ptr().add(first_column));
            let tilt = _mm512_loadu_ps(columns.tilt.as_ptr().add(first_column));
            let cut = _mm512_loadu_ps(columns.cut.as_ptr().add(first_column));
            for (r, mask) in masks.iter_mut().enumerate() {
                let scale = _mm512_set1_ps(*rows.scales.get_unchecked(first + r));
                let residual = _mm512_set1_ps(*rows.residuals.get_unchecked(first + r));
                let offset = _mm512_set1_ps(*rows.offsets.get_unchecked(first + r));
                let product = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r][half]), scale);
                let bound = _mm512_fmadd_ps(residual, spread, product);
                let bound = _mm512_fmadd_ps(offset, tilt, bound);
                let above = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(bound, cut);
                *mask |= (above as u32) << first_column;
            }
        }
        masks
    }
}

/// See [`super::retain_by_product`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn retain(
    rows: &VectorCodes,
    columns: &VectorCodes,
    pairs: &mut [(u32, u32)],
    stands: impl Fn(usize, usize, i32) -> bool,
) -> usize {
    keep(rows, columns, pairs, |x, y, sum| product(x, y) - FORM.shift as i32 * sum, stands)
}

/// The product of the codes, with those of `x` shifted.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn product(x: &[Line], y: &[Line]) -> i32 {
    let shift = _mm512_set1_epi8(FORM.shift as i8);
    let mut sums = [_mm512_setzero_si512(); 2];
    for (k, (x, y)) in x.iter().zip(y).enumerate() {
        // SAFETY: a line is 64 bytes, aligned to 64.
        let (x, y) = unsafe {
            (_mm512_load_si512((&raw const *x).cast()), _mm512_load_si512((&raw const *y).cast()))
        };
        sums[k % 2] = _mm512_dpbusd_epi32(sums[k % 2], _mm512_xor_si512(x, shift), y);
    }
    _mm512_reduce_add_epi32(_mm512_add_epi32(sums[0], sums[1]))
}
