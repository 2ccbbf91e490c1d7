//! Means, intervals and the bootstrap.

use nextpair_data::Draws;
use serde::{Deserialize, Serialize};

/// The confidence level of intervals.
pub const CONFIDENCE: f64 = 0.95;

/// A mean over repetitions, with its 95 % interval if there are at least two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval. A single repetition has none.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Number of repetitions.
    pub count: usize,
}

impl Estimate {
    /// Estimates the mean of values. Returns `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (mean, count) = (mean(values)?, values.len());
        let half = sample_sd(values).map(|sd| {
            student_t_quantile(0.5 + CONFIDENCE / 2.0, count as f64 - 1.0) * sd
                / (count as f64).sqrt()
        });
        let (low, high) = (half.map(|half| mean - half), half.map(|half| mean + half));
        Some(Estimate { mean, low, high, count })
    }

    /// Returns the interval, if there is one.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// Returns the position of the interval relative to zero.
    pub fn verdict(&self) -> Verdict {
        match self.interval() {
            None => Verdict::NoInterval,
            Some((low, _)) if low > 0.0 => Verdict::Above,
            Some((_, high)) if high < 0.0 => Verdict::Below,
            Some(_) => Verdict::Unclear,
        }
    }
}

/// The position of an interval relative to zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The interval is above zero.
    Above,
    /// The interval is below zero.
    Below,
    /// The interval includes zero.
    Unclear,
    /// There is only one repetition, and no interval.
    NoInterval,
}

/// Returns the mean of values, if there are any.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the sample standard deviation of at least two values.
pub fn sample_sd(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Returns the quantile of Student's t-distribution. NaN unless the probability is strictly between
/// 0 and 1 and the degrees of freedom are positive.
pub fn student_t_quantile(probability: f64, freedom: f64) -> f64 {
    if !(probability > 0.0 && probability < 1.0 && freedom > 0.0) {
        return f64::NAN;
    }
    if probability < 0.5 {
        return -student_t_quantile(1.0 - probability, freedom);
    }
    // P(T > t) = I_x(freedom / 2, 1 / 2) / 2 with x = freedom / (freedom + t^2), which falls as t
    // grows. Bisect on a bracket that doubles until it holds the answer.
    let beyond = |t: f64| incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5) / 2.0;
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

/// Returns the central 95 % of a statistic over bootstrap resamples of `count` repetitions.
/// Resamples with an undefined statistic are left out. Returns `None` if they exceed 5 %, or with a
/// single repetition.
pub fn bootstrap(
    count: usize,
    resamples: usize,
    seed: u64,
    statistic: impl Fn(&[usize]) -> Option<f64>,
) -> Option<(f64, f64)> {
    if count < 2 {
        return None;
    }
    let mut draws = Draws::new(seed);
    let mut values = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        let chosen: Vec<usize> = (0..count).map(|_| draws.below(count)).collect();
        values.extend(statistic(&chosen).filter(|value| value.is_finite()));
    }
    if values.is_empty() || values.len() * 20 < resamples * 19 {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let outside = (1.0 - CONFIDENCE) / 2.0;
    Some((quantile(&values, outside), quantile(&values, 1.0 - outside)))
}

/// Returns a quantile of sorted values, with linear interpolation.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    sorted[below] + (place - below as f64) * (sorted[above] - sorted[below])
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
    fn an_interval_takes_two_repetitions() {
        // By hand: mean 2, sd 1, t(0.975; 2) = 4.30265, half = 4.30265 / sqrt(3) = 2.48414.
        let three = Estimate::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((three.mean, three.count), (2.0, 3));
        assert!((three.high.unwrap() - 4.484_138).abs() < 1e-5);
        assert!((three.low.unwrap() + 0.484_138).abs() < 1e-5);
        assert_eq!(three.verdict(), Verdict::Unclear);
        let one = Estimate::of(&[5.0]).unwrap();
        assert_eq!((one.mean, one.interval(), one.verdict()), (5.0, None, Verdict::NoInterval));
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[1.0, 1.1, 1.0]).unwrap().verdict(), Verdict::Above);
        assert_eq!(Estimate::of(&[-1.0, -1.1, -1.0]).unwrap().verdict(), Verdict::Below);
    }

    #[test]
    fn the_bootstrap_is_seeded_and_near_the_normal_interval() {
        let values: Vec<f64> = (0..40).map(|at| f64::from(at % 8)).collect();
        let of_mean =
            |chosen: &[usize]| mean(&chosen.iter().map(|&at| values[at]).collect::<Vec<_>>());
        let (low, high) = bootstrap(40, 2000, 1, of_mean).unwrap();
        assert_eq!(bootstrap(40, 2000, 1, of_mean), Some((low, high)));
        // sd 2.32, so the mean of 40 is known to 0.72 each way.
        assert!((low - (3.5 - 0.72)).abs() < 0.1 && (high - (3.5 + 0.72)).abs() < 0.1);
        assert_eq!(bootstrap(1, 100, 1, of_mean), None);
        assert_eq!(bootstrap(40, 100, 1, |_| None), None);
    }
}
