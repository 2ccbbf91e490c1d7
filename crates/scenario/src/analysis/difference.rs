//! Differences between strategies and the baseline, seed by seed, with intervals that hold for all
//! strategies at once.

use serde::Serialize;

use super::Recalls;
use super::compared::{Compared, Score};
use super::new_images::Parts;
use crate::statistics::{Estimate, Family, Verdict, Worth, mean, seeds_needed, sign_flip, worth};

/// Differences to the baseline, over the seeds that both finished. Recalls are in percentage points.
/// Intervals are 95 % simultaneous: with 95 % probability all strategies of a column lie in theirs.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// Number of seeds.
    pub seeds: usize,
    /// Whether this is a random strategy beside the other random ones, which cannot differ.
    pub null_control: bool,
    /// Differences of R@1, by round.
    pub rounds: Vec<Recalls>,
    /// Difference of the R@1-sum, the R@1 summed over all rounds.
    pub sum: Estimate,
    /// More about the difference of the R@1-sum.
    pub by_sum: Scrutiny,
    /// The difference of every seed, in ascending order of the seeds.
    pub by_seed: Vec<SeedDifference>,
    /// Difference of the R@5-sum.
    pub r5_sum: Estimate,
    /// Difference of the R@10-sum.
    pub r10_sum: Estimate,
    /// Differences of the mean natural logarithm of the rank, by round; below 0 is better.
    pub log_rank: Vec<Recalls>,
    /// Difference of the mean log rank of both directions after the last round. It decides which strategy is
    /// better.
    pub last_log_rank: Estimate,
    /// More about it.
    pub by_log_rank: Scrutiny,
    /// Differences of the mean reciprocal rank, by round.
    pub reciprocal_rank: Vec<Recalls>,
    /// Random captions that a chosen one replaces, by the mean log rank of both directions.
    pub worth: Option<Worth>,
    /// R@1 of the strategy with these seeds.
    pub own: Reached,
    /// R@1 of the baseline with these seeds.
    pub baseline: Reached,
}

impl Difference {
    /// Returns how far the mean log rank after the last round is below that of the baseline: above 0 is better.
    pub fn gain(&self) -> Estimate {
        self.last_log_rank.times(-1.0)
    }

    /// Returns whether the strategy is better (above) or worse than the baseline.
    pub fn verdict(&self) -> Verdict {
        self.gain().verdict()
    }
}

/// What else is known about a difference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scrutiny {
    /// The difference, with an interval that holds for new test images too. `None` if
    /// files with the ranks of the queries are gone, or if every seed has test images of its own.
    pub new_images: Option<Estimate>,
    /// The p-value of the sign-flip test, adjusted for all strategies, if there are enough seeds.
    pub sign_flip: Option<f64>,
    /// Number of seeds that would tell this difference from chance four times in five, if it is not
    /// clear yet.
    pub seeds_needed: Option<usize>,
}

/// The difference of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SeedDifference {
    /// The seed.
    pub seed: u64,
    /// Difference of the R@1-sum.
    pub sum: f64,
    /// Difference of R@1 (text plus image) after the last round.
    pub last: f64,
}

impl SeedDifference {
    fn of(seed: &Compared) -> Self {
        let last = |lane: &[Score]| lane.last().map_or(0.0, Score::r1);
        SeedDifference {
            seed: seed.seed,
            sum: sum(&seed.own, 1) - sum(&seed.baseline, 1),
            last: last(&seed.own) - last(&seed.baseline),
        }
    }
}

/// Means of R@1, text plus image.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reached {
    /// Sum over all rounds.
    pub sum: f64,
    /// Value after the last round.
    pub last: f64,
}

/// Strategies that are judged together.
pub(super) struct Group<'a> {
    /// The seeds of each strategy.
    pub(super) arms: Vec<&'a [Compared]>,
    /// What every image contributes to the differences of each strategy, if the ranks are known.
    pub(super) parts: Vec<Option<Parts>>,
    /// Number of strategies that make the baseline.
    pub(super) baseline: usize,
    /// Whether these are random strategies beside the others.
    pub(super) null_control: bool,
    /// Number of rounds.
    pub(super) rounds: usize,
    /// The error of the intervals.
    pub(super) error: f64,
}

/// A number of a seed: of the strategy less that of the baseline.
type Less<'a> = &'a dyn Fn(&Compared) -> f64;

