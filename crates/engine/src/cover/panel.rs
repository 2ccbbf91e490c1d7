//! Bounds on gains by the CPU, from cosines in single precision.

use crate::centred::direction_error;
use crate::points::Points;
use crate::widest::widest;

/// Some points in single precision, rounded towards larger gains.
pub(crate) struct Panel {
    pub(super) directions: Vec<f32>,
    pub(super) levels: Vec<f32>,
    weights: Vec<f32>,
    /// Bound on the error of a cosine.
    error: f32,
}

impl Panel {
    pub(super) fn new(points: &Points, levels: &[f64], which: &[u32]) -> Self {
        let directions = points.vectors.directions(which);
        let (levels, weights) = rounded(points, levels, which);
        let error = cosine_error(directions.len() / which.len());
        Panel { directions, levels, weights, error }
    }
}

/// The levels of some points, rounded down, and their weights, rounded up.
pub(super) fn rounded(points: &Points, levels: &[f64], which: &[u32]) -> (Vec<f32>, Vec<f32>) {
    let down = |&point: &u32| ((levels[point as usize] * (1.0 - 1e-6)) as f32).max(0.0);
    let up = |&point: &u32| (points.weight(point) * (1.0 + 1e-6)) as f32;
    (which.iter().map(down).collect(), which.iter().map(up).collect())
}

/// A bound on the error of a cosine, with the rounding of a sum near 1.
pub(crate) fn cosine_error(dim: usize) -> f32 {
    (direction_error(dim) * 1.001 + 5e-7) as f32
}

widest! {
    /// At least the gain of an item at some points, from its cosines; `slope` is `2 / s`.
    gain_above(cosines: &[f32], panel: &Panel, weight: f32, slope: f32) -> f32 {
        const LANES: usize = 32;
        let term = |cosine: f32, level: f32, weight_of_point: f32| {
            let exponent = ((cosine + panel.error - 1.0) * slope).clamp(-80.0, 0.0);
            weight_of_point * (weight * exp_above(exponent) - level).max(0.0)
        };
        let mut sums = [0.0f32; LANES];
        let (cosines, last) = cosines.as_chunks::<LANES>();
        let (levels, last_levels) = panel.levels.as_chunks::<LANES>();
        let (weights, last_weights) = panel.weights.as_chunks::<LANES>();
        for ((cosines, levels), weights) in cosines.iter().zip(levels).zip(weights) {
            for lane in 0..LANES {
                sums[lane] += term(cosines[lane], levels[lane], weights[lane]);
            }
        }
        let mut sum: f32 = sums.iter().sum();
        for ((&cosine, &level), &weight_of_point) in last.iter().zip(last_levels).zip(last_weights) {
            sum += term(cosine, level, weight_of_point);
        }
        sum
    }
}

/// At least `exp(x)` for `x` in [-80, 0], and at most 0.002 % more.
#[inline(always)]
fn exp_above(x: f32) -> f32 {
    const ROUNDER: f32 = 12_582_912.0;
    let shifted = x * std::f32::consts::LOG2_E + ROUNDER;
    let power = shifted - ROUNDER;
    let rest = x - power * 0.693_359_4 + power * 2.121_944_4e-4;
    let mut sum = 1.0 / 720.0;
    for factor in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * rest + factor;
    }
    let scale = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    // The series, the rounding of `x` and its product are within 1e-5.
    sum * scale * (1.0 + 1e-5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rough_exponential_is_never_below() {
        for step in 0..=80_000 {
            let x = -step as f32 * 0.001;
            let (above, exact) = (f64::from(exp_above(x)), f64::from(x).exp());
            assert!(above >= exact && above <= exact * (1.0 + 2e-5), "exp({x}): {above} {exact}");
        }
    }
}
