//! Intervals that hold for all strategies at once: Dunnett's comparison of many with one baseline,
//! for repetitions that are paired.
//!
//! Every strategy `j` has a difference to the baseline per seed, and `T_j` is the mean of them over its
//! standard error. An interval is the mean plus and minus `c` standard errors, where `c` is the 95 %
//! point of the largest `|T_j|` when no strategy differs. Dunnett's tables are for independent groups
//! with one pooled variance. Here a seed is a block that all strategies share, and every difference
//! has a standard deviation of its own, because strategies differ in noise. So `c` is found by
//! drawing: normal differences with `n` seeds, their own standard deviations, and one correlation.
//!
//! The correlation comes from the shared baseline: `1 / (m + 1)` for a mean of `m` random arms with
//! the noise of a strategy, less if a strategy is noisier. A correlation that is too high makes intervals
//! too narrow, none at all makes them a few percent wider. So the family takes the estimated mean
//! correlation less its standard error, `1 / sqrt(n)`, at most that of the shared baseline and never
//! below 0, rounded down to tenths: with few seeds, next to nothing. `c` is at most Bonferroni's, which
//! holds for any correlation.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use nextpair_data::Draws;

use super::{CONFIDENCE, Estimate, mean, sample_sd, student_t_quantile, student_t_tail};

/// Fewest seeds for an interval of a difference. Two seeds have one degree of freedom, and an interval
/// of a dozen standard deviations.
pub const FEWEST: usize = 3;

/// Draws of the largest statistic, if the family is not very large.
const DRAWS: usize = 20_000;
/// Normal numbers to draw at most.
const NUMBERS: usize = 12_000_000;
/// Fewest draws beyond a point that is found by drawing.
const BEYOND: f64 = 100.0;
/// The seed of the draws: an interval is always the same.
const SEED: u64 = 0xd077;

/// Comparisons with one baseline that are judged together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    /// Number of comparisons.
    pub comparisons: usize,
    /// The correlation between two differences, in tenths.
    pub correlation: f64,
    /// The probability that any interval of the family misses its truth.
    pub error: f64,
}

impl Family {
    /// Returns the family of some comparisons at 95 %. Each is a list of differences by seed.
    /// `baseline` is the number of random arms that the baseline is the mean of. The correlation is
    /// estimated if all lists have the same seeds.
    pub fn of(differences: &[Vec<f64>], baseline: usize) -> Self {
        let shared = 1.0 / (baseline.max(1) + 1) as f64;
        let correlation = shared.min(sure_correlation(differences).unwrap_or(0.0));
        Family {
            comparisons: differences.len().max(1),
            correlation: (correlation.max(0.0) * 10.0 + 1e-9).floor() / 10.0,
            error: 1.0 - CONFIDENCE,
        }
    }

    /// Returns the family at another error, such as that of one of several looks.
    pub fn at(self, error: f64) -> Self {
        Family { error, ..self }
    }

    /// Returns the number of standard errors on each side of a mean over `seeds`. `None` with fewer than
    /// [`FEWEST`] seeds.
    pub fn critical(&self, seeds: usize) -> Option<f64> {
        if seeds < FEWEST || !(self.error > 0.0 && self.error < 1.0) {
            return None;
        }
        static KNOWN: OnceLock<Mutex<HashMap<Key, f64>>> = OnceLock::new();
        // A report asks for the same points often.
        let correlation = (self.correlation * 10.0).round() as u32;
        let key = (seeds, self.comparisons, correlation, self.error.to_bits());
        let known = KNOWN.get_or_init(Mutex::default);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        Some(*known.entry(key).or_insert_with(|| self.point(seeds)))
    }

    /// Finds the critical value: that of one comparison, of Bonferroni, or in between by drawing.
    fn point(&self, seeds: usize) -> f64 {
        let freedom = seeds as f64 - 1.0;
        let one = |error: f64| student_t_quantile(1.0 - error / 2.0, freedom);
        let bonferroni = one(self.error / self.comparisons as f64);
        let draws = DRAWS.min(NUMBERS / (seeds * (self.comparisons + 1))).max(2000);
        if self.comparisons == 1 || self.error * (draws as f64) < BEYOND {
            return bonferroni;
        }
        let mut drawn: Vec<f64> = (0..draws as u64)
            .map(|at| draw(seeds, self.comparisons, self.correlation, at))
            .collect();
        drawn.sort_by(f64::total_cmp);
        let beyond = (self.error * draws as f64) as usize;
        drawn[draws - 1 - beyond].clamp(one(self.error), bonferroni)
    }

    /// Returns the error of one comparison on its own with intervals of this family.
    pub fn each(&self, seeds: usize) -> Option<f64> {
        Some(2.0 * student_t_tail(self.critical(seeds)?, seeds as f64 - 1.0))
    }

    /// Estimates the mean of differences, with the simultaneous interval. Returns `None` without any.
    pub fn estimate(&self, differences: &[f64]) -> Option<Estimate> {
        let (mean, count) = (mean(differences)?, differences.len());
        let half = self.critical(count).zip(sample_sd(differences));
        let half = half.map(|(critical, sd)| critical * sd / (count as f64).sqrt());
        let (low, high) = (half.map(|half| mean - half), half.map(|half| mean + half));
        Some(Estimate { mean, low, high, count })
    }
}

