//! Exponential, logistic function and hyperbolic tangent of whole vectors, accurate to a few units
//! in the last place.
//!
//! All of them rest on one reduction: `y = n ln 2 + r` with `n` whole and `|r| <= ln 2 / 2`, where
//! `exp(r) - 1` is a polynomial. Lanes are independent, so a number has the same result wherever it
//! stands.

use pulp::{Simd, WithSimd};

use crate::unit::arch;

/// Adding it rounds to a whole number and leaves that in the lowest bits: 1.5 * 2^23.
const ROUNDER: f32 = 12_582_912.0;
/// `ln 2`, as a number with few bits and the remainder.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// `(exp(r) - 1 - r) / r^2` in rising powers of `r`. The remainder is below `r^8 / 8! < 6e-9`.
const SERIES: [f32; 6] =
    [0.5, 0.166_666_67, 4.166_666_8e-2, 8.333_333e-3, 1.388_888_9e-3, 1.984_127e-4];
/// `exp` is zero below the first and infinite above the second.
const RANGE: [f32; 2] = [-104.0, 88.722_84];

/// `exp` of every lane.
#[inline(always)]
pub fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let [lowest, highest] = RANGE.map(|limit| simd.splat_f32s(limit));
    let within = simd.max_f32s(simd.min_f32s(x, highest), lowest);
    let (rounded, power) = reduced(simd, within);
    // Apply half of the scale at a time, because the whole one may be out of range.
    let raised = simd.add_u32s(simd.transmute_u32s_f32s(rounded), simd.splat_u32s(254));
    let half = simd.wrapping_dyn_shr_u32s(low_bits(simd, raised), simd.splat_u32s(1));
    let rest = simd.sub_u32s(low_bits(simd, raised), half);
    let scaled = simd.add_f32s(power, simd.splat_f32s(1.0));
    let scaled = simd.mul_f32s(scaled, exponent(simd, half));
    let scaled = simd.mul_f32s(scaled, exponent(simd, rest));
    let too_large = simd.greater_than_f32s(x, highest);
    let scaled = simd.select_f32s(too_large, simd.splat_f32s(f32::INFINITY), scaled);
    or_nan(simd, x, scaled)
}

/// `1 / (1 + exp(-x))` of every lane.
#[inline(always)]
pub fn sigmoid<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    let limited = simd.max_f32s(simd.sub_f32s(simd.splat_f32s(0.0), x), simd.splat_f32s(-87.0));
    let limited = simd.min_f32s(limited, simd.splat_f32s(88.0));
    let (scale, power) = powered(simd, limited);
    let denominator = simd.add_f32s(simd.mul_add_f32s(scale, power, scale), one);
    or_nan(simd, x, simd.div_f32s(one, denominator))
}

/// `tanh` of every lane: with `m = exp(-2|x|) - 1` it is `-m / (2 + m)`, of the sign of `x`.
#[inline(always)]
pub fn tanh<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let sign = simd.and_f32s(x, simd.splat_f32s(-0.0));
    let magnitude = simd.xor_f32s(x, sign);
    let limited = simd.min_f32s(magnitude, simd.splat_f32s(20.0));
    let (scale, power) = powered(simd, simd.mul_f32s(limited, simd.splat_f32s(-2.0)));
    let m = simd.mul_add_f32s(scale, power, simd.sub_f32s(scale, simd.splat_f32s(1.0)));
    let positive = simd.div_f32s(m, simd.add_f32s(m, simd.splat_f32s(2.0)));
    // The quotient is negative or zero; clear its sign, then set that of x.
    let positive = simd.and_f32s(positive, simd.splat_f32s(f32::from_bits(0x7fff_ffff)));
    or_nan(simd, x, simd.or_f32s(positive, sign))
}

