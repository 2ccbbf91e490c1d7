//! Products by cuBLAS, or what stands for it, against plain sums.

use half::{bf16, f16};
use nextpair_cuda::{Array, Number, Operand, Precision, Product};

use crate::{gpu, numbers};

const COUNT: usize = 3;
const ROWS: usize = 21;
const COLUMNS: usize = 40;
const DEPTH: usize = 24;
/// Numbers from one row to the next, and from one matrix of a batch to the next.
const STRIDE: usize = 48;
const APART: usize = 48 * 48;

/// A matrix as it lies, and as an operand.
fn operand<T: Number>(array: &Array<T>, turned: bool) -> Operand {
    let operand = Operand::new(array, 0, STRIDE).apart(APART);
    if turned { operand.turned() } else { operand }
}

fn place(row: usize, column: usize, turned: bool) -> usize {
    if turned { column * STRIDE + row } else { row * STRIDE + column }
}

/// From single precision to a type, and back.
type Rounding<T> = (fn(f32) -> T, fn(T) -> f32);

fn check<In: Number, Out: Number>(
    (round, widen): Rounding<In>,
    (round_out, widen_out): Rounding<Out>,
    precision: Precision,
    tolerance: f32,
) {
    let Some(gpu) = gpu() else { return };
    for (turns, keep) in [((false, false), 0.0), ((true, false), 0.5), ((false, true), 1.0)] {
        let of = |seed| numbers(COUNT * APART, seed).into_iter().map(round).collect::<Vec<In>>();
        let (left, right) = (of(11), of(12));
        // What is not kept may be anything.
        let before =
            if keep == 0.0 { vec![f32::NAN; COUNT * APART] } else { numbers(COUNT * APART, 13) };
        let before: Vec<Out> = before.into_iter().map(round_out).collect();
        let out = Array::of(&gpu, &before).unwrap();
        let (left_array, right_array) =
            (Array::of(&gpu, &left).unwrap(), Array::of(&gpu, &right).unwrap());
        let product = Product {
            rows: ROWS,
            columns: COLUMNS,
            depth: DEPTH,
            left: operand(&left_array, turns.0),
            right: operand(&right_array, turns.1),
            keep,
            precision,
        };
        gpu.multiply_each(product, operand(&out, false), COUNT).unwrap();
        let found = out.to_vec().unwrap();
        for (at, &found) in found.iter().enumerate() {
            let (matrix, row, column) = (at / APART, at % APART / STRIDE, at % STRIDE);
            let (found, before) = (widen_out(found), widen_out(before[at]));
            if row >= ROWS || column >= COLUMNS {
                assert_eq!(found.to_bits(), before.to_bits(), "{row} {column}: not of the result");
                continue;
            }
            let of = |all: &[In], row, column, turned| {
                widen(all[matrix * APART + place(row, column, turned)])
            };
            let products =
                (0..DEPTH).map(|k| of(&left, row, k, turns.0) * of(&right, k, column, turns.1));
            let mut expected = products.sum::<f32>();
            if keep != 0.0 {
                expected += keep * before;
            }
            let error = (found - expected).abs();
            assert!(error <= tolerance, "{turns:?} {row} {column}: {found} {expected}");
        }
    }
}

#[test]
fn in_single_precision() {
    check::<f32, f32>((|x| x, |x| x), (|x| x, |x| x), Precision::Single, 1e-4);
}

#[test]
fn with_factors_of_ten_bits() {
    check::<f32, f32>((|x| x, |x| x), (|x| x, |x| x), Precision::Tf32, 3e-2);
}

#[test]
fn of_half_precision() {
    let halves: Rounding<f16> = (f16::from_f32, f16::to_f32);
    check::<f16, f32>(halves, (|x| x, |x| x), Precision::Single, 1e-4);
    check::<f16, f16>(halves, halves, Precision::Single, 5e-2);
}

#[test]
fn of_brain_floats() {
    check::<bf16, f32>((bf16::from_f32, bf16::to_f32), (|x| x, |x| x), Precision::Single, 1e-4);
}
