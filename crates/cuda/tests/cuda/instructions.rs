//! Instructions that kernels write themselves, against what they are documented to do: an emulated GPU must
//! agree with a real one.

use std::sync::Arc;

use half::{bf16, f16};
use nextpair_cuda::{Argument, Array, Element, Gpu, Grid, Kernels};

use crate::{gpu, numbers};

static KERNELS: Kernels =
    Kernels { name: "instructions", sources: &[include_str!("instructions.cu")] };

fn launch(gpu: &Arc<Gpu>, name: &'static str, grid: Grid, arguments: &[Argument]) {
    // SAFETY: each test passes what its kernel declares, and arrays of the sizes that it uses.
    unsafe { gpu.launch(&KERNELS, name, grid, arguments) }.unwrap();
}

fn array<T: Element>(gpu: &Arc<Gpu>, values: &[T]) -> Array<T> {
    Array::of(gpu, values).unwrap()
}

fn halves(both: u32) -> [f32; 2] {
    [both as u16, (both >> 16) as u16].map(|bits| f16::from_bits(bits).to_f32())
}

fn both(low: f32, high: f32) -> u32 {
    u32::from(f16::from_f32(low).to_bits()) | u32::from(f16::from_f32(high).to_bits()) << 16
}

#[test]
fn conversions() {
    let Some(gpu) = gpu() else { return };
    let mut values = numbers(244, 1);
    // Beyond the range of half precision, below its normal numbers, halfway between two.
    values.extend([65519.0, 65520.0, -1e6, f32::INFINITY, 3e-6, -6.1e-5, 2e-8, 3e-8]);
    values.extend([1.0 + 0.5 / 1024.0, 1.0 + 1.5 / 1024.0, 0.0, -0.0]);
    let count = values.len() / 2;
    let [pairs, brains] = [(); 2].map(|()| Array::<u32>::empty(&gpu, count).unwrap());
    let single = Array::<f16>::empty(&gpu, count).unwrap();
    let back = Array::<f32>::empty(&gpu, count).unwrap();
    let rounded = Array::<u32>::empty(&gpu, count).unwrap();
    let arguments = [
        (&array(&gpu, &values)).into(),
        (&pairs).into(),
        (&brains).into(),
        (&single).into(),
        (&back).into(),
        (&rounded).into(),
    ];
    launch(&gpu, "convert", Grid::blocks(1, count as u32), &arguments);
    let (pairs, brains) = (pairs.to_vec().unwrap(), brains.to_vec().unwrap());
    let (single, back) = (single.to_vec().unwrap(), back.to_vec().unwrap());
    let rounded = rounded.to_vec().unwrap();
    for (at, pair) in values.chunks(2).enumerate() {
        let (x, y) = (pair[0], pair[1]);
        assert_eq!(pairs[at], both(x, y), "{x} {y}");
        let brain = [x, y].map(|value| u32::from(bf16::from_f32(value).to_bits()));
        assert_eq!(brains[at], brain[0] | brain[1] << 16, "{x} {y}");
        assert_eq!(single[at].to_bits(), f16::from_f32(x).to_bits(), "{x}");
        assert_eq!(back[at].to_bits(), f16::from_f32(x).to_f32().to_bits(), "{x}");
        if x.is_finite() {
            // Of what is left of the last 13 bits, nothing is promised.
            assert_eq!(rounded[at] >> 13, (x.to_bits() + 0x1000) >> 13, "{x}");
        }
    }
}

#[test]
fn two_numbers_at_once() {
    let Some(gpu) = gpu() else { return };
    let count = 64;
    let [x, y, z] = [2, 3, 4].map(|seed| {
        let values = numbers(2 * count, seed);
        values.chunks(2).map(|pair| both(pair[0], pair[1])).collect::<Vec<_>>()
    });
    let out = Array::<u32>::empty(&gpu, 5 * count).unwrap();
    let [a, b, c] = [&x, &y, &z].map(|values| array(&gpu, values));
    let arguments = [(&a).into(), (&b).into(), (&c).into(), (&out).into()];
    launch(&gpu, "of_two", Grid::blocks(1, count as u32), &arguments);
    let out = out.to_vec().unwrap();
    for at in 0..count {
        let [x, y, z] = [x[at], y[at], z[at]].map(halves);
        for i in 0..2 {
            let (x, y, z) = (f64::from(x[i]), f64::from(y[i]), f64::from(z[i]));
            let exact = [x + y, x - y, x * y, x * y + z];
            for (operation, exact) in exact.into_iter().enumerate() {
                let found = halves(out[operation * count + at])[i];
                assert_eq!(found, f16::from_f64(exact).to_f32(), "{operation}: {x} {y} {z}");
            }
            let found = f64::from(halves(out[4 * count + at])[i]);
            // The documented error is at most 2^-10.987.
            assert!((found - x.tanh()).abs() <= 5.5e-4, "{x} {found}");
        }
    }
}

