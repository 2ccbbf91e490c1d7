//! Pairs that are never rivals of each other, because they share an image or a text.

use std::collections::HashMap;

use crate::Error;

/// Merges labels of several kinds into one group label per pair: pairs that share a label of any
/// kind form a group. The label of a group is its first pair.
///
/// A pair carries one label (contract of the selection, section 2), so sharing is transitive: an
/// image with the captions `t` and `u` and another image with the caption `u` form one group of
/// three pairs. As far as the labels tell, each of these captions describes both images, so none
/// shows how similar a wrong image may be.
///
/// # Errors
/// If a kind does not have one label for each of `pairs`.
pub fn group_labels<'a>(
    pairs: usize,
    kinds: impl IntoIterator<Item = &'a [u32]>,
) -> Result<Vec<u32>, Error> {
    let mut forest = Forest { parents: (0..pairs as u32).collect() };
    for labels in kinds {
        if labels.len() != pairs {
            return Err(Error::GroupCount { labels: labels.len(), pairs });
        }
        let mut first = HashMap::new();
        for (pair, label) in (0..).zip(labels) {
            let first = *first.entry(label).or_insert(pair);
            forest.join(first, pair);
        }
    }
    Ok((0..pairs as u32).map(|pair| forest.root(pair)).collect())
}

/// Disjoint sets; the root of each is its lowest member.
struct Forest {
    parents: Vec<u32>,
}

impl Forest {
    fn root(&mut self, mut member: u32) -> u32 {
        while self.parents[member as usize] != member {
            let parent = self.parents[member as usize];
            // Halves the path for later lookups.
            self.parents[member as usize] = self.parents[parent as usize];
            member = parent;
        }
        member
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b) as usize] = a.min(b);
    }
}
