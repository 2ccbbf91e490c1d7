//! What to do next, and how sure that is.
//!
//! One measure decides everything: the mean log rank of both directions, which needed about half the seeds of R@1. After
//! the last round it tells which strategy is better (simultaneous intervals over seeds), as the random captions
//! that one chosen caption is worth, and its forecast tells whether the next batch is worth buying. The R@1-sum
//! stands beside it.

use serde::Serialize;

use super::{ArmEvidence, Difference, Evidence};
use crate::numbers::{self, grouped, money_in, signed, signed_fine};
use crate::statistics::{Estimate, FEWEST, Verdict, Worth};
use crate::{Annotator, Arm, Forecast};

/// What to buy the next batch with, and whether to buy it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// The strategy to buy with. It is one of the baseline unless another one is better for certain.
    pub strategy: Arm,
    /// The reason.
    pub reason: Reason,
    /// The strategy with the lowest mean log rank beside the baseline, if any could be compared.
    pub leader: Option<Arm>,
    /// Number of seeds behind the comparison.
    pub seeds: usize,
    /// Number of seeds that would tell the leader from the baseline, if they are not told apart yet.
    pub seeds_needed: Option<usize>,
    /// Whether the next batch is expected to bring anything.
    pub next: NextBatch,
    /// What to do, and why, in a few sentences.
    pub advice: String,
    /// How to go on with the experiment: the flags of `nextpair run EXPERIMENT` that finish it, settle what is open,
    /// or buy another batch. `None` if nothing of that would help.
    pub go_on: Option<String>,
}

/// The reason of a recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The strategy is better than the baseline.
    Better,
    /// No strategy can be told from the baseline, and some could be better.
    NoneBetter,
    /// All strategies are worse than the baseline.
    AllWorse,
    /// There are too few seeds for a verdict.
    TooFewSeeds,
    /// No seed has finished with two strategies.
    NotCompared,
    /// There is no other strategy.
    Alone,
    /// The models are near chance on the test, so nothing they say is worth money.
    NearChance,
}

/// Whether the next batch is expected to bring anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NextBatch {
    /// The whole interval of its gain is above zero.
    Go,
    /// The interval of its gain includes zero.
    Unclear,
    /// The whole interval of its gain is below zero.
    Stop,
    /// No batch was bought yet, or nothing is left to buy.
    Unknown,
}

/// The most strategies of which the worth of each is told.
const MOST_WORTHS: usize = 4;
/// Seeds that are worth proposing. A difference that takes more is too small to matter.
pub const MOST_SEEDS: usize = 200;
/// Seeds to propose where there are too few for a verdict.
const SOME_SEEDS: usize = 5;

impl NextBatch {
    fn of(forecast: Option<&Forecast>) -> Self {
        match forecast {
            None => NextBatch::Unknown,
            Some(forecast) if forecast.log_rank.low > 0.0 => NextBatch::Go,
            Some(forecast) if forecast.log_rank.high <= 0.0 => NextBatch::Stop,
            Some(_) => NextBatch::Unclear,
        }
    }
}

