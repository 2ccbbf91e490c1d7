//! Settings of models and training, shared by `train` and `run`: published defaults, then a file,
//! then flags.

#[cfg(test)]
mod tests;

use crate::kernels::{Aggregation, Normaliser};
use crate::models::{
    Choice, Config, Criterion, OptimiserName, Pooling, Reduction, Setting, Training, Violation,
};
use crate::scenario::SettingsFile;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser};

#[derive(clap::Args, Default)]
#[group(id = "model-settings")]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// A model with its published settings
    #[arg(long, value_name = "NAME", value_parser = model_names())]
    model: Option<String>,
    /// With --model: the settings that were published with it for a dataset
    #[arg(long, value_name = "flickr30k|coco", value_parser = preset_names(), hide_possible_values = true)]
    preset: Option<String>,
    /// Dimensions of the joint space [default: 1024; vsrn 2048, heads 256]
    #[arg(long, value_name = "N")]
    dim: Option<usize>,
    /// Dimensions of a word before the recurrent unit [default: 300]
    #[arg(long, value_name = "N")]
    word_dim: Option<usize>,
    /// IMRAM: steps of attention; SGR, SGRAF: of graph reasoning [default: 3]
    #[arg(long, value_name = "K")]
    steps: Option<usize>,
    /// SCAN, IMRAM, NAAF: the temperature of the attention [default: 9; scan-i2t 4; naaf 20]
    #[arg(long, value_name = "X", value_parser = finite)]
    temperature: Option<f64>,
    /// SCAN, IMRAM: how raw scores are normalised: clipped_l2norm, l2norm, clipped_l1norm, l1norm,
    /// clipped, softmax, no_norm [default: clipped_l2norm]
    #[arg(long, value_name = "NAME", hide_possible_values = true)]
    normaliser: Option<NormaliserName>,
    /// SCAN: how the scores of words or regions become one: mean, sum,
    /// max, log-sum-exp=SCALE [default: log-sum-exp=6; scan-i2t 5]
    #[arg(long, value_name = "NAME", value_parser = aggregation)]
    aggregation: Option<Aggregation>,
    /// IMRAM: scale refined queries to unit norm
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    normalise_memory: Option<bool>,
    /// SCAN, IMRAM: learn the image layer as a direction and a scale
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    weight_norm: Option<bool>,
    /// Heads: units of a hidden layer; 0 for none
    #[arg(long, value_name = "N")]
    hidden: Option<usize>,
    /// Heads: an adapter, which adds its output to vectors of --dim dimensions
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    adapter: Option<bool>,
    /// VSE++, VSE0: a caption is the state at its last word, or the mean of all states
    /// [default: last]
    #[arg(long, value_name = "last|mean", hide_possible_values = true)]
    pooling: Option<PoolingName>,
    /// PVSE: vectors of an image or a caption [default: 2]
    #[arg(long, value_name = "K")]
    heads: Option<usize>,
    /// VSRN: also learn to write captions [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    caption_loss: Option<bool>,
}

