//! The statistics of experiments: pure functions of numbers, without files and rounds.
//!
//! A repetition is a seed. Strategies are compared seed by seed, so a comparison is one list of
//! differences to the baseline, one per seed, and a verdict comes from the simultaneous intervals
//! of a [`Family`] of comparisons.

mod power;
mod sequential;
mod sign_flip;
#[cfg(test)]
mod simulated;
mod simultaneous;
mod student;
mod two_way;
mod worth;

use serde::{Deserialize, Serialize};

pub use power::seeds_needed;
pub use sequential::Looks;
pub use sign_flip::{FLIPS_FROM, sign_flip};
pub use simultaneous::{FEWEST, Family};
pub use student::{normal_tail, student_t_quantile, student_t_tail};
pub use two_way::{TwoWay, two_way};
pub use worth::{Curve, Worth, worth};

/// The confidence level of intervals.
pub const CONFIDENCE: f64 = 0.95;

/// A mean over repetitions, with its 95 % interval if there are enough of them: two for a mean on its
/// own, [`FEWEST`] for a difference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval, if there is one.
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

    /// Returns the mean of the values times a factor.
    pub fn times(&self, factor: f64) -> Self {
        let ends = if factor < 0.0 { (self.high, self.low) } else { (self.low, self.high) };
        let of = |value: f64| value * factor;
        Estimate { mean: of(self.mean), low: ends.0.map(of), high: ends.1.map(of), ..*self }
    }

    /// Returns the position of the interval relative to zero.
    pub fn verdict(&self) -> Verdict {
        match self.interval() {
            None => Verdict::TooFewSeeds,
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
    /// There are too few repetitions for an interval.
    TooFewSeeds,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_takes_two_repetitions() {
        // By hand: mean 2, sd 1, t(0.975; 2) = 4.30265, half = 4.30265 / sqrt(3) = 2.48414.
        let three = Estimate::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((three.mean, three.count), (2.0, 3));
        assert!((three.high.unwrap() - 4.484_138).abs() < 1e-5);
        assert!((three.low.unwrap() + 0.484_138).abs() < 1e-5);
        assert_eq!(three.verdict(), Verdict::Unclear);
        let one = Estimate::of(&[5.0]).unwrap();
        assert_eq!((one.mean, one.interval(), one.verdict()), (5.0, None, Verdict::TooFewSeeds));
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[1.0, 1.1, 1.0]).unwrap().verdict(), Verdict::Above);
        assert_eq!(Estimate::of(&[-1.0, -1.1, -1.0]).unwrap().verdict(), Verdict::Below);
        let [twice, reversed] = [2.0, -1.0].map(|factor| three.times(factor));
        assert_eq!(twice, Estimate::of(&[2.0, 4.0, 6.0]).unwrap());
        assert_eq!(reversed, Estimate::of(&[-1.0, -2.0, -3.0]).unwrap());
    }
}
