//! Sentence splitting: Punkt without training.
//!
//! Punkt (Kiss and Strunk, 2006) considers every `.`, `?` and `!` that is not at the end, and
//! decides by the words around it whether a sentence ends there. Training would add abbreviations,
//! collocations and frequent sentence starters; without it, only the rules below remain.

use std::ops::Range;

use super::characters::{is_control_separator, is_digit, is_letter};

/// Splits a lower-case text into sentences, in order. White space between them may be left out.
pub(super) fn sentences(text: &[char]) -> Vec<Range<usize>> {
    join_closing_marks(text, &split(text))
}

/// A mark that may end a sentence, and its surroundings.
struct Candidate {
    /// The start of the word that the mark ends.
    word: usize,
    mark: usize,
    /// The start of the next sentence, if one begins.
    next: usize,
    /// The end of the token after the mark.
    end: usize,
}

fn split(text: &[char]) -> Vec<Range<usize>> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for candidate in candidates(text) {
        if contains_sentence_end(&text[candidate.word..candidate.end]) {
            sentences.push(start..candidate.mark + 1);
            start = candidate.next;
        }
    }
    let blank = |c: &&char| c.is_whitespace() || is_control_separator(**c);
    let end = text.len() - text.iter().rev().take_while(blank).count();
    sentences.push(start..end.max(start));
    sentences
}

/// Finds the marks that end a word. Of several in one word (`no!!!`, `a.m."`) the last one counts.
fn candidates(text: &[char]) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let (mut word, mut last_mark) = (0, 0);
    for (mark, _) in text.iter().enumerate().filter(|(_, c)| matches!(c, '.' | '?' | '!')) {
        let Some((next, end)) = what_follows(text, mark) else { continue };
        // A blank at `last_mark` itself can only be the first character of the text.
        let is_blank = |c: &char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
        let blank = text[last_mark..mark].iter().rposition(is_blank).filter(|&at| at > 0);
        word = blank.map_or(word, |at| last_mark + at + 1);
        if found.last().is_some_and(|previous| word < previous.mark) {
            found.pop();
        }
        found.push(Candidate { word, mark, next, end });
        last_mark = mark;
    }
    found
}

/// The start of the next sentence, if one begins, and the end of its first token: immediately if
/// punctuation follows the mark, after white space otherwise. `None` inside a word (`3.5`) and at
/// the end.
fn what_follows(text: &[char], mark: usize) -> Option<(usize, usize)> {
    let after = &text[mark + 1..];
    let first = *after.first()?;
    if is_outside_words(first) {
        return Some((mark + 1, mark + 2));
    }
    if !first.is_whitespace() {
        return None;
    }
    let token = after.iter().position(|c| !c.is_whitespace())?;
    let length = after[token..].iter().take_while(|c| !c.is_whitespace()).count();
    Some((mark + 1 + token, mark + 1 + token + length))
}

/// Punctuation that is never part of a word, even without a space: `stop!"` is three tokens.
fn is_outside_words(c: char) -> bool {
    matches!(c, ')' | '"' | ';' | '}' | ']' | '*' | ':' | '@' | '\'' | '(' | '{' | '[' | '?' | '!')
        || matches!(c, '‘' | '’' | '“' | '”' | '«' | '»')
}

/// Returns whether one of the tokens ends a sentence. The last one never does: nothing follows it.
fn contains_sentence_end(context: &[char]) -> bool {
    let is_blank = |&c: &char| c.is_whitespace() || is_control_separator(c);
    let lines = context.split(|&c| c == '\n').filter(|line| !line.iter().all(is_blank));
    let mut tokens = lines.flat_map(Tokens).peekable();
    while let Some(token) = tokens.next() {
        if tokens.peek().is_some_and(|next| ends_sentence(token, next)) {
            return true;
        }
    }
    false
}

/// Returns whether a sentence ends between `token` and `next`.
fn ends_sentence(token: &[char], next: &[char]) -> bool {
    let punctuation = matches!(next, [';' | ':' | ',' | '.' | '!' | '?']);
    let (lower, upper) = (next[0].is_lowercase(), next[0].is_uppercase());
    match token {
        ['.' | '?' | '!'] => true,
        // An ellipsis: `well... maybe`.
        [.., '.', '.'] => false,
        // An initial: `j. bach`. Some capitals have no lower case: `j. 𝐁`.
        [letter, '.'] if is_letter(*letter) => !(punctuation || lower || upper),
        // An ordinal: `the 2. floor`.
        [.., '.'] if is_number(token) => !(punctuation || lower),
        [.., '.'] => true,
        _ => false,
    }
}

/// A number with its separators: `3.`, `.5.`, `1,000-2,000.`
fn is_number(token: &[char]) -> bool {
    let digits = token.strip_prefix(&['.']).unwrap_or(token);
    digits.first().is_some_and(|&c| is_digit(c))
        && digits.iter().all(|&c| is_digit(c) || matches!(c, ',' | '.' | '-'))
}