#[derive(clap::Args)]
#[group(id = "training-settings")]
#[command(next_help_heading = "Training")]
pub(crate) struct TrainingArgs {
    /// Passes over the pairs. Settings of training that are not given are those of the model
    /// [default: 40; heads 120]
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Pairs of a batch [default: 64; heads 128]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// The learning rate at first [default: 2e-4; heads 1e-3]
    #[arg(long, value_name = "X", value_parser = finite)]
    rate: Option<f64>,
    /// Epochs between two decays of the learning rate [default: 20; heads 100]
    #[arg(long, value_name = "N")]
    decay_every: Option<usize>,
    /// The factor of a decay [default: 0.1]
    #[arg(long, value_name = "X", value_parser = finite)]
    decay_factor: Option<f64>,
    /// The optimiser; sgd has Nesterov's momentum [default: adam]
    #[arg(long, value_name = "adam|adamw|amsgrad|sgd", hide_possible_values = true)]
    optimiser: Option<OptimiserValue>,
    /// adamw, sgd: weight decay [default: 0]
    #[arg(long, value_name = "X", value_parser = finite)]
    weight_decay: Option<f64>,
    /// A factor of the learning rate for weights whose names begin so, such as gru.=0.1; 0 freezes them.
    /// May be repeated
    #[arg(long, value_name = "NAME=X", value_parser = rate_factor)]
    rate_factor: Vec<(String, f64)>,
    /// The loss: hinges, InfoNCE in both directions, or cross entropy of scores that are probabilities
    /// [default: hinge; camp cross-entropy; heads info-nce]
    #[arg(long, value_name = "hinge|info-nce|cross-entropy", hide_possible_values = true)]
    loss: Option<CriterionName>,
    /// The margin between a right pair and a wrong one [default: 0.2]
    #[arg(long, value_name = "X", value_parser = finite)]
    margin: Option<f64>,
    /// Which violations count: the hardest, or all [default: max; sum for vse0]
    #[arg(long, value_name = "max|sum", hide_possible_values = true)]
    violation: Option<ViolationName>,
    /// First epochs in which all violations count [default: 0; vse-infinity 1]
    #[arg(long, value_name = "N")]
    sum_epochs: Option<usize>,
    /// Add up the losses of a batch, or average them [default: sum; mean for pvse]
    #[arg(long, value_name = "sum|mean", hide_possible_values = true)]
    reduction: Option<ReductionName>,
    /// Leave out the last batch of an epoch if it is not full [default: true for vse-infinity]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    drop_last: Option<bool>,
    /// The temperature of InfoNCE, from 0.01 to 1 [default: 0.07; heads 0.05]
    #[arg(long, value_name = "X", value_parser = finite)]
    loss_temperature: Option<f64>,
    /// Learn the temperature of InfoNCE, from --loss-temperature on
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    learn_temperature: Option<bool>,
    /// Clip gradients to this norm [default: 2]
    #[arg(long, value_name = "X", value_parser = finite)]
    clip: Option<f64>,
    /// Dropout of features and of word vectors [default: 0; heads 0.7]
    #[arg(long, value_name = "SHARE", value_parser = finite)]
    dropout_inputs: Option<f64>,
    /// Dropout of hidden units and of dimensions of the joint space [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = finite)]
    dropout_states: Option<f64>,
    /// Average the weights of this many last epochs; 0 keeps the best epoch [default: 0]
    #[arg(long, value_name = "N")]
    average_last: Option<usize>,
    /// Last epochs that are evaluated on dev; the best is kept. With --average-last the average is
    /// evaluated, unless this is 0 [default: 10; heads 1]
    #[arg(long, value_name = "N")]
    validate_last: Option<usize>,
    /// Images of dev in this evaluation [default: 1000]
    #[arg(long, value_name = "N")]
    validate_images: Option<usize>,
    /// Which captions of an image make pairs [default: all; random in experiments]
    #[arg(long, value_name = "all|random|first", hide_possible_values = true)]
    captions: Option<ChoiceName>,
}

/// Parses names of models; those of their families are known too.
fn model_names() -> PossibleValuesParser {
    let families =
        Config::other_names().into_iter().map(|name| PossibleValue::new(name).hide(true));
    let names = Config::names().into_iter().map(PossibleValue::new);
    PossibleValuesParser::new(names.chain(families))
}

/// Parses names of datasets with presets.
fn preset_names() -> PossibleValuesParser {
    PossibleValuesParser::new(SettingsFile::preset_names())
}

/// Resolves and checks the settings. Flags override the file, and the file a preset.
pub(crate) fn resolve(
    file: SettingsFile,
    model: &ModelArgs,
    training: &TrainingArgs,
    place: &str,
) -> Result<(Config, Training)> {
    let mut file = file;
    if let Some(name) = &model.model {
        file.model = Some(Config::named(name).context("clap knows the names")?);
    }
    let preset = model.preset()?.and_then(SettingsFile::with_published);
    let preset = preset.map(|(config, training)| (config, file.training_over(training)));
    let Some((mut config, mut settings)) = preset.or_else(|| file.with_published()) else {
        bail!("give --model, or {place} with a table [model]");
    };
    model.settings().into_iter().flatten().try_for_each(|setting| config.set(setting))?;
    training.change(&mut settings);
    config.check()?;
    settings.check()?;
    Ok((config, settings))
}

impl ModelArgs {
    /// Returns a published model, without other flags.
    pub(crate) fn named(name: &str) -> Self {
        ModelArgs { model: Some(name.to_owned()), ..ModelArgs::default() }
    }

    /// Returns the settings that were published for a dataset, if they are asked for.
    pub(crate) fn preset(&self) -> Result<Option<SettingsFile>> {
        let Some(dataset) = &self.preset else { return Ok(None) };
        let model = self.model.as_deref().and_then(Config::named);
        let model = model.context("--preset needs --model, whose settings it says")?;
        Ok(Some(SettingsFile::preset(dataset, model.name())?))
    }

    /// Returns a model with the settings that were given as flags. `--model` keeps the other
    /// settings of a model of that name.
    pub(crate) fn changed(&self, model: Config) -> Result<Config> {
        let named = self.model.as_deref().and_then(Config::named);
        let mut model = named.filter(|named| named.name() != model.name()).unwrap_or(model);
        self.settings().into_iter().flatten().try_for_each(|setting| model.set(setting))?;
        Ok(model)
    }

    /// Returns the model settings that were given as flags.
    fn settings(&self) -> Vec<Option<Setting>> {
        vec![
            self.dim.map(Setting::Dim),
            self.word_dim.map(Setting::WordDim),
            self.steps.map(Setting::Steps),
            self.temperature.map(|temperature| Setting::Temperature(temperature as f32)),
            self.normaliser.map(|name| Setting::Normaliser(name.0)),
            self.aggregation.map(Setting::Aggregation),
            self.normalise_memory.map(Setting::NormaliseMemory),
            self.weight_norm.map(Setting::WeightNorm),
            self.hidden.map(Setting::Hidden),
            self.adapter.map(Setting::Adapter),
            self.pooling.map(|name| Setting::Pooling(name.0)),
            self.heads.map(Setting::Heads),
            self.caption_loss.map(Setting::CaptionLoss),
        ]
    }
}

