//! Products of 8-bit codes by the byte instructions of the CPU.
//!
//! The gemm crate computes every dense product in single precision. It can neither multiply bytes,
//! four times as many per cycle, nor drop a tile without writing it. So there are loops of our own,
//! one file per instruction set and one interface: the codes of a panel of columns and of some rows
//! go in, the kernel tests a bound in registers, and the pairs that it cannot rule out come out.
//! Products are exact in all of them. Where codes have to be coarser, more pairs come out.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;
mod codes;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(test)]
mod tests;

use nextpair_core::cpu;

use codes::Line;
pub(super) use codes::{PanelCodes, Range, RowCodes, VectorCodes};

/// Rows per kernel call.
const ROWS: usize = 12;
/// Columns of one panel.
pub(super) const PANEL: usize = 32;
/// Most numbers of a vector: the sums of their products stay within 32 bits.
pub(super) const MOST: usize = 32768;

/// An instruction that multiplies bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// `vpdpbusd` on 512 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    /// `vpdpbusd` on 256 bits.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    /// The same kernel in the encoding of AVX-512, which more machines can test.
    #[cfg(all(target_arch = "x86_64", test))]
    AvxVnniLong,
    /// `vpmaddubsw`, with sums of 16 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// `smmla`.
    #[cfg(target_arch = "aarch64")]
    NeonMatrix,
    /// `sdot`.
    #[cfg(target_arch = "aarch64")]
    NeonDot,
}

/// How a unit wants its operands.
#[derive(Clone, Copy, Debug)]
struct OperandLayout {
    /// Codes of a column that lie together in a panel: those that one sum takes at once.
    group: usize,
    /// Codes that one round of the loop takes; vectors are padded to a multiple of it.
    step: usize,
    /// Added to the codes of rows where the instruction takes them as unsigned.
    shift: u8,
    /// Whether sums have 16 bits, and begin anew with every step.
    short: bool,
}

impl Unit {
    /// All units, fastest first.
    const ALL: &[Unit] = &[
        #[cfg(target_arch = "x86_64")]
        Unit::Avx512Vnni,
        #[cfg(target_arch = "x86_64")]
        Unit::AvxVnni,
        #[cfg(all(target_arch = "x86_64", test))]
        Unit::AvxVnniLong,
        #[cfg(target_arch = "x86_64")]
        Unit::Avx2,
        #[cfg(target_arch = "aarch64")]
        Unit::NeonMatrix,
        #[cfg(target_arch = "aarch64")]
        Unit::NeonDot,
    ];

    /// The fastest unit of this CPU.
    pub(super) fn best() -> Option<Unit> {
        Unit::ALL.iter().copied().find(|unit| unit.is_here())
    }

    /// Whether this CPU has the unit and it is not switched off.
    fn is_here(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512Vnni => cpu().avx512_vnni,
            #[cfg(target_arch = "x86_64")]
            Unit::AvxVnni => cpu().avx_vnni,
            #[cfg(all(target_arch = "x86_64", test))]
            Unit::AvxVnniLong => cpu().avx512_vnni,
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2 => cpu().avx2,
            #[cfg(target_arch = "aarch64")]
            Unit::NeonMatrix => cpu().i8mm,
            #[cfg(target_arch = "aarch64")]
            Unit::NeonDot => cpu().dotprod,
        }
    }

    fn form(self) -> OperandLayout {
        match self {
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512Vnni | Unit::AvxVnni => avx512::FORM,
            #[cfg(all(target_arch = "x86_64", test))]
            Unit::AvxVnniLong => avx512::FORM,
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2 => avx2::FORM,
            #[cfg(target_arch = "aarch64")]
            Unit::NeonMatrix => neon::MATRIX,
            #[cfg(target_arch = "aarch64")]
            Unit::NeonDot => neon::DOT,
        }
    }

    /// The codes of panels and rows that it takes.
    pub(super) fn range(self) -> Range {
        #[cfg(target_arch = "x86_64")]
        if self == Unit::Avx2 {
            return avx2::RANGE;
        }
        Range::FULL
    }

    /// Products per cycle within a panel, roughly. Only plans depend on it.
    pub(super) fn products_per_cycle(self) -> f64 {
        #[cfg(target_arch = "x86_64")]
        if self == Unit::Avx2 {
            return 48.0;
        }
        64.0
    }
}

/// The numbers of the bound for each column of a panel.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    pub(super) spread: &'a [f32; PANEL],
    pub(super) tilt: &'a [f32; PANEL],
    pub(super) cut: &'a [f32; PANEL],
}

