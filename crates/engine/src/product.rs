//! Dense products in single precision: by the `gemm` crate where the CPU has vectors that it uses,
//! in plain loops elsewhere.

#[cfg(not(target_arch = "aarch64"))]
mod plain;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use gemm_common::{Parallelism, gemm::gemm_basic_generic};

/// `out = left · right` for a `(rows, inner, columns)` product in single precision, on one
/// thread; each operand comes with its row and column strides. `out` is row by row.
pub fn product(
    (rows, inner, columns): (usize, usize, usize),
    (left, left_row, left_column): (&[f32], usize, usize),
    (right, right_row, right_column): (&[f32], usize, usize),
    out: &mut [f32],
) {
    assert_eq!(out.len(), rows * columns);
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(inner > 0);
    assert!(left.len() > (rows - 1) * left_row + (inner - 1) * left_column);
    assert!(right.len() > (inner - 1) * right_row + (columns - 1) * right_column);
    // The crate would choose by the CPU alone, without hearing what is switched off.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    macro_rules! multiply {
        ($simd:expr, $unit:ident, $lanes:literal) => {{
            use gemm_f32::microkernel::$unit::f32::{H_M, H_N, H_UKR, MR_DIV_N, NR, UKR};
            // SAFETY: the assertions keep every element that the strides reach inside its slice,
            // `out` is as large as the result and, being borrowed mutably, apart from both
            // operands. `$simd` is proof that the CPU has the instructions.
            unsafe {
                // The kernel prefers results whose columns lie together: the transposed product.
                gemm_basic_generic::<_, _, $lanes, { MR_DIV_N * $lanes }, NR, MR_DIV_N, H_M, H_N>(
                    $simd,
                    columns,
                    rows,
                    inner,
                    out.as_mut_ptr(),
                    columns as isize,
                    1,
                    false,
                    right.as_ptr(),
                    right_row as isize,
                    right_column as isize,
                    left.as_ptr(),
                    left_row as isize,
                    left_column as isize,
                    0.0,
                    1.0,
                    false,
                    false,
                    false,
                    |a: f32, b: f32, c: f32| a * b + c,
                    &UKR,
                    &H_UKR,
                    false,
                    Parallelism::None,
                );
            }
        }};
    }
    #[cfg(target_arch = "x86_64")]
    {
        use gemm_common::simd::{V3, V4};
        let cpu = nextpair_core::cpu();
        if let Some(simd) = V4::try_new().filter(|_| cpu.avx512) {
            return multiply!(simd, avx512f, 16);
        }
        if let Some(simd) = V3::try_new().filter(|_| cpu.avx2) {
            return multiply!(simd, fma, 8);
        }
    }
    // Every CPU of this kind has NEON.
    #[cfg(target_arch = "aarch64")]
    multiply!(gemm_common::simd::Scalar, neon, 4);
    #[cfg(not(target_arch = "aarch64"))]
    plain::product(
        (rows, inner, columns),
        (left, left_row, left_column),
        (right, right_row, right_column),
        out,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_definition() {
        // Whole numbers add exactly, in any order.
        let number = |i: usize| (i * 7919 % 23) as f32 - 11.0;
        #[cfg(target_arch = "aarch64")]
        let all = [product];
        #[cfg(not(target_arch = "aarch64"))]
        let all = [product, plain::product];
        for (rows, inner, columns) in [(1, 1, 1), (3, 5, 2), (17, 40, 33), (64, 129, 50)] {
            let left: Vec<f32> = (0..rows * inner).map(number).collect();
            let right: Vec<f32> = (0..inner * columns).map(|i| number(i + 3)).collect();
            for product in all {
                let mut out = vec![f32::NAN; rows * columns];
                // The left side is stored column by column.
                product((rows, inner, columns), (&left, 1, rows), (&right, columns, 1), &mut out);
                for (i, &found) in out.iter().enumerate() {
                    let (r, c) = (i / columns, i % columns);
                    let terms = (0..inner).map(|k| left[k * rows + r] * right[k * columns + c]);
                    assert_eq!(found, terms.sum::<f32>(), "{r} {c}");
                }
            }
        }
    }
}
