//! The evidence of experiments: recall by round, differences to random, time.
//!
//! Pure functions of the folders of experiments. `results.json` and the report show their result.

mod arm;
mod compared;
mod difference;
mod judge;
mod lanes;
mod new_images;
mod other_tests;
mod pooling;
mod recommendation;
mod seeds;
mod table;
mod time;

use std::path::PathBuf;

use nextpair_data::Side;
use nextpair_models::ModelKind;
use serde::{Serialize, Serializer};

use crate::statistics::{CONFIDENCE, Estimate};
use crate::{Annotator, Arm, Backtest, Error, Forecast, Splits, Study, World};
pub(crate) use arm::{log_rank, r1};
pub use compared::Baseline;
use compared::Compared;
pub use difference::{Difference, Reached, Scrutiny, SeedDifference};
use judge::judge;
pub(crate) use lanes::Lanes;
pub use recommendation::{MOST_SEEDS, NextBatch, Reason, Recommendation};
pub use time::{PhaseTime, Time};

/// The version of `results.json`.
const VERSION: u32 = 2;

/// The percentage of picks without their other half from which on there is a warning.
const REFUSED_PERCENT_TO_WARN: f64 = 5.0;

/// The evidence of one experiment, of several pooled ones, or of several side by side.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// The version of the format, 2.
    pub nextpair_report: u32,
    /// The version of nextpair that wrote the results.
    pub version: String,
    /// One entry, unless experiments are compared.
    pub runs: Vec<Evidence>,
}

/// Writes paths for readers: JSON cannot hold names that are not UTF-8.
fn as_text<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// The evidence of one experiment, or of several with the same settings.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// The name of the folder.
    pub label: String,
    /// The folders of the experiments.
    #[serde(serialize_with = "as_text")]
    pub folders: Vec<PathBuf>,
    /// The name of the dataset.
    pub dataset: String,
    /// Whether a program generated the dataset.
    pub synthetic: bool,
    /// Number of items that could be paired.
    pub items: usize,
    /// The side of the unpaired items.
    pub pool: Side,
    /// The name of the model.
    pub model: String,
    /// What kind of model it is.
    pub kind: ModelKind,
    /// The annotator.
    pub annotator: Annotator,
    /// The test split and its size. With several tests, this is the first one, which decides.
    pub test: TestSet,
    /// Number of dev images that chose the best of the last epochs. Without any, the weights of the
    /// last epoch were kept.
    pub validation_images: Option<usize>,
    /// Number of last epochs whose weights were averaged, in which case no epoch was chosen.
    pub averaged_epochs: usize,
    /// Planned number of rounds.
    pub rounds: usize,
    /// Size of the next batch.
    pub next_batch: usize,
    /// The price of pairing an item.
    pub price: Option<f64>,
    /// The currency of the price, if it was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// All seeds, finished or not.
    pub seeds: Vec<u64>,
    /// Whether every seed has test images of its own: intervals over seeds then hold for new images too.
    pub splits: Splits,
    /// How the pool differed from the dataset, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub world: Option<World>,
    /// The strategies that the others are compared with: the mean of all random ones if there are any,
    /// else the first.
    pub baseline: Baseline,
    /// Models after the last finished round that are near chance on the test.
    #[serde(skip_serializing_if = "NearChance::is_none")]
    pub near_chance: NearChance,
    /// What to do next. `None` while no round is finished.
    pub recommendation: Option<Recommendation>,
    /// The evidence of every strategy, in the order of the experiment.
    pub arms: Vec<ArmEvidence>,
    /// Time by phase.
    pub time: Time,
    /// The evidence by the other tests of the same experiments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_tests: Vec<Evidence>,
}

/// Models that find right answers no more often than chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NearChance {
    /// Number of such models.
    pub models: usize,
    /// Number of models with enough test images to tell.
    pub of: usize,
}

impl NearChance {
    fn of(lanes: &Lanes<'_>) -> Self {
        let last = lanes.all().filter_map(|lane| lane.last()?.test.first()?.is_near_chance());
        last.fold(NearChance::default(), |sum, near| NearChance {
            models: sum.models + usize::from(near),
            of: sum.of + 1,
        })
    }

