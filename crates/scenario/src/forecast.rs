//! Stop or go: what the next batch is expected to bring, and its cost.
//!
//! The mean log rank of both directions decides; R@1 (text plus image) is forecast beside it. The gain of a
//! batch in either is modelled as `(c0 + c1 h) ln(n' / n)`. Curves over paired items are nearly straight on a
//! logarithmic axis, and the extra gain of hard negatives fades with the share `h` of the pool that is still
//! hard. Least squares fits both coefficients to all batches of all seeds so far. That takes at least four
//! batches with different shares, and a `c1` that is not negative. Otherwise, and for strategies that do not
//! use hits, the model is `c ln(n' / n)`. [`Gain::hard_negatives`] tells which model was used. The next `h`
//! changes by the ratio of the last two, up to at most 1.
//!
//! Intervals are prediction intervals for one further batch of one seed. They are never narrower
//! than the noise of the test set.

mod backtest;
mod fit;
mod sentence;

use serde::Serialize;

use crate::Round;
use crate::analysis::{log_rank, r1};
use crate::statistics::{CONFIDENCE, mean, student_t_quantile};
pub use backtest::{Backtest, backtest};
use fit::{Bought, Fit};

/// Standard deviations around the mean that hold 95 % of a normal variable.
const NORMAL: f64 = 1.959_964;

/// What the next batch is expected to bring.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// The last known round.
    pub round: usize,
    /// Number of items paid for after this round.
    pub paired: f64,
    /// Size of the next batch.
    pub batch: usize,
    /// Number of batches fitted, over all seeds.
    pub batches: usize,
    /// Number of seeds that have reached this round.
    pub seeds: usize,
    /// How far the mean log rank of both directions should fall. It decides.
    pub log_rank: Gain,
    /// How far R@1 (text plus image) should rise, in percentage points.
    pub r1: Gain,
}

/// What is expected by one measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The value after the last known round.
    pub reached: f64,
    /// The expected improvement.
    pub gain: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Expected share of the pool that is hard, from 0 to 1. `None` if the forecast uses the growth
    /// of the paired set alone.
    pub hard_negatives: Option<f64>,
    /// The source of the interval.
    pub spread: Spread,
}

/// The source of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// The residuals of the batches so far.
    Batches,
    /// The sampling noise of a test set of this size: there is one batch, or its residuals are
    /// smaller.
    TestSet,
}

/// A measure of a test.
struct Measure {
    value: fn(&Round) -> f64,
    /// 1 if a larger value is better, else -1.
    sign: f64,
    /// The variance of one test, for independent queries.
    variance: fn(&Round) -> f64,
}

const LOG_RANK: Measure = Measure { value: log_rank, sign: -1.0, variance: log_rank_variance };
const R1: Measure = Measure { value: r1, sign: 1.0, variance: r1_variance };

/// Forecasts the next batch of a strategy from its rounds so far, one list per seed. Returns `None`
/// before the first batch and when the pool is empty.
pub fn forecast(lanes: &[Vec<&Round>], batch: usize) -> Option<Forecast> {
    let round = lanes.iter().map(Vec::len).max()?.checked_sub(1)?;
    let last: Vec<&Round> = lanes.iter().filter_map(|lane| lane.get(round).copied()).collect();
    let paired = mean_of(&last, |round| round.paid_for() as f64)?;
    let batch = batch.min(mean_of(&last, |round| round.pool as f64)? as usize);
    if round == 0 || batch == 0 || paired <= 0.0 {
        return None;
    }
    let growth = ((paired + batch as f64) / paired).ln();
    let gain = |measure: &Measure| measure.forecast(lanes, &last, growth);
    Some(Forecast {
        round,
        paired,
        batch,
        batches: lanes.iter().map(|lane| batches(lane, &LOG_RANK).len()).sum(),
        seeds: last.len(),
        log_rank: gain(&LOG_RANK)?,
        r1: gain(&R1)?,
    })
}

