//! Text for a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// Replaces control characters by JSON's escapes (`\u001b`), except for line ends and tabs: names and captions of a file
/// must not move the cursor or set the title of a terminal. JSON stays the same JSON.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_odd(character) {
            true => write!(shown, "\\u{:04x}", u32::from(character)).expect("a string grows"),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_escapes() {
        for plain in ["", "a\tb\n", "Ünï → 中文 🐈", "\u{200f}عربي"] {
            assert!(matches!(printable(plain), Cow::Borrowed(text) if text == plain));
        }
        assert_eq!(printable("a\u{1b}]0;x\u{7}b"), "a\\u001b]0;x\\u0007b");
        assert_eq!(printable("\r\u{7f}\u{9b}31m\0"), "\\u000d\\u007f\\u009b31m\\u0000");
    }
}
