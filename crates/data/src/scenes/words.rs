//! The vocabulary of the captions, the usual word first.

use super::{Backdrop, Colour, Place, Shape, Size, Texture};

/// Singular and plural.
pub(super) type Noun = (&'static str, &'static str);

pub(super) fn shape(shape: Shape) -> &'static [Noun] {
    match shape {
        Shape::Circle => &[("circle", "circles"), ("disc", "discs"), ("disk", "disks")],
        Shape::Square => &[("square", "squares"), ("box", "boxes"), ("tile", "tiles")],
        Shape::Triangle => &[("triangle", "triangles"), ("wedge", "wedges")],
        Shape::Star => &[("star", "stars"), ("starlet", "starlets")],
        Shape::Ring => &[("ring", "rings"), ("hoop", "hoops"), ("loop", "loops")],
        Shape::Cross => &[("cross", "crosses"), ("plus sign", "plus signs")],
        Shape::Heart => &[("heart", "hearts"), ("valentine", "valentines")],
        Shape::Diamond => &[("diamond", "diamonds"), ("rhombus", "rhombuses")],
        Shape::Hexagon => &[("hexagon", "hexagons"), ("honeycomb cell", "honeycomb cells")],
        Shape::Crescent => &[("crescent", "crescents"), ("half moon", "half moons")],
        Shape::Arrow => &[("arrow", "arrows"), ("pointer", "pointers")],
        Shape::Oval => &[("oval", "ovals"), ("ellipse", "ellipses"), ("egg", "eggs")],
        Shape::Flower => &[("flower", "flowers"), ("blossom", "blossoms")],
        Shape::House => &[("house", "houses"), ("cottage", "cottages"), ("hut", "huts")],
    }
}

pub(super) fn colour(colour: Colour) -> &'static [&'static str] {
    match colour {
        Colour::Red => &["red", "scarlet", "crimson"],
        Colour::Blue => &["blue", "cobalt", "azure"],
        Colour::Green => &["green", "emerald"],
        Colour::Yellow => &["yellow", "golden"],
        Colour::White => &["white", "ivory"],
        Colour::Black => &["black", "ebony"],
        Colour::Orange => &["orange", "amber"],
        Colour::Purple => &["purple", "violet"],
        Colour::Pink => &["pink", "rosy"],
        Colour::Brown => &["brown", "chestnut"],
        Colour::Grey => &["grey", "gray", "silver"],
        Colour::Turquoise => &["turquoise", "cyan", "teal"],
        Colour::Lime => &["lime", "yellowish green"],
    }
}

pub(super) fn size(size: Size) -> &'static [&'static str] {
    match size {
        Size::Small => &["small", "little", "tiny"],
        Size::Medium => &["medium", "medium sized", "middling"],
        Size::Large => &["large", "big", "huge", "sizeable"],
    }
}

/// Words before the noun.
pub(super) fn texture(texture: Texture) -> &'static [&'static str] {
    match texture {
        Texture::Plain => &["plain", "solid", "smooth"],
        Texture::Striped => &["striped", "stripy", "banded"],
        Texture::Dotted => &["dotted", "spotted", "speckled"],
        Texture::Checked => &["checked", "checkered", "chequered"],
        Texture::Gridded => &["gridded", "latticed"],
        Texture::Zigzag => &["zigzag", "wavy"],
    }
}

/// Words after the noun.
pub(super) fn pattern(texture: Texture) -> &'static [&'static str] {
    match texture {
        Texture::Plain => &["without any pattern", "without a pattern"],
        Texture::Striped => &["with stripes", "with bands", "covered in stripes"],
        Texture::Dotted => &["with dots", "with spots", "with polka dots"],
        Texture::Checked => &["with checks", "with a checked pattern"],
        Texture::Gridded => &["with grid lines", "with a lattice on it"],
        Texture::Zigzag => &["with a zigzag pattern", "with zigzag lines"],
    }
}