/// Multiplies 16 by `depth` and `depth` by 8 numbers, given as registers and as what these stand for.
fn check_product(gpu: &Arc<Gpu>, name: &'static str, depth: usize, round: fn(f32) -> (u32, f32)) {
    let of = |count, seed| numbers(count, seed).into_iter().map(round).unzip();
    let (left_bits, left): (Vec<u32>, Vec<f32>) = of(16 * depth, 5);
    let (right_bits, right): (Vec<u32>, Vec<f32>) = of(8 * depth, 6);
    let registers = |bits: &[u32]| match depth {
        16 => bits.chunks(2).map(|pair| pair[0] | pair[1] << 16).collect::<Vec<_>>(),
        _ => bits.to_vec(),
    };
    let before = numbers(16 * 8, 7);
    let sums = array(gpu, &before);
    let (left_array, right_array) =
        (array(gpu, &registers(&left_bits)), array(gpu, &registers(&right_bits)));
    let arguments = [(&sums).into(), (&left_array).into(), (&right_array).into()];
    launch(gpu, name, Grid::blocks(1, 32), &arguments);
    for (at, sum) in sums.to_vec().unwrap().into_iter().enumerate() {
        let (row, column) = (at / 8, at % 8);
        let products = (0..depth).map(|k| left[row * depth + k] * right[column * depth + k]);
        let expected = before[at] + products.sum::<f32>();
        assert!((sum - expected).abs() < 2e-5, "{name} {row} {column}: {sum} {expected}");
    }
}

#[test]
fn products_of_small_matrices() {
    let Some(gpu) = gpu() else { return };
    check_product(&gpu, "product_f16", 16, |x| {
        let half = f16::from_f32(x);
        (half.to_bits().into(), half.to_f32())
    });
    check_product(&gpu, "product_bf16", 16, |x| {
        let half = bf16::from_f32(x);
        (half.to_bits().into(), half.to_f32())
    });
    check_product(&gpu, "product_tf32", 8, |x| {
        let bits = (x.to_bits() + 0x1000) & !0x1fff;
        (bits, f32::from_bits(bits))
    });
}

#[test]
fn matrices_from_shared_memory() {
    let Some(gpu) = gpu() else { return };
    // Number (row, column) of matrix `i` is `64 i + 8 row + column`.
    let words: Vec<u32> = (0..128).map(|at| (2 * at) | ((2 * at + 1) << 16)).collect();
    let [out, turned] = [(); 2].map(|()| Array::<u32>::empty(&gpu, 128).unwrap());
    let arguments = [(&array(&gpu, &words)).into(), (&out).into(), (&turned).into()];
    launch(&gpu, "load_matrices", Grid::blocks(1, 32), &arguments);
    let (out, turned) = (out.to_vec().unwrap(), turned.to_vec().unwrap());
    for at in 0..128u32 {
        let (matrix, g, t) = (at / 32, at % 32 / 4, at % 4);
        let number = |row, column| 64 * matrix + 8 * row + column;
        assert_eq!(out[at as usize], number(g, 2 * t) | number(g, 2 * t + 1) << 16);
        assert_eq!(turned[at as usize], number(2 * t, g) | number(2 * t + 1, g) << 16);
    }
}

#[test]
fn copies_in_groups() {
    let Some(gpu) = gpu() else { return };
    let count = 96;
    let words: Vec<u32> = (0..8 * count).collect();
    let out = Array::<u32>::empty(&gpu, words.len()).unwrap();
    let arguments = [(&array(&gpu, &words)).into(), (&out).into()];
    launch(&gpu, "copies", Grid::blocks(1, count).shared(32 * count as usize), &arguments);
    for (at, found) in out.to_vec().unwrap().into_iter().enumerate() {
        let (sixteen, word) = (at as u32 / 4, at as u32 % 4);
        let from = sixteen / count * count + count - 1 - sixteen % count;
        assert_eq!(found, 4 * from + word);
    }
}

