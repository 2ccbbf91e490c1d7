//! Command lines as people type them.

use std::ffi::OsString;
use std::path::Path;
use std::sync::OnceLock;

static KEPT: OnceLock<Vec<OsString>> = OnceLock::new();

/// Keeps the command line that runs. It is not that of the process where Python runs it.
pub(crate) fn keep(arguments: &[OsString]) {
    // A host that runs several has typed none of them.
    let _ = KEPT.set(arguments.to_vec());
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
