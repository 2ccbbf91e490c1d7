//! Words that are two tokens: clitics at their end (`it's`), and contractions (`cannot`).

use super::characters::{bounds_contraction, is_control_separator, starts_with};

/// Appends the tokens of a word, which has neither white space nor punctuation around it.
pub(super) fn split(word: &[char], tokens: &mut Vec<String>) {
    let (word, possessive) = split_end(word, &["'s", "'m", "'d", "'"]);
    let (word, verb) = split_end(word, &["'ll", "'re", "'ve", "n't"]);
    for part in [word, verb, possessive] {
        split_contractions(part, tokens);
    }
}

/// Splits `dog's` into `dog 's`; an ending alone (`'s`) or after an apostrophe (`''s`) stays whole.
fn split_end<'a>(word: &'a [char], endings: &[&str]) -> (&'a [char], &'a [char]) {
    let split = endings.iter().find_map(|ending| {
        let (stem, end) = word.split_at_checked(word.len().checked_sub(ending.len())?)?;
        let apart = stem.last().is_some_and(|&c| c != '\'');
        (apart && end.iter().copied().eq(ending.chars())).then_some((stem, end))
    });
    split.unwrap_or((word, &[]))
}

const CONTRACTIONS: [(&str, &str); 7] = [
    ("can", "not"),
    ("d", "'ye"),
    ("gim", "me"),
    ("gon", "na"),
    ("got", "ta"),
    ("lem", "me"),
    ("more", "'n"),
];

/// Splits `cannot` into `can not`, also between hyphens.
fn split_contractions(word: &[char], tokens: &mut Vec<String>) {
    let mut done = 0;
    let mut at = 0;
    while at < word.len() {
        let begins = at == 0 || !bounds_contraction(word[at - 1]);
        match contraction(&word[at..]).filter(|_| begins) {
            Some((first, second)) => {
                split_tis(&word[done..at], tokens);
                tokens.push(word[at..at + first].iter().collect());
                tokens.push(word[at + first..at + first + second].iter().collect());
                at += first + second;
                done = at;
            }
            None => at += 1,
        }
    }
    split_tis(&word[done..], tokens);
}

/// The lengths of the two parts of the contraction that `rest` begins with.
fn contraction(rest: &[char]) -> Option<(usize, usize)> {
    let found = CONTRACTIONS.iter().find(|(first, second)| {
        starts_with(rest, first)
            && starts_with(&rest[first.len()..], second)
            && ends(&rest[first.len() + second.len()..])
    });
    // `wanna` only before white space: `wanna-be` is whole.
    let before_space = || rest.get(5).is_none_or(|&c| is_control_separator(c));
    match found {
        Some((first, second)) => Some((first.len(), second.len())),
        None => (starts_with(rest, "wanna") && before_space()).then_some((3, 2)),
    }
}

/// Splits `'tis` into `'t is`. An apostrophe before a word was split off earlier, so this occurs
/// only after another contraction: `gonna'tis`.
fn split_tis(mut word: &[char], tokens: &mut Vec<String>) {
    for verb in ["is", "was"] {
        if starts_with(word, "'t") && starts_with(&word[2..], verb) && ends(&word[2 + verb.len()..])
        {
            let (tis, rest) = word.split_at(2 + verb.len());
            tokens.push(tis[..2].iter().collect());
            tokens.push(tis[2..].iter().collect());
            word = rest;
        }
    }
    let parts = word.split(|&c| is_control_separator(c)).filter(|part| !part.is_empty());
    tokens.extend(parts.map(|part| part.iter().collect::<String>()));
}

/// Returns whether a contraction may end before `rest`.
fn ends(rest: &[char]) -> bool {
    rest.first().is_none_or(|&c| !bounds_contraction(c))
}

#[cfg(test)]
mod tests {
    fn split(word: &str) -> String {
        let mut tokens = Vec::new();
        super::split(&word.chars().collect::<Vec<_>>(), &mut tokens);
        tokens.join(" ")
    }

    #[test]
    fn clitics_come_off() {
        for (word, expected) in [
            ("dog's", "dog 's"),
            ("dogs'", "dogs '"),
            ("we'll", "we 'll"),
            ("can't", "ca n't"),
            ("we'll's", "we 'll 's"),
            ("'s", "'s"),
            ("n't", "n't"),
            ("o'clock", "o'clock"),
            ("", ""),
        ] {
            assert_eq!(split(word), expected, "{word}");
        }
    }

    #[test]
    fn contractions_come_apart() {
        for (word, expected) in [
            ("cannot", "can not"),
            ("d'ye", "d 'ye"),
            ("more'n", "more 'n"),
            ("x-gonna-y", "x- gon na -y"),
            ("wanna", "wan na"),
            ("wanna-be", "wanna-be"),
            ("gonna'tis", "gon na 't is"),
            ("gonnas", "gonnas"),
            ("gotta\u{301}", "got ta \u{301}"),
        ] {
            assert_eq!(split(word), expected, "{word}");
        }
    }
}
