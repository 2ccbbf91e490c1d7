//! Five captions per scene: each true, none complete, all in different words.

mod phrases;

use std::cmp::Ordering;

use super::compose::{Attribute, Object, Scene};
use super::words;
use crate::Draws;
use phrases::{Detail, fragment, indefinite, joined, sentence};

/// Number of captions per scene.
const CAPTIONS: usize = 5;

/// Separates the draws of the wording from those of the light.
const WORDING: u64 = 0x0063_6170_7469_6f6e;

impl Scene {
    /// Five different captions. One lists all objects with their colours. If the scene is a
    /// near-duplicate, two others mention the change.
    pub fn captions(&self) -> [String; 5] {
        let draws = Draws::new(self.appearance ^ WORDING);
        let mut teller = CaptionWriter { scene: self, draws };
        let mut captions: [String; CAPTIONS] = Default::default();
        // The position of the caption that lists everything must not be predictable.
        let first = teller.draws.below(CAPTIONS);
        for told in 0..CAPTIONS {
            // Any scene can be described in dozens of ways, so a new one is always found.
            let caption = loop {
                let caption = teller.caption(told);
                if !captions.contains(&caption) {
                    break caption;
                }
            };
            captions[(first + told) % CAPTIONS] = caption;
        }
        captions
    }
}

/// Composes the captions of a scene from random draws.
struct CaptionWriter<'a> {
    scene: &'a Scene,
    draws: Draws,
}

