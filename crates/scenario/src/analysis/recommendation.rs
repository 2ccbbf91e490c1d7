//! What to do next, and how sure that is.
//!
//! One measure decides everything: R@1, text and image added. Its sum over all rounds tells which
//! strategy is better (simultaneous intervals over seeds), and its forecast tells whether the next batch of
//! that strategy is worth buying.

use serde::Serialize;

use super::{ArmEvidence, Difference, Evidence, Saved};
use crate::numbers::{self, grouped, money_in, signed};
use crate::statistics::{FEWEST, Verdict, Worth};
use crate::{Arm, Forecast};

/// What to buy the next batch with, and whether to buy it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// The strategy to buy with. It is one of the baseline unless another one is better for certain.
    pub strategy: Arm,
    /// The reason.
    pub reason: Reason,
    /// The strategy with the largest R@1-sum beside the baseline, if any could be compared.
    pub leader: Option<Arm>,
    /// Number of seeds behind the comparison.
    pub seeds: usize,
    /// Number of seeds that would tell the leader from the baseline, if they are not told apart yet.
    pub seeds_needed: Option<usize>,
    /// Whether the next batch is expected to bring anything.
    pub next: NextBatch,
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

impl NextBatch {
    fn of(forecast: Option<&Forecast>) -> Self {
        match forecast {
            None => NextBatch::Unknown,
            Some(forecast) if forecast.low > 0.0 => NextBatch::Go,
            Some(forecast) if forecast.high <= 0.0 => NextBatch::Stop,
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
            });
        }
        let best = |fits: &dyn Fn(Verdict) -> bool| {
            let fitting = self.compared().filter(|(_, less)| fits(less.sum.verdict()));
            fitting.max_by(|one, other| one.1.sum.mean.total_cmp(&other.1.sum.mean))
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
        Some(Recommendation {
            strategy,
            reason,
            leader: leader.map(|(arm, _)| arm.strategy),
            seeds: leader.map_or(0, |(_, less)| less.seeds),
            seeds_needed: leader.and_then(|(_, less)| less.by_sum.seeds_needed),
            next: NextBatch::of(of_strategy.and_then(|arm| arm.forecast.as_ref())),
        })
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
        let leader = found.leader.and_then(|leader| self.arm(&leader));
        let ahead = leader.and_then(|arm| Some((arm.strategy, arm.difference.as_ref()?)));
        match (found.reason, ahead) {
            (Reason::Better, Some((name, less))) => format!(
                "{name} is better than {baseline}: its R@1-sum differs by {} over {} seeds.",
                signed(&less.sum),
                less.seeds
            ),
            (Reason::NoneBetter, Some((name, less))) => {
                let worse =
                    self.compared().filter(|(_, d)| d.sum.verdict() == Verdict::Below).count();
                let worse = match worse {
                    0 => String::new(),
                    1 => " One strategy is worse.".to_owned(),
                    some => format!(" {some} strategies are worse."),
                };
                format!(
                    "No strategy is better than {baseline} for certain. {name} does best, with a \
                     difference of {} in the R@1-sum over {} seeds, which chance alone could make.{worse}{}",
                    signed(&less.sum),
                    less.seeds,
                    self.better_by_log_rank().map(|said| format!(" {said}")).unwrap_or_default()
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

    /// Says which strategy is better than the baseline by the mean log rank, which tells strategies apart with fewer
    /// seeds than R@1, if one is for certain.
    fn better_by_log_rank(&self) -> Option<String> {
        let last = |less: &Difference| less.log_rank.last().map(|rounds| rounds.image);
        let better = self.compared().filter_map(|(arm, less)| {
            let found = last(less).filter(|found| found.verdict() == Verdict::Below)?;
            // What is worse by R@1 is not praised for its ranks.
            if less.sum.verdict() == Verdict::Below {
                return None;
            }
            Some((arm, found.mean))
        });
        let (arm, _) = better.min_by(|one, other| one.1.total_cmp(&other.1))?;
        Some(format!(
            "By the mean log rank of image retrieval, which usually needs fewer seeds, {} is better.",
            arm.strategy
        ))
    }
}

impl ArmEvidence {
    /// Returns the captions saved at equal R@1 with their interval, if they are known.
    pub fn saved_captions(&self) -> Option<(f64, Option<(f64, f64)>)> {
        match self.saved.as_ref()? {
            Saved::Known { captions, low, high, .. } => Some((*captions, low.zip(*high))),
            Saved::Unknown { .. } => None,
        }
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
        let sure = evidence(Fixture::default().two_arms().seeds(&[0, 1, 2, 3]).study());
        let found = sure.recommendation.clone().unwrap();
        assert_eq!(
            (found.strategy.to_string(), found.reason),
            ("hard-negative".into(), Reason::Better)
        );
        assert_eq!((found.seeds, found.seeds_needed, found.next), (4, None, NextBatch::Go));
        assert_eq!(sure.headline(), "Buy the next 100 captions with hard-negative.");
        assert!(sure.because().starts_with("hard-negative is better than random: its R@1-sum"));
    }

    #[test]
    fn without_proof_it_is_bought_at_random() {
        let few = evidence(Fixture::default().two_arms().study());
        assert_eq!(few.recommendation.clone().unwrap().reason, Reason::TooFewSeeds);
        assert_eq!(few.headline(), "Buy the next 100 captions at random.");
        assert!(few.because().starts_with("2 seeds are too few"), "{}", few.because());
        let unclear =
            evidence(Fixture::default().arms(&["random", "core-set", "random-2"]).study());
        let found = unclear.recommendation.clone().unwrap();
        assert_eq!(found.reason, Reason::NoneBetter);
        assert_eq!(found.leader.unwrap().to_string(), "core-set");
        assert!(found.seeds_needed.unwrap() > 3 && found.strategy.is_random());
        let alone = evidence(Fixture::default().arms(&["core-set"]).study());
        assert_eq!(alone.recommendation.clone().unwrap().reason, Reason::Alone);
        assert_eq!(alone.headline(), "Buy the next 100 captions with core-set.");
    }

    #[test]
    fn a_finer_measure_has_its_say() {
        let fixture = Fixture::default().arms(&["random", "core-set", "random-2"]);
        let mut study = fixture.seeds(&[0, 1, 2, 3, 4, 5, 6, 7]).study();
        let core_set = "core-set".parse().ok();
        // By R@1 every other seed is better by as much as the others are worse.
        for round in &mut study.rounds {
            let ahead = (round.strategy == core_set) == (round.seed % 2 == 0);
            round.test[0].text.r1 = 50.0 + f64::from(u8::from(ahead));
            round.test[0].image.r1 = 50.0;
        }
        assert!(!evidence(study.clone()).because().contains("log rank"));
        for round in &mut study.rounds {
            // Every round helps, and core-set more; seeds differ a little.
            let more = if round.strategy == core_set { 1.5 } else { 1.0 };
            let noise = 0.001 * ((round.seed * 7 + round.round as u64) % 5) as f64;
            round.test[0].image.mean_log_rank = 3.0 - 0.1 * more * round.round as f64 + noise;
        }
        let evidence = evidence(study);
        let said = evidence.because();
        assert!(
            said.contains("No strategy is better than random (mean of 2) for certain."),
            "{said}"
        );
        assert!(said.contains("usually needs fewer seeds, core-set is better."), "{said}");
        let worths = evidence.worths_in_words().unwrap();
        let says = "On synthetic data, 100 captions chosen by core-set were worth 18";
        assert!(worths.starts_with(says) && worths.ends_with("] random ones."), "{worths}");
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
            round.test[0].text.r1 -= 20.0;
        }
        let worse = evidence(study.clone());
        assert_eq!(worse.recommendation.as_ref().unwrap().reason, Reason::AllWorse);
        assert_eq!(worse.headline(), "Buy the next 100 captions at random.");
        for round in &mut study.rounds {
            let falling = 80.0 - 30.0 * round.round as f64;
            (round.test[0].text.r1, round.test[0].image.r1) = (falling, falling);
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