impl Evidence {
    /// Returns what to do next. `None` while no round is finished.
    pub(super) fn recommend(&self) -> Option<Recommendation> {
        if self.arms.iter().all(|arm| arm.r1().is_empty()) {
            return None;
        }
        if self.near_chance.is_most() {
            return Some(Recommendation {
                strategy: self.baseline.arms[0],
                reason: Reason::NearChance,
                leader: None,
                seeds: self.seeds.len(),
                seeds_needed: None,
                next: NextBatch::Unknown,
                advice: String::new(),
                go_on: self.is_unfinished().then(|| "--resume".to_owned()),
            });
        }
        let best = |fits: &dyn Fn(Verdict) -> bool| {
            let fitting = self.compared().filter(|(_, less)| fits(less.verdict()));
            fitting.max_by(|one, other| one.1.gain().mean.total_cmp(&other.1.gain().mean))
        };
        let leader = best(&|_| true);
        let others = self.arms.iter().filter(|arm| !self.baseline.holds(&arm.strategy)).count();
        let (strategy, reason) = match (best(&|verdict| verdict == Verdict::Above), leader) {
            (Some((arm, _)), _) => (arm.strategy, Reason::Better),
            (None, None) if others == 0 => (self.baseline.arms[0], Reason::Alone),
            (None, None) => (self.baseline.arms[0], Reason::NotCompared),
            (None, Some(_)) => {
                let reason = if best(&|verdict| verdict == Verdict::Unclear).is_some() {
                    Reason::NoneBetter
                } else if best(&|verdict| verdict == Verdict::TooFewSeeds).is_some() {
                    Reason::TooFewSeeds
                } else {
                    Reason::AllWorse
                };
                (self.baseline.arms[0], reason)
            }
        };
        let of_strategy = self.arms.iter().find(|arm| arm.strategy == strategy);
        let seeds_needed = leader.and_then(|(_, less)| less.by_log_rank.seeds_needed);
        let next = NextBatch::of(of_strategy.and_then(|arm| arm.forecast.as_ref()));
        Some(Recommendation {
            strategy,
            reason,
            leader: leader.map(|(arm, _)| arm.strategy),
            seeds: leader.map_or(0, |(_, less)| less.seeds),
            seeds_needed,
            next,
            advice: String::new(),
            go_on: self.go_on(reason, seeds_needed, next),
        })
    }

    fn is_unfinished(&self) -> bool {
        self.arms.iter().any(|arm| arm.finished.len() < self.seeds.len())
    }

    fn go_on(&self, reason: Reason, seeds: Option<usize>, next: NextBatch) -> Option<String> {
        if self.is_unfinished() {
            return Some("--resume".to_owned());
        }
        // People are asked once, and only seeds that count from 0 can be counted on.
        let counted = self.seeds.iter().copied().eq(0..self.seeds.len() as u64);
        let more = match reason {
            _ if self.annotator == Annotator::Human || !counted => None,
            Reason::TooFewSeeds | Reason::NotCompared => Some(SOME_SEEDS.max(self.seeds.len() + 1)),
            Reason::NoneBetter => seeds.filter(|&seeds| seeds <= MOST_SEEDS),
            _ => None,
        };
        if let Some(seeds) = more {
            return Some(format!("--resume --seeds 0..{seeds}"));
        }
        let is_left = self.rounds > 0 && self.arms.iter().all(|arm| arm.forecast.is_some());
        let buys = is_left && next != NextBatch::Stop;
        buys.then(|| format!("--resume --rounds {}", self.rounds + 1))
    }

    /// Returns the strategies that are compared with the baseline, without null controls.
    pub fn compared(&self) -> impl Iterator<Item = (&ArmEvidence, &Difference)> {
        let of_arm =
            |arm: &'_ ArmEvidence| arm.difference.as_ref().is_some_and(|d| !d.null_control);
        self.arms.iter().filter(move |arm| of_arm(arm)).filter_map(|arm| {
            let difference = arm.difference.as_ref()?;
            Some((arm, difference))
        })
    }

    /// Returns the evidence of a strategy.
    pub fn arm(&self, strategy: &Arm) -> Option<&ArmEvidence> {
        self.arms.iter().find(|arm| arm.strategy == *strategy)
    }

    /// Formats an amount of money in the currency of the report.
    pub fn money(&self, amount: f64) -> String {
        money_in(amount, self.currency.as_deref())
    }

