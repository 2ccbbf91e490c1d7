//! Command lines as people type them.

use std::path::Path;

/// Returns the command line of this process, to be typed again.
pub(crate) fn command_line() -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("nextpair".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Returns a path as a word of a command line.
pub(crate) fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// Quotes a word for a shell, if it needs quotes.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=+,@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
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
            ("my photos", "'my photos'"),
            ("it's", "'it'\\''s'"),
            ("a*b", "'a*b'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}
