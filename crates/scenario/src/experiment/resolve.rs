//! Resolves and checks the settings of an experiment.

use std::path::{Path, PathBuf};

use nextpair_data::text::DEFAULT_MIN_COUNT;
use nextpair_data::{AtomicFile, Side, first_difference, ordinary};
use nextpair_engine::{BuiltIn, ItemFeatures, Needs, Strategy};
use nextpair_models::{Choice, Config, Training};

use super::{Amount, Annotator, Experiment, ExperimentKeys, Splits, VocabularyOf, expand};
use crate::{Error, World};

/// An upper bound on rounds: each one trains a model from scratch.
const MOST_ROUNDS: usize = 10_000;

impl Experiment {
    /// Fills in defaults and checks all settings. Nothing downstream checks them again.
    pub fn resolve(
        keys: ExperimentKeys,
        model: Config,
        mut training: Training,
    ) -> Result<Self, Error> {
        model.check()?;
        training.check()?;
        // Every repetition sets its own.
        training.seed = 0;
        let annotator = keys.annotator.unwrap_or_default();
        let human = annotator == Annotator::Human;
        let dataset = keys.dataset.ok_or_else(|| Error::setting("dataset", "is missing"))?;
        let dataset = std::path::absolute(&dataset).map_err(|e| Error::io(&dataset, e))?;
        let strategies = keys.strategies.unwrap_or_else(|| {
            let usual = BuiltIn::default().to_string();
            if human { vec![usual] } else { vec!["random".to_owned(), usual] }
        });
        let vocabulary = keys.vocabulary.map(|words| match words {
            VocabularyOf::File(path) => {
                VocabularyOf::File(std::path::absolute(&path).unwrap_or(path))
            }
            VocabularyOf::Paired => VocabularyOf::Paired,
        });
        let experiment = Experiment {
            dataset,
            pool: keys.pool.unwrap_or(Side::Image),
            // With human annotators there are no hidden halves: all paired items count as paired.
            initial: keys.initial.unwrap_or(Amount::Share(if human { 1.0 } else { 0.3 })),
            budget: keys.budget.unwrap_or(Amount::Share(0.05)),
            rounds: keys.rounds.unwrap_or(3),
            strategies: expand(&strategies).map_err(|what| Error::setting("strategies", what))?,
            seeds: keys.seeds.unwrap_or_else(|| vec![0]),
            annotator,
            price: keys.price,
            features: keys.features,
            text_features: keys.text_features,
            vocabulary,
            queries: keys.queries.map(|path| std::path::absolute(&path).unwrap_or(path)),
            min_count: keys.min_count.unwrap_or(DEFAULT_MIN_COUNT),
            splits: keys.splits.unwrap_or_default(),
            bow: keys.bow.unwrap_or_default(),
            world: keys.world.map(World::at_home),
            evaluation: keys.evaluation.unwrap_or_default(),
            only: keys.only.unwrap_or_default(),
            model,
            training,
        };
        experiment.check()?;
        Ok(experiment)
    }

    /// Checks that every strategy can pick the first batch by an untrained model.
    fn check_without_pairs(&self) -> Result<(), Error> {
        for arm in &self.strategies {
            let needs = arm.strategy.needs();
            let what = match needs {
                Needs { matching: Some(_), .. } => "compares the pool with pairs",
                Needs { features: Some(ItemFeatures::Encoded), .. } => {
                    "looks at what a trained model makes of items"
                }
                Needs { queries: true, .. } if self.queries.is_some() => {
                    "compares queries with items by a trained model"
                }
                _ => continue,
            };
            let what =
                format!("{arm} {what}, and with initial = 0 there is none before the first batch");
            return Err(Error::setting("strategies", what));
        }
        Ok(())
    }

