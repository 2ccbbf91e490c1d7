//! AVX-VNNI: `vpdpbusd` of AVX-512 VNNI on 256 bits, on CPUs without AVX-512.

use super::avx512::FORM;

/// The kernel with `vpdpbusd` in one of its encodings.
macro_rules! kernel {
    ($features:literal, $dpbusd:ident) => {
        use std::arch::x86_64::*;

        use super::FORM;
        use crate::screen::kernel::avx2::{COLUMNS, TALL, WIDE, load, test, total};
        use crate::screen::kernel::codes::LINES;
        use crate::screen::kernel::{Line, PANEL, ROWS, Tile, VectorCodes, keep};

        /// The columns that each row stands with, as bits.
        #[target_feature(enable = $features)]
        pub(in super::super) unsafe fn survivors(tile: &Tile<'_>) -> [u32; ROWS] {
            let mut masks = [0; ROWS];
            for line in 0..PANEL / COLUMNS {
                for top in (0..ROWS).step_by(TALL) {
                    // SAFETY: as the caller guarantees; `line` is one of the lines of a group, and
                    // `top` the first of TALL rows of the tile.
                    unsafe {
                        let sums = sums(tile, line, top);
                        test(tile, line, top, &sums, &mut masks);
                    }
                }
            }
            masks
        }

        /// The products of TALL rows from `top` with the columns of a line.
        #[target_feature(enable = $features)]
        unsafe fn sums(tile: &Tile<'_>, line: usize, top: usize) -> [[__m256i; WIDE]; TALL] {
            let Tile { panel, rows, first, .. } = tile;
            // SAFETY: the caller guarantees TALL padded rows from `first + top`, of as many groups
            // as the panel has; starts and groups are LINES lines each.
            unsafe {
                let mut sums = [load(panel.starts.as_ptr().add(line)); TALL];
                let mut codes = panel.lines.as_ptr().add(line);
                let mut code = rows.from(first + top);
                for _ in 0..panel.stride / FORM.group {
                    let [low, high] = load(codes);
                    for (r, sum) in sums.iter_mut().enumerate() {
                        let four = code.add(r * rows.stride).cast::<i32>().read_unaligned();
                        let four = _mm256_set1_epi32(four);
                        sum[0] = $dpbusd(sum[0], four, low);
                        sum[1] = $dpbusd(sum[1], four, high);
                    }
                    codes = codes.wrapping_add(LINES);
                    code = code.add(FORM.group);
                }
                sums
            }
        }

        /// See [`crate::screen::kernel::retain_by_product`].
        #[target_feature(enable = $features)]
        pub(in super::super) fn retain(
            rows: &VectorCodes,
            columns: &VectorCodes,
            pairs: &mut [(u32, u32)],
            stands: impl Fn(usize, usize, i32) -> bool,
        ) -> usize {
            keep(rows, columns, pairs, |x, y, sum| product(x, y) - FORM.shift as i32 * sum, stands)
        }

        /// The product of the codes, with those of `x` shifted.
        #[target_feature(enable = $features)]
        fn product(x: &[Line], y: &[Line]) -> i32 {
            let shift = _mm256_set1_epi8(FORM.shift as i8);
            let mut sums = [_mm256_setzero_si256(); WIDE];
            for (x, y) in x.iter().zip(y) {
                // SAFETY: these are lines.
                let (x, y) = unsafe { (load(x), load(y)) };
                for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
                    *sum = $dpbusd(*sum, _mm256_xor_si256(x, shift), y);
                }
            }
            total(_mm256_add_epi32(sums[0], sums[1]))
        }
    };
}

/// As CPUs without AVX-512 have it.
pub(super) mod short {
    kernel!("avx2,avxvnni", _mm256_dpbusd_avx_epi32);
}

/// As AVX-512 has it: the same operation in a longer encoding, for tests where the other is missing.
#[cfg(test)]
pub(super) mod long {
    kernel!("avx2,avx512vnni,avx512vl", _mm256_dpbusd_epi32);
}
