//! Errors as Python exceptions: this is the only place that chooses their class (`nextpair/errors.py`).

use nextpair::Error;
use nextpair::engine::Error as Engine;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The exception for an error.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let (class, argument) = match error {
        Error::Selection(error) | Error::Misfit { source: error, .. } => of_engine(error),
        Error::File(_) => ("FileError", None),
        Error::NotAPart { .. } | Error::NotAPartial { .. } => ("PartsError", None),
        Error::Files(_) => ("InputError", None),
    };
    let mut said = with_sources(error);
    if let Some(argument) = argument {
        said = format!("{argument}: {said}");
    }
    of_class(py, class, said)
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
        Engine::ZeroBudget | Engine::BudgetTooLarge { .. } => ("SettingError", Some("budget")),
        Engine::NotACosine { .. } => ("SettingError", Some("dedupe")),
        Engine::QueriesUnread { .. } | Engine::QueriesWithoutEmbeddings => {
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

fn of_class(py: Python<'_>, class: &str, said: String) -> PyErr {
    let class = py.import("nextpair.errors").and_then(|errors| errors.getattr(class));
    match class.and_then(|class| class.call1((said.clone(),))) {
        Ok(exception) => PyErr::from_value(exception),
        // Somebody broke the package; its words must not get lost.
        Err(_) => PyRuntimeError::new_err(said),
    }
}
