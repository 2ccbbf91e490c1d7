//! What a rehearsal says: which strategy to use, and what it would save.

use std::cmp::Ordering;
use std::path::Path;

use nextpair_data::AtomicFile;
use serde::Serialize;

use super::{Prior, RehearsalSettings};
use crate::numbers::{grouped, money};
use crate::statistics::{Verdict, Worth};
use crate::{Arm, ArmEvidence, Error, Estimate, Evidence, NearChance};

/// The outcome of a rehearsal: `rehearsal.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The version of the format, 1.
    pub nextpair_rehearsal: u32,
    /// The name of the dataset.
    pub dataset: String,
    /// Whether a program generated the dataset.
    pub synthetic: bool,
    /// The name of the model.
    pub model: String,
    /// Paired items at hand.
    pub paired: usize,
    /// Captions to buy next.
    pub budget: usize,
    /// The price of a caption.
    pub price: Option<f64>,
    /// Seeds that were run, and seeds planned at most.
    pub seeds: (usize, usize),
    /// The starts that were rehearsed; the last one decides.
    pub scales: Vec<Scale>,
    /// What was found out.
    pub choice: Choice,
    /// What is expected to pay with models of the same kind, if the rehearsal left the answer open and does not speak against
    /// it: the strategy was rehearsed, and was not worse than random ones for certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Prior>,
    /// What to use: a strategy that is better than random for certain, else one that is expected to be, else
    /// random.
    pub strategy: Arm,
}

/// The outcome with one start.
#[derive(Clone, Debug, Serialize)]
pub struct Scale {
    /// Items paired from the start.
    pub start: usize,
    /// Items bought.
    pub bought: usize,
    /// Items they were chosen from.
    pub pool: usize,
    /// Models after the batch that are near chance on the test.
    pub near_chance: NearChance,
    /// What every strategy did. Random strategies are null controls.
    pub strategies: Vec<StrategyAdvice>,
}

/// What one strategy did.
#[derive(Clone, Debug, Serialize)]
pub struct StrategyAdvice {
    /// The strategy.
    pub strategy: Arm,
    /// Random captions that one of its captions replaced, if random captions helped at all.
    pub worth: Option<Worth>,
    /// Mean log rank of both directions, less that of random captions; below 0 is better.
    pub log_rank: Estimate,
    /// R@1, text plus image, less that of random captions.
    pub r1: Estimate,
    /// Seeds that would settle it, if it is not clear.
    pub seeds_needed: Option<usize>,
    /// Whether it is a random strategy compared with the other.
    pub null_control: bool,
}

/// The strategy to use.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// One that is better than random.
    Strategy(Arm),
    /// None can be told from random, and none could be worth a tenth more.
    RandomIsAsGood,
    /// None can be told from random yet.
    Unclear,
}

/// A strategy that cannot be worth more than this is as good as random.
const AS_GOOD: f64 = 1.1;

impl StrategyAdvice {
    fn of(arm: &ArmEvidence) -> Option<Self> {
        let difference = arm.difference.as_ref()?;
        Some(StrategyAdvice {
            strategy: arm.strategy,
            worth: difference.worth,
            log_rank: difference.last_log_rank,
            r1: difference.rounds.last()?.both,
            seeds_needed: difference.by_log_rank.seeds_needed,
            null_control: difference.null_control,
        })
    }

    /// Returns whether its captions are better than random ones, for certain.
    pub fn pays(&self) -> bool {
        self.log_rank.verdict() == Verdict::Below
    }

    /// Returns the worth with its interval, as text.
    pub fn worth_shown(&self) -> String {
        self.worth.map_or("-".to_owned(), |worth| {
            let ends = worth.low.zip(worth.high);
            let ends = ends.map(|(low, high)| format!(" [{low:.2}, {high:.2}]"));
            format!("{:.2}{}", worth.captions, ends.unwrap_or_default())
        })
    }

    /// Returns the difference of the mean log rank with its interval, as text.
    pub fn log_rank_shown(&self) -> String {
        let ends = self.log_rank.interval();
        let ends = ends.map(|(low, high)| format!(" [{low:+.3}, {high:+.3}]"));
        format!("{:+.3}{}", self.log_rank.mean, ends.unwrap_or_default())
    }

    /// Returns whether its captions can be worth more than a tenth over random ones.
    fn could_pay(&self) -> bool {
        self.worth.and_then(|worth| worth.high).is_none_or(|high| high > AS_GOOD)
    }
}

