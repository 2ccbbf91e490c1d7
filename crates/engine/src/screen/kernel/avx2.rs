//! AVX2: `vpmaddubsw` multiplies 32 bytes and adds them in pairs, to sums of 16 bits.
//!
//! To widen every such sum to 32 bits would take two more instructions each. Instead, sums of 16
//! bits are added over a whole step, and widened once. Nothing is lost:
//!
//! - a pair of products fits, because codes are at most 90: `2 * 180 * 90 = 32,400`;
//! - sums of shifted codes overflow and wrap around, but they begin with what takes the shift back,
//!   so that they end with the sum for signed codes, if that fits;
//! - it fits by Cauchy-Schwarz, because the codes behind one sum have a norm of at most 181:
//!   `181 * 181 = 32,761`.
//!
//! So one multiplication and one addition take 32 products: 64 per cycle where a core multiplies
//! two registers, but for the widening as many as `vpdpbusd`, and four times as many as in single
//! precision.

use std::arch::x86_64::*;

use super::codes::LINES;
use super::{Line, OperandLayout, PANEL, ROWS, Range, Tile, VectorCodes, keep};

/// The first operand of `vpmaddubsw` is unsigned.
pub(super) const FORM: OperandLayout =
    OperandLayout { group: 4, step: STEP, shift: 90, short: true };

/// Codes of a step: half of them make a sum of 16 bits.
const STEP: usize = 64;

/// Rounding moves a norm of 32 codes by at most `0.5 * sqrt(32) < 2.9`.
pub(super) const RANGE: Range = Range { largest: 90.0, short: Some((STEP, 178.0)) };

/// Rows and vectors of eight columns whose sums are in registers at once: twelve of sixteen.
pub(super) const TALL: usize = 6;
pub(super) const WIDE: usize = 2;
/// Columns whose sums are in registers at once: those on one line of a group.
pub(super) const COLUMNS: usize = 8 * WIDE;

/// The columns that each row stands with, as bits.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn survivors(tile: &Tile<'_>) -> [u32; ROWS] {
    let mut masks = [0; ROWS];
    for line in 0..PANEL / COLUMNS {
        for top in (0..ROWS).step_by(TALL) {
            // SAFETY: as the caller guarantees; `line` is one of the lines of a group, and `top`
            // the first of TALL rows of the tile.
            unsafe {
                let sums = sums(tile, line, top);
                test(tile, line, top, &sums, &mut masks);
            }
        }
    }
    masks
}

/// The products of TALL rows from `top` with the columns of a line.
#[target_feature(enable = "avx2")]
unsafe fn sums(tile: &Tile<'_>, line: usize, top: usize) -> [[__m256i; WIDE]; TALL] {
    let Tile { panel, rows, first, .. } = tile;
    let ones = _mm256_set1_epi16(1);
    let mut sums = [[_mm256_setzero_si256(); WIDE]; TALL];
    // SAFETY: the caller guarantees TALL padded rows from `first + top`, of as many steps as the
    // panel has; starts and groups are LINES lines each.
    unsafe {
        let mut start = panel.starts.as_ptr().add(line);
        let mut codes = panel.lines.as_ptr().add(line);
        let mut code = rows.from(first + top);
        for _ in 0..panel.stride / STEP {
            let [low, high] = load(start);
            let mut short = [[low, high]; TALL];
            for _ in 0..STEP / FORM.group {
                let [low, high] = load(codes);
                for (r, short) in short.iter_mut().enumerate() {
                    let four = code.add(r * rows.stride).cast::<i32>().read_unaligned();
                    let four = _mm256_set1_epi32(four);
                    short[0] = _mm256_add_epi16(short[0], _mm256_maddubs_epi16(four, low));
                    short[1] = _mm256_add_epi16(short[1], _mm256_maddubs_epi16(four, high));
                }
                codes = codes.wrapping_add(LINES);
                code = code.add(FORM.group);
            }
            for (sum, short) in sums.iter_mut().zip(&short) {
                for (sum, short) in sum.iter_mut().zip(short) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(*short, ones));
                }
            }
            start = start.wrapping_add(LINES);
        }
    }
    sums
}

/// The two registers of a line.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load(line: *const Line) -> [__m256i; WIDE] {
    // SAFETY: the caller has a pointer to a line, which is 64 bytes, aligned to 64.
    unsafe { [_mm256_load_si256(line.cast()), _mm256_load_si256(line.cast::<__m256i>().add(1))] }
}

/// Adds the bits of the pairs that the bound cannot rule out.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn test(
    tile: &Tile<'_>,
    line: usize,
    top: usize,
    sums: &[[__m256i; WIDE]; TALL],
    masks: &mut [u32; ROWS],
) {
    let Tile { rows, first, columns, .. } = tile;
    for half in 0..WIDE {
        let column = line * COLUMNS + half * 8;
        // SAFETY: arrays of columns hold PANEL values, of which `line` has COLUMNS.
        let [spread, tilt, cut] = unsafe {
            [columns.spread, columns.tilt, columns.cut]
                .map(|values| _mm256_loadu_ps(values.as_ptr().add(column)))
        };
        for (r, sums) in sums.iter().enumerate() {
            // SAFETY: the caller guarantees TALL padded rows from `first + top`.
            let [scale, residual, offset] = unsafe {
                [&rows.scales, &rows.residuals, &rows.offsets]
                    .map(|values| _mm256_set1_ps(*values.get_unchecked(first + top + r)))
            };
            let product = _mm256_mul_ps(_mm256_cvtepi32_ps(sums[half]), scale);
            let bound = _mm256_add_ps(product, _mm256_mul_ps(residual, spread));
            let bound = _mm256_add_ps(bound, _mm256_mul_ps(offset, tilt));
            let above = _mm256_cmp_ps::<_CMP_NLE_UQ>(bound, cut);
            masks[top + r] |= (_mm256_movemask_ps(above) as u32) << column;
        }
    }
}

/// See [`super::retain_by_product`].
#[target_feature(enable = "avx2")]
pub(super) fn retain(
    rows: &VectorCodes,
    columns: &VectorCodes,
    pairs: &mut [(u32, u32)],
    stands: impl Fn(usize, usize, i32) -> bool,
) -> usize {
    keep(rows, columns, pairs, |x, y, _| product(x, y), stands)
}

/// The product of the codes. The sign of one factor goes to the other, so that all 8 bits are of
/// use: `2 * 127 * 127 = 32,258`.
#[target_feature(enable = "avx2")]
fn product(x: &[Line], y: &[Line]) -> i32 {
    let ones = _mm256_set1_epi16(1);
    let mut sums = [_mm256_setzero_si256(); WIDE];
    for (x, y) in x.iter().zip(y) {
        // SAFETY: these are lines.
        let (x, y) = unsafe { (load(x), load(y)) };
        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(y, x));
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
        }
    }
    total(_mm256_add_epi32(sums[0], sums[1]))
}

/// The sum of eight numbers.
#[target_feature(enable = "avx2")]
pub(super) fn total(sums: __m256i) -> i32 {
    let four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    let two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    _mm_cvtsi128_si32(two) + _mm_extract_epi32::<1>(two)
}
