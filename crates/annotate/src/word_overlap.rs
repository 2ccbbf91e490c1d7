//! Word overlap of two texts.

use std::collections::HashMap;

/// The words of a text in lower case, without punctuation. In scripts without spaces, every letter
/// counts as a word.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for letter in text.chars().flat_map(char::to_lowercase) {
        if letter.is_alphanumeric() && !stands_alone(letter) {
            word.push(letter);
            continue;
        }
        // "dog's" is one word, the same with and without its apostrophe.
        if matches!(letter, '\'' | '’') && !word.is_empty() {
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if stands_alone(letter) {
            words.push(letter.to_string());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Han, Hiragana, Katakana and Thai are written without spaces.
fn stands_alone(letter: char) -> bool {
    matches!(letter,
        '\u{0e00}'..='\u{0e7f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

/// The overlap of two texts: the harmonic mean of the shares of each text's words that the other
/// has, from 0 to 1. Repeated words count repeatedly.
pub(crate) fn word_overlap(one: &[String], other: &[String]) -> f64 {
    if one.is_empty() || other.is_empty() {
        return 0.0;
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in one {
        *left.entry(word).or_default() += 1;
    }
    let mut common = 0;
    for word in other {
        if let Some(count) = left.get_mut(word.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            common += 1;
        }
    }
    2.0 * common as f64 / (one.len() + other.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_words() {
        assert_eq!(words(" A Dog's ball, RED! "), ["a", "dogs", "ball", "red"]);
        assert_eq!(words("کلب يجري"), ["کلب", "يجري"]);
        assert_eq!(words("红色的圆"), ["红", "色", "的", "圆"]);
        assert!(words(" .,! ").is_empty());
    }

    #[test]
    fn overlap_is_between_nothing_and_everything() {
        let of = |one: &str, other: &str| word_overlap(&words(one), &words(other));
        assert_eq!(of("a red dog", "A red dog."), 1.0);
        assert_eq!(of("a dog", "two cats"), 0.0);
        assert_eq!(of("", ""), 0.0);
        assert_eq!(of("the the dog", "the dog"), 0.8);
        assert_eq!(of("a b", "b c"), of("b c", "a b"));
    }
}