    fn is_none(&self) -> bool {
        self.models == 0
    }

    /// Returns whether most models are.
    pub fn is_most(self) -> bool {
        2 * self.models > self.of
    }
}

/// The test of the models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TestSet {
    /// The name of the split.
    pub split: String,
    /// Number of images.
    pub images: usize,
    /// Number of captions.
    pub captions: usize,
    /// Number of folds.
    pub folds: usize,
    /// The words that a query needs for it to count; empty if all queries count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

/// The evidence of one strategy.
#[derive(Clone, Debug, Serialize)]
pub struct ArmEvidence {
    /// The strategy.
    pub strategy: Arm,
    /// The seeds that finished all rounds. Means are over these seeds, or, while there are none,
    /// over the seeds that finished the round.
    pub finished: Vec<u64>,
    /// Number of paired items after every round.
    pub paired: Vec<f64>,
    /// Number of items paid for after every round: the paired ones, and picks that could not be
    /// captioned. Strategies are compared at equal numbers of them.
    pub bought: Vec<f64>,
    /// Number of picks that could not be captioned, and of all picks.
    pub refused: Refused,
    /// Recall at 1, 5 and 10.
    pub recall: Vec<RecallAt>,
    /// The mean natural logarithm of the rank, by round.
    pub log_rank: Vec<Recalls>,
    /// The mean reciprocal rank, by round.
    pub reciprocal_rank: Vec<Recalls>,
    /// Percentage of the pool with a hit, before the batch that follows each round.
    pub hard_negatives: Vec<Option<Estimate>>,
    /// Number of picks, and of picks that fill a batch without a hit, for strategies that use hits.
    pub without_hit: Option<WithoutHit>,
    /// Seconds to select a batch.
    pub selection_seconds: Option<Estimate>,
    /// Difference to the baseline, seed by seed. A baseline of one strategy has none; of several random
    /// ones, each is compared with the mean of the others: a null control.
    pub difference: Option<Difference>,
    /// The expected gain of the next batch.
    pub forecast: Option<Forecast>,
    /// Forecasts for past batches, with their actual gains.
    pub backtest: Vec<Backtest>,
}

/// Picks without a hit. They fill a batch if fewer items than the budget have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WithoutHit {
    /// Number of picks over all seeds shown.
    pub picks: usize,
    /// Number of picks without a hit.
    pub without: usize,
}

/// Picks that could not be captioned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Number of picks over all seeds shown.
    pub picks: usize,
    /// Number of picks that came back without their other half.
    pub refused: usize,
}

impl Refused {
    /// Returns the percentage of picks that could not be captioned.
    pub fn percent(&self) -> f64 {
        100.0 * self.refused as f64 / self.picks.max(1) as f64
    }

    /// Returns whether they are so many that strategies should be chosen by it.
    pub fn is_much(&self) -> bool {
        self.percent() > REFUSED_PERCENT_TO_WARN
    }
}

/// Recall at one depth.
#[derive(Clone, Debug, Serialize)]
pub struct RecallAt {
    /// The depth: 1, 5 or 10.
    pub k: usize,
    /// Recall by round.
    pub rounds: Vec<Recalls>,
    /// Text and image recall summed over all rounds, for finished seeds.
    pub sum: Option<Estimate>,
}

/// Recall in both directions after a round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recalls {
    /// Recall of captions for images.
    pub text: Estimate,
    /// Recall of images for captions.
    pub image: Estimate,
    /// The sum of both.
    pub both: Estimate,
}

impl Analysis {
    /// Analyses experiments: pooled, or side by side with `compare`. Pooled experiments must have
    /// the same settings, except for their seeds, strategies, rounds and prices, and the path of
    /// their dataset.
    pub fn of(studies: &[Study], compare: bool, price: Option<f64>) -> Result<Self, Error> {
        Self::with_error(studies, compare, price, 1.0 - CONFIDENCE)
    }

