//! Captions that are hard to split, with the tokens of NLTK 3.10.4: its untrained sentence
//! splitter, then its word tokenizer, on the caption in lower case.

use super::{tokenize, words_of_sentence};

/// Captions and their tokens; tokens never contain a space.
const CASES: &[(&str, &str)] = &[
    ("", ""),
    (" \t\n", ""),
    ("...", "..."),
    (".", "."),
    ("a.", "a ."),
    ("a. ", "a ."),
    ("a.\t\"", "a. ''"),
    ("a. \"", "a. ``"),
    ("a.) ", "a . )"),
    ("He said \"Stop.\" Then \"go!\"", "he said `` stop . '' then `` go ! ''"),
    ("\"\"a\"\"", "`` `` a '' ''"),
    ("\"''b", "`` `` b"),
    ("''a'' b", "'' a '' b"),
    (" '''a'''", "`` ' a '' '"),
    ("('a') [\"b\"] {''c''}", "( ' a ' ) [ `` b '' ] { `` c '' }"),
    ("«\"a\"» “\"b\"” ‘\"c\"’ „d“", "« `` a '' » “ `` b '' ” ‘ `` c '' ’ „ d “"),
    ("``a`` ```b```", "`` a `` `` ` b `` `"),
    ("x's' ; x's' ) x's'", "x 's ' ; x 's ' ) x's '"),
    ("we'll's they'd've can't've", "we 'll 's they'd 've can't 've"),
    ("rock 'n' roll, 'n 'tis 'twas 'quote", "rock 'n ' roll , 'n ' tis ' twas ' quote"),
    ("gonna'tis'twas more'n d'ye cannot's", "gon na 't is 't was more 'n d 'ye can not 's"),
    ("wanna wanna. wanna- gimme-lemme_ Gotta!", "wan na wan na . wanna- gim me -lemme_ got ta !"),
    ("a,,b c::d e,,,5 6,7 8:9,", "a , ,b c : :d e , ,,5 6,7 8:9 ,"),
    ("5,:6 ,a :,", "5 , :6 , a : ,"),
    ("a.b..c...d . . . e", "a.b .. c ... d . . . e"),
    ("no!!! what?!?! (yes?)", "no ! ! ! what ? ! ? ! ( yes ? )"),
    ("foo !! bar", "foo ! ! bar"),
    ("J. Bach met K. 5 times. 2. floor 3. 𝐁", "j. bach met k . 5 times . 2. floor 3 . 𝐁"),
    ("The 1,000-2,000. of .5. x -5. y", "the 1,000-2,000. of .5. x -5. y"),
    (
        "mr. smith went to st. louis at 5 p.m. today.",
        "mr . smith went to st . louis at 5 p.m . today .",
    ),
    ("e.g. dogs etc.) and cats", "e.g . dogs etc . ) and cats"),
    ("(one.) two. \"'three.'\" four", "( one . ) two . `` ' three . ' '' four"),
    ("end.\"-- dash. ) -- x", "end . '' -- dash . ) -- x"),
    ("a--b---c–d—e―f‒g - h", "a -- b -- -c – d — e ― f ‒ g - h"),
    (
        "http://a.b/c?d=e&f #tag @me 50% $3.50 *x*",
        "http : //a.b/c ? d=e & f # tag @ me 50 % $ 3.50 * x *",
    ),
    ("ΟΔΟΣ ΣΑΣ. Σ İstanbul STRAẞE", "οδος σας . σ i\u{307}stanbul straße"),
    (
        "cannot\u{301} cannot² ²gonna 'ſ ſ's '\u{301}a Ⓐ'x",
        "can not \u{301} cannot² ²gonna 'ſ ſ 's ' \u{301}a ⓐ'x",
    ),
    ("a\u{a0}b.\u{a0}c d.\u{2003}e\u{200b}.\u{200b}f", "a b. c d. e\u{200b}.\u{200b}f"),
    ("one.\nTwo,\r\nthree.\u{b}'four'\u{85}five", "one . two , three . ' four ' five"),
    ("a\u{1c}b.\u{1d} c.\n\u{1c} d'\u{1e}e", "a b. c. d' e"),
    ("well.\u{a0}.\u{a0}.\u{a0}maybe . . . no", "well. . . maybe . . . no"),
    (
        "日本。犬 5.犬 a. 犬 👨\u{200d}👩\u{200d}👧's 🐶.",
        "日本。犬 5.犬 a . 犬 👨\u{200d}👩\u{200d}👧 's 🐶 .",
    ),
    ("٣,٤ ٣:a ½.½, Ⅳ. x", "٣,٤ ٣ : a ½.½ , ⅳ. x"),
    ("<unk> <a href=\"b\">c</a>", "< unk > < a href= '' b '' > c < /a >"),
    ("'' '", "'' '"),
    ("don''t ''' x''''y", "don '' t `` ' x '' '' y"),
    ("gımme 'tıs lemme'n", "gım me ' tıs lem me 'n"),
    ("a\u{0}b.\u{0} c", "a\u{0}b.\u{0} c"),
];

#[test]
fn hard_captions_are_split_as_nltk_does() {
    for (caption, expected) in CASES {
        assert_eq!(tokenize(caption).join(" "), *expected, "{caption:?}");
    }
}

#[test]
fn only_the_last_period_of_a_sentence_is_apart() {
    assert_eq!(words_of_sentence("one dog. two dogs."), ["one", "dog.", "two", "dogs", "."]);
    assert_eq!(tokenize("one dog. two dogs."), ["one", "dog", ".", "two", "dogs", "."]);
}

/// The time must be linear in the length, whatever is repeated; otherwise this test runs for
/// minutes.
#[test]
fn long_captions_are_split_in_linear_time() {
    for part in [
        "a", "'", "\"", "`", ".", "!", "-", ",", "(", " ", ". ", "! a", ".\u{a0}", "d'ye-",
        ".\u{1c}",
    ] {
        let caption = part.repeat(1_000_000 / part.len());
        let tokens = tokenize(&caption);
        let kept = |text: &str| text.chars().filter(|c| c.is_alphabetic()).count();
        assert_eq!(kept(&tokens.concat()), kept(&caption), "{part:?}");
    }
}