#[test]
fn warps_share_numbers() {
    let Some(gpu) = gpu() else { return };
    let count = 64u32;
    let values: Vec<u32> = (0..count).map(|at| at * 7 % 64).collect();
    let out = Array::<u32>::empty(&gpu, 7 * values.len()).unwrap();
    launch(
        &gpu,
        "shuffles",
        Grid::blocks(1, count),
        &[(&array(&gpu, &values)).into(), (&out).into()],
    );
    let out = out.to_vec().unwrap();
    for at in 0..count {
        let (warp, lane) = (at / 32 * 32, at % 32);
        let of = |lane: u32| values[(warp + lane) as usize];
        let own = &values[warp as usize..warp as usize + 32];
        let threes = (0..32).filter(|&lane| of(lane) % 3 == 0).map(|lane| 1 << lane).sum();
        let (any, all) = (own.contains(&7), own.iter().all(|&value| value < 40));
        let expected: [u32; 7] = [
            of(lane ^ 5),
            of(lane / 8 * 8 + 3),
            of(if lane % 16 + 2 < 16 { lane + 2 } else { lane }),
            of(if lane >= 3 { lane - 3 } else { lane }),
            threes,
            u32::from(any) + 2 * u32::from(all),
            of(if lane < 16 { lane ^ 1 } else { lane ^ 2 }),
        ];
        for (kind, expected) in expected.into_iter().enumerate() {
            assert_eq!(out[kind * count as usize + at as usize], expected, "{kind}, thread {at}");
        }
    }
}

#[test]
fn blocks_wait_for_their_threads() {
    let Some(gpu) = gpu() else { return };
    let out = Array::<u32>::empty(&gpu, 192).unwrap();
    launch(&gpu, "barriers", Grid::blocks(1, 128), &[(&out).into()]);
    let out = out.to_vec().unwrap();
    for at in 0..96 {
        assert_eq!(out[at], (95 - at as u32).pow(2));
        assert_eq!(out[96 + at], 1 + 4 * 32);
    }
}

#[test]
fn threads_of_all_blocks_count() {
    let Some(gpu) = gpu() else { return };
    let (count, least) = (array(&gpu, &[0u32]), array(&gpu, &[3i32]));
    let (sum, wide) = (array(&gpu, &[0f32]), array(&gpu, &[7u64]));
    let arguments = [(&count).into(), (&least).into(), (&sum).into(), (&wide).into()];
    launch(&gpu, "atomics", Grid::blocks(10, 100), &arguments);
    assert_eq!(count.to_vec().unwrap(), [1000]);
    assert_eq!(least.to_vec().unwrap(), [5 - 999]);
    assert_eq!(sum.to_vec().unwrap(), [500.0]);
    assert_eq!(wide.to_vec().unwrap(), [7 + (1000 << 32)]);
}

#[test]
fn bits_of_numbers() {
    let Some(gpu) = gpu() else { return };
    let values = [0u32, 1, 2, 0x8000_0000, 0xffff_ffff, 0x0001_0000, 0x4049_0fdb, 12345];
    let out = Array::<u32>::empty(&gpu, 4 * values.len()).unwrap();
    let arguments = [(&array(&gpu, &values)).into(), (&out).into()];
    launch(&gpu, "bits", Grid::blocks(1, values.len() as u32), &arguments);
    let out = out.to_vec().unwrap();
    for (at, value) in values.into_iter().enumerate() {
        let lowest = if value == 0 { 0 } else { value.trailing_zeros() + 1 };
        let doubled = (f32::from_bits(value & 0x7f7f_ffff) * 2.0).to_bits();
        let expected = [value.count_ones(), lowest, value.leading_zeros(), doubled];
        for (kind, expected) in expected.into_iter().enumerate() {
            assert_eq!(out[kind * values.len() + at], expected, "{kind} of {value:#x}");
        }
    }
}

#[test]
fn blocks_that_no_gpu_runs_are_refused() {
    let Some(gpu) = gpu() else { return };
    let out = Array::<u32>::empty(&gpu, 64).unwrap();
    for grid in [
        Grid::blocks(1, 65),
        Grid::blocks(1, 0),
        Grid::plane(1, 1 << 16, 32),
        Grid::blocks(1, 32).shared(gpu.shared_memory() + 4),
    ] {
        // SAFETY: nothing is computed.
        let refused = unsafe { gpu.launch(&KERNELS, "small_blocks", grid, &[(&out).into()]) };
        assert!(refused.is_err(), "{grid:?}");
    }
    launch(&gpu, "small_blocks", Grid::blocks(1, 64), &[(&out).into()]);
    assert_eq!(out.to_vec().unwrap(), (0..64).collect::<Vec<_>>());
}
