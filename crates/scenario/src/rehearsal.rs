//! Buying on paper first: which strategy pays, found out on what is already paired.
//!
//! A rehearsal hides a part of the paired items and lets every strategy buy a batch of them back,
//! with the model of the user and for several seeds. It does so twice, with a quarter and with a
//! half of the items as the start, because a rehearsal is smaller than the real thing and the
//! answer may depend on the size. Models are tested on dev, so that the test split stays unseen.
//!
//! Seeds come in batches, with a look after each. The looks share the 5 % of error that one look
//! would have ([`Looks`]), so stopping early does not make wrong answers likelier.
//!
//! Where all seeds leave the answer open, what is expected to pay with models of the same kind is taken ([`Prior`]), unless
//! the rehearsal speaks against it.

mod advice;
mod prior;

use std::fs;
use std::path::{Path, PathBuf};

use nextpair_data::dataset::{DEV, Dataset, DrawnSplits};
use nextpair_data::{Amount, Progress};
use nextpair_engine::{BuiltIn, CoreSet, HardNegative, Herding, LeastSimilar, Novelty};
use nextpair_models::{Config, Corpus, Training, Unused};

use crate::plan::Plan;
use crate::run::{corpus_of, no_words, unused};
use crate::statistics::Looks;
use crate::{
    Analysis, Annotator, Arm, Error, Experiment, ExperimentFolder, ExperimentKeys, Options,
    Scenario, Splits, Study, Test,
};
pub use advice::{Advice, Choice, Scale, StrategyAdvice};
pub use prior::Prior;

/// What to rehearse.
#[derive(Clone, Debug)]
pub struct RehearsalSettings {
    /// Dataset, model, training and features; strategies with at least one that is not random. Its
    /// initial items, budget, rounds, seeds, annotator and test are those of the rehearsal instead.
    pub experiment: Experiment,
    /// Captions that are to be bought for real.
    pub budget: usize,
    /// Seeds at most.
    pub seeds: usize,
}

impl RehearsalSettings {
    /// Returns the rehearsal of an experiment. Unless its keys name strategies, it compares the
    /// [usual ones](Self::usual_strategies).
    pub fn new(
        keys: ExperimentKeys,
        (model, training): (Config, Training),
        budget: usize,
        seeds: usize,
    ) -> Result<Self, Error> {
        let named = keys.strategies.is_some();
        let mut experiment = Experiment::resolve(keys, model, training)?;
        if !named {
            experiment.strategies = Self::usual_strategies(&experiment.model);
        }
        Ok(RehearsalSettings { experiment, budget, seeds })
    }

    /// Tests on this share of the paired training items, which are drawn by their ids and bought no more.
    /// The dataset stays as it is: `folder` gets one with this split.
    pub fn with_dev(mut self, share: f64, folder: &Path) -> Result<Self, Error> {
        let splits = DrawnSplits::new(share, 0.0)?;
        let experiment = &mut self.experiment;
        let dataset = Dataset::open(&experiment.dataset)?;
        fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        let place = folder.join("dataset");
        experiment.dataset = std::path::absolute(&place).map_err(|e| Error::io(&place, e))?;
        dataset.with_splits(&experiment.dataset, splits)?;
        experiment.only.retain(|id| splits.split_of(id, None).is_none());
        Ok(self)
    }

    /// Returns the captions that are neither bought nor learned from, because features are missing.
    pub fn unused(&self) -> Result<Vec<Unused>, Error> {
        Ok(unused(&self.experiment, &corpus_to_count(&self.experiment)?))
    }

    /// Returns the strategies to compare unless others are named: the default one, one of every kind that has
    /// paid somewhere, and what is expected to pay with this kind of model.
    pub fn usual_strategies(model: &Config) -> Vec<Arm> {
        let mut arms = vec![
            Arm::new(BuiltIn::default()),
            Arm::new(HardNegative::default()),
            Arm::new(CoreSet::default()),
            Arm::new(Herding::default()),
            Arm::new(Novelty::default()),
            Arm::new(LeastSimilar::default()),
        ];
        let expected = Prior::with(model.kind()).strategy;
        arms.extend(Some(expected).filter(|arm| !arms.contains(arm)));
        arms
    }