impl TrainingArgs {
    /// Returns whether `--captions` was given.
    pub(crate) fn says_captions(&self) -> bool {
        self.captions.is_some()
    }

    /// Applies the flags that were given.
    pub(crate) fn change(&self, settings: &mut Training) {
        fn set<T: Copy>(setting: &mut T, typed: Option<T>) {
            *setting = typed.unwrap_or(*setting);
        }
        set(&mut settings.epochs, self.epochs);
        set(&mut settings.batch, self.batch);
        set(&mut settings.rate, self.rate);
        set(&mut settings.decay_every, self.decay_every);
        set(&mut settings.decay_factor, self.decay_factor);
        set(&mut settings.optimiser, self.optimiser.map(|name| name.0));
        set(&mut settings.weight_decay, self.weight_decay);
        settings.rate_factors.extend(self.rate_factor.iter().cloned());
        if let Some(name) = self.loss {
            *settings = settings.clone().with_loss(name.0);
        }
        set(&mut settings.margin, self.margin);
        set(&mut settings.violation, self.violation.map(|name| name.0));
        set(&mut settings.sum_epochs, self.sum_epochs);
        set(&mut settings.reduction, self.reduction.map(|name| name.0));
        set(&mut settings.drop_last, self.drop_last);
        set(&mut settings.loss_temperature, self.loss_temperature);
        set(&mut settings.learn_temperature, self.learn_temperature);
        set(&mut settings.clip, self.clip);
        set(&mut settings.dropout_inputs, self.dropout_inputs);
        set(&mut settings.dropout_states, self.dropout_states);
        set(&mut settings.average_last, self.average_last);
        set(&mut settings.validate_last, self.validate_last);
        set(&mut settings.validate_images, self.validate_images);
        set(&mut settings.captions, self.captions.map(|name| name.0));
    }
}

/// Defines the values of a flag from the values of a setting.
macro_rules! values_of {
    ($name:ident($setting:ty) { $($text:literal = $value:expr),* $(,)? }) => {
        #[derive(Clone, Copy, Debug)]
        struct $name($setting);

        impl ValueEnum for $name {
            fn value_variants<'a>() -> &'a [Self] {
                &[$($name($value)),*]
            }

            fn to_possible_value(&self) -> Option<PossibleValue> {
                $(if self.0 == $value {
                    return Some(PossibleValue::new($text));
                })*
                None
            }
        }
    };
}

values_of!(NormaliserName(Normaliser) {
    "clipped_l2norm" = Normaliser::ClippedL2,
    "l2norm" = Normaliser::L2,
    "clipped_l1norm" = Normaliser::ClippedL1,
    "l1norm" = Normaliser::L1,
    "clipped" = Normaliser::Clipped,
    "softmax" = Normaliser::Softmax,
    "no_norm" = Normaliser::None,
});

values_of!(PoolingName(Pooling) { "last" = Pooling::Last, "mean" = Pooling::Mean });

values_of!(CriterionName(Criterion) {
    "hinge" = Criterion::Hinge,
    "info-nce" = Criterion::InfoNce,
    "cross-entropy" = Criterion::CrossEntropy,
});

values_of!(OptimiserValue(OptimiserName) {
    "adam" = OptimiserName::Adam,
    "adamw" = OptimiserName::Adamw,
    "amsgrad" = OptimiserName::Amsgrad,
    "sgd" = OptimiserName::Sgd,
});

values_of!(ReductionName(Reduction) { "sum" = Reduction::Sum, "mean" = Reduction::Mean });

values_of!(ViolationName(Violation) { "max" = Violation::Max, "sum" = Violation::Sum });

values_of!(ChoiceName(Choice) {
    "all" = Choice::All,
    "random" = Choice::Random,
    "first" = Choice::First,
});

fn finite(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) => Err("not a finite number".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

fn rate_factor(text: &str) -> Result<(String, f64), String> {
    match text.split_once('=') {
        Some((start, factor)) if !start.is_empty() => Ok((start.to_owned(), finite(factor)?)),
        _ => Err("not the beginning of names, = and a factor".to_owned()),
    }
}

fn aggregation(text: &str) -> Result<Aggregation, String> {
    match text.split_once('=').map_or((text, None), |(name, scale)| (name, Some(scale))) {
        ("mean", None) => Ok(Aggregation::Mean),
        ("sum", None) => Ok(Aggregation::Sum),
        ("max", None) => Ok(Aggregation::Max),
        ("log-sum-exp", Some(scale)) => Ok(Aggregation::LogSumExp(finite(scale)? as f32)),
        _ => Err("there are mean, sum, max and log-sum-exp=SCALE".to_owned()),
    }
}