    /// Returns what to do next in a sentence: "Buy the next 48 captions at random."
    pub fn headline(&self) -> String {
        let Some(found) = &self.recommendation else {
            return "No round is finished yet: there is nothing to go by.".to_owned();
        };
        if found.reason == Reason::NearChance {
            return "Do not buy by this model yet.".to_owned();
        }
        let how = if found.strategy.is_random() {
            "at random".to_owned()
        } else {
            format!("with {}", found.strategy)
        };
        let (_, bought) = self.pool.own_and_other("images", "captions");
        let forecast = self.arm(&found.strategy).and_then(|arm| arm.forecast.as_ref());
        let next = grouped(forecast.map_or(self.next_batch, |forecast| forecast.batch));
        match found.next {
            NextBatch::Stop => {
                format!("Stop: the next {next} {bought} are not expected to add anything.")
            }
            NextBatch::Unknown
                if self.arm(&found.strategy).is_some_and(|arm| arm.r1().len() > 1) =>
            {
                format!("Nothing is left to buy. If there were more, buy {how}.")
            }
            _ => format!("Buy the next {next} {bought} {how}."),
        }
    }

    /// Returns the reason of the recommendation in a sentence or two.
    pub fn because(&self) -> String {
        let Some(found) = &self.recommendation else { return String::new() };
        let baseline = &self.baseline;
        // What is best by its mean may not be certain, where what is recommended is.
        let told = if found.reason == Reason::Better { Some(found.strategy) } else { found.leader };
        let told = told.and_then(|strategy| self.arm(&strategy));
        let ahead = told.and_then(|arm| Some((arm.strategy, arm.difference.as_ref()?)));
        match (found.reason, ahead) {
            (Reason::Better, Some((name, less))) => {
                format!("{name} is better than {baseline}: {}.", less.measured())
            }
            (Reason::NoneBetter, Some((name, less))) => {
                let worse = self.compared().filter(|(_, d)| d.verdict() == Verdict::Below).count();
                let worse = match worse {
                    0 => String::new(),
                    1 => " One strategy is worse.".to_owned(),
                    some => format!(" {some} strategies are worse."),
                };
                format!(
                    "No strategy is better than {baseline} for certain. {name} does best, by what chance alone could \
                     make: {}.{worse}",
                    less.measured()
                )
            }
            (Reason::AllWorse, _) => {
                format!("Every other strategy is worse than {baseline}, for certain.")
            }
            (Reason::TooFewSeeds, _) => format!(
                "{} too few to tell strategies from chance: it takes at least {FEWEST}, and usually more.",
                if found.seeds == 1 {
                    "One seed is".to_owned()
                } else {
                    format!("{} seeds are", found.seeds)
                }
            ),
            (Reason::Alone, _) => "There is no other strategy to compare it with.".to_owned(),
            (Reason::NearChance, _) => format!(
                "After the last batch {} of {} models find the right answer no more often than chance: they cannot tell \
                 which captions help. Check the features and the pairs, or train longer.",
                self.near_chance.models, self.near_chance.of
            ),
            _ => "No seed has finished with two strategies yet: there is nothing to compare."
                .to_owned(),
        }
    }
}

impl Evidence {
    /// Says how many random captions a hundred chosen ones replaced, by strategy, the most first. Of many strategies, the
    /// first and the last. `None` while no worth is known.
    pub fn worths_in_words(&self) -> Option<String> {
        if self.near_chance.is_most() {
            return None;
        }
        let worth_of = |(arm, less): (&ArmEvidence, &Difference)| Some((arm.strategy, less.worth?));
        let mut known: Vec<(Arm, Worth)> = self.compared().filter_map(worth_of).collect();
        known.sort_by(|one, other| other.1.captions.total_cmp(&one.1.captions));
        if known.len() > MOST_WORTHS {
            known.drain(1..known.len() - 1);
        }
        let (_, bought) = self.pool.own_and_other("images", "captions");
        let said = known.iter().enumerate().map(|(at, (strategy, worth))| {
            let told = match worth.less_random().verdict() {
                Verdict::Unclear => ", which chance alone could make",
                _ => "",
            };
            let random = numbers::worth_of_a_hundred(worth);
            match at {
                0 => format!(
                    "100 {bought} chosen by {strategy} were worth {random} random ones{told}"
                ),
                _ => format!("by {strategy}, {random}{told}"),
            }
        });
        let said: Vec<String> = said.collect();
        let of = if self.synthetic { "On synthetic data, " } else { "" };
        (!said.is_empty()).then(|| format!("{of}{}.", said.join("; ")))
    }
}