impl Measure {
    /// Forecasts the gain of a batch by which the logarithm of the paired items grows. `last` are the rounds
    /// to go on from.
    fn forecast(&self, lanes: &[Vec<&Round>], last: &[&Round], growth: f64) -> Option<Gain> {
        let bought: Vec<Bought> = lanes.iter().flat_map(|lane| batches(lane, self)).collect();
        let fit = Fit::of(&bought)?;
        let rounds = lanes.iter().map(Vec::len).max()?;
        let shares: Vec<Option<f64>> = (1..rounds).map(|at| share(lanes, at)).collect();
        let hard_negatives = if fit.by_share() { next_share(&shares) } else { None };
        let (gain, leverage) = fit.predict(growth, hard_negatives.unwrap_or(0.0));
        let noise = mean_of(last, self.variance)?;
        let of_tests = match &bought[..] {
            // The residual is (R2 - R1) - ratio (R1 - R0): three tests with the same noise.
            [only] => {
                let ratio = growth / only.growth;
                noise * (1.0 + (1.0 + ratio).powi(2) + ratio * ratio)
            }
            // A gain is the difference between two tests.
            _ => 2.0 * noise * (1.0 + leverage),
        };
        let by_test = NORMAL * of_tests.sqrt();
        let by_batches = fit.variance().map(|(variance, freedom)| {
            let quantile = student_t_quantile(0.5 + CONFIDENCE / 2.0, freedom);
            quantile * (variance * (1.0 + leverage)).sqrt()
        });
        let (spread, deviation) = match by_batches {
            Some(by_batches) if by_batches >= by_test => (Spread::Batches, by_batches),
            _ => (Spread::TestSet, by_test),
        };
        let (low, high) = (gain - deviation, gain + deviation);
        Some(Gain { reached: mean_of(last, self.value)?, gain, low, high, hard_negatives, spread })
    }
}

fn mean_of(rounds: &[&Round], value: fn(&Round) -> f64) -> Option<f64> {
    mean(&rounds.iter().map(|round| value(round)).collect::<Vec<_>>())
}

/// Returns the share of the pool that was hard before the batch of a round, as a mean over seeds.
fn share(lanes: &[Vec<&Round>], round: usize) -> Option<f64> {
    let of_lane = |lane: &Vec<&Round>| lane.get(round).and_then(|round| hard_share(round));
    mean(&lanes.iter().filter_map(of_lane).collect::<Vec<_>>())
}

fn hard_share(round: &Round) -> Option<f64> {
    let share = round.batch.as_ref()?.hard_negative_share()? / 100.0;
    share.is_finite().then_some(share)
}

fn next_share(shares: &[Option<f64>]) -> Option<f64> {
    let last = shares.last().copied().flatten()?;
    let before = shares.len().checked_sub(2).and_then(|at| shares[at]);
    let ratio = before.filter(|&before| before > 0.0).map_or(1.0, |before| last / before);
    Some((last * ratio).min(1.0))
}

fn batches(lane: &[&Round], measure: &Measure) -> Vec<Bought> {
    let bought = |two: &[&Round]| {
        let (before, after) = (two[0], two[1]);
        let growth = (after.paid_for() as f64 / before.paid_for() as f64).ln();
        let gain = measure.sign * ((measure.value)(after) - (measure.value)(before));
        let one = Bought { growth, share: hard_share(after), gain };
        (growth.is_finite() && growth > 0.0).then_some(one)
    };
    lane.windows(2).filter_map(bought).collect()
}

/// Returns the binomial variance of R@1 (text plus image), for independent queries.
fn r1_variance(round: &Round) -> f64 {
    let Some(test) = round.test.first() else { return 0.0 };
    let variance = |percent: f64, queries: usize| {
        let share = (percent / 100.0).clamp(0.0, 1.0);
        1e4 * share * (1.0 - share) / queries.max(1) as f64
    };
    variance(test.text.r1, test.images) + variance(test.image.r1, test.captions)
}

