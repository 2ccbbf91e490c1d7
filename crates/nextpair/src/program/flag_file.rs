//! Flags from a TOML file: `select --config FILE`, `score --config FILE`.
//!
//! The keys are the flags of the command as clap knows them, so that a new flag is a new key. The
//! flags of the file are put behind those of the command line, which win, and clap parses all.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::data::{Error, ordinary};
use anyhow::Result;
use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The id of the flag that names the file.
const ID: &str = "flag_file";

/// The flag of commands that take their other flags from a file.
#[derive(clap::Args)]
pub(crate) struct FlagFileArgs {
    /// Flags of this command in TOML, such as budget = 500; paths are relative to the file, and flags
    /// given here win
    #[arg(long = "config", id = ID, value_name = "FILE")]
    _file: Option<PathBuf>,
}

/// The command line, with the flags of a file.
pub(crate) struct Expanded {
    /// All words.
    pub(crate) words: Vec<OsString>,
    /// The flags of the file as clap shows them, with their places.
    from_file: Vec<(String, Place)>,
}

struct Place {
    path: PathBuf,
    line: usize,
}

impl Expanded {
    /// Adds the flags of the file that `--config` names, if the command takes them from a file.
    pub(crate) fn of(words: Vec<OsString>, command: &Command) -> Result<Self> {
        let mut expanded = Expanded { words, from_file: Vec::new() };
        // Required flags may be in the file, so this reading forgives everything.
        let lenient = command.clone().ignore_errors(true);
        let Ok(matches) = lenient.try_get_matches_from(&expanded.words) else {
            return Ok(expanded);
        };
        let Some((name, given)) = matches.subcommand() else { return Ok(expanded) };
        let Ok(Some(path)) = given.try_get_one::<PathBuf>(ID) else { return Ok(expanded) };
        // Only what is built knows how its flags are shown.
        let mut built = command.clone();
        built.build();
        if let Some(command) = built.find_subcommand(name) {
            expanded.add(path, command, given)?;
        }
        Ok(expanded)
    }

    fn add(&mut self, path: &Path, command: &Command, given: &ArgMatches) -> Result<(), Error> {
        let text = ordinary::read_text(path)?;
        let line_at = |at: usize| 1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count();
        let table = DeTable::parse(&text).map_err(|e| {
            Error::line(path, line_at(e.span().map_or(0, |span| span.start)), e.message())
        })?;
        for (key, value) in table.get_ref() {
            let line = line_at(key.span().start);
            let key = key.get_ref().as_ref();
            let wrong = |what: String| Error::line(path, line, what);
            let Some(arg) = command.get_arguments().find(|arg| is_called(arg, key)) else {
                let command = command.get_name();
                let what = format!(
                    "unknown key {key}; the keys are the flags of `nextpair {command}` without their \
                     dashes"
                );
                return Err(wrong(what));
            };
            let words = flag_words(arg, key, value, path).map_err(wrong)?;
            if given.value_source(arg.get_id().as_str()) != Some(ValueSource::CommandLine) {
                self.words.extend(words);
                let place = Place { path: path.to_path_buf(), line };
                self.from_file.push((arg.to_string(), place));
            }
        }
        Ok(())
    }

    /// Returns the error of clap as an error of the file, if a flag of the file is to blame.
    pub(crate) fn blame(&self, error: &clap::Error) -> Option<Error> {
        let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
            return None;
        };
        let (_, place) = self.from_file.iter().find(|(shown, _)| shown == flag)?;
        let text = error.render().to_string();
        let what = text.split("\n\n").next().unwrap_or_default();
        let what = what.strip_prefix("error: ").unwrap_or(what).trim_end();
        Some(Error::line(&place.path, place.line, what))
    }
}

/// Returns whether a key names an argument: a flag by its long name, another by its id.
fn is_called(arg: &Arg, key: &str) -> bool {
    let id = arg.get_id().as_str();
    match arg.get_long() {
        _ if id == ID || id == "help" => false,
        Some(long) => long == key,
        None => id.replace('_', "-") == key,
    }
}

/// Returns the words that say on a command line what a line of the file says.
fn flag_words(
    arg: &Arg,
    key: &str,
    value: &Spanned<DeValue<'_>>,
    file: &Path,
) -> Result<Vec<OsString>, String> {
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse);
    let values = match value.get_ref() {
        DeValue::Boolean(true) if is_switch => return Ok(vec![format!("--{key}").into()]),
        DeValue::Boolean(false) if is_switch => return Ok(Vec::new()),
        _ if is_switch => return Err(format!("{key} is true or false")),
        DeValue::Array(values) if matches!(arg.get_action(), ArgAction::Append) => {
            values.iter().map(|value| text_of(value.get_ref())).collect::<Option<Vec<_>>>()
        }
        DeValue::Array(_) => return Err(format!("{key} takes one value, not a list")),
        value => text_of(value).map(|text| vec![text]),
    };
    let values = values.ok_or_else(|| format!("{key} takes a text or a number"))?;
    let is_path = arg.get_value_parser().type_id() == ValueParser::path_buf().type_id();
    let beside = |value: String| match is_path && value != "-" {
        true => file.parent().unwrap_or(Path::new("")).join(value).into_os_string(),
        false => value.into(),
    };
    let word = |value: OsString| match arg.get_long() {
        Some(long) => {
            let mut word = OsString::from(format!("--{long}="));
            word.push(value);
            word
        }
        None => value,
    };
    Ok(values.into_iter().map(|value| word(beside(value))).collect())
}

/// Returns a value as it would be typed.
fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        // As it is written: clap parses it.
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        _ => None,
    }
}