/// The tokens of a line: words with the periods that touch them, and punctuation.
struct Tokens<'a>(&'a [char]);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [char];

    fn next(&mut self) -> Option<&'a [char]> {
        let start = self.0.iter().position(|c| !c.is_whitespace())?;
        let rest = &self.0[start..];
        let length = match repeated_mark(rest) {
            Some(length) => length,
            None if starts_word(rest[0]) => {
                (1..rest.len()).find(|&at| ends_word(&rest[at..])).unwrap_or(rest.len())
            }
            None => 1,
        };
        let (token, rest) = rest.split_at(length);
        self.0 = rest;
        Some(token)
    }
}

fn starts_word(c: char) -> bool {
    !matches!(c, '(' | ')' | '[' | ']' | '{' | '}' | '"' | '`' | ':' | ';' | ',')
        && !matches!(c, '&' | '#' | '*' | '@' | '-')
}

/// Returns whether a word ends before `rest`. A comma ends it unless it is inside: `1,000` is
/// whole.
fn ends_word(rest: &[char]) -> bool {
    let ends = |rest: &[char]| match rest.first() {
        Some(&c) => c.is_whitespace() || is_outside_words(c) || repeated_mark(rest).is_some(),
        None => true,
    };
    ends(rest) || (rest[0] == ',' && ends(&rest[1..]))
}

/// The length of a mark made of several characters: `--`, `...` or `. . .`
fn repeated_mark(rest: &[char]) -> Option<usize> {
    let run = |mark| rest.iter().take_while(|&&c| c == mark).count();
    let spaced = |pair: &[char]| pair[0] == '.' && pair.get(1).is_some_and(|c| c.is_whitespace());
    match rest.first()? {
        '-' => Some(run('-')).filter(|&length| length > 1),
        '.' if run('.') > 1 => Some(run('.')),
        '.' => {
            let pairs = rest.chunks(2).take_while(|pair| spaced(pair)).count();
            // The last period counts whether or not white space follows it.
            let last = if rest.get(2 * pairs) == Some(&'.') { pairs } else { pairs - 1 };
            (last > 1).then_some(2 * last + 1)
        }
        _ => None,
    }
}

/// Moves quotes and brackets at the start of a sentence to the end of the one they close: `(one.)
/// two` is split before the bracket at first.
fn join_closing_marks(text: &[char], split: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut sentences = Vec::with_capacity(split.len());
    let mut moved = 0;
    for (at, sentence) in split.iter().enumerate() {
        let start = sentence.start + moved;
        let closing = split.get(at + 1).and_then(|next| closing_marks(&text[next.clone()]));
        let end = match (closing, split.get(at + 1)) {
            (Some((marks, _)), Some(next)) => next.start + marks,
            _ => sentence.end,
        };
        moved = closing.map_or(0, |(_, with_blanks)| with_blanks);
        if start < end {
            sentences.push(start..end);
        }
    }
    sentences
}

/// The number of closing marks at the start of a sentence, and the end of the white space after
/// them. They close nothing if a word follows immediately.
fn closing_marks(sentence: &[char]) -> Option<(usize, usize)> {
    let closes =
        |c: &&char| matches!(c, '"' | '\'' | ')' | ']' | '}' | '‘' | '’' | '“' | '”' | '«' | '»');
    let marks = sentence.iter().take_while(closes).count();
    let rest = &sentence[marks..];
    let blanks = rest.iter().take_while(|c| c.is_whitespace()).count();
    let apart = blanks > 0 || rest.is_empty() || rest.starts_with(&['-', '-']);
    (marks > 0 && apart).then_some((marks, marks + blanks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let text: Vec<char> = text.chars().collect();
        sentences(&text).into_iter().map(|range| text[range].iter().collect()).collect()
    }

    #[test]
    fn sentences_end_at_marks_before_white_space_or_punctuation() {
        for (text, expected) in [
            ("a dog. a cat.", &["a dog.", "a cat."][..]),
            ("what?! no way!!! yes", &["what?!", "no way!!!", "yes"]),
            ("he said \"stop.\" then left", &["he said \"stop.\"", "then left"]),
            ("(one.) two", &["(one.)", "two"]),
            ("3.5 www.a.com a.b", &["3.5 www.a.com a.b"]),
            ("  up. \n b  ", &["  up.", "b"]),
            ("", &[]),
            (" \t", &[]),
        ] {
            assert_eq!(split(text), expected, "{text}");
        }
    }

    #[test]
    fn ellipses_initials_and_ordinals_go_on() {
        for text in ["well... maybe", "j. bach", "the 2. floor", "j. 𝐁", "1,000-2,000. of"] {
            assert_eq!(split(text), [text], "{text}");
        }
        assert_eq!(split("j. 5 dogs"), ["j.", "5 dogs"]);
        assert_eq!(split("2. 𝐁"), ["2.", "𝐁"]);
    }
}