impl Advice {
    pub(super) fn of(
        settings: &RehearsalSettings,
        paired: usize,
        seeds: (usize, usize),
        scales: &[Evidence],
    ) -> Result<Self, Error> {
        let Some(last) = scales.last() else {
            return Err(Error::setting("rehearsal", "nothing has been run"));
        };
        let scale = |evidence: &Evidence| {
            let sizes = |at: usize| {
                evidence.arms.iter().find_map(|arm| arm.paired.get(at)).map_or(0, |&n| n as usize)
            };
            Scale {
                start: sizes(0),
                bought: sizes(1).saturating_sub(sizes(0)),
                pool: paired.saturating_sub(sizes(0)),
                near_chance: evidence.near_chance,
                strategies: evidence.arms.iter().filter_map(StrategyAdvice::of).collect(),
            }
        };
        let names = (last.dataset.clone(), last.synthetic);
        let scales = scales.iter().map(scale).collect();
        Ok(Self::from_scales(settings, names, paired, seeds, scales))
    }

    /// Returns the advice for a dataset, of which the name is given and whether it is synthetic.
    fn from_scales(
        settings: &RehearsalSettings,
        (dataset, synthetic): (String, bool),
        paired: usize,
        seeds: (usize, usize),
        scales: Vec<Scale>,
    ) -> Self {
        let choice = scales.last().map_or(Choice::Unclear, Scale::choice);
        let prior = Prior::of(&settings.experiment).filter(|_| choice == Choice::Unclear);
        let expected = prior.filter(|prior| scales.last().is_some_and(|scale| scale.allows(prior)));
        let strategy = match choice {
            Choice::Strategy(arm) => arm,
            Choice::RandomIsAsGood => Arm::random(1),
            Choice::Unclear => expected.map_or(Arm::random(1), |prior| prior.strategy),
        };
        Advice {
            nextpair_rehearsal: 1,
            dataset,
            synthetic,
            model: settings.experiment.model.name().to_owned(),
            paired,
            budget: settings.budget,
            price: settings.experiment.price,
            seeds,
            scales,
            choice,
            expected,
            strategy,
        }
    }

    /// Returns whether the models found right answers more often than chance, so that they can advise anything.
    pub fn decides(&self) -> bool {
        !self.scales.last().is_some_and(|scale| scale.near_chance.is_most())
    }

    /// Returns whether more seeds would not change the answer.
    pub fn is_clear(&self) -> bool {
        self.choice != Choice::Unclear
    }