impl CaptionWriter<'_> {
    fn caption(&mut self, told: usize) -> String {
        if told == 0 {
            return self.listing();
        }
        let (focus, changed) = match self.scene.origin {
            Some(origin) if told <= 2 => (origin.object, Some(origin.attribute)),
            _ => (self.draws.below(self.scene.objects.len()), None),
        };
        let subject = self.subject(&self.scene.objects[focus], changed);
        match self.draws.below(10) {
            0..3 => self.relation(focus, &subject),
            3..5 => self.location(focus, &subject),
            _ if changed == Some(Attribute::Place) => self.location(focus, &subject),
            5..7 => self.setting(&subject),
            7 => self.comparison(focus, &subject),
            8 => self.company(focus, &subject),
            _ if changed.is_none() && self.chance(0.5) => self.colours(&subject),
            _ => self.count(&subject),
        }
    }

    /// Lists all objects, grouped: "a small red star, two blue rings and a heart".
    fn listing(&mut self) -> String {
        let mut groups: Vec<Vec<&Object>> = Vec::new();
        for object in &self.scene.objects {
            let kind = |object: &Object| (object.shape, object.colour);
            match groups.iter_mut().find(|group| kind(group[0]) == kind(object)) {
                Some(group) => group.push(object),
                None => groups.push(vec![object]),
            }
        }
        let mut phrases = Vec::with_capacity(groups.len());
        for group in &groups {
            let size = group.iter().all(|object| object.size == group[0].size);
            let texture = group.iter().all(|object| object.texture == group[0].texture);
            let detail = Detail {
                size: size && self.told_size(group[0]),
                colour: true,
                texture: texture && self.told_texture(group[0]),
            };
            phrases.push(self.phrase(group[0], detail, group.len()));
        }
        let list = joined(&phrases);
        let verb = if groups[0].len() > 1 { "are" } else { "is" };
        let picture = indefinite(self.pick(words::PICTURES));
        let place = self.backdrop(0.2);
        match self.draws.below(6) {
            0 => sentence(format!("there {verb} {list}{place}")),
            1 => fragment(format!("{picture} of {list}{place}")),
            2 => fragment(format!("{picture} with {list}{place}")),
            _ => fragment(format!("{list}{place}")),
        }
    }

    /// The position of the subject relative to another object, or between two.
    fn relation(&mut self, focus: usize, subject: &str) -> String {
        let Some(other) = self.other(focus) else { return self.location(focus, subject) };
        let objects = &self.scene.objects;
        let relation = match self.between(focus) {
            Some([one, two]) if self.chance(0.5) => {
                format!("between {} and {}", self.mention(one), self.mention(two))
            }
            _ => {
                let direction = self.direction(&objects[focus], other);
                format!("{direction} {}", self.mention(other))
            }
        };
        let verb = self.pick(words::VERBS);
        match self.draws.below(5) {
            0 => sentence(format!("{relation} there is {subject}")),
            1 => sentence(format!("there is {subject} {relation}")),
            2 => fragment(format!("{subject} {relation}{}", self.backdrop(0.3))),
            _ => sentence(format!("{subject} {verb} {relation}")),
        }
    }

    /// The position of the subject in the picture.
    fn location(&mut self, focus: usize, subject: &str) -> String {
        let place = self.pick(words::place(self.scene.objects[focus].place));
        let verb = self.pick(words::VERBS);
        let picture = self.pick(words::PICTURES);
        match self.draws.below(4) {
            0 => sentence(format!("{place} there is {subject}")),
            1 => fragment(format!("{subject} {place}{}", self.backdrop(0.4))),
            2 => sentence(format!("{subject} {verb} {place} of the {picture}")),
            _ => sentence(format!("{subject} {verb} {place}")),
        }
    }

    /// The subject in front of its backdrop.
    fn setting(&mut self, subject: &str) -> String {
        let place = self.pick(words::backdrop(self.scene.backdrop));
        let verb = self.pick(words::VERBS);
        let picture = indefinite(self.pick(words::PICTURES));
        match self.draws.below(4) {
            0 => sentence(format!("{place} there is {subject}")),
            1 => fragment(format!("{picture} of {subject} {place}")),
            2 => sentence(format!("{subject} {verb} {place}")),
            _ => fragment(format!("{subject} {place}")),
        }
    }

    /// The subject's size compared with another object's.
    fn comparison(&mut self, focus: usize, subject: &str) -> String {
        let Some(other) = self.other(focus) else { return self.setting(subject) };
        let compared = match self.scene.objects[focus].size.rank().cmp(&other.size.rank()) {
            Ordering::Less => words::SMALLER,
            Ordering::Equal => return self.company(focus, subject),
            Ordering::Greater => words::LARGER,
        };
        let compared = self.pick(compared);
        sentence(format!("{subject} is {compared} {}", self.mention(other)))
    }

    /// The subject and one other object.
    fn company(&mut self, focus: usize, subject: &str) -> String {
        let Some(other) = self.other(focus) else { return self.count(subject) };
        let other = self.mention(other);
        let picture = self.pick(words::PICTURES);
        let place = self.backdrop(0.4);
        match self.draws.below(4) {
            0 => fragment(format!("{other} and {subject}{place}")),
            1 => sentence(format!("there is {subject} and also {other}{place}")),
            2 => sentence(format!("the {picture} shows {subject} and {other}")),
            _ => fragment(format!("{subject} together with {other}{place}")),
        }
    }

    /// The number of objects that share a colour, if any do.
    fn colours(&mut self, subject: &str) -> String {
        let objects = &self.scene.objects;
        let colour = objects[self.draws.below(objects.len())].colour;
        let alike = objects.iter().filter(|object| object.colour == colour).count();
        if alike < 2 {
            return self.count(subject);
        }
        let things = self.pick(words::THINGS).1;
        let (some, all) = (words::number(alike), words::number(objects.len()));
        let colour = self.pick(words::colour(colour));
        sentence(match (alike, alike == objects.len()) {
            (2, true) => format!("both {things} are {colour}"),
            (_, true) => format!("all {all} {things} are {colour}"),
            (_, false) => format!("{some} of the {all} {things} are {colour}"),
        })
    }

    /// The number of objects, including the subject.
    fn count(&mut self, subject: &str) -> String {
        let (thing, things) = self.pick(words::THINGS);
        let count = self.scene.objects.len();
        let (all, place) = (words::number(count), self.backdrop(0.4));
        match (count, self.draws.below(3)) {
            (1, 0) => fragment(format!("a single {thing}, {subject}{place}")),
            (1, 1) => sentence(format!("there is nothing but {subject}{place}")),
            (1, _) => fragment(format!("{subject} all alone{place}")),
            (_, 0) => fragment(format!("{all} {things}, one of them {subject}{place}")),
            (_, 1) => sentence(format!("there are {all} {things}{place}, and one is {subject}")),
            (_, _) => fragment(format!("{subject} among {all} {things}{place}")),
        }
    }
}
