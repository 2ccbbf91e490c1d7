//! Lazy greedy: values only fall, so old values are upper bounds.

use std::cmp::Ordering;

/// An item with the value it had when `seen` items had been picked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) item: u32,
    pub(crate) seen: usize,
}

/// A heap of bounds pops the largest value, ties to the lower item.
impl Ord for Bound {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.total_cmp(&other.value).then(other.item.cmp(&self.item))
    }
}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Bound {}