    /// Writes it to `rehearsal.json` in a folder.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = &folder.join("rehearsal.json");
        let mut text =
            serde_json::to_vec_pretty(self).map_err(|e| Error::file(path, e.to_string()))?;
        text.push(b'\n');
        Ok(AtomicFile::write_whole(path, &text)?)
    }

    /// Returns the outcome as one screen of text.
    pub fn text(&self) -> String {
        let (used, most) = self.seeds;
        let synthetic = if self.synthetic { " (synthetic)" } else { "" };
        let mut text = format!(
            "rehearsal on {}{synthetic} with {}: {} paired items, {used} of at most {most} seeds\n",
            self.dataset,
            self.model,
            grouped(self.paired)
        );
        for scale in &self.scales {
            text += &scale.text(self.budget);
        }
        text += "\nWorth: random captions that one chosen caption replaces, by the mean log rank of both \
                 directions on dev.\nIntervals hold for all strategies and all looks at once (95 %), \
                 and for these dev images.\n\n";
        text + &self.sentence() + "\n"
    }

    /// Returns what the seeds so far say of every strategy, in a line.
    pub fn standing(&self) -> String {
        let (used, most) = self.seeds;
        let best_first = self.scales.last().map(Scale::best_first).unwrap_or_default();
        let worths = best_first.iter().filter(|found| !found.null_control);
        let worths = worths.map(|found| format!("{} {}", found.strategy, found.worth_shown()));
        let worths: Vec<String> = worths.collect();
        let clear = if self.is_clear() { "clear" } else { "not clear yet" };
        format!("{used} of at most {most} seeds: worth of {}; {clear}", worths.join(", "))
    }

    /// Returns what to do, in a few words.
    pub fn headline(&self) -> String {
        if !self.decides() {
            return "Do not buy by this model yet.".to_owned();
        }
        match (&self.choice, &self.expected) {
            (Choice::Strategy(arm), _) => format!("Use {arm}."),
            (Choice::RandomIsAsGood, _) => {
                format!("Buy the next {} at random.", grouped(self.budget))
            }
            (Choice::Unclear, Some(prior)) => {
                format!("Not settled: {} is expected to pay.", prior.strategy)
            }
            (Choice::Unclear, None) => "No strategy can be told from random yet.".to_owned(),
        }
    }

    /// Returns what to do, in a sentence or two.
    pub fn sentence(&self) -> String {
        let last = self.scales.last();
        if let Some(NearChance { models, of }) =
            last.map(|scale| scale.near_chance).filter(|near| near.is_most())
        {
            return format!(
                "Do not buy by this model yet: in the rehearsal {models} of {of} models find the right answer no more often \
                 than chance, so they cannot tell which captions help. Check the features and the pairs, or train longer."
            );
        }
        let of = |arm: &Arm| last.and_then(|scale| scale.of(arm));
        let budget = grouped(self.budget);
        let mut text = match &self.choice {
            Choice::Strategy(arm) => {
                let worth = of(arm).and_then(|found| found.worth);
                format!("Use {arm}. {}", self.saving(worth))
            }
            Choice::RandomIsAsGood => format!(
                "Buy the next {budget} at random: no strategy can be worth a tenth more here."
            ),
            Choice::Unclear if last.is_some_and(|scale| scale.learned_nothing()) => format!(
                "Not even random captions measurably helped in the rehearsal, so no strategy could: train \
                 longer, or rehearse more seeds, before you buy the next {budget}."
            ),
            Choice::Unclear => {
                let told = last.and_then(|scale| match &self.expected {
                    Some(prior) => scale.of(&prior.rehearsed()),
                    None => scale.best(),
                });
                let more = told.and_then(|told| Some((told.strategy, told.seeds_needed?)));
                let more = more.map(|(arm, seeds)| {
                    format!(" About {} seeds would settle {arm}.", grouped(seeds))
                });
                let meanwhile = match &self.expected {
                    Some(prior) => format!(". {}", prior.shown(&budget)),
                    None => format!(": buy the next {budget} at random, or rehearse longer."),
                };
                format!(
                    "No strategy can be told from random with these seeds{meanwhile}{}",
                    more.unwrap_or_default()
                )
            }
        };
        let first = self.scales.first().filter(|_| self.scales.len() > 1);
        let (Some(first), Some(last)) = (first.and_then(Scale::best), last.and_then(Scale::best))
        else {
            return text;
        };
        if first.strategy != last.strategy {
            text += &format!(
                " With the smaller start {} did best, so the answer may change again as you pair more: \
                 rehearse before every batch.",
                first.strategy
            );
        }
        text
    }

    /// Returns what is forecast of the next captions by the strategy to use, if it is not random.
    pub fn forecast(&self) -> Option<String> {
        let found = self.scales.last()?.of(&self.strategy).filter(|found| !found.null_control)?;
        let worth = found.worth?;
        let range = |value: f64| grouped((value * self.budget as f64).max(0.0).round() as usize);
        let ends = worth.low.zip(worth.high);
        let ends = ends.map(|(low, high)| format!(" (between {} and {})", range(low), range(high)));
        Some(format!(
            "{} captions by {} do what {}{} random ones would",
            grouped(self.budget),
            self.strategy,
            range(worth.captions),
            ends.unwrap_or_default()
        ))
    }

    /// Returns what the next captions would save.
    fn saving(&self, worth: Option<Worth>) -> String {
        let budget = self.budget as f64;
        let Some(worth) = worth else {
            return "Random captions did not help in the rehearsal, so their worth is unknown."
                .to_owned();
        };
        let range = |value: f64| grouped((value * budget).max(0.0).round() as usize);
        let between = match (worth.low, worth.high) {
            (Some(low), Some(high)) => format!(" (between {} and {})", range(low), range(high)),
            _ => String::new(),
        };
        let saved = (worth.captions - 1.0) * budget;
        let paid = self.price.map(|price| format!(", which cost {}", money(saved * price)));
        format!(
            "If the rehearsal carries over, its next {} captions do what {}{between} random ones would: \
             {} captions saved{}.",
            grouped(self.budget),
            range(worth.captions),
            grouped(saved.max(0.0).round() as usize),
            paid.unwrap_or_default()
        )
    }
}

impl Scale {
    fn of(&self, arm: &Arm) -> Option<&StrategyAdvice> {
        self.strategies.iter().find(|found| found.strategy == *arm)
    }

