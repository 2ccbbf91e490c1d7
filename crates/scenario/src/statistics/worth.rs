//! What a chosen caption is worth: how many random captions it replaces.
//!
//! Random captions lower a measure, such as the mean logarithm of the rank, along a straight line over
//! the logarithm of the paired items: `a_s + b ln n`, with one slope for all seeds and an
//! intercept for each. A strategy that ends `d` away from random captions with the same `n` is where
//! random ones would be at `n' = n exp(d / b)`. It bought `n - n_0`, so each of its captions is
//! worth `(n' - n_0) / (n - n_0)` random ones. Random captions are worth 1 by definition.
//!
//! The interval is a jackknife over seeds of `d / b`, so that both the difference and the slope are
//! uncertain, with the critical value of the family. Beyond the rounds that were run the line is an
//! extrapolation. Where the slope itself cannot be told from none there is nothing to measure with, and no
//! worth.

use serde::Serialize;

use super::{Estimate, Family, mean};

/// A line over the logarithm of the paired items, fitted to random captions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Change of the measure when the paired items grow by a factor of e.
    pub slope: f64,
}

impl Curve {
    /// Fits the line by least squares to paired items and values, one list per seed. `None` if the number
    /// of paired items never changes within a seed.
    pub fn fit<'a>(seeds: impl IntoIterator<Item = &'a [(f64, f64)]>) -> Option<Self> {
        let (mut products, mut squares) = (0.0, 0.0);
        for points in seeds {
            // A model that has learned from nothing is on no line.
            let points = || points.iter().filter(|point| point.0 > 0.0);
            let logs: Vec<f64> = points().map(|point| point.0.ln()).collect();
            let values: Vec<f64> = points().map(|point| point.1).collect();
            let (Some(x), Some(y)) = (mean(&logs), mean(&values)) else { continue };
            for (log, value) in logs.iter().zip(&values) {
                products += (log - x) * (value - y);
                squares += (log - x).powi(2);
            }
        }
        (squares > 0.0).then(|| Curve { slope: products / squares })
    }
}

/// The worth of a chosen caption in random ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Worth {
    /// Random captions that one chosen caption replaces.
    pub captions: f64,
    /// Lower end of the simultaneous 95 % interval, if there is one.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Number of seeds.
    pub seeds: usize,
}

impl Worth {
    /// The worth less that of a random caption, which is 1.
    pub fn less_random(&self) -> Estimate {
        let less = |captions: f64| captions - 1.0;
        let (low, high) = (self.low.map(less), self.high.map(less));
        Estimate { mean: less(self.captions), low, high, count: self.seeds }
    }
}

/// Returns the worth of the captions of a strategy. For every seed there are the points of random
/// captions (paired items and a measure that falls) and the difference of the strategy to them after the
/// last batch. `from` and `to` are the paired items at first and in the end. `None` if random
/// captions do not lower the measure, or not for sure.
pub fn worth(
    seeds: &[(Vec<(f64, f64)>, f64)],
    (from, to): (f64, f64),
    family: &Family,
) -> Option<Worth> {
    // The slope, and the logarithm of the factor by which random captions would have to grow, without one
    // of the seeds.
    let line = |without: Option<usize>| {
        let left = || seeds.iter().enumerate().filter(|(at, _)| Some(*at) != without);
        let slope = Curve::fit(left().map(|(_, seed)| &seed.0[..]))?.slope;
        let differences: Vec<f64> = left().map(|(_, seed)| seed.1).collect();
        Some((slope, mean(&differences)? / slope))
    };
    let ((slope, growth), count) = (line(None)?, seeds.len());
    (slope < 0.0 && to > from && from >= 0.0).then_some(())?;
    let left: Option<Vec<(f64, f64)>> = (0..count).map(|at| line(Some(at))).collect();
    let (half_slope, half) = match left.zip(family.critical(count)) {
        Some((left, critical)) => {
            let half = |of: fn(&(f64, f64)) -> f64| {
                critical * jackknife_error(&left.iter().map(of).collect::<Vec<_>>())
            };
            (half(|line| line.0), Some(half(|line| line.1)))
        }
        None => (0.0, None),
    };
    (slope + half_slope < 0.0).then_some(())?;
    let captions = |growth: f64| (to * growth.exp() - from) / (to - from);
    Some(Worth {
        captions: captions(growth),
        low: half.map(|half| captions(growth - half)),
        high: half.map(|half| captions(growth + half)),
        seeds: count,
    })
}