/// `(2^n, exp(r) - 1)` of numbers between -87 and 88.
#[inline(always)]
fn powered<S: Simd>(simd: S, x: S::f32s) -> (S::f32s, S::f32s) {
    let (rounded, power) = reduced(simd, x);
    let biased = simd.add_u32s(simd.transmute_u32s_f32s(rounded), simd.splat_u32s(127));
    (exponent(simd, biased), power)
}

/// `n` in the lowest bits, and `exp(r) - 1`.
#[inline(always)]
fn reduced<S: Simd>(simd: S, x: S::f32s) -> (S::f32s, S::f32s) {
    let rounder = simd.splat_f32s(ROUNDER);
    let log2_e = simd.splat_f32s(std::f32::consts::LOG2_E);
    let rounded = simd.mul_add_f32s(x, log2_e, rounder);
    let n = simd.sub_f32s(rounder, rounded);
    let [high, low] = LN_2.map(|part| simd.splat_f32s(part));
    let r = simd.mul_add_f32s(n, low, simd.mul_add_f32s(n, high, x));
    let mut series = simd.splat_f32s(SERIES[5]);
    for i in (0..5).rev() {
        series = simd.mul_add_f32s(series, r, simd.splat_f32s(SERIES[i]));
    }
    (rounded, simd.mul_add_f32s(simd.mul_f32s(r, r), series, r))
}

/// The bits of a whole number that was rounded by [`ROUNDER`], without those of `ROUNDER` itself.
#[inline(always)]
fn low_bits<S: Simd>(simd: S, bits: S::u32s) -> S::u32s {
    simd.and_u32s(bits, simd.splat_u32s(0x1ff))
}

/// The power of two whose biased exponent is in the lowest eight bits.
#[inline(always)]
fn exponent<S: Simd>(simd: S, biased: S::u32s) -> S::f32s {
    simd.transmute_f32s_u32s(simd.wrapping_dyn_shl_u32s(biased, simd.splat_u32s(23)))
}

/// `otherwise`, or NaN where `x` is. It is not the NaN of `x`: choosing between a result and the
/// number in its place becomes a masked store, which takes longer than all the arithmetic on some CPUs.
#[inline(always)]
fn or_nan<S: Simd>(simd: S, x: S::f32s, otherwise: S::f32s) -> S::f32s {
    // All bits set, because choosing these is one bitwise operation.
    let nan = simd.splat_f32s(f32::from_bits(u32::MAX));
    simd.select_f32s(simd.equal_f32s(x, x), otherwise, nan)
}

/// Replaces every vector `$x` of numbers by `$of`. A macro, because a closure would not be compiled for the vector unit
/// in use unless it happened to be inlined.
macro_rules! each {
    ($simd:expr, $numbers:expr, $x:ident => $of:expr) => {{
        let (vectors, rest) = S::as_mut_simd_f32s($numbers);
        for place in vectors {
            let $x = *place;
            *place = $of;
        }
        let $x = $simd.partial_load_f32s(rest);
        $simd.partial_store_f32s(rest, $of);
    }};
}
pub(crate) use each;

/// Defines a function that replaces every number of a slice by its `$of`.
macro_rules! slices {
    ($($(#[$doc:meta])* $name:ident = $of:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(values: &mut [f32]) {
            struct All<'a>(&'a mut [f32]);
            impl WithSimd for All<'_> {
                type Output = ();

                // Inlined, like everything it calls, to be compiled for the vector unit in use.
                #[inline(always)]
                fn with_simd<S: Simd>(self, simd: S) {
                    each!(simd, self.0, x => $of(simd, x));
                }
            }
            arch().dispatch(All(values));
        }
    )*};
}

slices! {
    /// Replaces every number by its exponential.
    exp_all = exp;
    /// Replaces every number `x` by `1 / (1 + exp(-x))`.
    sigmoid_all = sigmoid;
    /// Replaces every number by its hyperbolic tangent.
    tanh_all = tanh;
}