    /// Returns all strategies, the lowest mean log rank first.
    pub fn best_first(&self) -> Vec<&StrategyAdvice> {
        let mut order: Vec<&StrategyAdvice> = self.strategies.iter().collect();
        order.sort_by(|a, b| a.log_rank.mean.total_cmp(&b.log_rank.mean));
        order
    }

    fn compared(&self) -> impl Iterator<Item = &StrategyAdvice> {
        self.strategies.iter().filter(|found| !found.null_control)
    }

    /// Returns whether the captions bought, random ones too, made no difference that shows.
    fn learned_nothing(&self) -> bool {
        self.compared().all(|found| found.worth.is_none())
    }

    /// Returns the strategy with the lowest mean log rank.
    fn best(&self) -> Option<&StrategyAdvice> {
        self.compared().min_by(|a, b| a.log_rank.mean.total_cmp(&b.log_rank.mean))
    }

    /// Returns whether what happened with this start leaves room for an expectation. The mean alone does not
    /// decide: it varies more from one rehearsal to another than a strategy's worth from one experiment to another.
    fn allows(&self, prior: &Prior) -> bool {
        let found = self
            .of(&prior.rehearsed())
            .filter(|_| !self.learned_nothing() && !self.near_chance.is_most());
        found.is_some_and(|found| found.log_rank.verdict() == Verdict::Unclear)
    }

    /// Returns what was found out with this start.
    fn choice(&self) -> Choice {
        let pay = self.compared().filter(|found| found.pays());
        match pay.min_by(|a, b| a.log_rank.mean.total_cmp(&b.log_rank.mean)) {
            Some(best) => Choice::Strategy(best.strategy),
            None if !self.compared().any(StrategyAdvice::could_pay) => Choice::RandomIsAsGood,
            None => Choice::Unclear,
        }
    }