impl Difference {
    /// Returns what was measured: the worth of a caption, or the mean log rank where no worth is known, and the
    /// R@1-sum.
    fn measured(&self) -> String {
        let found = match &self.worth {
            Some(worth) => {
                format!("one of its captions is worth {} random ones", numbers::worth(worth))
            }
            None => format!("its mean log rank differs by {}", signed_fine(&self.last_log_rank)),
        };
        format!(
            "{found}, and its R@1-sum differs by {}, over {} seeds",
            signed(&self.sum),
            self.seeds
        )
    }
}

impl ArmEvidence {
    /// Returns the random captions that buying with this strategy has saved: what its captions are worth less what
    /// they are.
    pub fn saved_captions(&self) -> Option<Estimate> {
        let bought = self.bought.last()? - self.bought.first()?;
        Some(self.difference.as_ref()?.worth?.less_random().times(bought))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;
    use crate::{Analysis, Study};

    fn evidence(study: Study) -> Evidence {
        Analysis::of(&[study], false, None).unwrap().runs.remove(0)
    }

    #[test]
    fn the_strategy_that_is_better_for_certain_is_recommended() {
        let mut study = Fixture::default().two_arms().seeds(&[0, 1, 2, 3]).study();
        // So many that their noise hides no gain.
        let more = |round: &mut crate::Round| round.test[0].images *= 100;
        study.rounds.iter_mut().for_each(more);
        let sure = evidence(study);
        let found = sure.recommendation.clone().unwrap();
        assert_eq!(
            (found.strategy.to_string(), found.reason),
            ("hard-negative".into(), Reason::Better)
        );
        assert_eq!((found.seeds, found.seeds_needed, found.next), (4, None, NextBatch::Go));
        assert_eq!(sure.headline(), "Buy the next 100 captions with hard-negative.");
        let because = sure.because();
        assert!(
            because
                .starts_with("hard-negative is better than random: one of its captions is worth")
                && because.contains("and its R@1-sum differs by +9.0"),
            "{because}"
        );
        assert_eq!(found.go_on.as_deref(), Some("--resume --rounds 3"));
    }

    #[test]
    fn without_proof_it_is_bought_at_random() {
        let few = evidence(Fixture::default().two_arms().study());
        let found = few.recommendation.clone().unwrap();
        assert_eq!(found.reason, Reason::TooFewSeeds);
        assert_eq!(found.go_on.as_deref(), Some("--resume --seeds 0..5"));
        assert_eq!(few.headline(), "Buy the next 100 captions at random.");
        assert!(few.because().starts_with("2 seeds are too few"), "{}", few.because());
        let unclear =
            evidence(Fixture::default().arms(&["random", "core-set", "random-2"]).study());
        let found = unclear.recommendation.clone().unwrap();
        assert_eq!(found.reason, Reason::NoneBetter);
        assert_eq!(found.leader.unwrap().to_string(), "core-set");
        let needed = found.seeds_needed.unwrap();
        assert!(needed > 3 && found.strategy.is_random());
        assert_eq!(found.go_on, Some(format!("--resume --seeds 0..{needed}")));
        let alone = evidence(Fixture::default().arms(&["core-set"]).study());
        assert_eq!(alone.recommendation.clone().unwrap().reason, Reason::Alone);
        assert_eq!(alone.headline(), "Buy the next 100 captions with core-set.");
    }

    #[test]
    fn ranks_of_both_directions_decide_whatever_the_r1_says() {
        let fixture = Fixture::default().arms(&["random", "core-set", "random-2"]);
        let mut study = fixture.seeds(&[0, 1, 2, 3, 4, 5, 6, 7]).study();
        let core_set = "core-set".parse().ok();
        for round in &mut study.rounds {
            // By R@1 core-set is worse. Every round helps the ranks, and core-set more; seeds differ a little.
            let behind = f64::from(u8::from(round.strategy == core_set));
            let more = if round.strategy == core_set { 1.5 } else { 1.0 };
            let noise = 0.001 * ((round.seed * 7 + round.round as u64) % 5) as f64;
            let test = &mut round.test[0];
            (test.text.r1, test.image.r1) = (50.0 - behind, 50.0);
            test.image.mean_log_rank = 3.0 - 0.1 * more * round.round as f64 + noise;
            test.text.mean_log_rank = 2.0;
        }
        let found = evidence(study.clone());
        let because = found.because();
        let says = "core-set is better than random (mean of 2): one of its captions is worth 1.8";
        assert!(
            because.starts_with(says) && because.contains("R@1-sum differs by -3.0"),
            "{because}"
        );
        assert_eq!(found.headline(), "Buy the next 100 captions with core-set.");
        let saved = found.arm(&core_set.unwrap()).unwrap().saved_captions().unwrap();
        assert!(saved.mean > 200.0 && saved.low.unwrap() > 150.0, "{saved:?}");
        let worths = found.worths_in_words().unwrap();
        let says = "On synthetic data, 100 captions chosen by core-set were worth 18";
        assert!(worths.starts_with(says) && worths.ends_with("] random ones."), "{worths}");
        // What the images gain, the texts lose.
        for round in &mut study.rounds {
            round.test[0].text.mean_log_rank = 5.0 - round.test[0].image.mean_log_rank;
        }
        let even = evidence(study).recommendation.unwrap();
        assert!(even.strategy.is_random() && even.reason != Reason::Better, "{even:?}");
    }

    #[test]
    fn models_near_chance_decide_nothing() {
        let mut study = Fixture::default().two_arms().seeds(&[0, 1, 2, 3]).study();
        let useless = |test: &mut nextpair_models::Evaluation| {
            (test.text.r1, test.image.r1, test.image.mean_rank) = (0.1, 0.1, 500.0);
        };
        // A model that has learned nothing yet before the first batch may learn later.
        study.rounds.iter_mut().filter(|r| r.round == 0).for_each(|r| useless(&mut r.test[0]));
        assert_eq!(evidence(study.clone()).recommendation.unwrap().reason, Reason::Better);
        study.rounds.iter_mut().for_each(|round| useless(&mut round.test[0]));
        let useless = evidence(study);
        assert_eq!(useless.recommendation.as_ref().unwrap().reason, Reason::NearChance);
        assert_eq!(useless.headline(), "Do not buy by this model yet.");
        assert!(
            useless.because().starts_with("After the last batch 8 of 8 models"),
            "{}",
            useless.because()
        );
    }

    #[test]
    fn worse_strategies_and_vain_batches_are_not_bought() {
        let mut study = Fixture::default().two_arms().seeds(&[0, 1, 2, 3]).study();
        let hard = "hard-negative".parse().ok();
        for round in study.rounds.iter_mut().filter(|round| round.strategy == hard) {
            round.test[0].text.mean_log_rank += 1.0;
        }
        let worse = evidence(study.clone());
        assert_eq!(worse.recommendation.as_ref().unwrap().reason, Reason::AllWorse);
        assert_eq!(worse.headline(), "Buy the next 100 captions at random.");
        for round in &mut study.rounds {
            let rising = 1.0 + f64::from(round.round as u32);
            let test = &mut round.test[0];
            (test.text.mean_log_rank, test.image.mean_log_rank) = (rising, rising);
        }
        let vain = evidence(study.clone());
        assert_eq!(vain.recommendation.as_ref().unwrap().next, NextBatch::Stop);
        assert!(vain.headline().starts_with("Stop: the next 100 captions"), "{}", vain.headline());
        study.rounds.clear();
        let nothing = evidence(study);
        assert_eq!(nothing.recommendation, None);
        assert!(nothing.headline().starts_with("No round is finished yet"));
    }
}
