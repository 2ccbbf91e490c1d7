//! Character classes. NLTK's rules use two regular expression libraries that disagree in corners of
//! Unicode, and the tokens of a caption can depend on it.

use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// A word character: letters, marks, decimal digits, `_` and its kin, and the invisible joiners.
pub(super) fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    c.is_alphabetic()
        || c.general_category_group() == GeneralCategoryGroup::Mark
        || matches!(
            c.general_category(),
            GeneralCategory::DecimalNumber | GeneralCategory::ConnectorPunctuation
        )
        || matches!(c, '\u{200c}' | '\u{200d}')
}

/// A decimal digit of any script; not `²`, `½` or `Ⅳ`.
pub(super) fn is_digit(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_digit();
    }
    c.general_category() == GeneralCategory::DecimalNumber
}

/// A word character that is no digit.
pub(super) fn is_letter(c: char) -> bool {
    is_word(c) && !is_digit(c)
}

/// A word character in the narrower sense that bounds contractions: letters, numbers of every kind
/// (`²` too) and `_`, but no marks.
pub(super) fn bounds_contraction(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    let group = c.general_category_group();
    matches!(group, GeneralCategoryGroup::Letter | GeneralCategoryGroup::Number)
}

/// The four control characters that separate words in the end although no rule treats them as white
/// space.
pub(super) fn is_control_separator(c: char) -> bool {
    matches!(c, '\u{1c}'..='\u{1f}')
}

/// Compares letters case-insensitively. Of all lower-case letters outside ASCII, only two are case
/// variants of an ASCII letter.
pub(super) fn is_same_letter(c: char, ascii: char) -> bool {
    c == ascii || matches!((c, ascii), ('ſ', 's') | ('ı', 'i'))
}

/// Returns whether `text` starts with these ASCII letters, in any case.
pub(super) fn starts_with(text: &[char], letters: &str) -> bool {
    letters.len() <= text.len()
        && text.iter().zip(letters.chars()).all(|(&c, ascii)| is_same_letter(c, ascii))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_digits_and_letters_differ() {
        for (c, word, digit, bounds) in [
            ('a', true, false, true),
            ('_', true, false, true),
            ('7', true, true, true),
            ('٣', true, true, true),
            ('²', false, false, true),
            ('Ⅳ', true, false, true),
            ('\u{301}', true, false, false),
            ('Ⓐ', true, false, false),
            ('‿', true, false, false),
            ('\u{200d}', true, false, false),
            ('犬', true, false, true),
            ('-', false, false, false),
            ('€', false, false, false),
        ] {
            assert_eq!(
                (is_word(c), is_digit(c), bounds_contraction(c)),
                (word, digit, bounds),
                "{c}"
            );
            assert_eq!(is_letter(c), word && !digit, "{c}");
        }
    }
}
