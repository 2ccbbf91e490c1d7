//! The extension module of the Python package: the facade, for arrays that Python lends. What people
//! import is in `nextpair/`, which turns what they give into what this module takes.

mod annotating;
mod arrays;
mod command;
mod dataset;
mod errors;
mod experiments;
mod findings;
mod given;
mod partial;
mod picks;
mod problem;
mod recall;
mod work;

use pyo3::prelude::*;

#[pymodule]
mod _engine {
    #[pymodule_export]
    use crate::annotating::App;
    #[pymodule_export]
    use crate::command::run_command;
    #[pymodule_export]
    use crate::dataset::{Dataset, import_dataset, import_scenes};
    #[pymodule_export]
    use crate::experiments::{read_experiments, rehearse, run_experiment, to_toml, write_report};
    #[pymodule_export]
    use crate::partial::{candidates, finish, items_of, join};
    #[pymodule_export]
    use crate::picks::write_jsonl;
    #[pymodule_export]
    use crate::problem::{Problem, default_strategy, predicted_peak, strategies};
    #[pymodule_export]
    use crate::recall::recall;
    #[pymodule_export]
    use crate::work::panic_on_purpose;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::work::remember_panics();
        Ok(())
    }
}
