//! The product on AVX-512 VNNI.

use std::arch::x86_64::*;

use super::{ByteWeights, GROUP, LANES, Line, Scaling};
use crate::convolution::{panels, with_pixels};

/// Most rows of a tile: with three lines of weights their sums fill the registers.
const TALLEST: usize = 8;

/// Multiplies rows of whole groups. `starts` are what the sums of every column begin with; lengths
/// have been checked.
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) fn multiply(
    weights: &ByteWeights,
    rows: &[u8],
    starts: &[i32],
    Scaling { scales, bias }: Scaling<'_>,
    out: &mut [f32],
) {
    let (columns, groups) = (weights.columns, weights.depth.div_ceil(GROUP));
    let count = out.len() / columns;
    let tiles = count.div_ceil(TALLEST);
    let (mut lines, mut first) = (&weights.lines[..], 0);
    for vectors in panels(columns.div_ceil(LANES)) {
        let (panel, later) = lines.split_at(groups * vectors);
        let range = first..columns.min(first + vectors * LANES);
        let ends = Ends {
            starts: &starts[range.clone()],
            scales: &scales[range.clone()],
            bias: &bias[range],
        };
        for tile in 0..tiles {
            let (start, end) = (count * tile / tiles, count * (tile + 1) / tiles);
            let rows = &rows[start * groups * GROUP..end * groups * GROUP];
            let out =
                &mut out[start * columns + first..(end - 1) * columns + first + ends.bias.len()];
            with_pixels!(end - start, P => match vectors {
                1 => run::<P, 1>(panel, rows, &ends, columns, out),
                2 => run::<P, 2>(panel, rows, &ends, columns, out),
                _ => run::<P, 3>(panel, rows, &ends, columns, out),
            });
        }
        (lines, first) = (later, first + vectors * LANES);
    }
}

/// What a panel's sums begin with, and what becomes of them.
struct Ends<'a> {
    starts: &'a [i32],
    scales: &'a [f32],
    bias: &'a [f32],
}

/// `P` rows times a panel of `V` lines.
// By index, because iterators would move the sums out of the registers.
#[allow(clippy::needless_range_loop)]
#[target_feature(enable = "avx512f,avx512vnni")]
fn run<const P: usize, const V: usize>(
    panel: &[Line],
    rows: &[u8],
    ends: &Ends<'_>,
    columns: usize,
    out: &mut [f32],
) {
    let (panel, _) = panel.as_chunks::<V>();
    let width = panel.len() * GROUP;
    let rows: [&[[u8; GROUP]]; P] =
        std::array::from_fn(|p| rows[p * width..][..width].as_chunks().0);
    let starts: [__m512i; V] = std::array::from_fn(|v| {
        let (mask, at) = piece(v, ends.starts.len());
        // SAFETY: the mask has the lanes that lie within the slice.
        unsafe { _mm512_maskz_loadu_epi32(mask, ends.starts.as_ptr().add(at)) }
    });
    let mut sums = [starts; P];
    for (group, lines) in panel.iter().enumerate() {
        // SAFETY: a line is 64 bytes long and as much aligned.
        let lines: [__m512i; V] =
            std::array::from_fn(|v| unsafe { _mm512_load_si512(lines[v].0.as_ptr().cast()) });
        for p in 0..P {
            let bytes = _mm512_set1_epi32(i32::from_le_bytes(rows[p][group]));
            for v in 0..V {
                sums[p][v] = _mm512_dpbusd_epi32(sums[p][v], bytes, lines[v]);
            }
        }
    }
    assert!(
        out.len() == (P - 1) * columns + ends.bias.len() && ends.scales.len() == ends.bias.len()
    );
    for v in 0..V {
        let (mask, at) = piece(v, ends.bias.len());
        // SAFETY: the mask has the lanes that lie within both slices.
        let (scale, bias) = unsafe {
            let scale = _mm512_maskz_loadu_ps(mask, ends.scales.as_ptr().add(at));
            (scale, _mm512_maskz_loadu_ps(mask, ends.bias.as_ptr().add(at)))
        };
        for p in 0..P {
            // Two roundings, as in graphs that multiply and add one after the other.
            let number = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums[p][v]), scale), bias);
            // SAFETY: row `p` has as many columns from here as there are numbers of bias.
            unsafe { _mm512_mask_storeu_ps(out.as_mut_ptr().add(p * columns + at), mask, number) };
        }
    }
}

/// The lanes of a vector that lie within `len` numbers, and the place of the first.
fn piece(v: usize, len: usize) -> (__mmask16, usize) {
    let at = (v * LANES).min(len);
    let lanes = (len - at).min(LANES);
    (((1u32 << lanes) - 1) as __mmask16, at)
}