/// Returns the mean correlation between lists of the same length less its standard error, if it is known.
fn sure_correlation(lists: &[Vec<f64>]) -> Option<f64> {
    let count = lists.first().map(Vec::len).filter(|&count| count >= FEWEST)?;
    if lists.len() < 2 || lists.iter().any(|list| list.len() != count) {
        return None;
    }
    let standard = |list: &Vec<f64>| {
        let (mean, sd) = (mean(list)?, sample_sd(list).filter(|&sd| sd > 0.0)?);
        Some(list.iter().map(|value| (value - mean) / sd).collect::<Vec<f64>>())
    };
    let lists: Vec<Vec<f64>> = lists.iter().map(standard).collect::<Option<_>>()?;
    let (mut sum, mut pairs) = (0.0, 0.0);
    for (at, one) in lists.iter().enumerate() {
        for other in &lists[..at] {
            sum += one.iter().zip(other).map(|(a, b)| a * b).sum::<f64>() / (count - 1) as f64;
            pairs += 1.0;
        }
    }
    Some(sum / pairs - 1.0 / (count as f64).sqrt())
}

/// Seeds, comparisons, correlation in tenths, and the bits of the error.
type Key = (usize, usize, u32, u64);

/// Draws the largest `|T|` once. A larger family begins with the numbers of a smaller one, so that
/// its draws are never smaller.
fn draw(seeds: usize, comparisons: usize, correlation: f64, at: u64) -> f64 {
    let mut draws = Draws::new(SEED ^ (at << 20));
    let (common, own) = (correlation.sqrt(), (1.0 - correlation).sqrt());
    let shared: Vec<f64> = (0..seeds).map(|_| common * draws.normal()).collect();
    let count = seeds as f64;
    let statistic = |_| {
        let (mut sum, mut squares) = (0.0, 0.0);
        for shared in &shared {
            let value = shared + own * draws.normal();
            sum += value;
            squares += value * value;
        }
        let mean = sum / count;
        let variance = (squares - count * mean * mean) / (count - 1.0);
        mean.abs() / (variance / count).sqrt()
    };
    (0..comparisons).map(statistic).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(comparisons: usize, correlation: f64) -> Family {
        Family { comparisons, correlation, error: 0.05 }
    }

    #[test]
    fn one_comparison_has_students_interval() {
        let critical = family(1, 0.5).critical(10).unwrap();
        assert!((critical - student_t_quantile(0.975, 9.0)).abs() < 1e-9);
        assert!((family(1, 0.5).each(10).unwrap() - 0.05).abs() < 1e-9);
        assert_eq!(family(1, 0.5).critical(2), None);
        let two = family(1, 0.5).estimate(&[1.0, 2.0]).unwrap();
        assert_eq!((two.mean, two.interval()), (1.5, None));
        assert_eq!(family(1, 0.5).estimate(&[]), None);
    }

    #[test]
    fn more_comparisons_take_wider_intervals_and_correlation_narrower_ones() {
        for seeds in [3, 5, 8, 24] {
            let of = |comparisons, correlation| family(comparisons, correlation).critical(seeds);
            let bonferroni = student_t_quantile(1.0 - 0.025 / 6.0, seeds as f64 - 1.0);
            assert!(of(1, 0.5) < of(3, 0.5) && of(3, 0.5) < of(6, 0.5), "{seeds}");
            assert!(of(6, 0.5) < of(6, 0.0) && of(6, 0.0).unwrap() <= bonferroni, "{seeds}");
            assert!(family(6, 0.0).at(0.01).critical(seeds) > of(6, 0.0), "{seeds}");
        }
    }

    #[test]
    fn with_many_seeds_the_points_are_dunnetts() {
        // Dunnett's two-sided 5 % points for a correlation of 0.5 and any number of observations:
        // 2.21 for 2 comparisons, 2.35 for 3, 2.51 for 5.
        for (comparisons, point) in [(2, 2.21), (3, 2.35), (5, 2.51)] {
            let found = family(comparisons, 0.5).critical(200).unwrap();
            assert!((found - point).abs() < 0.06, "{comparisons}: {found}");
        }
    }

    #[test]
    fn an_estimated_correlation_only_widens() {
        let list: Vec<f64> = (0..8).map(|at| f64::from(at * 2 % 5)).collect();
        let equal = vec![list.clone(), list.clone(), list];
        assert_eq!(Family::of(&equal, 1).correlation, 0.5);
        assert_eq!(Family::of(&equal, 3).correlation, 0.2);
        let few: Vec<Vec<f64>> = equal.iter().map(|list| list[..3].to_vec()).collect();
        assert_eq!(Family::of(&few, 1).correlation, 0.4);
        let opposite: Vec<f64> = equal[0].iter().map(|value| -value).collect();
        assert_eq!(Family::of(&[equal[0].clone(), opposite], 1).correlation, 0.0);
        // Different seeds, or one comparison: nothing to estimate from.
        assert_eq!(Family::of(&[vec![1.0, 2.0, 4.0], vec![1.0, 3.0]], 1).correlation, 0.0);
        assert_eq!(Family::of(&equal[..1], 1).comparisons, 1);
        // Differences that do not vary have no correlation.
        assert_eq!(Family::of(&[vec![1.0; 4], vec![2.0; 4]], 1).correlation, 0.0);
    }
}