/// The sum of `count` numbers in 32 lanes, which are then added in pairs: as fast as a vector unit
/// allows, and in the same order on every machine.
pub fn sum_of(count: usize, number: impl Fn(usize) -> f32) -> f32 {
    const LANES: usize = 32;
    let mut lanes = [0.0f32; LANES];
    let whole = count - count % LANES;
    for first in (0..whole).step_by(LANES) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += number(first + lane);
        }
    }
    let [a, b, c, d] = [0, 8, 16, 24].map(|at| &lanes[at..at + 8]);
    let eight: [f32; 8] = std::array::from_fn(|at| (a[at] + b[at]) + (c[at] + d[at]));
    let [p, q, r, s] = std::array::from_fn(|at| eight[at] + eight[at + 4]);
    (whole..count).fold((p + q) + (r + s), |sum, at| sum + number(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest error against `exact` in units in the last place, over `numbers`.
    fn worst(numbers: &[f32], all: fn(&mut [f32]), exact: fn(f64) -> f64) -> f64 {
        let mut found = numbers.to_vec();
        all(&mut found);
        let mut worst = 0.0f64;
        for (&x, &found) in numbers.iter().zip(&found) {
            let exact = exact(x as f64);
            let magnitude = (exact.abs() as f32).max(f32::MIN_POSITIVE);
            let unit = (magnitude.next_up() as f64 - magnitude as f64).abs();
            let distance = (found as f64 - exact).abs() / unit;
            assert!(distance < 4.0, "{x:e}: {found:e} for {exact:e}");
            worst = worst.max(distance);
        }
        worst
    }

    #[test]
    fn functions_are_exact_to_a_few_units() {
        let fine = (-400_000..400_000).map(|i| i as f32 * 2.2e-4);
        let tiny = (0..200).flat_map(|i| [1.0f32, -1.0].map(|s| s * 0.7f32.powi(i)));
        let numbers: Vec<f32> = fine.chain(tiny).chain([0.0, -0.0]).collect();
        let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
        assert!(worst(&numbers, exp_all, f64::exp) < 1.5);
        assert!(worst(&numbers, sigmoid_all, logistic) < 2.5);
        assert!(worst(&numbers, tanh_all, f64::tanh) < 2.5);
    }

    #[test]
    fn far_out_numbers_and_nan_are_right() {
        let far = [1e4, f32::MAX, f32::INFINITY, -1e4, f32::MIN, f32::NEG_INFINITY, -104.5, 89.0];
        let apply = |all: fn(&mut [f32])| {
            let mut values = far.to_vec();
            all(&mut values);
            values
        };
        let (infinity, tiny) = (f32::INFINITY, 1e-38);
        assert_eq!(apply(exp_all), [infinity, infinity, infinity, 0.0, 0.0, 0.0, 0.0, infinity]);
        assert_eq!(apply(tanh_all), [1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0, 1.0]);
        let logistic = apply(sigmoid_all);
        assert_eq!(logistic[..3], [1.0; 3]);
        assert!(logistic[3..7].iter().all(|&x| (0.0..tiny).contains(&x)), "{logistic:?}");
        for all in [exp_all, sigmoid_all, tanh_all] {
            let mut values = [f32::NAN; 33];
            all(&mut values);
            assert!(values.iter().all(|x| x.is_nan()));
        }
        let mut zeros = [0.0, -0.0];
        tanh_all(&mut zeros);
        assert_eq!(zeros.map(f32::to_bits), [0.0f32, -0.0].map(f32::to_bits));
    }

    #[test]
    fn sums_are_sums() {
        for count in [0, 1, 31, 32, 33, 100, 1000] {
            let number = |at: usize| ((at * 37 % 23) as f32 - 9.5) / 7.0;
            let exact: f64 = (0..count).map(|at| f64::from(number(at))).sum();
            assert!((f64::from(sum_of(count, number)) - exact).abs() < 1e-3, "{count}");
        }
    }
}
