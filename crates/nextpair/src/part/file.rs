//! The file of a part: a safetensors file, so that numbers keep every bit.

use std::path::Path;

use super::{Header, Part};
use crate::Error;
use crate::tensors::{self, Counts, DAMAGED_ITEMS, Scores, Wrong, check};

const FORMAT: &str = "nextpair-part-4";

impl Part {
    /// Writes the part, whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        tensors::save(path, FORMAT, &self.header, &self.partial)
    }

    /// Reads and checks a part that [`save`](Part::save) wrote.
    pub fn load(path: &Path) -> Result<Self, Error> {
        parse(path).map_err(|what| Error::not_a_part(path, what))
    }
}

fn parse(path: &Path) -> Result<Part, Wrong> {
    let (file, header): (_, Header) = tensors::open(path, FORMAT)?;
    let counts = Counts { keep: header.keep, hard_negatives: header.hard_negatives };
    let partial = tensors::read(&file, counts, Scores::Finite)?;
    let pool = header.pool as u64;
    check(
        partial.items.iter().all(|r| r.start <= r.end && u64::from(r.end) <= pool)
            && partial.best.iter().all(|pick| u64::from(pick.index) < pool),
        DAMAGED_ITEMS,
    )?;
    Ok(Part { header, partial })
}