    fn text(&self, asked: usize) -> String {
        let why = match self.bought.cmp(&asked) {
            Ordering::Equal => String::new(),
            Ordering::Less => format!(", not {}: half of what is hidden at most", grouped(asked)),
            Ordering::Greater => format!(", not {}: a tenth of the start at least", grouped(asked)),
        };
        let mut text = format!(
            "\nstart of {}, {} bought of {}{why}\n  {:<24} {:>22} {:>28} {:>10}\n",
            grouped(self.start),
            grouped(self.bought),
            grouped(self.pool),
            "strategy",
            "worth",
            "log rank less random",
            "R@1"
        );
        for found in self.best_first() {
            let (worth, rank) = (found.worth_shown(), found.log_rank_shown());
            let verdict = match (found.null_control, found.log_rank.verdict()) {
                (true, _) => "null control",
                (_, Verdict::Below) => "better",
                (_, Verdict::Above) => "worse",
                (_, Verdict::Unclear) => "",
                (_, Verdict::TooFewSeeds) => "too few seeds",
            };
            let name = found.strategy.to_string();
            text +=
                format!("  {name:<24} {worth:>22} {rank:>28} {:>+10.1}  {verdict}", found.r1.mean)
                    .trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use nextpair_data::Side;
    use nextpair_models::{Config, Training};

    use super::*;
    use crate::{Annotator, Experiment, ExperimentKeys};

    /// The evidence of one start: for every strategy the mean log rank less that of random captions, and half
    /// the width of its interval.
    fn scale(found: &[(&str, f64, f64)]) -> Scale {
        let strategies = found.iter().map(|&(name, mean, half)| {
            let [low, high] = [mean - half, mean + half];
            StrategyAdvice {
                strategy: name.parse().unwrap(),
                worth: Some(Worth {
                    captions: 1.0 - 5.0 * mean,
                    low: Some(1.0 - 5.0 * high),
                    high: Some(1.0 - 5.0 * low),
                    seeds: 8,
                }),
                log_rank: Estimate { mean, low: Some(low), high: Some(high), count: 8 },
                r1: Estimate { mean: 0.0, low: None, high: None, count: 8 },
                seeds_needed: Some(40),
                null_control: name.starts_with("random"),
            }
        });
        let near_chance = NearChance::default();
        Scale { start: 100, bought: 20, pool: 100, near_chance, strategies: strategies.collect() }
    }

    fn experiment(model: &str) -> Experiment {
        let (keys, config) = (ExperimentKeys::default(), Config::named(model).unwrap());
        let keys = ExperimentKeys { dataset: Some("photos".into()), ..keys };
        Experiment::resolve(keys, config, Training::default()).unwrap()
    }

    fn advice(experiment: Experiment, scale: Scale) -> Advice {
        let settings = RehearsalSettings { experiment, budget: 50, seeds: 8 };
        Advice::from_scales(&settings, ("photos".to_owned(), false), 200, (8, 8), vec![scale])
    }

    const OPEN: [(&str, f64, f64); 3] =
        [("random", 0.0, 0.1), ("core-set+encoded", -0.05, 0.1), ("v-optimal", -0.01, 0.1)];

    #[test]
    fn an_open_answer_is_closed_by_what_pays_with_such_models() {
        for (model, strategy, buy) in [
            ("heads", "v-optimal", "Buy the next 50 with it, or rehearse longer."),
            ("vse++", "v-optimal", "Buy the next 50 with it, or rehearse longer."),
            (
                "text-imram",
                "core-set+encoded",
                "if nearly everything in your pool can be captioned",
            ),
        ] {
            let open = advice(experiment(model), scale(&OPEN));
            assert_eq!(open.choice, Choice::Unclear);
            assert_eq!(open.strategy.to_string(), strategy);
            let said = open.sentence();
            for part in [
                &format!("No strategy can be told from random with these seeds. {strategy} is"),
                buy,
                &format!("About 40 seeds would settle {strategy}."),
            ] {
                assert!(said.contains(part), "{said}");
            }
        }
    }

    #[test]
    fn nothing_is_expected_where_it_may_lose() {
        let heads = || experiment("heads");
        let humans = |model| Experiment { annotator: Annotator::Human, ..experiment(model) };
        let texts = |model| Experiment { pool: Side::Text, ..experiment(model) };
        let world = Some(crate::World { junk: 0.1, ..crate::World::default() });
        let junk = |model| Experiment { world: world.clone(), ..experiment(model) };
        let open = || scale(&OPEN);
        // Where items may not be captioned, those are avoided.
        for (experiment, strategy) in [
            (humans("heads"), "v-optimal+usable"),
            (texts("heads"), "v-optimal"),
            (junk("heads"), "v-optimal+usable"),
        ] {
            assert_eq!(advice(experiment, open()).strategy.to_string(), strategy);
        }
        // It was worse than random, or was not tried; others may pay.
        let worse = scale(&[("v-optimal", 0.2, 0.1), ("herding", -0.01, 0.1)]);
        let untried = scale(&[("herding", -0.01, 0.1)]);
        let mut unmeasured = scale(&[("v-optimal", -0.01, 0.1)]);
        unmeasured.strategies[0].worth = None;
        for (experiment, scale) in [
            (humans("text-imram"), open()),
            (texts("text-imram"), open()),
            (junk("text-imram"), open()),
            (heads(), worse),
            (heads(), untried),
            (heads(), unmeasured),
        ] {
            let found = advice(experiment, scale);
            assert_eq!(found.choice, Choice::Unclear);
            assert!(found.strategy.is_random() && found.expected.is_none(), "{found:?}");
        }
    }

    #[test]
    fn models_near_chance_advise_nothing() {
        let near_chance = NearChance { models: 20, of: 24 };
        let found = advice(experiment("heads"), Scale { near_chance, ..scale(&OPEN) });
        assert!(found.strategy.is_random() && found.expected.is_none(), "{found:?}");
        let says = "Do not buy by this model yet: in the rehearsal 20 of 24 models";
        assert!(found.sentence().starts_with(says), "{}", found.sentence());
        assert_eq!(found.headline(), "Do not buy by this model yet.");
        assert!(!found.decides());
        let few = NearChance { models: 2, of: 24 };
        let found = advice(experiment("heads"), Scale { near_chance: few, ..scale(&OPEN) });
        assert_eq!(found.strategy.to_string(), "v-optimal");
    }

    #[test]
    fn what_is_clear_needs_no_expectation() {
        let clear = scale(&[("core-set", -0.05, 0.01), ("novelty", -0.01, 0.1)]);
        let clear = advice(experiment("heads"), clear);
        assert_eq!((clear.strategy.to_string(), clear.expected), ("core-set".to_owned(), None));
        let as_good = advice(experiment("heads"), scale(&[("novelty", -0.001, 0.01)]));
        assert_eq!(as_good.choice, Choice::RandomIsAsGood);
        assert!(as_good.strategy.is_random() && as_good.expected.is_none());
    }
}
