//! The `--log` flag, shared by `train` and `run`.

use crate::models::LogFormat;
use clap::builder::{PossibleValuesParser, TypedValueParser};

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct LogArgs {
    /// Write logs for other tools into the folder too: tensorboard (event files) or csv (a table of
    /// all epochs); may be repeated
    #[arg(long = "log", value_name = "FORMAT", value_delimiter = ',', value_parser = formats())]
    pub(crate) formats: Vec<LogFormat>,
}

fn formats() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new(LogFormat::NAMES).try_map(|name| name.parse::<LogFormat>())
}
