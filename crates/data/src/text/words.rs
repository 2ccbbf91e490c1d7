//! Word tokenization of one sentence by the rules of NLTK's Treebank tokenizer.
//!
//! One pass over the characters splits off punctuation ([`words`]); [`endings`](super::endings)
//! then splits clitics and contractions in every word between. The rules apply to text in lower
//! case.

use super::characters::{is_digit, is_word, starts_with};
use super::endings;

/// The tokens of a sentence.
pub(super) fn words(sentence: &[char]) -> Vec<String> {
    let final_period = final_period(sentence);
    let mut words = Words { text: sentence, at: 0, final_period, word: Vec::new(), done: vec![] };
    while let Some(&c) = sentence.get(words.at) {
        words.read(c);
    }
    words.end_word();
    words.done
}

/// The state of the pass over a sentence.
struct Words<'a> {
    text: &'a [char],
    at: usize,
    /// The position of the period that ends the sentence.
    final_period: Option<usize>,
    /// The current word.
    word: Vec<char>,
    done: Vec<String>,
}

impl Words<'_> {
    fn read(&mut self, c: char) {
        match c {
            _ if c.is_whitespace() => {
                self.end_word();
                self.at += 1;
            }
            _ if is_always_apart(c) => self.apart(1),
            // Back-ticks come in pairs; of three, the last is a token of its own.
            '`' if self.is_repeated() => self.apart(2),
            '`' => self.apart(1),
            '"' if opens_quote(self.text, self.at) => self.quote("``", 1),
            '"' => self.quote("''", 1),
            '\'' => self.apostrophes(),
            ',' | ':' => self.comma_or_colon(),
            // `a..b` is `a .. b`, but `3.5` and `www.a.com` are whole.
            '.' if self.is_repeated() => {
                let periods = self.text[self.at..].iter().take_while(|&&c| c == '.').count();
                self.apart(periods);
            }
            '.' if self.final_period == Some(self.at) => self.apart(1),
            // `a--b` is `a -- b`, but `t-shirt` is whole.
            '-' if self.is_repeated() => self.apart(2),
            _ => self.within_word(),
        }
    }

    /// Apostrophes quote, stand for letters, or begin a clitic.
    fn apostrophes(&mut self) {
        if self.is_repeated() {
            let opens = opens_quote(self.text, self.at);
            return self.quote(if opens { "``" } else { "''" }, 2);
        }
        let before = self.at.checked_sub(1).map(|before| self.text[before]);
        if self.quotes_next_word(before) {
            return self.apart(1);
        }
        // `dog's';` is `dog 's ' ;`, but `dog's')` is `dog's ' )`: the order of NLTK's rules shows.
        if before != Some('\'') && self.is_apart_before_clitics(self.at + 1) {
            self.end_word();
        }
        self.within_word();
    }

    /// Returns whether this apostrophe opens a quote, as in `'quoted`; `'s` and `'ll` are clitics.
    fn quotes_next_word(&self, before: Option<char>) -> bool {
        let rest = &self.text[self.at + 1..];
        let is_word_at = |at: usize| rest.get(at).is_some_and(|&c| is_word(c));
        let is_clitic = |clitic: &str| starts_with(rest, clitic) && !is_word_at(clitic.len());
        !before.is_some_and(is_word)
            && is_word_at(0)
            && !["re", "ve", "ll", "m", "t", "s", "d", "n"].into_iter().any(is_clitic)
    }

    /// Commas and colons are split off unless a digit follows: `50,000`, `11:20`.
    fn comma_or_colon(&mut self) {
        if self.digit_at(self.at + 1) {
            return self.within_word();
        }
        self.apart(1);
        // The second of two depends on what follows it: `a,,b` is `a , ,b`.
        if matches!(self.text.get(self.at), Some(',' | ':')) {
            self.within_word();
        }
    }

    /// Returns whether the character at `at` is a space, or punctuation that is split off before
    /// clitics. Brackets, `*`, `--` and closing quotes are split off after them.
    fn is_apart_before_clitics(&self, at: usize) -> bool {
        match self.text.get(at) {
            Some('(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | '*' | '»' | '”' | '’') => {
                false
            }
            Some(' ' | '`') => true,
            Some(',' | ':') => !self.digit_at(at + 1),
            Some('.') => self.text.get(at + 1) == Some(&'.') || self.final_period == Some(at),
            Some(&c) => is_always_apart(c),
            None => false,
        }
    }

    fn digit_at(&self, at: usize) -> bool {
        self.text.get(at).is_some_and(|&c| is_digit(c))
    }

    /// Returns whether another character of the same kind follows this one.
    fn is_repeated(&self) -> bool {
        self.text.get(self.at + 1) == Some(&self.text[self.at])
    }

    fn within_word(&mut self) {
        self.word.push(self.text[self.at]);
        self.at += 1;
    }

    /// Makes the next `length` characters a token.
    fn apart(&mut self, length: usize) {
        self.end_word();
        self.done.push(self.text[self.at..self.at + length].iter().collect());
        self.at += length;
    }

    /// Makes the next `length` characters a quotation mark, written as `token`.
    fn quote(&mut self, token: &str, length: usize) {
        self.end_word();
        self.done.push(token.to_owned());
        self.at += length;
    }

    fn end_word(&mut self) {
        endings::split(&self.word, &mut self.done);
        self.word.clear();
    }
}