/// Returns the standard error of a statistic from its values without one of the seeds each.
fn jackknife_error(left: &[f64]) -> f64 {
    let (middle, count) = (mean(left).unwrap_or(0.0), left.len() as f64);
    let squares: f64 = left.iter().map(|value| (value - middle).powi(2)).sum();
    (squares * (count - 1.0) / count).sqrt()
}

#[cfg(test)]
mod tests {
    use nextpair_data::Draws;

    use super::*;

    const FAMILY: Family = Family { comparisons: 1, correlation: 0.5, error: 0.05 };

    /// A seed whose random captions follow `5 - 0.8 ln n`, with an intercept of its own, and whose chosen
    /// captions are worth `worth` random ones.
    fn seed(shift: f64, worth: f64, noise: &mut dyn FnMut() -> f64) -> (Vec<(f64, f64)>, f64) {
        let value = |n: f64| 5.0 + shift - 0.8 * n.ln();
        let points = [300.0, 400.0, 500.0, 600.0].map(|n| (n, value(n) + noise()));
        let equal = 300.0 + worth * 300.0;
        (points.into(), value(equal) - value(600.0) + noise())
    }

    #[test]
    fn worth_is_found_on_a_line() {
        for truth in [0.5, 1.0, 2.0] {
            let seeds: Vec<_> = (0..5).map(|at| seed(f64::from(at), truth, &mut || 0.0)).collect();
            let found = worth(&seeds, (300.0, 600.0), &FAMILY).unwrap();
            assert!((found.captions - truth).abs() < 1e-9, "{found:?}");
            assert!((found.high.unwrap() - found.low.unwrap()).abs() < 1e-9, "{found:?}");
        }
        let slope = Curve::fit([&seed(0.0, 1.0, &mut || 0.0).0[..]]).unwrap().slope;
        assert!((slope + 0.8).abs() < 1e-12);
    }

    #[test]
    fn worth_is_covered() {
        let mut held = 0;
        for world in 0..400 {
            let mut draws = Draws::new(world);
            let mut noise = || 0.03 * draws.normal();
            let seeds: Vec<_> = (0..6).map(|at| seed(f64::from(at), 1.4, &mut noise)).collect();
            let found = worth(&seeds, (300.0, 600.0), &FAMILY).unwrap();
            let (low, high) = (found.low.unwrap(), found.high.unwrap());
            held += usize::from(low <= 1.4 && 1.4 <= high);
        }
        // 95 % of 400 are 380, with a standard deviation of 4.4.
        assert!((366..=396).contains(&held), "{held} of 400");
    }

    #[test]
    fn random_captions_that_do_not_help_are_no_measure() {
        let flat = vec![(vec![(300.0, 2.0), (400.0, 2.1)], -0.1); 3];
        assert_eq!(worth(&flat, (300.0, 400.0), &FAMILY), None);
        assert_eq!(worth(&[], (300.0, 400.0), &FAMILY), None);
        // They fall on average, but not for sure.
        let unsure = [2.1, 1.7, 2.2, 1.8].map(|end| (vec![(300.0, 2.0), (400.0, end)], -0.1));
        assert_eq!(worth(&unsure, (300.0, 400.0), &FAMILY), None);
        let two = vec![(vec![(300.0, 2.0), (400.0, 1.9)], -0.1); 2];
        let found = worth(&two, (300.0, 400.0), &FAMILY).unwrap();
        assert!(found.captions > 1.0 && found.low.is_none(), "{found:?}");
        assert_eq!(Curve::fit([&[(300.0, 1.0), (300.0, 2.0)][..]]), None);
    }
}