    /// Checks that a text buys one pair. The price of a text is one image, so it must not gain a
    /// pair for every caption of that image.
    fn check_price_of_a_text(&self) -> Result<(), Error> {
        let simulated = self.annotator != Annotator::Human;
        if simulated && self.pool == Side::Text && self.training.captions == Choice::All {
            let what = "all: the pool is of texts, and one that is bought would bring the other \
                        captions of its image along unpaid; take random or first";
            return Err(Error::setting("captions", what));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        match self.initial {
            Amount::Count(0) => self.check_without_pairs()?,
            initial => initial.check().map_err(|what| Error::setting("initial", what))?,
        }
        self.budget.check().map_err(|what| Error::setting("budget", what))?;
        if self.rounds > MOST_ROUNDS {
            let what = format!("{} is more than {MOST_ROUNDS}", self.rounds);
            return Err(Error::setting("rounds", what));
        }
        if self.strategies.is_empty() {
            return Err(Error::setting("strategies", "there is none"));
        }
        if self.seeds.is_empty() {
            return Err(Error::setting("seeds", "there is none"));
        }
        self.check_price_of_a_text()?;
        let twice = |at: &usize| self.seeds[..*at].contains(&self.seeds[*at]);
        if let Some(at) = (0..self.seeds.len()).find(twice) {
            return Err(Error::setting("seeds", format!("{} is there twice", self.seeds[at])));
        }
        if let Some(seed) = self.seeds.iter().find(|&&seed| i64::try_from(seed).is_err()) {
            return Err(Error::setting("seeds", format!("{seed} is more than {}", i64::MAX)));
        }
        for (what, number) in [("sample", self.bow.sample), ("iterations", self.bow.iterations)] {
            if number == 0 {
                return Err(Error::setting("bow", format!("{what} is 0; at least 1 is needed")));
            }
        }
        if self.evaluation.folds.is_empty() || self.evaluation.folds.contains(&0) {
            return Err(Error::setting("folds", "at least one number, each 1 or more"));
        }
        if let Some(price) = self.price.filter(|price| !(price.is_finite() && *price >= 0.0)) {
            return Err(Error::setting("price", format!("{price} is not a price")));
        }
        if self.vocabulary == Some(VocabularyOf::Paired) && !self.model.reads_words() {
            let what = format!("{} takes text features, not words", self.model.name());
            return Err(Error::setting("vocabulary", what));
        }
        self.check_queries()?;
        if let Some(world) = &self.world {
            world.check(self)?;
        }
        match self.annotator {
            Annotator::Oracle => {}
            Annotator::Noisy(noise) => {
                let share = |share: f64| (0.0..=1.0).contains(&share);
                let (wrong, swapped) = (noise.wrong, noise.swapped);
                if !(share(wrong) && share(swapped) && wrong + swapped <= 1.0) {
                    let what = format!("wrong {wrong} and swapped {swapped} are not shares of one");
                    return Err(Error::setting("annotator", what));
                }
            }
            Annotator::Human => self.check_human()?,
        }
        Ok(())
    }

    fn check_human(&self) -> Result<(), Error> {
        let (strategies, seeds) = (self.strategies.len(), self.seeds.len());
        if (strategies, seeds) != (1, 1) {
            let what = format!(
                "people pair one batch at a time: {strategies} strategies and {seeds} seeds would \
                 ask them for {} each round",
                strategies * seeds
            );
            return Err(Error::setting("annotator", what));
        }
        if self.splits == Splits::Redraw {
            let what = "redraw is for simulated annotators: people pair what is unpaired";
            return Err(Error::setting("splits", what));
        }
        Ok(())
    }

    /// Returns the settings that an experiment cannot change. The dataset is compared by content,
    /// not by path. With human annotators, strategies and seeds are fixed too: answers to one
    /// strategy do not serve another.
    pub(crate) fn fixed(&self) -> Result<toml::Table, Error> {
        let human = self.annotator == Annotator::Human;
        let fixed = Experiment {
            dataset: PathBuf::new(),
            strategies: if human { self.strategies.clone() } else { Vec::new() },
            seeds: if human { self.seeds.clone() } else { Vec::new() },
            rounds: 0,
            price: None,
            ..self.clone()
        };
        toml::Table::try_from(fixed).map_err(|e| Error::setting("experiment", e.to_string()))
    }

    /// Checks that an experiment may change into `other`. The error names the first fixed setting
    /// that differs.
    pub(crate) fn may_become(&self, other: &Experiment) -> Result<(), Error> {
        match first_difference(&self.fixed()?, &other.fixed()?, "") {
            None => Ok(()),
            Some(what) => Err(Error::setting(
                "experiment",
                format!("{what}; an experiment keeps its settings, name another folder with --out"),
            )),
        }
    }

    /// Returns the default choice of captions: one per image, as in the paper.
    pub fn default_captions() -> Choice {
        Choice::Random
    }

    /// Reads a file written by [`write`](Self::write).
    pub(crate) fn read_resolved(path: &Path) -> Result<Self, Error> {
        let text = ordinary::read_text(path)?;
        let experiment: Experiment = toml::from_str(&text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count();
            Error::line(path, line, e.message())
        })?;
        experiment.model.check()?;
        experiment.training.check()?;
        experiment.check()?;
        Ok(experiment)
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let text = toml::to_string(self).map_err(|e| Error::file(path, e.to_string()))?;
        Ok(AtomicFile::write_whole(path, text.as_bytes())?)
    }
}