    /// Like [`of`](Self::of), with intervals of another error than 5 %: what a look at an experiment
    /// that goes on may [spend](crate::statistics::Looks).
    pub fn with_error(
        studies: &[Study],
        compare: bool,
        price: Option<f64>,
        error: f64,
    ) -> Result<Self, Error> {
        let groups: Vec<Vec<&Study>> = if compare {
            studies.iter().map(|study| vec![study]).collect()
        } else {
            vec![studies.iter().collect()]
        };
        let groups: Vec<_> = groups.into_iter().filter(|group| !group.is_empty()).collect();
        let mut runs = Vec::with_capacity(groups.len());
        for group in &groups {
            pooling::check(group)?;
            let mut evidence = Evidence::of(group, price, 0, error)?;
            evidence.other_tests = Evidence::by_other_tests(group, price, error)?;
            runs.push(evidence);
        }
        pooling::tell_apart(&mut runs);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Analysis { nextpair_report: VERSION, version, runs })
    }
}

impl Evidence {
    /// Analyses one or more experiments with the same settings, by the test of this number. The rounds
    /// hold that test alone or first.
    fn of(
        studies: &[&Study],
        price: Option<f64>,
        test_number: usize,
        error: f64,
    ) -> Result<Self, Error> {
        let first = studies[0];
        let lanes = Lanes::of(studies)?;
        let baseline = Baseline::of(&lanes.arms);
        let compared: Vec<Vec<Compared>> =
            lanes.arms.iter().map(|arm| Compared::all(&lanes, arm, &baseline)).collect();
        let mut differences = judge(studies, &lanes, (&baseline, &compared), test_number, error)?;
        let test = lanes.all().flatten().find_map(|round| round.test.first());
        let dev = lanes.all().flatten().find_map(|round| round.dev);
        let price = price.or_else(|| studies.iter().find_map(|study| study.experiment.price));
        let next_batch = next_batch(first);
        let mut evidence = Evidence {
            label: pooling::label(studies),
            folders: studies.iter().map(|study| study.folder.path().to_path_buf()).collect(),
            dataset: first.manifest.dataset.clone(),
            synthetic: first.manifest.synthetic,
            items: first.manifest.items,
            pool: first.experiment.pool,
            model: first.experiment.model.name().to_owned(),
            kind: first.experiment.model.kind(),
            annotator: first.experiment.annotator,
            test: TestSet {
                split: first.experiment.evaluation.split.clone(),
                images: test.map_or(0, |test| test.images),
                captions: test.map_or(0, |test| test.captions),
                folds: test.map_or(1, |test| test.folds),
                words: first.words().to_vec(),
            },
            validation_images: dev.map(|dev| dev.images),
            averaged_epochs: first.experiment.training.average_last,
            rounds: lanes.rounds,
            next_batch,
            price,
            currency: None,
            seeds: lanes.seeds.clone(),
            splits: first.experiment.splits,
            world: first.experiment.world.clone(),
            baseline,
            near_chance: NearChance::of(&lanes),
            recommendation: None,
            arms: (lanes.arms.iter().enumerate())
                .map(|(at, arm)| {
                    let difference = differences[at].take();
                    ArmEvidence::of(&lanes, arm, difference, next_batch)
                })
                .collect(),
            time: Time::of(studies.iter().flat_map(|study| &study.rounds)),
            other_tests: Vec::new(),
        };
        evidence.recommendation = evidence.recommend();
        let advice = format!("{} {}", evidence.headline(), evidence.because());
        evidence.recommendation.iter_mut().for_each(|found| found.advice.clone_from(&advice));
        Ok(evidence)
    }

    /// Returns the name of a strategy in comparisons: null controls are marked.
    pub fn compared_name(&self, arm: &ArmEvidence) -> String {
        let control = if self.baseline.has_control(&arm.strategy) { ", null control" } else { "" };
        format!("{}{control}", arm.strategy)
    }
}

impl ArmEvidence {
    /// Returns R@1 by round. Empty if no round has finished.
    pub fn r1(&self) -> &[Recalls] {
        self.recall.first().map_or(&[], |recall| &recall.rounds)
    }
}

/// Returns the size of a batch.
fn next_batch(study: &Study) -> usize {
    study.experiment.budget.whole_of(study.manifest.items)
}

#[cfg(test)]
mod tests;