    /// Returns the rehearsal of the first batch of an experiment: with what the experiment has paired
    /// by then, for its model and its budget.
    pub fn before(experiment: &Experiment, seeds: usize) -> Result<Self, Error> {
        if experiment.splits == Splits::Redraw {
            let what = "redraw: a rehearsal keeps the splits of the dataset";
            return Err(Error::setting("splits", what));
        }
        if experiment.rounds == 0 {
            return Err(Error::setting("rounds", "is 0: there is no batch to rehearse"));
        }
        let corpus = corpus_to_count(experiment)?;
        let plan = Plan::new(experiment, &corpus)?;
        let all = corpus.dataset().items();
        let seed = experiment.seeds.first().copied().unwrap_or(0);
        let only = plan.start(seed).iter().map(|&item| all.get(item).id).collect();
        let budget = plan.budget(1);
        let strategies = Self::usual_strategies(&experiment.model);
        let experiment = Experiment { strategies, only, ..experiment.clone() };
        Ok(RehearsalSettings { experiment, budget, seeds })
    }
}

/// A rehearsal in a folder of its own. Opened again, it goes on where it stopped.
pub struct Rehearsal {
    folder: PathBuf,
    settings: RehearsalSettings,
    options: Options,
    /// Paired items.
    paired: usize,
    looks: Looks,
    /// The look that is next.
    look: usize,
    /// Scales that have been run for it.
    scales: usize,
}

/// Starts of a rehearsal, as shares of the paired items. The last one decides: it is closest to
/// the real thing.
const STARTS: [f64; 2] = [0.25, 0.5];
/// Size of a batch relative to the start, at least: a smaller one would not show.
const LEAST: f64 = 0.1;
/// Size of a batch relative to what is hidden, at most: strategies differ in what they leave.
const MOST: f64 = 0.5;
/// Fewest paired items that can be divided so.
const FEWEST: usize = 40;
/// Numbers of seeds after which to look.
const LOOKS: [usize; 8] = [4, 6, 8, 12, 16, 24, 32, 48];

impl Rehearsal {
    /// Opens a rehearsal in a new folder, or one that was begun with the same settings.
    pub fn open(
        folder: &Path,
        settings: RehearsalSettings,
        options: &Options,
    ) -> Result<Self, Error> {
        if settings.experiment.strategies.iter().all(Arm::is_random) {
            let what = "a rehearsal compares others with random; name at least one that is not";
            return Err(Error::setting("strategies", what));
        }
        if settings.budget == 0 {
            return Err(Error::setting("budget", "is 0; at least 1 is needed"));
        }
        let mut seeds: Vec<usize> =
            LOOKS.into_iter().filter(|&seeds| seeds < settings.seeds).collect();
        seeds.push(settings.seeds);
        let few = || {
            let what = format!("{} seeds; at least {} are needed", settings.seeds, LOOKS[0]);
            Error::setting("seeds", what)
        };
        let looks = Looks::new(&seeds).filter(|_| settings.seeds >= LOOKS[0]).ok_or_else(few)?;
        let paired = count_paired(&settings.experiment)?;
        fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        let folder = folder.to_path_buf();
        let options = options.clone();
        Ok(Rehearsal { folder, settings, options, paired, looks, look: 0, scales: 0 })
    }

    /// Returns the experiment to run next, or `None` when the answer is clear or the seeds are used
    /// up. Run it and drop it before asking again.
    pub fn next(&mut self, progress: &dyn Progress) -> Result<Option<Scenario>, Error> {
        if self.scales == STARTS.len() {
            let last = self.look + 1 == self.looks.seeds().len();
            if last || self.advice()?.is_clear() {
                return Ok(None);
            }
            (self.look, self.scales) = (self.look + 1, 0);
        }
        let scale = self.scales;
        self.scales += 1;
        self.scenario(scale, progress).map(Some)
    }

    /// Returns what the seeds so far say.
    pub fn advice(&self) -> Result<Advice, Error> {
        let error = self.looks.error(self.look);
        let mut scales = Vec::with_capacity(STARTS.len());
        for start in STARTS {
            let mut study = Study::open(&self.place(start))?;
            // Seeds of a longer rehearsal in the same folder do not count at an earlier look.
            let seeds = self.looks.seeds()[self.look] as u64;
            study.rounds.retain(|round| round.seed < seeds);
            let found = Analysis::with_error(&[study], false, None, error)?;
            let run = found.runs.into_iter().next();
            scales.push(run.ok_or_else(|| Error::file(&self.folder, "nothing has been run"))?);
        }
        let used = self.looks.seeds()[self.look];
        Advice::of(&self.settings, self.paired, (used, self.settings.seeds), &scales)
    }

    /// Returns what the seeds so far say, if a look at them is due.
    pub fn standing(&self) -> Result<Option<Advice>, Error> {
        (self.scales == STARTS.len()).then(|| self.advice()).transpose()
    }

    /// Returns the steps of progress of all seeds.
    pub fn work(&self) -> u64 {
        STARTS.iter().map(|start| self.work_of(*start, self.settings.seeds)).sum()
    }

