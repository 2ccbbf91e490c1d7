//! Parses captions and checks them against their scene.

use crate::scenes::words::{self, Noun};
use crate::scenes::*;

/// The content of a noun phrase; a field it leaves open matches anything.
#[derive(Debug, Default)]
struct Claim {
    count: Option<usize>,
    shape: Option<Shape>,
    colour: Option<Colour>,
    size: Option<Size>,
    texture: Option<Texture>,
}

impl Claim {
    fn fits(&self, object: &Object) -> bool {
        self.shape.is_none_or(|shape| shape == object.shape)
            && self.colour.is_none_or(|colour| colour == object.colour)
            && self.size.is_none_or(|size| size == object.size)
            && self.texture.is_none_or(|texture| texture == object.texture)
    }
}

/// A part of a caption.
#[derive(Debug)]
enum Part {
    Claim(Claim),
    /// Text between claims.
    Words(String),
}

/// Removes `word` from the start of `text`, if it is there as whole words.
fn eat<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(word)?;
    (rest.is_empty() || rest.starts_with([' ', ','])).then(|| rest.trim_start_matches(' '))
}

/// Removes the longest word for any of these values from the start of `text`.
fn eat_any<'a, T: Copy>(
    text: &'a str,
    all: &[T],
    words: impl Fn(T) -> &'static [&'static str],
) -> Option<(T, &'a str)> {
    let found = all.iter().flat_map(|&value| words(value).iter().map(move |word| (value, word)));
    let longest = found.filter(|(_, word)| eat(text, word).is_some()).max_by_key(|(_, w)| w.len());
    longest.and_then(|(value, word)| Some((value, eat(text, word)?)))
}

/// Parses a noun phrase: article or number, size, texture, colour, noun, pattern.
fn claim(text: &str) -> Option<(Claim, &str)> {
    let mut claim = Claim::default();
    let mut rest = match eat(text, "a").or_else(|| eat(text, "an")) {
        Some(rest) => rest,
        None => {
            let count = (2..=6).find(|&count| eat(text, words::number(count)).is_some())?;
            claim.count = Some(count);
            eat(text, words::number(count))?
        }
    };
    let one = claim.count.is_none();
    if let Some((size, after)) = eat_any(rest, Size::ALL, words::size) {
        (claim.size, rest) = (Some(size), after);
    }
    if let Some((texture, after)) = eat_any(rest, Texture::ALL, words::texture) {
        (claim.texture, rest) = (Some(texture), after);
    }
    if let Some((colour, after)) = eat_any(rest, Colour::ALL, words::colour) {
        (claim.colour, rest) = (Some(colour), after);
    }
    let noun = |&(single, plural): &Noun| if one { single } else { plural };
    let (shape, after) = Shape::ALL.iter().find_map(|&shape| {
        words::shape(shape).iter().find_map(|word| Some((shape, eat(rest, noun(word))?)))
    })?;
    (claim.shape, rest) = (Some(shape), after);
    if let Some((texture, after)) = eat_any(rest, Texture::ALL, words::pattern) {
        (claim.texture, rest) = (Some(texture), after);
    }
    Some((claim, rest))
}

/// Splits a caption into claims and the text between them.
fn parts(caption: &str) -> Vec<Part> {
    let text = caption.trim_end_matches('.').to_lowercase();
    let mut rest = text.as_str();
    let mut parts = Vec::new();
    while !rest.is_empty() {
        if let Some((claim, after)) = claim(rest) {
            parts.push(Part::Claim(claim));
            rest = after;
            continue;
        }
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        match parts.last_mut() {
            Some(Part::Words(words)) => *words = format!("{words} {word}"),
            _ => parts.push(Part::Words(word.into())),
        }
        rest = after;
    }
    parts
}

/// Returns whether `words` end with one of these.
fn ends(words: &str, with: &[&str]) -> bool {
    with.iter().any(|end| words.ends_with(end))
}

/// Returns whether the words between `a` and `b` describe their positions correctly; words that do
/// not mention positions match.
fn related(words: &str, a: &Object, b: &Object) -> bool {
    let [ax, ay] = a.centre();
    let [bx, by] = b.centre();
    let says = |with| ends(words, with);
    (!says(words::LEFT) || ax + 10.0 < bx)
        && (!says(words::RIGHT) || ax > bx + 10.0)
        && (!(says(words::ABOVE) || words.contains("above and")) || ay + 10.0 < by)
        && (!(says(words::BELOW) || words.contains("below and")) || ay > by + 10.0)
        && (!says(words::LARGER) || a.radius() > b.radius() + 1.0)
        && (!says(words::SMALLER) || a.radius() + 1.0 < b.radius())
        && (!says(words::BESIDE) || (ax - bx).hypot(ay - by) < 85.0)
}

