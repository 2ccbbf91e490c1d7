//! Sums over vectors, compiled for the widest registers of the CPU.

use crate::widest::{in_halves, widest};

widest! {
    /// The dot product in single precision, in the order that is fastest here.
    dot(x: &[f32], y: &[f32]) -> f32 {
        fold_lanes(x, y, |sum, x, y| sum + x * y)
    }
}

widest! {
    /// The squared distance in single precision, in the order that is fastest here.
    squared_distance(x: &[f32], y: &[f32]) -> f32 {
        fold_lanes(x, y, |sum, x, y| sum + (x - y) * (x - y))
    }
}

widest! {
    /// The dot product in double precision, in the order that is fastest here.
    dot_f64(x: &[f64], y: &[f64]) -> f64 {
        fold_lanes(x, y, |sum, x, y| sum + x * y)
    }
}

widest! {
    /// `x -= factor * y`.
    subtract(x: &mut [f32], factor: f32, y: &[f32]) -> () {
        x.iter_mut().zip(y).for_each(|(x, y)| *x -= factor * y);
    }
}

widest! {
    /// `x -= factor * y`.
    subtract_f64(x: &mut [f64], factor: f64, y: &[f64]) -> () {
        x.iter_mut().zip(y).for_each(|(x, y)| *x -= factor * y);
    }
}

/// Sums in 64 independent lanes, written so that the compiler vectorises each step.
#[inline(always)]
fn fold_lanes<T>(x: &[T], y: &[T], step: impl Fn(T, T, T) -> T) -> T
where
    T: Copy + Default + std::ops::Add<Output = T>,
{
    const LANES: usize = 64;
    let y = &y[..x.len()];
    let mut sums = [T::default(); LANES];
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let mut rest = T::default();
    for (&x, &y) in xs.remainder().iter().zip(ys.remainder()) {
        rest = step(rest, x, y);
    }
    for (x, y) in xs.zip(ys) {
        for l in 0..LANES {
            sums[l] = step(sums[l], x[l], y[l]);
        }
    }
    in_halves(sums, |one, other| one + other) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_agree_with_the_plain_sum() {
        for len in [0, 1, 7, 63, 64, 65, 200, 513] {
            let x: Vec<f32> = (0..len).map(|i| ((i * 7) % 11) as f32 - 5.0).collect();
            let y: Vec<f32> = (0..len).map(|i| ((i * 3) % 13) as f32 - 6.0).collect();
            let plain: f32 = x.iter().zip(&y).map(|(x, y)| x * y).sum();
            let apart: f32 = x.iter().zip(&y).map(|(x, y)| (x - y) * (x - y)).sum();
            assert_eq!(dot(&x, &y), plain, "whole numbers add exactly");
            assert_eq!(squared_distance(&x, &y), apart);
        }
    }
}