    /// Returns the steps of progress that are done when the experiment that was returned last is.
    pub fn work_so_far(&self) -> u64 {
        let seeds = self.looks.seeds();
        let before = self.look.checked_sub(1).map_or(0, |look| seeds[look]);
        let of = |(scale, start): (usize, &f64)| {
            let is_run = scale < self.scales;
            self.work_of(*start, if is_run { seeds[self.look] } else { before })
        };
        STARTS.iter().enumerate().map(of).sum()
    }

    /// Returns the steps of progress of some seeds with this start: the pairs of all epochs.
    fn work_of(&self, start: f64, seeds: usize) -> u64 {
        let Experiment { training, strategies, .. } = &self.settings.experiment;
        let first = Amount::Share(start).whole_of(self.paired);
        let later = with_random_arms(strategies).len() * (first + self.batch(start));
        (seeds * (first + later) * training.epochs) as u64
    }

    /// Returns how many items are bought after this start: what is to be bought for real, as far as a
    /// rehearsal can tell strategies apart by it.
    fn batch(&self, start: f64) -> usize {
        let first = Amount::Share(start).whole_of(self.paired);
        let most = (MOST * (self.paired - first) as f64) as usize;
        let least = (LEAST * first as f64).ceil() as usize;
        self.settings.budget.clamp(least, most)
    }

    /// Returns how many rounds of a rehearsal in `folder` are done.
    pub fn rounds_kept(folder: &Path) -> usize {
        let rounds = |start: &f64| Study::open(&place(folder, *start)).map(|s| s.rounds.len());
        STARTS.iter().filter_map(|start| rounds(start).ok()).sum()
    }

    fn place(&self, start: f64) -> PathBuf {
        place(&self.folder, start)
    }

    fn scenario(&self, scale: usize, progress: &dyn Progress) -> Result<Scenario, Error> {
        let place = self.place(STARTS[scale]);
        let experiment = self.experiment(STARTS[scale]);
        if ExperimentFolder::new(&place).manifest().exists() {
            Scenario::resume(&place, Some(experiment), &self.options)
        } else {
            Scenario::create(&place, experiment, &self.options, progress)
        }
    }

    /// Returns the experiment with this start, for the seeds of the look.
    fn experiment(&self, start: f64) -> Experiment {
        let mut experiment = self.settings.experiment.clone();
        experiment.strategies = with_random_arms(&experiment.strategies);
        experiment.initial = Amount::Share(start);
        experiment.budget = Amount::Count(self.batch(start));
        experiment.rounds = 1;
        experiment.seeds = (0..self.looks.seeds()[self.look] as u64).collect();
        experiment.annotator = Annotator::Oracle;
        experiment.evaluation = Test { split: DEV.to_owned(), folds: vec![1] };
        // Dev is the test here, so it must not choose the epoch.
        experiment.training.validate_last = 0;
        experiment
    }
}

/// Returns the folder of the experiment with this start.
fn place(folder: &Path, start: f64) -> PathBuf {
    folder.join(format!("start-{}", 100.0 * start))
}

/// Returns the number of paired items, if a rehearsal is possible with them.
fn count_paired(experiment: &Experiment) -> Result<usize, Error> {
    let corpus = corpus_to_count(experiment)?;
    let folder = corpus.dataset().folder();
    if corpus.dev_items(1).is_empty() {
        let what = "there is no split dev with image features and captions, on which a rehearsal \
                    tests its models; `nextpair rehearse --dev 0.2` tests on a fifth of the paired \
                    items, and `nextpair import --dev 0.1` makes a dataset with a split dev";
        return Err(Error::file(folder, what));
    }
    let whole = corpus.training_items().into_iter().filter(|&item| corpus.is_whole(item)).count();
    let paired = if experiment.only.is_empty() { whole } else { experiment.only.len() };
    if paired < FEWEST {
        let what = format!(
            "{paired} training items are paired; a rehearsal hides most of them and needs at least \
             {FEWEST}"
        );
        return Err(Error::file(folder, what));
    }
    Ok(paired)
}

/// Opens the dataset of an experiment to count its items, without a vocabulary.
fn corpus_to_count(experiment: &Experiment) -> Result<Corpus, Error> {
    let dataset = Dataset::open(&experiment.dataset)?;
    let words = experiment.model.reads_words().then(no_words);
    corpus_of(experiment, dataset, words.as_ref())
}

/// Returns the strategies behind two random ones, whose mean is the baseline.
fn with_random_arms(strategies: &[Arm]) -> Vec<Arm> {
    let random: [Arm; 2] = [Arm::random(1), Arm::random(2)];
    let others = strategies.iter().copied().filter(|arm| !random.contains(arm));
    random.into_iter().chain(others).collect()
}
