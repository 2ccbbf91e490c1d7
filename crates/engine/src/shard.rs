//! A pool cut into consecutive pieces of almost equal size.

use std::ops::Range;
use std::str::FromStr;

/// One of several consecutive pieces of the pool: `2/8`, with pieces from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

impl Shard {
    /// The pool as one piece.
    pub const WHOLE: Shard = Shard { index: 0, count: 1 };

    /// Piece `index` of `count`: 0 to `count - 1`, or 1 to `count`, where piece `count` is the same
    /// as piece 0. `None` if there is no such piece.
    pub fn new(index: u64, count: u64) -> Option<Self> {
        let there_is = count > 0 && count <= u64::from(u32::MAX) && index <= count;
        there_is.then(|| Shard { index: index % count, count })
    }

    /// The number of pieces.
    pub fn count(self) -> u64 {
        self.count
    }

    /// The items of a pool in this piece; may be empty if there are more pieces than items.
    pub fn items(self, pool: usize) -> Range<u32> {
        let edge = |i: u64| (u128::from(i) * pool as u128 / u128::from(self.count)) as u32;
        edge(self.index)..edge(self.index + 1)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a shard like 0/4");
        let (index, count) = text.split_once('/').ok_or_else(wrong)?;
        let number = |digits: &str| digits.trim().parse::<u64>().map_err(|_| wrong());
        Shard::new(number(index)?, number(count)?).ok_or_else(|| {
            format!("'{text}' is not a shard: the index must be within 0 and the count")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cover_the_pool_in_either_numbering() {
        for pool in [0, 1, 5, 97] {
            let shard = |i: u64| format!("{i}/4").parse::<Shard>().unwrap().items(pool);
            assert_eq!(shard(4), shard(0));
            let ends: Vec<u32> = (0..4).map(|i| shard(i).end).collect();
            assert_eq!((shard(0).start, ends[3]), (0, pool as u32));
            assert!((1..4).all(|i| shard(i).start == ends[i as usize - 1]));
            assert_eq!(Shard::WHOLE.items(pool), 0..pool as u32);
        }
        for wrong in ["5/4", "1", "a/b", "0/0", "-1/3"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
