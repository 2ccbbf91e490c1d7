//! Captions saved at equal R@1, or at equal mean log rank.
//!
//! The curves of a strategy and of the baseline, each the mean over seeds, start at the same round
//! 0. Isotonic regression with equal weights makes both of them rise, so that a lucky round does
//! not count. The level is the lower of their two ends, in R@1 (text plus image), or the mean log rank
//! of image retrieval, which falls, with its sign turned round. The result is the number of captions
//! that the baseline needed to reach it, minus that of the strategy. Between rounds, curves are linear.

use serde::Serialize;

use super::compared::{Compared, Score};
use crate::statistics::bootstrap;

/// Number of bootstrap resamples.
const RESAMPLES: usize = 2000;
/// Seed of the resamples: the interval is always the same.
const SEED: u64 = 0x5a7e;

/// Captions saved at equal R@1 or at equal mean log rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Saved {
    /// A known number of captions.
    Known {
        /// The R@1 (text plus image) or the mean log rank at which captions are counted.
        level: f64,
        /// Captions that the baseline needed more; negative if it needed fewer.
        captions: f64,
        /// Captions that the baseline bought to reach the level.
        of: f64,
        /// Lower end of the 95 % interval. A single seed has none.
        low: Option<f64>,
        /// Upper end of the interval.
        high: Option<f64>,
        /// Number of seeds.
        seeds: usize,
    },
    /// The number is undefined.
    Unknown {
        /// The reason.
        why: String,
    },
}

/// The paired items and the measure of a round.
type Point = (f64, f64);

impl Saved {
    /// Returns the captions saved at equal R@1, text plus image.
    pub(super) fn by_r1(seeds: &[Compared]) -> Self {
        Self::of(seeds, 1.0, Score::r1)
    }

    /// Returns the captions saved at equal mean log rank of image retrieval.
    pub(super) fn by_log_rank(seeds: &[Compared]) -> Self {
        Self::of(seeds, -1.0, |score| score.image.mean_log_rank)
    }

    /// Counts captions at the equal `value`, which rises (`sign` 1) or falls (-1) as a model improves.
    fn of(seeds: &[Compared], sign: f64, value: fn(&Score) -> f64) -> Self {
        let points = |lane: &[Score]| -> Vec<Point> {
            lane.iter().map(|score| (score.paired, sign * value(score))).collect()
        };
        let pairs: Vec<(Vec<Point>, Vec<Point>)> =
            seeds.iter().map(|seed| (points(&seed.own), points(&seed.baseline))).collect();
        let every: Vec<usize> = (0..pairs.len()).collect();
        let Some((level, needed, by_baseline)) = at_equal(&pairs, &every) else {
            let why = "one of the curves ends no higher than it began";
            let why =
                if sign > 0.0 { why } else { "one of the curves ends no lower than it began" };
            return Saved::Unknown { why: why.to_owned() };
        };
        let saved = |seeds: &[usize]| at_equal(&pairs, seeds).map(|(_, own, other)| other - own);
        let interval = bootstrap(pairs.len(), RESAMPLES, SEED, saved);
        let start = pairs.first().and_then(|(_, lane)| lane.first());
        Saved::Known {
            level: sign * level,
            captions: by_baseline - needed,
            of: by_baseline - start.map_or(0.0, |point| point.0),
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            seeds: pairs.len(),
        }
    }
}

/// Returns the level, and the paired items that the strategy and the baseline need to reach it.
fn at_equal(pairs: &[(Vec<Point>, Vec<Point>)], seeds: &[usize]) -> Option<(f64, f64, f64)> {
    let own = curve(seeds.iter().map(|&at| &pairs[at].0))?;
    let other = curve(seeds.iter().map(|&at| &pairs[at].1))?;
    let (own, other) = (rising(own), rising(other));
    let level = own.last()?.1.min(other.last()?.1);
    let begins = own.first()?.1.max(other.first()?.1);
    (level > begins).then_some(())?;
    Some((level, crossing(&own, level)?, crossing(&other, level)?))
}

/// Returns the mean over seeds, by round.
fn curve<'a>(lanes: impl Iterator<Item = &'a Vec<Point>>) -> Option<Vec<Point>> {
    let mut points: Vec<Point> = Vec::new();
    let mut count = 0.0;
    for lane in lanes {
        points.resize(points.len().max(lane.len()), (0.0, 0.0));
        for (sum, point) in points.iter_mut().zip(lane) {
            *sum = (sum.0 + point.0, sum.1 + point.1);
        }
        count += 1.0;
    }
    points.iter_mut().for_each(|point| *point = (point.0 / count, point.1 / count));
    (!points.is_empty()).then_some(points)
}

/// Returns the nearest rising curve, by the pool-adjacent-violators algorithm.
fn rising(mut curve: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    // Sums and lengths of stretches of equal value.
    let mut stretches: Vec<(f64, usize)> = Vec::new();
    let mean = |(sum, length): (f64, usize)| sum / length as f64;
    for &(_, value) in &curve {
        let mut last = (value, 1);
        while let Some(before) = stretches.pop_if(|before| mean(*before) > mean(last)) {
            last = (before.0 + last.0, before.1 + last.1);
        }
        stretches.push(last);
    }
    let values = stretches.iter().flat_map(|&all| std::iter::repeat_n(mean(all), all.1));
    curve.iter_mut().zip(values).for_each(|(point, value)| point.1 = value);
    curve
}

