//! Command lines as people type them.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

/// Flags of a command line, each with its dashes and the words behind it.
pub(crate) type Flags = Vec<Vec<String>>;

static KEPT: OnceLock<Vec<OsString>> = OnceLock::new();
static FLAGS: Mutex<Flags> = Mutex::new(Flags::new());

/// Keeps the command line that runs. It is not that of the process where Python runs it.
pub(crate) fn keep(arguments: &[OsString]) {
    // A host that runs several has typed none of them.
    let _ = KEPT.set(arguments.to_vec());
}

/// Keeps the flags of the command that runs, also those of a file of flags.
pub(crate) fn keep_flags(program: &Command, matches: &ArgMatches) {
    let mut flags = FLAGS.lock().unwrap_or_else(PoisonError::into_inner);
    flags.clear();
    let Some((name, given)) = matches.subcommand() else { return };
    let Some(command) = program.find_subcommand(name) else { return };
    let own = command.get_arguments().filter(|arg| !arg.is_global_set());
    flags.extend(own.flat_map(|arg| words_of(arg, given)));
}

/// Returns a flag once for every time that it was given.
fn words_of(arg: &Arg, given: &ArgMatches) -> Flags {
    let (id, Some(long)) = (arg.get_id().as_str(), arg.get_long()) else { return Flags::new() };
    if given.value_source(id) != Some(ValueSource::CommandLine) {
        return Flags::new();
    }
    let flag = format!("--{long}");
    if !arg.get_action().takes_values() {
        return vec![vec![flag]];
    }
    let text = |word: &std::ffi::OsStr| word.to_string_lossy().into_owned();
    let times = given.get_raw_occurrences(id).into_iter().flatten();
    let times = times.map(|words| words.map(text).collect::<Vec<String>>());
    times
        .map(|words| match arg.get_value_delimiter() {
            Some(between) if !words.is_empty() => vec![words.join(&between.to_string())],
            _ => words,
        })
        .map(|words| match arg.is_require_equals_set() {
            true => vec![format!("{flag}={}", words.concat())],
            false => [vec![flag.clone()], words].concat(),
        })
        .collect()
}

/// Returns the flags of the command that runs.
pub(crate) fn flags() -> Flags {
    FLAGS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Returns those of them that another command has too.
pub(crate) fn flags_for(command: &str) -> Flags {
    let program = crate::program::command();
    let Some(command) = program.find_subcommand(command) else { return Flags::new() };
    let has = |flag: &Vec<String>| {
        let name = flag[0].trim_start_matches('-').split('=').next();
        command.get_arguments().any(|arg| arg.get_long().is_some() && arg.get_long() == name)
    };
    flags().into_iter().filter(has).collect()
}

/// Returns the command line that runs, to be typed again.
pub(crate) fn command_line() -> String {
    let words = KEPT.get().into_iter().flatten().skip(1);
    let words = words.map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("nextpair".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Returns a path as a word of a command line.
pub(crate) fn path(path: &Path) -> String {
    let text = path.to_string_lossy();
    // A name that looks like a flag is none with its folder in front.
    quoted(&if text.starts_with('-') { format!("./{text}") } else { text.into_owned() })
}

/// Quotes a word for a shell, if it needs quotes.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=+,@%#".contains(c);
    match !word.is_empty() && !word.starts_with('#') && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        for (word, shown) in [
            ("runs/x-1.toml", "runs/x-1.toml"),
            ("--budget=5", "--budget=5"),
            ("item#2", "item#2"),
            ("my photos", "'my photos'"),
            ("it's", "'it'\\''s'"),
            ("a*b", "'a*b'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), shown);
        }
        assert_eq!(path(Path::new("-f")), "./-f");
    }

    #[test]
    fn words_survive_a_shell() {
        for word in ["plain.jsonl", "a b", "it's", "$HOME", "", "ü", "a;rm", "-", "*", "#1", "a\nb"]
        {
            let line = format!("printf %s {}", quoted(word));
            let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word, "{line}");
        }
    }
}
