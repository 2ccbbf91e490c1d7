//! What is known of an attended item before any query comes.

use crate::packed::{Left, Packed, Plan, Tiles, tile_size};

use super::memory::Gated;

/// The rows of an attended item and what follows from them alone.
#[derive(Debug)]
pub(super) struct Context {
    /// How many rows there are.
    pub(super) rows: usize,
    /// The rows, as the left side of scores.
    pub(super) regions: Tiles,
    /// The products of all rows with each other, which give the lengths of attended vectors: the
    /// square of the length of a mean of rows is a quadratic form in the weights.
    pub(super) gram: Tiles,
    /// What the memory makes of the rows.
    pub(super) projected: Option<Tiles>,
}

impl Context {
    pub(super) fn new(values: &[f32], dim: usize, memory: Option<&Gated>) -> Self {
        let rows = values.len() / dim;
        let plan = Plan::new(rows, 1, tile_size().0);
        let mut gram = vec![0.0; rows * rows];
        Packed::transposed(rows, dim, values).multiply(Left::rows(values, dim), &mut gram);
        Context {
            rows,
            regions: Tiles::new(Left::rows(values, dim), 0, dim, plan),
            gram: Tiles::new(Left::rows(&gram, rows), 0, rows, plan),
            projected: memory.map(|memory| memory.projected(values)),
        }
    }
}
