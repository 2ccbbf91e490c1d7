//! The keys of an experiment file as flags.

use std::path::PathBuf;

use crate::data::Side;
use crate::scenario::{Amount, Annotator, Bow, ExperimentKeys, Noise, Splits, Test, VocabularyOf};
use anyhow::{Result, bail};

use crate::program::inputs::sides;
use crate::program::seeds::Seeds;

#[derive(clap::Args)]
#[command(next_help_heading = "Experiment (each overrides the key of the file)")]
pub(super) struct KeyArgs {
    /// The dataset
    #[arg(long, value_name = "DATASET")]
    dataset: Option<PathBuf>,
    /// The half that unpaired items have [default: image]
    #[arg(long, value_parser = sides())]
    pool: Option<Side>,
    /// Items paired from the start: a count, or a share of the training items. With 0, strategies choose the
    /// first batch too, without pairs or a trained model [default: 0.3; human annotators: all that are paired]
    #[arg(long, value_name = "N|SHARE", value_parser = initial)]
    initial: Option<Amount>,
    /// Items paired in every round [default: 0.05]
    #[arg(long, value_name = "N|SHARE")]
    budget: Option<Amount>,
    /// How often a batch is bought [default: 3]
    #[arg(long, value_name = "E")]
    rounds: Option<usize>,
    /// Strategies with their settings, such as random,hard-negative+mini-2560+top-5+count, or
    /// all-conditions for the paper's twelve, or auto for what a rehearsal finds to pay; random-2, random-3 and so on draw again, for a baseline
    /// with less noise and a null control [default: random,v-optimal]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    strategies: Option<Vec<String>>,
    /// Seeds: a list, or a range such as 0..5 [default: 0]
    #[arg(long, value_name = "LIST")]
    seeds: Option<Seeds>,
    /// Who pairs [default: oracle]
    #[arg(long, value_enum)]
    annotator: Option<AnnotatorName>,
    /// Noisy annotators: items that get the other half of any other item, as a share
    #[arg(long, value_name = "SHARE")]
    wrong: Option<f64>,
    /// Noisy annotators: items whose other halves are exchanged, as a share
    #[arg(long, value_name = "SHARE")]
    swapped: Option<f64>,
    /// What it costs to pair an item, for estimates
    #[arg(long, value_name = "X")]
    price: Option<f64>,
    /// The image features [default: the last that were added]
    #[arg(long, value_name = "NAME")]
    features: Option<String>,
    /// Heads: the text features [default: the last that were added]
    #[arg(long, value_name = "NAME")]
    text_features: Option<String>,
    /// The words to know: a file, or paired for those of the captions that are paired from the
    /// start [default: those of train and dev]
    #[arg(long, value_name = "FILE|paired")]
    vocabulary: Option<PathBuf>,
    /// +queries: what people search for, as lines of text, or vectors like the text features (.npy)
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// A word that is not from a file was seen this often [default: 4]
    #[arg(long, value_name = "N")]
    min_count: Option<u64>,
    /// Which items are train, dev and test: those of the dataset, or drawn anew for every seed, so that
    /// intervals hold for new test images too [default: dataset]
    #[arg(long, value_enum)]
    splits: Option<SplitsName>,
    /// +bow: regions that k-means finds the visual words of [default: 30000]
    #[arg(long, value_name = "N")]
    bow_sample: Option<usize>,
    /// +bow: rounds of k-means at most [default: 20]
    #[arg(long, value_name = "N")]
    bow_iterations: Option<usize>,
    /// +bow: find the visual words once for all rounds and seeds, not for every selection
    #[arg(long)]
    bow_once: bool,
    /// The split that models are tested on [default: test]
    #[arg(long, value_name = "NAME")]
    split: Option<String>,
    /// Parts that the test is done in, averaged; 1,5 does it both ways [default: 1]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    folds: Option<Vec<usize>>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SplitsName {
    Dataset,
    Redraw,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AnnotatorName {
    Oracle,
    Noisy,
    Human,
}

/// Parses the items paired from the start; there need not be any.
fn initial(text: &str) -> Result<Amount, String> {
    if text == "0" { Ok(Amount::Count(0)) } else { text.parse() }
}

impl KeyArgs {
    /// Returns the keys that were given as flags. A flag for one part of a table in the file keeps
    /// the other parts of the table.
    pub(super) fn given(&self, file: &ExperimentKeys) -> Result<ExperimentKeys> {
        let noise = self.wrong.is_some() || self.swapped.is_some();
        let annotator = match self.annotator {
            Some(AnnotatorName::Oracle) if !noise => Some(Annotator::Oracle),
            Some(AnnotatorName::Human) if !noise => Some(Annotator::Human),
            None if !noise => None,
            Some(AnnotatorName::Noisy) | None => {
                let usual = match file.annotator {
                    Some(Annotator::Noisy(noise)) => noise,
                    _ => Noise::default(),
                };
                Some(Annotator::Noisy(Noise {
                    wrong: self.wrong.unwrap_or(usual.wrong),
                    swapped: self.swapped.unwrap_or(usual.swapped),
                }))
            }
            _ => bail!("--wrong and --swapped are for --annotator noisy"),
        };
        let evaluation = match (&self.split, &self.folds) {
            (None, None) => None,
            (split, folds) => {
                let usual = file.evaluation.clone().unwrap_or_default();
                Some(Test {
                    split: split.clone().unwrap_or(usual.split),
                    folds: folds.clone().unwrap_or(usual.folds),
                })
            }
        };
        let bow = match (self.bow_sample, self.bow_iterations, self.bow_once) {
            (None, None, false) => None,
            (sample, iterations, once) => {
                let usual = file.bow.unwrap_or_default();
                Some(Bow {
                    sample: sample.unwrap_or(usual.sample),
                    iterations: iterations.unwrap_or(usual.iterations),
                    once: once || usual.once,
                })
            }
        };
        Ok(ExperimentKeys {
            dataset: self.dataset.clone(),
            pool: self.pool,
            initial: self.initial,
            budget: self.budget,
            rounds: self.rounds,
            strategies: self.strategies.clone(),
            seeds: self.seeds.clone().map(|Seeds(seeds)| seeds),
            annotator,
            price: self.price,
            features: self.features.clone(),
            text_features: self.text_features.clone(),
            vocabulary: self.vocabulary.clone().map(VocabularyOf::from),
            queries: self.queries.clone(),
            min_count: self.min_count,
            splits: self.splits.map(|name| match name {
                SplitsName::Dataset => Splits::Dataset,
                SplitsName::Redraw => Splits::Redraw,
            }),
            bow,
            world: None,
            evaluation,
            only: None,
        })
    }
}