/// Characters that are always a token of their own.
fn is_always_apart(c: char) -> bool {
    match c {
        ';' | '@' | '#' | '$' | '%' | '&' | '?' | '!' | '*' => true,
        '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' => true,
        '«' | '»' | '“' | '”' | '„' | '‘' | '’' => true,
        // Figure dash, en dash, em dash and horizontal bar.
        '\u{2012}'..='\u{2015}' => true,
        _ => false,
    }
}

/// Returns whether the straight quotation mark at `at`, `"` or `''`, opens a quote: after a space,
/// an opening bracket or another opening mark, and `"` also at the start of the sentence.
fn opens_quote(text: &[char], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return text[at] == '"' };
    match text[before] {
        ' ' | '(' | '[' | '{' | '<' | '«' | '“' | '‘' | '„' | '`' => true,
        '"' => before == 0,
        _ => false,
    }
}

/// The period that ends the sentence. Closing quotes, brackets and spaces may follow it.
fn final_period(text: &[char]) -> Option<usize> {
    let period = text.iter().rposition(|&c| c == '.')?;
    if period == 0 || text[period - 1] == '.' {
        return None;
    }
    let opens = |at: usize| {
        (text[at] == '"' || text[at..].starts_with(&['\'', '\''])) && opens_quote(text, at)
    };
    let closes = |at: &usize| {
        matches!(text[*at], ']' | ')' | '}' | '>' | '"' | '\'' | '»' | '”' | '’' | ' ')
            && !opens(*at)
    };
    let end = period + 1 + (period + 1..text.len()).take_while(closes).count();
    text[end..].iter().all(|c| c.is_whitespace()).then_some(period)
}

#[cfg(test)]
mod tests {
    fn split(sentence: &str) -> String {
        super::words(&sentence.chars().collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn quotation_marks_open_and_close() {
        for (sentence, expected) in [
            ("\"a\" (\"b\") c\"", "`` a '' ( `` b '' ) c ''"),
            ("''a'' ''b''", "'' a '' `` b ''"),
            ("'a' 's dogs'", "' a ' 's dogs '"),
            ("dog's'; dog's')", "dog 's ' ; dog's ' )"),
            ("```a", "`` ` a"),
        ] {
            assert_eq!(split(sentence), expected, "{sentence}");
        }
    }

    #[test]
    fn numbers_dashes_and_periods_stay_whole() {
        for (sentence, expected) in [
            ("50,000 at 11:20, 3.5m", "50,000 at 11:20 , 3.5m"),
            ("a,,b", "a , ,b"),
            ("t-shirt--new", "t-shirt -- new"),
            ("a..b. c.", "a .. b. c ."),
            ("he left.\") ", "he left . '' )"),
            ("he left. \"", "he left. ``"),
        ] {
            assert_eq!(split(sentence), expected, "{sentence}");
        }
    }
}
