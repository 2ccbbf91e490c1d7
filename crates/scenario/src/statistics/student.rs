//! Student's t-distribution.

/// Returns the quantile of Student's t-distribution. NaN unless the probability is strictly between
/// 0 and 1 and the degrees of freedom are positive.
pub fn student_t_quantile(probability: f64, freedom: f64) -> f64 {
    if !(probability > 0.0 && probability < 1.0 && freedom > 0.0) {
        return f64::NAN;
    }
    if probability < 0.5 {
        return -student_t_quantile(1.0 - probability, freedom);
    }
    // The tail falls as t grows. Bisect on a bracket that doubles until it holds the answer.
    let beyond = |t: f64| student_t_tail(t, freedom);
    let (mut low, mut high) = (0.0, 1.0);
    while beyond(high) > 1.0 - probability && high < 1e300 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if beyond(middle) > 1.0 - probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Returns the probability that a t-distributed variable is above `t`, for `t` of at least 0.
pub fn student_t_tail(t: f64, freedom: f64) -> f64 {
    // P(T > t) = I_x(freedom / 2, 1 / 2) / 2 with x = freedom / (freedom + t^2).
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5) / 2.0
}

/// Returns the probability that a standard normal variable is above `z`, for `z` of at least 0.
pub fn normal_tail(z: f64) -> f64 {
    // With so many degrees of freedom the two distributions agree to six digits.
    student_t_tail(z, 1e7)
}

/// Returns the regularised incomplete beta function `I_x(a, b)`, from its continued fraction by
/// Lentz's method, on the side where it converges fast.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let not_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / not_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..500 {
        let m = f64::from(step);
        for term in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            d = 1.0 / not_zero(1.0 + term * d);
            c = not_zero(1.0 + term / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    let front = a * x.ln() + b * (1.0 - x).ln() - ln_beta(a, b);
    front.exp() * fraction / a
}

fn ln_beta(a: f64, b: f64) -> f64 {
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

/// Returns `ln gamma(x)` by Stirling's series, after the recurrence has made `x` large enough.
fn ln_gamma(mut x: f64) -> f64 {
    let mut shift = 0.0;
    while x < 12.0 {
        shift += x.ln();
        x += 1.0;
    }
    let (inverse, square) = (1.0 / x, 1.0 / (x * x));
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0)));
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, expected) in [
            (1.0, 12.706_204_736),
            (2.0, 4.302_652_730),
            (4.0, 2.776_445_105),
            (9.0, 2.262_157_163),
            (29.0, 2.045_229_642),
            (1000.0, 1.962_339_081),
        ] {
            let found = student_t_quantile(0.975, freedom);
            assert!((found - expected).abs() < 1e-6, "{freedom}: {found}");
            assert!((student_t_quantile(0.025, freedom) + found).abs() < 1e-9);
        }
        assert!((student_t_quantile(0.95, 5.0) - 2.015_048_373).abs() < 1e-6);
        assert!(student_t_quantile(0.5, 3.0).abs() < 1e-9);
        assert!(student_t_quantile(1.0, 3.0).is_nan() && student_t_quantile(0.9, 0.0).is_nan());
    }

    #[test]
    fn tails_belong_to_quantiles() {
        for freedom in [1.0, 4.0, 29.0] {
            let quantile = student_t_quantile(0.99, freedom);
            assert!((student_t_tail(quantile, freedom) - 0.01).abs() < 1e-9);
        }
        assert!((normal_tail(1.959_964) - 0.025).abs() < 1e-6);
        assert_eq!(student_t_tail(0.0, 5.0), 0.5);
    }
}
