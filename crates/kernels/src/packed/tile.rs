//! The innermost loop of a product: a tile of rows times a panel of columns, in registers.

#[cfg(target_arch = "aarch64")]
mod neon;

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::Tiles;
use crate::unit::arch;

/// Vectors side by side in a panel.
pub(crate) const VECTORS: usize = 2;

/// Maximum rows of a tile on any CPU.
pub(super) const TALLEST: usize = 12;

/// The sums of one row of a tile: the columns of a panel.
pub(crate) type Sums<S> = [<S as Simd>::f32s; VECTORS];

/// Maximum rows of a tile: its sums, a line of the panel and one factor fill the registers.
pub(super) fn tallest<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { TALLEST } else { TALLEST / 2 }
}

/// Maximum rows of a tile and columns of a panel on this CPU.
pub(crate) fn tile_size() -> (usize, usize) {
    struct Ask;
    impl WithSimd for Ask {
        type Output = (usize, usize);

        fn with_simd<S: Simd>(self, _simd: S) -> (usize, usize) {
            (tallest::<S>(), VECTORS * S::F32_LANES)
        }
    }
    arch().dispatch(Ask)
}

/// Calls `$call` with the constant `$rows` set to the number `$height`, at most [`TALLEST`]. Every
/// height of a tile is compiled separately, with its sums in registers.
macro_rules! with_height {
    ($height:expr, $rows:ident => $call:expr) => {
        with_height!(@ $height, $rows => $call, 1 2 3 4 5 6 7 8 9 10 11 12)
    };
    (even $height:expr, $rows:ident => $call:expr) => {
        with_height!(@ $height, $rows => $call, 2 4 6 8 10 12)
    };
    (@ $height:expr, $rows:ident => $call:expr, $($number:literal)*) => {
        match $height {
            $($number => {
                const $rows: usize = $number;
                $call
            })*
            height => unreachable!("a tile of {height} rows"),
        }
    };
}
pub(crate) use with_height;

/// Adds to every sum the products of its row and column, by fused multiply-adds in the order of the
/// depth. For every step of the depth, `left` has the `R` numbers of the rows and `panel` the
/// vectors of the columns.
#[inline(always)]
pub(crate) fn accumulate<S: Simd, const R: usize>(
    simd: S,
    left: &[f32],
    panel: &[f32],
    sums: &mut [Sums<S>; R],
) {
    #[cfg(target_arch = "aarch64")]
    if S::F32_LANES == neon::LANES
        && R >= neon::LANES
        && let ([sums], []) = pulp::bytemuck::cast_slice_mut(sums.as_mut_slice()).as_chunks_mut()
    {
        return neon::accumulate::<R>(left, panel, sums);
    }
    let (factors, _) = left.as_chunks::<R>();
    let (vectors, _) = S::as_simd_f32s(panel);
    let (lines, _) = vectors.as_chunks::<VECTORS>();
    let mut held = *sums;
    for (factors, line) in factors.iter().zip(lines) {
        // By index, because iterators would move the sums out of the registers.
        for r in 0..R {
            let factor = simd.splat_f32s(factors[r]);
            for v in 0..VECTORS {
                held[r][v] = simd.mul_add_f32s(factor, line[v], held[r][v]);
            }
        }
    }
    *sums = held;
}

/// Loads up to a panel's width of numbers, with zeros after the last.
#[inline(always)]
fn load<S: Simd>(simd: S, from: &[f32]) -> Sums<S> {
    if let (&[first, second], []) = S::as_simd_f32s(from) {
        return [first, second];
    }
    let (first, second) = from.split_at(from.len().min(S::F32_LANES));
    [simd.partial_load_f32s(first), simd.partial_load_f32s(second)]
}

/// Writes as many sums as fit.
#[inline(always)]
fn store<S: Simd>(simd: S, sums: Sums<S>, to: &mut [f32]) {
    if let ([first, second], []) = S::as_mut_simd_f32s(to) {
        return [*first, *second] = sums;
    }
    let (first, second) = to.split_at_mut(to.len().min(S::F32_LANES));
    simd.partial_store_f32s(first, sums[0]);
    simd.partial_store_f32s(second, sums[1]);
}

/// Writes the product of a tile and a panel to the `columns` of the rows of `out`, or adds it.
#[inline(always)]
pub(super) fn product<S: Simd, const R: usize>(
    simd: S,
    left: &[f32],
    panel: &[f32],
    columns: Range<usize>,
    add: bool,
    out: &mut [&mut [f32]],
) {
    let out: &mut [&mut [f32]; R] = out.try_into().expect("a tile has a row of out for each row");
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; R];
    if add {
        for r in 0..R {
            sums[r] = load(simd, &out[r][columns.clone()]);
        }
    }
    accumulate(simd, left, panel, &mut sums);
    for r in 0..R {
        store(simd, sums[r], &mut out[r][columns.clone()]);
    }
}

/// Writes the product of all tiles of a left side and a panel to `out`, or adds it. Rows are as
/// wide as the panel.
#[inline(always)]
pub(crate) fn panel_product<S: Simd>(
    simd: S,
    tiles: &Tiles,
    panel: &[f32],
    add: bool,
    out: &mut [f32],
) {
    let width = VECTORS * S::F32_LANES;
    let plan = tiles.plan();
    for t in 0..plan.count() {
        let (left, rows) = (tiles.values_of(t), plan.rows_of(t));
        let (vectors, _) = S::as_mut_simd_f32s(&mut out[rows.start * width..rows.end * width]);
        let (lines, _) = vectors.as_chunks_mut::<VECTORS>();
        with_height!(rows.len(), R => {
            let mut sums = [[simd.splat_f32s(0.0); VECTORS]; R];
            if add {
                sums.iter_mut().zip(&*lines).for_each(|(sum, line)| *sum = *line);
            }
            accumulate(simd, left, panel, &mut sums);
            lines.iter_mut().zip(sums).for_each(|(line, sum)| *line = sum);
        });
    }
}
