//! NEON: `sdot` adds four products of bytes to each of four sums, `smmla` eight.
//!
//! Both take signed codes as they are. Their intrinsics are not stable, so each is a line of
//! assembly.

use std::arch::aarch64::*;
use std::arch::asm;

use super::codes::LINES;
use super::{Line, OperandLayout, PANEL, ROWS, Tile, VectorCodes, keep};

/// `sdot` by lane: four groups of a row are in one register.
pub(super) const DOT: OperandLayout = OperandLayout { group: 4, step: 16, shift: 0, short: false };
/// `smmla`: eight codes of two rows times eight codes of two columns.
pub(super) const MATRIX: OperandLayout =
    OperandLayout { group: 8, step: 8, shift: 0, short: false };

/// Columns whose sums are in registers at once, as vectors of four.
const WIDE: usize = 4;
const COLUMNS: usize = 4 * WIDE;

/// `sums + codes · row[LANE]`: every sum takes four codes of its column and the same four of the row.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot_lane<const LANE: i32>(mut sums: int32x4_t, codes: int8x16_t, row: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction works on registers alone.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {codes:v}.16b, {row:v}.4b[{lane}]",
            sums = inout(vreg) sums,
            codes = in(vreg) codes,
            row = in(vreg) row,
            lane = const LANE,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// `sums + x · y`, four codes for every sum.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot(mut sums: int32x4_t, x: int8x16_t, y: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction works on registers alone.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {x:v}.16b, {y:v}.16b",
            sums = inout(vreg) sums,
            x = in(vreg) x,
            y = in(vreg) y,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// `sums + x · y` for two rows `x` and two columns `y` of eight codes; sums are row by row.
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn smmla(mut sums: int32x4_t, x: int8x16_t, y: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction works on registers alone.
    unsafe {
        asm!(
            "smmla {sums:v}.4s, {x:v}.16b, {y:v}.16b",
            sums = inout(vreg) sums,
            x = in(vreg) x,
            y = in(vreg) y,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// The columns that each row stands with, as bits.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn survivors_by_dot(tile: &Tile<'_>) -> [u32; ROWS] {
    const TALL: usize = 4;
    let Tile { panel, rows, first, .. } = tile;
    let mut masks = [0; ROWS];
    for line in 0..PANEL / COLUMNS {
        for top in (0..ROWS).step_by(TALL) {
            let mut sums = [[vdupq_n_s32(0); WIDE]; TALL];
            // SAFETY: the caller guarantees TALL padded rows from `first + top`, of as many steps
            // as the panel has; a step is four groups of LINES lines.
            unsafe {
                let mut codes = panel.lines.as_ptr().add(line);
                let mut code = rows.from(first + top).cast::<i8>();
                for _ in 0..panel.stride / DOT.step {
                    let mut row = [vdupq_n_s8(0); TALL];
                    for (r, row) in row.iter_mut().enumerate() {
                        *row = vld1q_s8(code.add(r * rows.stride));
                    }
                    add_group::<0, TALL>(&mut sums, codes, &row);
                    add_group::<1, TALL>(&mut sums, codes.add(LINES), &row);
                    add_group::<2, TALL>(&mut sums, codes.add(2 * LINES), &row);
                    add_group::<3, TALL>(&mut sums, codes.add(3 * LINES), &row);
                    codes = codes.wrapping_add(4 * LINES);
                    code = code.add(DOT.step);
                }
            }
            for (r, sums) in sums.iter().enumerate() {
                // SAFETY: as above.
                masks[top + r] |= unsafe { test(tile, top + r, line, sums) };
            }
        }
    }
    masks
}

/// Adds the products of one group of a line's columns.
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn add_group<const LANE: i32, const TALL: usize>(
    sums: &mut [[int32x4_t; WIDE]; TALL],
    line: *const Line,
    rows: &[int8x16_t; TALL],
) {
    for c in 0..WIDE {
        // SAFETY: the caller has a pointer to a line, which is 64 bytes.
        let codes = unsafe { vld1q_s8(line.cast::<i8>().add(16 * c)) };
        for (sums, row) in sums.iter_mut().zip(rows) {
            sums[c] = sdot_lane::<LANE>(sums[c], codes, *row);
        }
    }
}

/// The columns that each row stands with, as bits.
#[target_feature(enable = "neon,i8mm")]
pub(super) unsafe fn survivors_by_matrix(tile: &Tile<'_>) -> [u32; ROWS] {
    /// Pairs of rows, and of columns.
    const TALL: usize = 3;
    const PAIRS: usize = COLUMNS / 2;
    let Tile { panel, rows, first, .. } = tile;
    let mut masks = [0; ROWS];
    for block in 0..PANEL / COLUMNS {
        for top in (0..ROWS).step_by(2 * TALL) {
            let mut sums = [[vdupq_n_s32(0); PAIRS]; TALL];
            // SAFETY: the caller guarantees 2 * TALL padded rows from `first + top`, of as many
            // groups as the panel has; a group is PANEL times eight codes.
            unsafe {
                let mut codes = panel.lines.as_ptr().cast::<i8>().add(block * COLUMNS * 8);
                let mut code = rows.from(first + top).cast::<i8>();
                for _ in 0..panel.stride / MATRIX.step {
                    let mut row = [vdupq_n_s8(0); TALL];
                    for (r, row) in row.iter_mut().enumerate() {
                        let two = code.add(2 * r * rows.stride);
                        *row = vcombine_s8(vld1_s8(two), vld1_s8(two.add(rows.stride)));
                    }
                    for c in 0..PAIRS {
                        let columns = vld1q_s8(codes.add(16 * c));
                        for (sums, row) in sums.iter_mut().zip(&row) {
                            sums[c] = smmla(sums[c], *row, columns);
                        }
                    }
                    codes = codes.wrapping_add(PANEL * 8);
                    code = code.add(MATRIX.step);
                }
            }
            for (r, sums) in sums.iter().enumerate() {
                let (mut upper, mut lower) = ([vdupq_n_s32(0); WIDE], [vdupq_n_s32(0); WIDE]);
                for c in 0..WIDE {
                    let (left, right) = (sums[2 * c], sums[2 * c + 1]);
                    upper[c] = vcombine_s32(vget_low_s32(left), vget_low_s32(right));
                    lower[c] = vcombine_s32(vget_high_s32(left), vget_high_s32(right));
                }
                // SAFETY: as above.
                unsafe {
                    masks[top + 2 * r] |= test(tile, top + 2 * r, block, &upper);
                    masks[top + 2 * r + 1] |= test(tile, top + 2 * r + 1, block, &lower);
                }
            }
        }
    }
    masks
}

/// The bits of the columns, of the COLUMNS of a block, that the bound cannot rule out.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn test(tile: &Tile<'_>, row: usize, block: usize, sums: &[int32x4_t; WIDE]) -> u32 {
    let Tile { rows, first, columns, .. } = tile;
    let row = first + row;
    let (scale, residual, offset) = (rows.scales[row], rows.residuals[row], rows.offsets[row]);
    let mut bits = vdupq_n_u32(0);
    for (c, &sum) in sums.iter().enumerate() {
        let column = block * COLUMNS + 4 * c;
        // SAFETY: arrays of columns hold PANEL values, of which a block has COLUMNS.
        let (spread, tilt, cut, places) = unsafe {
            (
                vld1q_f32(columns.spread.as_ptr().add(column)),
                vld1q_f32(columns.tilt.as_ptr().add(column)),
                vld1q_f32(columns.cut.as_ptr().add(column)),
                vld1q_u32(PLACES.as_ptr().add(column)),
            )
        };
        let bound = vmulq_n_f32(vcvtq_f32_s32(sum), scale);
        let bound = vaddq_f32(bound, vmulq_n_f32(spread, residual));
        let bound = vaddq_f32(bound, vmulq_n_f32(tilt, offset));
        // A comparison with NaN is false, so such a pair stands.
        bits = vorrq_u32(bits, vbicq_u32(places, vcleq_f32(bound, cut)));
    }
    vaddvq_u32(bits)
}

/// The bit of each column.
const PLACES: [u32; PANEL] = {
    let mut places = [0; PANEL];
    let mut column = 0;
    while column < PANEL {
        places[column] = 1 << column;
        column += 1;
    }
    places
};

/// See [`super::retain_by_product`].
#[target_feature(enable = "neon,dotprod")]
pub(super) fn retain(
    rows: &VectorCodes,
    columns: &VectorCodes,
    pairs: &mut [(u32, u32)],
    stands: impl Fn(usize, usize, i32) -> bool,
) -> usize {
    keep(rows, columns, pairs, |x, y, _| product(x, y), stands)
}

/// The product of the codes.
#[target_feature(enable = "neon,dotprod")]
fn product(x: &[Line], y: &[Line]) -> i32 {
    let mut sums = [vdupq_n_s32(0); 4];
    for (x, y) in x.iter().zip(y) {
        for (c, sum) in sums.iter_mut().enumerate() {
            // SAFETY: a line is 64 bytes.
            let (x, y) =
                unsafe { (vld1q_s8(x.0.as_ptr().add(16 * c)), vld1q_s8(y.0.as_ptr().add(16 * c))) };
            *sum = sdot(*sum, x, y);
        }
    }
    vaddvq_s32(vaddq_s32(vaddq_s32(sums[0], sums[1]), vaddq_s32(sums[2], sums[3])))
}
