//! Picks with the names of items and pairs, as files hold them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use nextpair_engine::{Pick, Picks, Reason};
use serde::Serialize;

/// One pick, as a line of JSON has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PickRow {
    /// Its place among the picks, from 1.
    pub rank: usize,
    /// Its place in the pool, from 0.
    pub index: u32,
    /// Its name.
    pub id: String,
    /// What the strategy gave it.
    pub score: f64,
    /// How many anchors it is a hit of, for strategies that look at hits.
    pub hits: Option<u32>,
    /// Its strongest hits.
    pub why: Vec<ReasonRow>,
    /// More numbers about it, for strategies that have any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<Cow<'static, str>, f64>,
}

/// One reason of a pick: see [`Reason`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReasonRow {
    /// The pair whose anchor it is.
    pub anchor: u32,
    /// The name of the pair.
    pub anchor_id: String,
    /// The item's similarity to the anchor.
    pub similarity: f64,
    /// The anchor's threshold.
    pub threshold: f64,
    /// How far the similarity exceeds it.
    pub surplus: f64,
    /// The similarity of the anchor's own pair.
    pub own: f64,
}

impl PickRow {
    /// All picks with their names. `id` and `anchor_id` name pool items and pairs.
    pub fn all(
        picks: &Picks,
        id: impl Fn(u32) -> String,
        anchor_id: impl Fn(u32) -> String,
    ) -> Vec<PickRow> {
        let why = |reason: &Reason| ReasonRow {
            anchor: reason.anchor,
            anchor_id: anchor_id(reason.anchor),
            similarity: reason.similarity,
            threshold: reason.threshold,
            surplus: reason.surplus,
            own: reason.own,
        };
        let row = |(rank, pick): (usize, &Pick)| PickRow {
            rank: rank + 1,
            index: pick.index,
            id: id(pick.index),
            score: pick.score,
            hits: pick.hits,
            why: pick.why.iter().map(why).collect(),
            facts: pick.facts.iter().map(|fact| (fact.name.into(), fact.value)).collect(),
        };
        picks.picks.iter().enumerate().map(row).collect()
    }

    /// Writes rows as lines of JSON.
    pub fn write_jsonl(out: &mut impl Write, rows: &[PickRow]) -> io::Result<()> {
        for row in rows {
            serde_json::to_writer(&mut *out, row)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}
