//! Errors as Python exceptions: this is the only place that chooses their class (`nextpair/errors.py`).

use nextpair::core::printable;
use nextpair::engine::Error as Engine;
use nextpair::{Error, annotate, core, encode, models, report, scenario};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Whatever can fail.
#[derive(Debug)]
pub(crate) enum Failure {
    Selection(Error),
    Experiment(scenario::Error),
    Report(report::Error),
    Encoder(encode::Error),
    App(annotate::Error),
    /// A setting, and what is wrong with it.
    Setting(String),
}

macro_rules! failures {
    ($($variant:ident($error:ty),)*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Failure::$variant(error.into())
            }
        })*
    };
}

failures! {
    Selection(Error),
    Selection(Engine),
    Selection(core::Error),
    Experiment(scenario::Error),
    Experiment(models::Error),
    Report(report::Error),
    Encoder(encode::Error),
    App(annotate::Error),
}

/// The exception for a failure.
pub(crate) fn raise(py: Python<'_>, failure: impl Into<Failure>) -> PyErr {
    let failure = failure.into();
    let (class, argument) = failure.class();
    let mut said = match &failure {
        Failure::Selection(error) => with_sources(error),
        Failure::Experiment(error) => with_sources(error),
        Failure::Report(error) => with_sources(error),
        Failure::Encoder(error) => with_sources(error),
        Failure::App(error) => with_sources(error),
        Failure::Setting(said) => said.clone(),
    };
    if let Some(argument) = argument {
        said = format!("{argument}: {said}");
    }
    of_class(py, class, said)
}

impl Failure {
    /// The class of the exception, and the argument that it is about.
    fn class(&self) -> (&'static str, Option<&'static str>) {
        match self {
            Failure::Selection(error) => of_selection(error),
            Failure::Experiment(error) => (of_experiment(error), None),
            Failure::Report(report::Error::Scenario(error)) => (of_experiment(error), None),
            Failure::Report(report::Error::Data(error)) => (of_data(error), None),
            Failure::Report(report::Error::Models(error)) => (of_models(error), None),
            Failure::Encoder(encode::Error::Data(error)) => (of_data(error), None),
            Failure::Encoder(_) => ("FileError", None),
            Failure::App(annotate::Error::Settings(_)) | Failure::Setting(_) => {
                ("SettingError", None)
            }
            Failure::App(annotate::Error::Data(error)) => (of_data(error), None),
            Failure::App(_) => ("FileError", None),
        }
    }
}

fn of_selection(error: &Error) -> (&'static str, Option<&'static str>) {
    match error {
        Error::Selection(error) | Error::Misfit { source: error, .. } => of_engine(error),
        Error::File(error) => (of_data(error), None),
        Error::NoModel => ("SettingError", None),
        Error::NotAPart { .. } | Error::NotAPartial { .. } => ("PartsError", None),
        Error::Files(_) => ("InputError", None),
    }
}

fn of_data(error: &core::Error) -> &'static str {
    match error {
        core::Error::Argument { .. } => "SettingError",
        core::Error::Stopped => "NextpairError",
        _ => "FileError",
    }
}

fn of_experiment(error: &scenario::Error) -> &'static str {
    match error {
        scenario::Error::Setting { .. } => "SettingError",
        scenario::Error::Answer { .. } => "InputError",
        scenario::Error::Data(error) => of_data(error),
        scenario::Error::Engine(error) => of_engine(error).0,
        scenario::Error::Models(error) => of_models(error),
        _ => "FileError",
    }
}

fn of_models(error: &models::Error) -> &'static str {
    match error {
        models::Error::Setting { .. } | models::Error::NoSuchSetting { .. } => "SettingError",
        models::Error::Data(error) => of_data(error),
        models::Error::Engine(error) => of_engine(error).0,
        models::Error::File { .. } | models::Error::Weights { .. } => "FileError",
        _ => "InputError",
    }
}