/// Returns whether some choice of objects makes the whole caption true.
fn holds(scene: &Scene, caption: &str) -> bool {
    let parts = parts(caption);
    let objects = &scene.objects;
    let fitting = |claim: &Claim| objects.iter().filter(|o| claim.fits(o)).collect::<Vec<_>>();
    match &parts[..] {
        // "Left of b there is a", and the same with two objects for "between".
        [Part::Words(words), Part::Claim(b), Part::Words(there), Part::Claim(a)]
            if there == "there is" =>
        {
            pairs(&fitting(a), &fitting(b)).any(|(a, b)| related(words, a, b))
        }
        [
            Part::Words(between),
            Part::Claim(b),
            Part::Words(_),
            Part::Claim(c),
            Part::Words(_),
            Part::Claim(a),
        ] if between == "between" => within(&fitting(a), &fitting(b), &fitting(c)),
        [
            ..,
            Part::Claim(a),
            Part::Words(words),
            Part::Claim(b),
            Part::Words(and),
            Part::Claim(c),
        ] if words.ends_with("between") && and == "and" => {
            within(&fitting(a), &fitting(b), &fitting(c))
        }
        [Part::Claim(a), Part::Words(words), Part::Claim(b), ..]
        | [Part::Words(_), Part::Claim(a), Part::Words(words), Part::Claim(b), ..]
            if a.count.is_none() && b.count.is_none() =>
        {
            pairs(&fitting(a), &fitting(b)).any(|(a, b)| related(words, a, b))
        }
        _ => true,
    }
}

fn pairs<'a>(
    one: &'a [&'a Object],
    two: &'a [&'a Object],
) -> impl Iterator<Item = (&'a Object, &'a Object)> {
    let all = one.iter().flat_map(move |a| two.iter().map(move |b| (*a, *b)));
    all.filter(|(a, b)| !std::ptr::eq(*a, *b))
}

/// Returns whether one of `a` is between one of `b` and one of `c`.
fn within(a: &[&Object], b: &[&Object], c: &[&Object]) -> bool {
    let middle = |axis: usize, a: &Object, b: &Object, c: &Object| {
        let [a, b, c] = [a, b, c].map(|object| object.centre()[axis]);
        b.min(c) + 10.0 < a && a + 10.0 < b.max(c)
    };
    a.iter().any(|a| pairs(b, c).any(|(b, c)| middle(0, a, b, c) || middle(1, a, b, c)))
}

#[test]
fn captions_are_true() {
    let world = World::new(Settings { images: 6000, ..Settings::default() }).unwrap();
    let (mut claims, mut relations) = (0, 0);
    for scene in (0..6000).map(|index| world.scene(index)) {
        let backdrop = words::backdrop(scene.backdrop);
        for caption in scene.captions() {
            // Only the words of the backdrop are checked.
            let elsewhere = Backdrop::ALL.iter().filter(|&&other| other != scene.backdrop);
            let mut elsewhere = elsewhere.flat_map(|&other| words::backdrop(other));
            assert!(!elsewhere.any(|phrase| caption.ends_with(phrase)), "{caption}");
            let longest = backdrop.iter().filter(|phrase| caption.contains(**phrase));
            let phrase = longest.max_by_key(|phrase| phrase.len());
            let told = phrase.map_or(caption.clone(), |phrase| caption.replace(phrase, ""));

            for part in parts(&told) {
                let Part::Claim(claim) = part else { continue };
                let fitting = scene.objects.iter().filter(|object| claim.fits(object)).count();
                assert!(fitting >= claim.count.unwrap_or(1), "{caption}: {claim:?}\n{scene:?}");
                claims += 1;
            }
            assert!(holds(&scene, &told), "{caption}\n{scene:?}");
            relations += usize::from(told.contains(" of a ") || told.contains("between"));
            let number = words::number(scene.objects.len());
            for (_, things) in words::THINGS {
                let Some((before, _)) = told.split_once(&format!(" {things}")) else { continue };
                let said = before.rsplit(' ').next().unwrap_or(before).to_lowercase();
                let said = if said == "both" { "two" } else { &said };
                assert_eq!(said, number, "{caption}");
            }
        }
    }
    assert!(claims > 30_000 && relations > 3000, "{claims} claims, {relations} relations read");
}

#[test]
fn places_are_told_as_they_are() {
    let world = World::new(Settings { images: 3000, ..Settings::default() }).unwrap();
    let mut told = 0;
    for scene in (0..3000).map(|index| world.scene(index)) {
        for caption in scene.captions().map(|caption| caption.to_lowercase()) {
            let caption = caption.trim_end_matches('.');
            for place in attributes::Place::all() {
                for phrase in words::place(place) {
                    let Some(rest) = caption.strip_prefix(&format!("{phrase} there is ")) else {
                        continue;
                    };
                    let claim = claim(rest).expect("an object follows").0;
                    let there = |object: &Object| object.place == place && claim.fits(object);
                    assert!(scene.objects.iter().any(there), "{caption}\n{scene:?}");
                    told += 1;
                }
            }
        }
    }
    assert!(told > 300, "{told} places read");
}

/// Two captions of a near-duplicate are false of its original, or mention the change.
#[test]
fn near_duplicates_speak_of_what_was_changed() {
    let world = World::new(Settings { images: 2000, ..Settings::default() }).unwrap();
    for scene in (0..2000).map(|index| world.scene(index)) {
        let Some(origin) = scene.origin else { continue };
        let changed = &scene.objects[origin.object];
        let mentions = |caption: &String| {
            parts(caption).iter().any(|part| match part {
                Part::Claim(claim) if claim.count.is_none() && claim.fits(changed) => {
                    match origin.attribute {
                        Attribute::Shape | Attribute::Place => claim.shape.is_some(),
                        Attribute::Colour => claim.colour.is_some(),
                        Attribute::Size => claim.size.is_some(),
                        Attribute::Texture => claim.texture.is_some(),
                    }
                }
                _ => false,
            })
        };
        let captions = scene.captions();
        assert!(captions.iter().filter(|c| mentions(c)).count() >= 2, "{captions:?} {origin:?}");
    }
}
