//! The contents of a scene, and the difference between a near-duplicate and its original.

use super::attributes::{another, long_tailed};
use super::outline::REACH;
use super::{Backdrop, Colour, Place, SIDE, Shape, Size, Texture};
use crate::Draws;

/// Percentage of scenes with 1, 2, ... 6 objects.
const OBJECTS: [usize; 6] = [12, 26, 26, 18, 11, 7];

/// Probability that an object gets its shape's favourite colour, not counting chance.
const FAVOURITE: f64 = 0.3;

/// Probability that an object gets the shape of the one before it, not counting chance.
const REPEATED: f64 = 0.2;

/// Several objects in front of a backdrop.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// One to six objects, each in a cell of its own. Later ones are painted over earlier ones
    /// where their edges meet.
    pub objects: Vec<Object>,
    /// The backdrop.
    pub backdrop: Backdrop,
    /// The original, if the scene is a near-duplicate.
    pub origin: Option<Origin>,
    /// Height of the line between sky and ground, from 0 to 1.
    pub(super) horizon: f32,
    /// Seed of light, grain and wording, in which a near-duplicate differs from its original.
    pub(super) appearance: u64,
}

/// One object. Properties that its attributes leave open (offset from the middle of its cell, tilt,
/// tint) vary a little from object to object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The outline.
    pub shape: Shape,
    /// The main colour.
    pub colour: Colour,
    /// The size.
    pub size: Size,
    /// The pattern.
    pub texture: Texture,
    /// The cell.
    pub place: Place,
    pub(super) variation: Variation,
}

/// Small variations, from -1 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variation {
    pub offset: [f32; 2],
    pub scale: f32,
    pub tilt: f32,
    pub tint: [f32; 3],
    /// 0 to 3: the direction of the pattern.
    pub direction: usize,
}

/// The origin of a near-duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The index of the original, in the same world and split.
    pub index: usize,
    /// The index of the changed object, in both scenes.
    pub object: usize,
    /// The changed attribute.
    pub attribute: Attribute,
}

/// One attribute of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// Its [`Shape`].
    Shape,
    /// Its [`Colour`].
    Colour,
    /// Its [`Size`].
    Size,
    /// Its [`Texture`].
    Texture,
    /// Its [`Place`].
    Place,
}

impl Attribute {
    /// All five; each is equally likely to be changed.
    pub const ALL: [Attribute; 5] = [
        Attribute::Shape,
        Attribute::Colour,
        Attribute::Size,
        Attribute::Texture,
        Attribute::Place,
    ];
}

impl Scene {
    pub(super) fn composed(draws: &mut Draws) -> Self {
        let backdrop = Backdrop::drawn(draws);
        let horizon = 0.5 + 0.25 * draws.unit() as f32;
        let mut percent = draws.below(100);
        let mut count = 1;
        while count < OBJECTS.len() && percent >= OBJECTS[count - 1] {
            percent -= OBJECTS[count - 1];
            count += 1;
        }
        let mut free: Vec<Place> = Place::all().collect();
        let mut objects: Vec<Object> = Vec::with_capacity(count);
        for _ in 0..count {
            let place = free.swap_remove(draws.below(free.len()));
            let previous = objects.last().filter(|_| draws.unit() < REPEATED);
            let shape = previous.map_or_else(|| Shape::drawn(draws), |object| object.shape);
            objects.push(Object::drawn(draws, shape, place));
        }
        Scene { objects, backdrop, origin: None, horizon, appearance: 0 }
    }

    /// Changes one attribute of one object.
    pub(super) fn changed(mut self, index: usize, draws: &mut Draws) -> Self {
        let free: Vec<Place> = Place::all()
            .filter(|&place| self.objects.iter().all(|object| object.place != place))
            .collect();
        let object = draws.below(self.objects.len());
        let attribute = Attribute::ALL[draws.below(Attribute::ALL.len())];
        let changed = &mut self.objects[object];
        match attribute {
            Attribute::Shape => changed.shape = another(changed.shape, Shape::ALL, draws),
            Attribute::Colour => changed.colour = another(changed.colour, Colour::ALL, draws),
            Attribute::Size => changed.size = another(changed.size, Size::ALL, draws),
            Attribute::Texture => changed.texture = another(changed.texture, Texture::ALL, draws),
            Attribute::Place => changed.place = free[draws.below(free.len())],
        }
        self.origin = Some(Origin { index, object, attribute });
        self
    }

    pub(super) fn seen(mut self, appearance: u64) -> Self {
        self.appearance = appearance;
        self
    }
}

impl Object {
    fn drawn(draws: &mut Draws, shape: Shape, place: Place) -> Self {
        let colour =
            if draws.unit() < FAVOURITE { shape.favourite() } else { Colour::drawn(draws) };
        let (size, texture) = (Size::drawn(draws), Texture::drawn(draws));
        let mut signed = || 2.0 * draws.unit() as f32 - 1.0;
        let variation = Variation {
            offset: [signed(), signed()],
            scale: signed(),
            tilt: signed(),
            tint: [signed(), signed(), signed()],
            direction: long_tailed(draws, 4),
        };
        Object { shape, colour, size, texture, place, variation }
    }

    /// Radius in pixels; a shape may extend a fifth beyond it.
    pub fn radius(&self) -> f32 {
        let (middle, spread) = match self.size {
            Size::Small => (9.0, 0.8),
            Size::Medium => (13.6, 1.1),
            Size::Large => (18.4, 1.2),
        };
        middle + spread * self.variation.scale
    }

    /// Centre in pixels from the upper left: x, then y. Centres in different columns or rows are at
    /// least 12 pixels apart in that direction.
    pub fn centre(&self) -> [f32; 2] {
        let cell = SIDE as f32 / 3.0;
        // Limit the offset from the middle of the cell so that neighbours hardly touch.
        let slack = cell / 2.0 - self.radius() + 1.0;
        let border = self.radius() * REACH + 2.0;
        let along = |place: usize, offset: f32| {
            let centre = cell * (place as f32 + 0.5) + slack * offset;
            centre.max(border).min(SIDE as f32 - border)
        };
        [
            along(self.place.column, self.variation.offset[0]),
            along(self.place.row, self.variation.offset[1]),
        ]
    }
}