/// Returns the number of paired items at which a rising curve first reaches a level.
fn crossing(curve: &[(f64, f64)], level: f64) -> Option<f64> {
    let after = curve.iter().position(|point| point.1 >= level)?;
    let Some(before) = after.checked_sub(1) else { return Some(curve[0].0) };
    let ((x0, y0), (x1, y1)) = (curve[before], curve[after]);
    Some(x0 + (level - y0) / (y1 - y0) * (x1 - x0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compared::Compared;
    use crate::fixture::round;

    fn lane(values: &[f64]) -> Vec<Score> {
        let score = |(at, &r1): (usize, &f64)| Score::of(&round(0, None, at, 100 * (at + 3), r1));
        values.iter().enumerate().map(score).collect()
    }

    fn compared(own: Vec<Score>, baseline: Vec<Score>) -> Compared {
        Compared { seed: 0, own, baseline, random: Vec::new() }
    }

    fn saved(own: &[f64], other: &[f64]) -> Saved {
        Saved::by_r1(&[compared(lane(own), lane(other))])
    }

    #[test]
    fn curves_are_straight_between_rounds() {
        // The baseline ends at 14. The strategy reaches it halfway through its first batch.
        let Saved::Known { level, captions, of, low, seeds, .. } =
            saved(&[10.0, 18.0, 19.0], &[10.0, 12.0, 14.0])
        else {
            panic!()
        };
        // Image R@1 is 2 lower than text R@1 in these rounds.
        assert_eq!((level, captions, of, low, seeds), (26.0, 150.0, 200.0, None, 1));
        let Saved::Known { captions, of, .. } = saved(&[10.0, 12.0, 14.0], &[10.0, 18.0, 19.0])
        else {
            panic!()
        };
        assert_eq!((captions, of), (-150.0, 50.0));
        let Saved::Known { captions, .. } = saved(&[10.0, 12.0, 14.0], &[10.0, 12.0, 14.0]) else {
            panic!()
        };
        assert_eq!(captions, 0.0);
    }

    #[test]
    fn curves_rise_before_they_are_compared() {
        let values = |values: &[f64]| -> Vec<f64> {
            rising(values.iter().map(|&y| (0.0, y)).collect()).iter().map(|p| p.1).collect()
        };
        assert_eq!(values(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(values(&[3.0, 2.0, 1.0]), [2.0, 2.0, 2.0]);
        assert_eq!(values(&[1.0, 1.0, 2.0]), [1.0, 1.0, 2.0]);
        // Two rounds above the end are noise: the end is the mean of all three, 20.1 and not 18.3.
        let noisy = values(&[14.3, 20.7, 21.3, 18.3]);
        assert!(noisy[0] == 14.3 && noisy[1..].iter().all(|y| (y - 20.1).abs() < 1e-9));
        // Text 10, 14, 12, and image 2 lower: their sums 18, 26, 22 rise as 18, 24, 24.
        let Saved::Known { level, captions, .. } = saved(&[10.0, 14.0, 12.0], &[10.0, 11.0, 14.0])
        else {
            panic!()
        };
        // The baseline rises from 20 to 26 in its second batch: it reaches 24 after two thirds.
        assert_eq!(level, 24.0);
        assert!((captions - (200.0 * 5.0 / 6.0 - 100.0)).abs() < 1e-9, "{captions}");
    }

    #[test]
    fn ranks_fall_where_recall_rises() {
        let falling = |ranks: [f64; 3]| {
            let mut lane = lane(&[10.0; 3]);
            lane.iter_mut().zip(ranks).for_each(|(score, rank)| score.image.mean_log_rank = rank);
            lane
        };
        let seed = compared(falling([4.0, 2.0, 1.0]), falling([4.0, 3.0, 2.0]));
        let Saved::Known { level, captions, of, .. } = Saved::by_log_rank(&[seed]) else {
            panic!()
        };
        assert_eq!((level, captions, of), (2.0, 100.0, 200.0));
    }

    #[test]
    fn what_does_not_rise_cannot_be_told() {
        assert!(matches!(saved(&[10.0, 9.0], &[10.0, 12.0]), Saved::Unknown { .. }));
        assert!(matches!(saved(&[10.0], &[10.0]), Saved::Unknown { .. }));
    }

    #[test]
    fn several_seeds_have_an_interval_around_the_mean() {
        let lanes: Vec<_> = (0..6)
            .map(|seed| {
                let shift = f64::from(seed) / 10.0;
                compared(lane(&[10.0, 14.0 + shift, 17.0]), lane(&[10.0, 12.0 - shift, 14.0]))
            })
            .collect();
        let Saved::Known { captions, low: Some(low), high: Some(high), .. } = Saved::by_r1(&lanes)
        else {
            panic!()
        };
        assert!(low < captions && captions < high, "{low} {captions} {high}");
        assert!(low > 80.0 && high < 150.0, "{low} {captions} {high}");
    }
}