/// Returns the variance of the mean log rank of both directions, for independent queries, or more: values from 0
/// to `most` with mean `m` have a variance of at most `m (most - m)` (Bhatia and Davis, 2000).
fn log_rank_variance(round: &Round) -> f64 {
    let Some(test) = round.test.first() else { return 0.0 };
    let variance = |mean: f64, queries: usize, candidates: usize| {
        let most = (candidates as f64 / test.folds.max(1) as f64).max(1.0).ln();
        mean * (most - mean).max(0.0) / queries.max(1) as f64
    };
    let text = variance(test.text.mean_log_rank, test.images, test.captions);
    let image = variance(test.image.mean_log_rank, test.captions, test.images);
    (text + image) / 4.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::round;

    /// A curve that follows the model exactly: R = 4 ln n.
    fn logarithmic(seed: u64, rounds: usize, wobble: f64) -> Vec<Round> {
        let at = |number: usize| {
            let paired = 100 * (number + 3);
            let sign = if (number as u64 + seed).is_multiple_of(2) { 1.0 } else { -1.0 };
            let both = 4.0 * (paired as f64).ln() + sign * wobble;
            // Image R@1 of the fixture is 2 lower than text R@1.
            round(seed, None, number, paired, f64::midpoint(both, 2.0))
        };
        (0..rounds).map(at).collect()
    }

    fn lanes(rounds: &[Vec<Round>]) -> Vec<Vec<&Round>> {
        rounds.iter().map(|lane| lane.iter().collect()).collect()
    }

    #[test]
    fn a_logarithmic_curve_is_foretold_exactly() {
        let curve = [logarithmic(0, 3, 0.0)];
        let found = forecast(&lanes(&curve), 100).unwrap();
        let expected = 4.0 * (600.0f64 / 500.0).ln();
        assert!((found.r1.gain - expected).abs() < 1e-9, "{found:?}");
        // The mean log rank of the fixture falls by a fortieth of what R@1 of both directions rises by.
        assert!((found.log_rank.gain - expected / 40.0).abs() < 1e-9, "{found:?}");
        let [now, then, best, worst] = found.ranks();
        assert!(best < then && then < now && (now / then).ln() < (now / best).ln(), "{found:?}");
        assert!(worst > then && (worst / then - then / best).abs() < 1e-9, "{found:?}");
        assert_eq!((found.round, found.batches, found.paired), (2, 2, 500.0));
        // The residuals are zero, so the noise of the test set decides.
        assert_eq!(found.r1.spread, Spread::TestSet);
        let noise = r1_variance(&curve[0][2]);
        let growth = |from: f64, to: f64| (to / from).ln();
        let squares = growth(300.0, 400.0).powi(2) + growth(400.0, 500.0).powi(2);
        let leverage = growth(500.0, 600.0).powi(2) / squares;
        let half = NORMAL * (2.0 * noise * (1.0 + leverage)).sqrt();
        assert!((found.r1.high - found.r1.gain - half).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_wobble_widens_the_interval_and_stays_inside_it() {
        let curve: Vec<_> = (0..4).map(|seed| logarithmic(seed, 5, 0.3)).collect();
        for test in backtest(&lanes(&curve)) {
            assert_eq!((test.within, test.seeds), (4, 4), "{test:?}");
            assert!(test.forecast.r1.high - test.forecast.r1.low > 0.5, "{test:?}");
        }
        assert_eq!(backtest(&lanes(&curve)).len(), 3);
    }

    #[test]
    fn one_batch_is_as_sure_as_its_test_set() {
        let curve = [logarithmic(0, 2, 0.0)];
        let found = forecast(&lanes(&curve), 100).unwrap();
        assert_eq!((found.r1.spread, found.batches), (Spread::TestSet, 1));
        // Three tests: the next one, the last one with both weights, the first.
        let ratio = (500.0f64 / 400.0).ln() / (400.0f64 / 300.0).ln();
        let off = 1.0 + (1.0 + ratio) * (1.0 + ratio) + ratio * ratio;
        let half = NORMAL * (off * r1_variance(&curve[0][1])).sqrt();
        assert!((found.r1.high - found.r1.gain - half).abs() < 1e-9, "{found:?}");
        assert!((found.r1.gain - found.r1.low - half).abs() < 1e-9, "{found:?}");
        assert_eq!(forecast(&lanes(&[logarithmic(0, 1, 0.0)]), 100), None);
        assert_eq!(forecast(&[], 100), None);
        assert_eq!(forecast(&lanes(&curve), 0), None);
    }

    /// Gains of `(c0 + c1 h) ln(n' / n)` from 300 paired items on.
    fn with_shares(shares: &[f64], (c0, c1): (f64, f64)) -> Forecast {
        let mut curve = vec![round(0, None, 0, 300, 20.0)];
        for (at, share) in shares.iter().enumerate() {
            let paired = 300 + 100 * (at + 1);
            let before = curve.last().unwrap();
            let growth = (paired as f64 / before.paired as f64).ln();
            let gain = (c0 + c1 * share) * growth;
            let mut next = round(0, None, at + 1, paired, before.test[0].text.r1 + gain / 2.0);
            next.batch = Some(crate::Batch {
                picked: 100,
                skipped: 0,
                unanswered: 0,
                wrong: 0,
                pool: 1000,
                left_out: None,
                duplicates: None,
                warnings: Vec::new(),
                hard_negatives: Some((1000.0 * share) as u64),
                without_hit: Some(0),
                effect: None,
                answers: None,
                captions: None,
                images: None,
                picks: String::new(),
            });
            curve.push(next);
        }
        let curve = [curve];
        forecast(&lanes(&curve), 100).unwrap()
    }

    #[test]
    fn without_hard_negatives_a_batch_still_teaches() {
        let growth = (800.0f64 / 700.0).ln();
        // The share is halved every time, and c0 remains.
        let fading = with_shares(&[0.8, 0.4, 0.2, 0.1], (5.0, 10.0));
        assert!((fading.r1.hard_negatives.unwrap() - 0.05).abs() < 1e-9);
        assert!((fading.r1.gain - 5.5 * growth).abs() < 1e-9, "{fading:?}");
        assert!(fading.r1.high > fading.r1.low + 1.0);
        let gone = with_shares(&[0.8, 0.4, 0.2, 0.0], (5.0, 10.0));
        assert!((gone.r1.gain - 5.0 * growth).abs() < 1e-9, "{gone:?}");
        // Three batches, equal shares, or a negative c1: growth alone.
        for found in [
            with_shares(&[0.8, 0.4, 0.2], (5.0, 10.0)),
            with_shares(&[0.6; 4], (5.0, 10.0)),
            with_shares(&[0.8, 0.4, 0.2, 0.1], (15.0, -10.0)),
        ] {
            assert_eq!(found.r1.hard_negatives, None);
            assert!(found.r1.gain > 0.0, "{found:?}");
        }
        // A share that doubles is capped at the whole pool.
        let rising = with_shares(&[0.1, 0.2, 0.4, 0.8], (5.0, 10.0));
        assert_eq!(rising.r1.hard_negatives, Some(1.0));
    }

    #[test]
    fn equal_gains_of_seeds_are_not_certain() {
        let curve = [logarithmic(0, 2, 0.0), logarithmic(0, 2, 0.0)];
        let found = forecast(&lanes(&curve), 100).unwrap();
        assert_eq!((found.batches, found.seeds, found.r1.spread), (2, 2, Spread::TestSet));
        assert!(found.r1.high - found.r1.low > 1.0, "{found:?}");
    }
}
