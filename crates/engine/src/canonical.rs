//! Exponential and logarithm from additions and multiplications alone. Those of systems differ in
//! the last place; these have the same bits on every machine, and the compiler vectorises them.

/// `ln 2`, as a number with few bits and the remainder.
const LN_2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];
/// Adding it rounds to a whole number and leaves that in the lowest bits: 1.5 * 2^52.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// `1 / k!` from `k = 13` down. The remainder is below `0.35^14 / 14! < 5e-18`.
const FACTORIALS: [f64; 14] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];

/// `exp(x)`, accurate to a few units in the last place. Beyond ±708, that of ±708.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    let x = x.clamp(-708.0, 708.0);
    let shifted = x * std::f64::consts::LOG2_E + ROUNDER;
    let power = shifted - ROUNDER;
    let rest = x - power * LN_2[0] - power * LN_2[1];
    let mut sum = 0.0;
    for factor in FACTORIALS {
        sum = sum * rest + factor;
    }
    // The lowest bits of `shifted` are those of the whole number; the shift drops the others.
    sum * f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

/// `ln(x)` of a positive, normal number, accurate to a few units in the last place.
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut power = ((bits >> 52) as i64 - 1023) as f64;
    let mut rest = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if rest > std::f64::consts::SQRT_2 {
        rest /= 2.0;
        power += 1.0;
    }
    // ln(rest) = 2 artanh(t). With |t| < 0.172, the terms after t^23 are below 1e-19.
    let t = (rest - 1.0) / (rest + 1.0);
    let square = t * t;
    let mut sum = 0.0;
    for odd in (0..12).rev() {
        sum = sum * square + 1.0 / (2 * odd + 1) as f64;
    }
    power * LN_2[0] + (2.0 * t * sum + power * LN_2[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_agree_with_the_system_to_a_few_units() {
        for step in -7000..=7000 {
            let x = step as f64 * 0.1 + 0.013;
            let (found, expected) = (exp(x), x.exp());
            assert!((found - expected).abs() <= 4.0 * f64::EPSILON * expected, "exp({x})");
            let (found, expected) = (ln(expected), expected.ln());
            assert!((found - expected).abs() <= 4.0 * f64::EPSILON * expected.abs().max(0.1));
        }
        assert_eq!((exp(0.0), ln(1.0)), (1.0, 0.0));
        assert!(exp(-1e9) < 1e-300 && exp(1e9) > 1e300);
    }

    /// Bits that must not change: picks depend on them.
    #[test]
    fn bits_are_the_same_everywhere() {
        assert_eq!(exp(-1.25).to_bits(), EXP_BITS);
        assert_eq!(ln(7.5).to_bits(), LN_BITS);
    }

    const EXP_BITS: u64 = 0x3fd2_5618_372a_584f;
    const LN_BITS: u64 = 0x40001e85798eb9a3;
}
