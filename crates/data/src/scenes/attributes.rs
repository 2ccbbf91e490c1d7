//! The attributes of objects and backdrops, most common value first.

use crate::Draws;

/// Draws an index from a long-tailed (Zipf) distribution: `i` of `0..len` has weight `1 / (i + 1)`.
pub(super) fn long_tailed(draws: &mut Draws, len: usize) -> usize {
    let weight = |place: usize| 1.0 / (place + 1) as f64;
    let mut left = draws.unit() * (0..len).map(weight).sum::<f64>();
    for place in 0..len {
        left -= weight(place);
        if left < 0.0 {
            return place;
        }
    }
    0
}

/// An enum whose values are listed from common to rare.
macro_rules! attribute {
    ($(#[$doc:meta])* $name:ident { $($value:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $(#[doc = concat!("`", stringify!($value), "`.")] $value),+
        }

        impl $name {
            /// Every value, most common first.
            pub const ALL: &[$name] = &[$($name::$value),+];

            /// A long-tailed draw.
            pub(super) fn drawn(draws: &mut Draws) -> Self {
                Self::ALL[long_tailed(draws, Self::ALL.len())]
            }
        }
    };
}

/// A long-tailed draw of another value than this one.
pub(super) fn another<T: Copy + PartialEq>(value: T, all: &[T], draws: &mut Draws) -> T {
    let others: Vec<T> = all.iter().copied().filter(|&other| other != value).collect();
    others[long_tailed(draws, others.len())]
}

attribute! {
    /// The outline of an object.
    Shape {
        Circle, Square, Triangle, Star, Ring, Cross, Heart, Diamond, Hexagon, Crescent, Arrow,
        Oval, Flower, House,
    }
}

attribute! {
    /// The main colour of an object.
    Colour {
        Red, Blue, Green, Yellow, White, Black, Orange, Purple, Pink, Brown, Grey, Turquoise, Lime,
    }
}

attribute! {
    /// The size of an object.
    Size { Medium, Small, Large }
}

attribute! {
    /// The pattern on an object, in a shade of its colour.
    Texture { Plain, Striped, Dotted, Checked, Gridded, Zigzag }
}

attribute! {
    /// The backdrop behind the objects.
    Backdrop {
        Paper, Meadow, Mist, Beach, Slate, Room, Night, Dusk, Snow, Desert, Sea,
    }
}

impl Shape {
    /// The colour that objects of this shape have more often than chance.
    pub(super) fn favourite(self) -> Colour {
        match self {
            Shape::Circle | Shape::Heart => Colour::Red,
            Shape::Square | Shape::Oval => Colour::Blue,
            Shape::Triangle | Shape::Hexagon => Colour::Green,
            Shape::Star | Shape::Crescent => Colour::Yellow,
            Shape::Ring => Colour::Orange,
            Shape::Cross => Colour::White,
            Shape::Diamond => Colour::Turquoise,
            Shape::Arrow => Colour::Black,
            Shape::Flower => Colour::Pink,
            Shape::House => Colour::Brown,
        }
    }
}

impl Colour {
    /// Red, green and blue, before an object's own tint.
    pub(super) fn rgb(self) -> [f32; 3] {
        match self {
            Colour::Red => [212.0, 44.0, 46.0],
            Colour::Blue => [42.0, 92.0, 208.0],
            Colour::Green => [40.0, 140.0, 66.0],
            Colour::Yellow => [246.0, 206.0, 46.0],
            Colour::White => [247.0, 247.0, 244.0],
            Colour::Black => [30.0, 30.0, 34.0],
            Colour::Orange => [241.0, 130.0, 32.0],
            Colour::Purple => [128.0, 60.0, 172.0],
            Colour::Pink => [246.0, 138.0, 184.0],
            Colour::Brown => [122.0, 76.0, 42.0],
            Colour::Grey => [138.0, 141.0, 146.0],
            Colour::Turquoise => [42.0, 192.0, 188.0],
            Colour::Lime => [160.0, 216.0, 58.0],
        }
    }
}

impl Size {
    /// Rank from the smallest, for comparisons.
    pub(super) fn rank(self) -> usize {
        match self {
            Size::Small => 0,
            Size::Medium => 1,
            Size::Large => 2,
        }
    }
}

/// One of nine cells of a scene: columns from the left, rows from the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// 0 left, 1 middle, 2 right.
    pub column: usize,
    /// 0 top, 1 middle, 2 bottom.
    pub row: usize,
}

impl Place {
    /// All nine, row by row.
    pub(super) fn all() -> impl Iterator<Item = Place> {
        (0..9).map(|place| Place { column: place % 3, row: place / 3 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_long_tailed_and_reach_every_value() {
        let mut draws = Draws::new(1);
        let mut counts = vec![0; Shape::ALL.len()];
        for _ in 0..20_000 {
            let shape = Shape::drawn(&mut draws);
            counts[shape as usize] += 1;
            assert_ne!(another(shape, Shape::ALL, &mut draws), shape);
        }
        assert!(counts.iter().all(|&count| count > 200), "{counts:?}");
        assert!(counts[0] > 10 * counts[Shape::ALL.len() - 1], "{counts:?}");
    }

    #[test]
    fn nothing_to_choose_from_is_no_panic() {
        assert_eq!(long_tailed(&mut Draws::new(1), 0), 0);
    }
}