/// An error with all that caused it.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let words = error.to_string();
        // Transparent errors repeat what they hold.
        if !said.ends_with(&words) {
            said = format!("{said}: {words}");
        }
        source = error.source();
    }
    said
}

/// The class of an error of the engine, and the argument that it is about.
fn of_engine(error: &Engine) -> (&'static str, Option<&'static str>) {
    match error {
        Engine::NotFinite { what, .. }
        | Engine::NormOutOfRange { what, .. }
        | Engine::ZeroVector { what, .. }
        | Engine::LocalVectors { what, .. }
        | Engine::TooManyRows { what, .. }
        | Engine::StoredNotFinite { what, .. } => ("InputError", argument(what)),
        Engine::EmptyPool => ("InputError", Some("pool")),
        Engine::DimensionMismatch { .. }
        | Engine::EmptyPaired
        | Engine::PairCount { .. }
        | Engine::CaptionWithoutImage { .. }
        | Engine::ImageWithoutCaption { .. }
        | Engine::SimilarityNotFinite { .. }
        | Engine::Similarity(_) => ("InputError", None),
        Engine::SimilarityShape { .. } | Engine::SimilarityTransposed { .. } => {
            ("InputError", Some("similarities"))
        }
        Engine::FeatureCount { .. } => ("InputError", Some("features")),
        Engine::GroupCount { .. } => ("InputError", Some("groups")),
        Engine::ZeroBudget | Engine::BudgetTooLarge { .. } | Engine::TooFewDistinct { .. } => {
            ("SettingError", Some("budget"))
        }
        Engine::SampledScope => ("SettingError", Some("sample")),
        Engine::NotACosine { .. } => ("SettingError", Some("dedupe")),
        Engine::QueriesUnread { .. } | Engine::QueriesWithoutEmbeddings | Engine::NoQueries => {
            ("SettingError", Some("queries"))
        }
        Engine::BadPicks { .. } => ("StrategyError", None),
        Engine::Gpu(_) | Engine::NoSuchDevice { .. } => ("SettingError", Some("device")),
        Engine::Parts(_) => ("PartsError", None),
        Engine::Stopped => ("NextpairError", None),
        Engine::Data(_) => ("FileError", None),
        _ => ("SettingError", None),
    }
}

/// The argument that holds what the engine calls so.
fn argument(what: &str) -> Option<&'static str> {
    Some(match what {
        "the pool items" => "pool",
        "the paired images" => "images",
        "the paired texts" => "texts",
        "the queries" => "queries",
        "the pool's features" | "the paired features" => "features",
        "the pool's similarities" | "the paired similarities" => "similarities",
        _ => return None,
    })
}

/// An exception about an argument.
pub(crate) fn input(py: Python<'_>, said: String) -> PyErr {
    of_class(py, "InputError", said)
}

/// An exception about a setting.
pub(crate) fn setting(py: Python<'_>, said: String) -> PyErr {
    of_class(py, "SettingError", said)
}

/// The exception for a panic, which is a mistake of ours.
pub(crate) fn panicked(py: Python<'_>, said: &str) -> PyErr {
    let version = env!("CARGO_PKG_VERSION");
    let report = concat!(env!("CARGO_PKG_REPOSITORY"), "/issues");
    let said = format!(
        "nextpair {version} has a mistake: {said}. Nothing was changed. Please report it at {report}"
    );
    of_class(py, "InternalError", said)
}

/// Words of files and of arguments may contain escape sequences, so all text is made [`printable`] here.
fn of_class(py: Python<'_>, class: &str, said: String) -> PyErr {
    let said = printable(&said).into_owned();
    let class = py.import("nextpair.errors").and_then(|errors| errors.getattr(class));
    match class.and_then(|class| class.call1((said.clone(),))) {
        Ok(exception) => PyErr::from_value(exception),
        // Somebody broke the package; its words must not get lost.
        Err(_) => PyRuntimeError::new_err(said),
    }
}
