//! Hints on captions while they are typed. They never block a caption.

use serde::Serialize;
use whatlang::{Detector, Lang};

use crate::error::Error;
use crate::word_overlap::{word_overlap, words};

/// Captions of fewer words say too little.
const FEWEST_WORDS: usize = 3;
/// Captions with a larger overlap are hard to tell apart.
const ALIKE: f64 = 0.85;

/// A suggested improvement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Hint {
    pub(crate) kind: &'static str,
    /// The index of the caption, from 0.
    pub(crate) caption: usize,
    pub(crate) message: String,
    /// The similar caption.
    pub(crate) of: Option<String>,
}

/// Parses the language of the captions: its English name or its ISO 639 code.
pub(crate) fn language(name: &str) -> Result<Lang, Error> {
    let known = Lang::all().iter().copied();
    let two_letters = [
        ("en", Lang::Eng),
        ("de", Lang::Deu),
        ("fr", Lang::Fra),
        ("es", Lang::Spa),
        ("it", Lang::Ita),
        ("pt", Lang::Por),
        ("nl", Lang::Nld),
        ("ru", Lang::Rus),
        ("ar", Lang::Ara),
        ("fa", Lang::Pes),
        ("he", Lang::Heb),
        ("hi", Lang::Hin),
        ("zh", Lang::Cmn),
        ("ja", Lang::Jpn),
        ("ko", Lang::Kor),
        ("tr", Lang::Tur),
        ("pl", Lang::Pol),
        ("uk", Lang::Ukr),
        ("vi", Lang::Vie),
        ("id", Lang::Ind),
    ];
    let wanted = name.to_lowercase();
    let short = two_letters.iter().find(|(code, _)| *code == wanted).map(|(_, lang)| *lang);
    let fits = |lang: &Lang| lang.code() == wanted || lang.eng_name().to_lowercase() == wanted;
    short.or_else(|| known.clone().find(fits)).ok_or_else(|| {
        let names: Vec<&str> = known.map(|lang| lang.eng_name()).collect();
        Error::Settings(format!("no language {name:?}; there are {}", names.join(", ")))
    })
}

/// Hints on the captions of one item. `confusable` are captions of pairs like it.
pub(crate) fn caption_hints(
    captions: &[String],
    confusable: &[String],
    wanted: Option<Lang>,
) -> Vec<Hint> {
    let others: Vec<(&String, Vec<String>)> =
        confusable.iter().map(|caption| (caption, words(caption))).collect();
    let own: Vec<Vec<String>> = captions.iter().map(|caption| words(caption)).collect();
    let mut hints = Vec::new();
    for (caption, text) in captions.iter().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let mut hint = |kind, message: &str, of: Option<&String>| {
            hints.push(Hint { kind, caption, message: message.to_owned(), of: of.cloned() });
        };
        let said = &own[caption];
        let closest =
            others.iter().map(|(other, words)| (word_overlap(said, words), words, *other));
        let closest = closest.max_by(|a, b| a.0.total_cmp(&b.0));
        match closest {
            Some((_, words, other)) if words == said => {
                hint(
                    "same",
                    "This says the same as a caption it must be told apart from.",
                    Some(other),
                );
            }
            Some((share, _, other)) if share >= ALIKE => {
                hint(
                    "similar",
                    "This is close to a caption it must be told apart from. What is different here?",
                    Some(other),
                );
            }
            _ => {}
        }
        if own[..caption].contains(said) {
            hint("repeated", "You have said this already. What else is there to see?", None);
        }
        if said.len() < FEWEST_WORDS {
            hint("short", "This is very short. Who or what is it, where, doing what?", None);
        }
        if let Some(wanted) = wanted
            && let Some(found) = other_language(text, wanted)
        {
            let (found, wanted) = (found.eng_name(), wanted.eng_name());
            hint(
                "language",
                &format!("This looks like {found}. Captions are to be in {wanted}."),
                None,
            );
        }
    }
    hints
}

/// The language of a text, if it is certainly not the wanted one.
fn other_language(text: &str, wanted: Lang) -> Option<Lang> {
    let found = Detector::new().detect(text)?;
    let other_script = !wanted_scripts(wanted).contains(&found.script());
    // A few words of one alphabet could be in many languages.
    let sure = other_script || (found.is_reliable() && words(text).len() > FEWEST_WORDS);
    (found.lang() != wanted && sure).then_some(found.lang())
}

fn wanted_scripts(wanted: Lang) -> Vec<whatlang::Script> {
    use whatlang::Script;
    Script::all().iter().copied().filter(|script| script.langs().contains(&wanted)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(
        captions: &[&str],
        confusable: &[&str],
        wanted: Option<Lang>,
    ) -> Vec<(&'static str, usize)> {
        let owned =
            |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let hints = caption_hints(&owned(captions), &owned(confusable), wanted);
        hints.into_iter().map(|hint| (hint.kind, hint.caption)).collect()
    }

    #[test]
    fn confusable_captions_are_named() {
        let others = ["Two cats sleep .", "A brown dog runs through the tall grass ."];
        assert_eq!(
            kinds(&["a brown DOG runs through the tall grass"], &others, None),
            [("same", 0)]
        );
        assert_eq!(
            kinds(&["A brown dog runs through tall grass"], &others, None),
            [("similar", 0)]
        );
        assert_eq!(kinds(&["A brown dog sleeps on a red sofa"], &others, None), []);
        assert_eq!(kinds(&["A man on a horse", "a man on a horse."], &[], None), [("repeated", 1)]);
        assert_eq!(kinds(&["A dog", "", "  "], &others, None), [("short", 0)]);
    }

    #[test]
    fn languages_are_told_apart_when_it_is_sure() {
        let english = Some(language("en").unwrap());
        for other in [
            "Собака бежит",
            "كلب يجري في الحديقة",
            "Ein brauner Hund läuft über die grüne Wiese und bellt laut",
        ] {
            assert_eq!(
                kinds(&[other], &[], english).last().map(|hint| hint.0),
                Some("language"),
                "{other}"
            );
        }
        for fine in ["A man surfs", "A brown dog runs through the tall grass .", "café au lait"] {
            assert!(
                !kinds(&[fine], &[], english).iter().any(|hint| hint.0 == "language"),
                "{fine}"
            );
        }
    }

    #[test]
    fn languages_have_names() {
        assert_eq!(language("English").unwrap(), Lang::Eng);
        assert_eq!(language("deu").unwrap(), Lang::Deu);
        assert!(language("Klingon").unwrap_err().to_string().contains("Klingon"));
    }
}