pub(super) fn place(place: Place) -> &'static [&'static str] {
    match (place.column, place.row) {
        (0, 0) => &["at the top left", "in the upper left corner", "in the top left corner"],
        (1, 0) => &["at the top", "near the upper edge", "in the top row", "at the upper end"],
        (2, 0) => &["at the top right", "in the upper right corner", "in the top right corner"],
        (0, 1) => {
            &["on the left", "near the left edge", "on the left side", "on the left hand side"]
        }
        (1, 1) => &["in the middle", "in the centre", "at the center", "in the very middle"],
        (2, 1) => &["on the right", "near the right edge", "on the right side", "on the far right"],
        (0, 2) => &["at the bottom left", "in the lower left corner", "in the bottom left corner"],
        (1, 2) => {
            &["at the bottom", "near the lower edge", "in the bottom row", "at the lower end"]
        }
        _ => &["at the bottom right", "in the lower right corner", "in the bottom right corner"],
    }
}

/// Phrases for the backdrop, after the objects.
pub(super) fn backdrop(backdrop: Backdrop) -> &'static [&'static str] {
    match backdrop {
        Backdrop::Paper => {
            &["on a cream background", "on beige paper", "against a pale backdrop", "on a page"]
        }
        Backdrop::Meadow => &[
            "in a meadow",
            "over green grass",
            "in a grassy field",
            "above a lawn under a clear sky",
        ],
        Backdrop::Mist => {
            &["in the mist", "on a pale blue background", "in thin fog", "in a hazy sky"]
        }
        Backdrop::Beach => {
            &["on a beach", "above the sand", "on a sandy shore", "over dry sand under a clear sky"]
        }
        Backdrop::Slate => {
            &["on a dark background", "on slate", "against a dark wall", "on a blackboard"]
        }
        Backdrop::Room => {
            &["in a room", "indoors", "above a wooden floor", "in front of a lilac wall"]
        }
        Backdrop::Night => &["at night", "in the dark", "against the night sky", "after nightfall"],
        Backdrop::Dusk => &["at dusk", "at sunset", "in the evening", "against the glow of sunset"],
        Backdrop::Snow => &["in the snow", "in winter", "over white snow", "above a snowy field"],
        Backdrop::Desert => {
            &["in the desert", "over hot dunes", "above the dunes", "in a dusty desert"]
        }
        Backdrop::Sea => &["at sea", "over the water", "above the ocean", "over deep blue waves"],
    }
}

/// "one" to "six"; scenes have no more objects.
pub(super) fn number(count: usize) -> &'static str {
    const NUMBERS: [&str; 7] = ["no", "one", "two", "three", "four", "five", "six"];
    NUMBERS[count.min(6)]
}

/// Nouns for any object.
pub(super) const THINGS: &[Noun] =
    &[("shape", "shapes"), ("object", "objects"), ("thing", "things"), ("figure", "figures")];

/// Nouns for a scene.
pub(super) const PICTURES: &[&str] =
    &["picture", "image", "scene", "drawing", "view", "illustration"];

/// Verbs for an object's presence.
pub(super) const VERBS: &[&str] =
    &["is", "sits", "lies", "appears", "can be seen", "rests", "is placed", "is shown"];

pub(super) const LEFT: &[&str] = &["to the left of", "left of", "on the left of"];
pub(super) const RIGHT: &[&str] = &["to the right of", "right of", "on the right of"];
pub(super) const ABOVE: &[&str] = &["above", "over", "higher than"];
pub(super) const BELOW: &[&str] = &["below", "under", "beneath", "underneath", "lower than"];
pub(super) const BESIDE: &[&str] = &["next to", "beside", "near", "close to", "alongside"];
pub(super) const LARGER: &[&str] = &["larger than", "bigger than"];
pub(super) const SMALLER: &[&str] = &["smaller than", "tinier than"];
