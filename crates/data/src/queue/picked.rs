//! Picks as tasks, with the names of their items and pairs.

use nextpair_core::{self as core, Neighbour, Pick, Picks, Reason};

use super::{Near, Task, Why};

/// A pair by its name and, if it is one of a dataset, its item and caption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The name.
    pub name: String,
    /// The item and the caption.
    pub pair: Option<(String, String)>,
}

/// Returns picks in the form in which they are written, with the names of pool items and pairs.
pub fn tasks(
    picks: &Picks,
    id: impl Fn(u32) -> String,
    anchor: impl Fn(u32) -> Anchor,
) -> Vec<Task> {
    let why = |reason: &Reason| {
        let Anchor { name, pair } = anchor(reason.anchor);
        let (id, caption) = pair.unzip();
        Why {
            anchor: Some(reason.anchor),
            anchor_id: Some(name),
            id,
            caption,
            similarity: reason.similarity,
            threshold: reason.threshold,
            surplus: reason.surplus,
            own: Some(reason.own),
        }
    };
    let near = |&core::Near { item, value }: &core::Near| match item {
        Neighbour::Paired(pair) => {
            let Anchor { name, pair: known } = anchor(pair);
            let (id, caption) = known.unzip();
            Near::Paired { pair, pair_id: name, id, caption, cosine: value }
        }
        Neighbour::Pool(index) => Near::Pool { index, id: id(index), share: value },
    };
    let task = |(rank, pick): (usize, &Pick)| Task {
        rank: rank + 1,
        index: Some(pick.index),
        id: id(pick.index),
        score: pick.score,
        hits: pick.hits,
        why: pick.why.iter().map(why).collect(),
        facts: pick.facts.iter().map(|fact| (fact.name.to_owned(), fact.value)).collect(),
        near: pick.near.iter().map(near).collect(),
    };
    picks.picks.iter().enumerate().map(task).collect()
}