/// A kernel call: [`ROWS`] rows from `first` times a panel.
struct Tile<'a> {
    panel: &'a PanelCodes,
    rows: &'a RowCodes,
    first: usize,
    columns: Columns<'a>,
}

/// Appends to `found` the pairs (row, column within the panel) for which
/// `scale[row] * codes·codes + residual[row] * spread[column] + offset[row] * tilt[column]` is
/// not at most `cut[column]`, for the first `count` columns.
pub(super) fn survivors(
    panel: &PanelCodes,
    count: usize,
    rows: &RowCodes,
    columns: Columns<'_>,
    found: &mut Vec<(u32, u32)>,
) {
    let unit = panel.unit;
    assert!(unit.is_here());
    assert_eq!((rows.unit, rows.stride), (unit, panel.stride));
    let wanted = if count < PANEL { (1u32 << count) - 1 } else { u32::MAX };
    for first in (0..rows.count()).step_by(ROWS) {
        let tile = Tile { panel, rows, first, columns };
        // SAFETY: the CPU has the unit. Panel and rows were made for it, with strides of the same
        // whole steps; rows are padded to whole calls.
        let masks = unsafe {
            match unit {
                #[cfg(target_arch = "x86_64")]
                Unit::Avx512Vnni => avx512::survivors(&tile),
                #[cfg(target_arch = "x86_64")]
                Unit::AvxVnni => avx_vnni::short::survivors(&tile),
                #[cfg(all(target_arch = "x86_64", test))]
                Unit::AvxVnniLong => avx_vnni::long::survivors(&tile),
                #[cfg(target_arch = "x86_64")]
                Unit::Avx2 => avx2::survivors(&tile),
                #[cfg(target_arch = "aarch64")]
                Unit::NeonMatrix => neon::survivors_by_matrix(&tile),
                #[cfg(target_arch = "aarch64")]
                Unit::NeonDot => neon::survivors_by_dot(&tile),
            }
        };
        for (r, &mask) in masks.iter().enumerate().take(rows.count() - first) {
            let mut mask = mask & wanted;
            while mask != 0 {
                found.push(((first + r) as u32, mask.trailing_zeros()));
                mask &= mask - 1;
            }
        }
    }
}

/// Keeps the pairs for which `stands(row, column, product of their codes)`.
pub(super) fn retain_by_product(
    unit: Unit,
    rows: &VectorCodes,
    columns: &VectorCodes,
    pairs: &mut Vec<(u32, u32)>,
    stands: impl Fn(usize, usize, i32) -> bool,
) {
    assert!(unit.is_here());
    assert_eq!(rows.lines_each, columns.lines_each);
    // SAFETY: the CPU has the unit.
    let kept = unsafe {
        match unit {
            #[cfg(target_arch = "x86_64")]
            Unit::Avx512Vnni => avx512::retain(rows, columns, pairs, stands),
            #[cfg(target_arch = "x86_64")]
            Unit::AvxVnni => avx_vnni::short::retain(rows, columns, pairs, stands),
            #[cfg(all(target_arch = "x86_64", test))]
            Unit::AvxVnniLong => avx_vnni::long::retain(rows, columns, pairs, stands),
            #[cfg(target_arch = "x86_64")]
            Unit::Avx2 => avx2::retain(rows, columns, pairs, stands),
            #[cfg(target_arch = "aarch64")]
            Unit::NeonMatrix | Unit::NeonDot => neon::retain(rows, columns, pairs, stands),
        }
    };
    pairs.truncate(kept);
}

/// Moves the pairs that stand to the front, and returns their number. `product` has the codes of a
/// row and of a column, and the sum of the latter.
#[inline(always)]
fn keep(
    rows: &VectorCodes,
    columns: &VectorCodes,
    pairs: &mut [(u32, u32)],
    product: impl Fn(&[Line], &[Line], i32) -> i32,
    stands: impl Fn(usize, usize, i32) -> bool,
) -> usize {
    let mut kept = 0;
    for i in 0..pairs.len() {
        let (r, c) = (pairs[i].0 as usize, pairs[i].1 as usize);
        let product = product(rows.lines_of(r), columns.lines_of(c), columns.sums[c]);
        // Write every time and count only if it stands: no branch to mispredict.
        pairs[kept] = pairs[i];
        kept += usize::from(stands(r, c, product));
    }
    kept
}