impl Group<'_> {
    /// Returns the differences of every strategy.
    pub(super) fn differences(&self) -> Vec<Difference> {
        let sums =
            [1, 5, 10].map(|k| self.estimates(&|seed| sum(&seed.own, k) - sum(&seed.baseline, k)));
        let by_sum =
            self.scrutiny(&|seed| sum(&seed.own, 1) - sum(&seed.baseline, 1), |parts| &parts.sum);
        let recalls = self.by_round(&|score| score.recall(1));
        let log_rank =
            self.by_round(&|score| (score.text.mean_log_rank, score.image.mean_log_rank));
        let reciprocal_rank = self
            .by_round(&|score| (score.text.mean_reciprocal_rank, score.image.mean_reciprocal_rank));
        let last_log_ranks = self.estimates(&last_log_rank);
        let by_log_rank = self.scrutiny(&last_log_rank, |parts| &parts.last_log_rank);
        let worths = self.worths();
        let of_arm = |at: usize| Difference {
            seeds: self.arms[at].len(),
            null_control: self.null_control,
            rounds: recalls[at].clone(),
            sum: sums[0][at],
            by_sum: by_sum[at],
            by_seed: self.arms[at].iter().map(SeedDifference::of).collect(),
            r5_sum: sums[1][at],
            r10_sum: sums[2][at],
            log_rank: log_rank[at].clone(),
            last_log_rank: last_log_ranks[at],
            by_log_rank: by_log_rank[at],
            reciprocal_rank: reciprocal_rank[at].clone(),
            worth: worths[at],
            own: reached(self.arms[at], |seed| &seed.own),
            baseline: reached(self.arms[at], |seed| &seed.baseline),
        };
        (0..self.arms.len()).map(of_arm).collect()
    }

    fn lists(&self, less: Less<'_>) -> Vec<Vec<f64>> {
        self.arms.iter().map(|seeds| seeds.iter().map(less).collect()).collect()
    }

    /// Returns the simultaneous estimates of a number, by strategy.
    fn estimates(&self, less: Less<'_>) -> Vec<Estimate> {
        let lists = self.lists(less);
        let family = Family::of(&lists, self.baseline).at(self.error);
        // Strategies without seeds are not in the group.
        lists.iter().filter_map(|list| family.estimate(list)).collect()
    }

    fn by_round(&self, value: &dyn Fn(&Score) -> (f64, f64)) -> Vec<Vec<Recalls>> {
        let mut by_arm = vec![Vec::new(); self.arms.len()];
        for round in 0..=self.rounds {
            let of = |part: fn((f64, f64)) -> f64| {
                self.estimates(&|seed| {
                    part(value(&seed.own[round])) - part(value(&seed.baseline[round]))
                })
            };
            let (text, image) = (of(|both| both.0), of(|both| both.1));
            let both = of(|both| both.0 + both.1);
            for (at, rounds) in by_arm.iter_mut().enumerate() {
                rounds.push(Recalls { text: text[at], image: image[at], both: both[at] });
            }
        }
        by_arm
    }

    fn scrutiny(&self, less: Less<'_>, part: fn(&Parts) -> &Vec<Vec<f64>>) -> Vec<Scrutiny> {
        let lists = self.lists(less);
        let family = Family::of(&lists, self.baseline).at(self.error);
        let flips = sign_flip(&lists);
        let of_arm = |(at, list): (usize, &Vec<f64>)| {
            let unclear = family.estimate(list).filter(|e| e.verdict() == Verdict::Unclear);
            let each = unclear.and_then(|_| family.each(list.len()));
            Scrutiny {
                new_images: self.parts[at]
                    .as_ref()
                    .and_then(|parts| family.estimate_two_way(list, part(parts))),
                sign_flip: flips.as_ref().map(|flips| flips[at]),
                seeds_needed: each.and_then(|each| seeds_needed(list, each)),
            }
        };
        lists.iter().enumerate().map(of_arm).collect()
    }

    fn worths(&self) -> Vec<Option<Worth>> {
        let family = Family::of(&self.lists(&last_log_rank), self.baseline).at(self.error);
        let of_arm = |seeds: &&[Compared]| {
            let paired = |round: fn(&[Score]) -> Option<&Score>| {
                let of_seed = |seed: &Compared| round(&seed.own).map(|score| score.paired);
                mean(&seeds.iter().filter_map(of_seed).collect::<Vec<_>>())
            };
            let bought = (paired(<[Score]>::first)?, paired(<[Score]>::last)?);
            let points: Vec<(Vec<(f64, f64)>, f64)> =
                seeds.iter().map(|seed| (seed.random.clone(), last_log_rank(seed))).collect();
            worth(&points, bought, &family)
        };
        self.arms.iter().map(of_arm).collect()
    }
}

/// Returns text and image recall summed over all rounds.
fn sum(lane: &[Score], k: usize) -> f64 {
    lane.iter().map(|score| score.recall(k)).map(|(text, image)| text + image).sum()
}

/// Returns the difference of the mean log rank of both directions after the last round.
fn last_log_rank(seed: &Compared) -> f64 {
    let last = |lane: &[Score]| lane.last().map_or(0.0, Score::log_rank);
    last(&seed.own) - last(&seed.baseline)
}

fn reached(seeds: &[Compared], lane: fn(&Compared) -> &Vec<Score>) -> Reached {
    let mean_of = |value: &dyn Fn(&[Score]) -> f64| {
        mean(&seeds.iter().map(|seed| value(lane(seed))).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let last = |lane: &[Score]| lane.last().map_or(0.0, Score::r1);
    Reached { sum: mean_of(&|lane| sum(lane, 1)), last: mean_of(&last) }
}
