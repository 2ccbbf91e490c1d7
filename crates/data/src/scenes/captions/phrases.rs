//! The building blocks of captions.

use std::cmp::Ordering;

use super::CaptionWriter;
use crate::scenes::attributes::long_tailed;
use crate::scenes::compose::{Attribute, Object};
use crate::scenes::words::{self, Noun};
use crate::scenes::{Size, Texture};

/// The attributes of an object to mention, besides its shape.
#[derive(Clone, Copy)]
pub(super) struct Detail {
    pub size: bool,
    pub colour: bool,
    pub texture: bool,
}

impl<'a> CaptionWriter<'a> {
    /// The object that a caption is about, including its changed attribute.
    pub fn subject(&mut self, object: &Object, changed: Option<Attribute>) -> String {
        let detail = Detail {
            size: self.told_size(object) || changed == Some(Attribute::Size),
            colour: self.chance(0.85) || changed == Some(Attribute::Colour),
            texture: self.told_texture(object) || changed == Some(Attribute::Texture),
        };
        self.phrase(object, detail, 1)
    }

    /// Draws whether to mention the size. Ordinary sizes are rarely mentioned.
    pub fn told_size(&mut self, object: &Object) -> bool {
        self.chance(if object.size == Size::Medium { 0.08 } else { 0.5 })
    }

    /// Draws whether to mention the texture.
    pub fn told_texture(&mut self, object: &Object) -> bool {
        self.chance(if object.texture == Texture::Plain { 0.06 } else { 0.55 })
    }

    /// Another object in few words.
    pub fn mention(&mut self, object: &Object) -> String {
        let detail = Detail {
            size: object.size != Size::Medium && self.chance(0.2),
            colour: self.chance(0.75),
            texture: object.texture != Texture::Plain && self.chance(0.2),
        };
        self.phrase(object, detail, 1)
    }

    /// A noun phrase: "a large red circle with stripes", "two striped stars".
    pub fn phrase(&mut self, object: &Object, detail: Detail, count: usize) -> String {
        let mut words = Vec::with_capacity(5);
        let mut pattern = None;
        if detail.size {
            words.push(self.pick(words::size(object.size)));
        }
        if detail.texture {
            if self.chance(0.7) {
                words.push(self.pick(words::texture(object.texture)));
            } else {
                pattern = Some(self.pick(words::pattern(object.texture)));
            }
        }
        if detail.colour {
            words.push(self.pick(words::colour(object.colour)));
        }
        let (one, many): Noun = self.pick(words::shape(object.shape));
        words.push(if count == 1 { one } else { many });
        words.extend(pattern);
        let words = words.join(" ");
        match count {
            1 => indefinite(&words),
            _ => format!("{} {words}", words::number(count)),
        }
    }

    /// The direction of `this` as seen from `that`.
    pub fn direction(&mut self, this: &Object, that: &Object) -> String {
        let (to, from) = (this.place, that.place);
        let (columns, rows) = (from.column.abs_diff(to.column), from.row.abs_diff(to.row));
        if columns.max(rows) == 1 && self.chance(0.2) {
            return self.pick(words::BESIDE).into();
        }
        let level = if to.column < from.column { words::LEFT } else { words::RIGHT };
        let upright = if to.row < from.row { words::ABOVE } else { words::BELOW };
        match (columns.cmp(&rows), self.draws.below(3)) {
            (Ordering::Greater, _) | (Ordering::Equal, 0) => self.pick(level).into(),
            (Ordering::Less, _) | (Ordering::Equal, 1) => self.pick(upright).into(),
            _ => format!("{} and {}", upright[0], level[0]),
        }
    }

    /// Two objects on opposite sides of this one, in its row or column.
    pub fn between(&self, focus: usize) -> Option<[&'a Object; 2]> {
        let objects = &self.scene.objects;
        let place = objects[focus].place;
        let at = |column, row| {
            objects.iter().find(|other| (other.place.column, other.place.row) == (column, row))
        };
        let level = (place.column == 1).then(|| Some([at(0, place.row)?, at(2, place.row)?]));
        let upright = (place.row == 1).then(|| Some([at(place.column, 0)?, at(place.column, 2)?]));
        level.flatten().or(upright.flatten())
    }

    /// Draws another object, if there is one.
    pub fn other(&mut self, focus: usize) -> Option<&'a Object> {
        let objects = &self.scene.objects;
        let further = 1 + self.draws.below(objects.len().checked_sub(1)?);
        (objects.len() > 1).then(|| &objects[(focus + further) % objects.len()])
    }

    /// Mostly nothing, else " " and a phrase for the backdrop.
    pub fn backdrop(&mut self, chance: f64) -> String {
        if self.chance(chance) {
            format!(" {}", self.pick(words::backdrop(self.scene.backdrop)))
        } else {
            String::new()
        }
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.draws.unit() < probability
    }

    /// The more common of two long-tailed draws: mostly the first word, rarely the last.
    pub fn pick<T: Copy>(&mut self, choices: &'static [T]) -> T {
        let [one, two] = [0; 2].map(|_| long_tailed(&mut self.draws, choices.len()));
        choices[one.min(two)]
    }
}

/// Adds "a" or "an".
pub(super) fn indefinite(words: &str) -> String {
    let article = if words.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {words}")
}

/// Joins phrases: "a", "a and b", "a, b and c".
pub(super) fn joined(phrases: &[String]) -> String {
    match phrases {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Formats a caption with a verb: a capital and a full stop.
pub(super) fn sentence(words: String) -> String {
    fragment(words) + "."
}

/// Formats a caption without a verb: a capital only.
pub(super) fn fragment(mut words: String) -> String {
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}
