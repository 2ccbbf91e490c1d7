//! Tables of an attended item, computed before any query comes.

use rayon::prelude::*;

use crate::packed::{Left, Packed, Plan, Tiles, tile_size};

use super::Ragged;
use super::memory::Gated;

/// The rows of an attended item, and the tables that depend on them alone.
#[derive(Debug)]
pub(super) struct Context {
    /// Number of rows.
    pub(super) rows: usize,
    /// The rows, as the left side of scores.
    pub(super) regions: Tiles,
    /// The Gram matrix of the rows, which gives the norms of attended vectors: the squared norm of
    /// a weighted mean of rows is a quadratic form in the weights.
    pub(super) gram: Tiles,
    /// The memory's projection of the rows.
    projected: Option<Tiles>,
    turned: Option<Turned>,
}

/// The same, transposed, for gradients.
#[derive(Debug)]
struct Turned {
    /// The transpose of the rows, as a left side.
    regions: Tiles,
    /// The memory's projection of the rows, as the left side of products over its outputs.
    projected: Option<Tiles>,
}

impl Context {
    /// Tables of all items of `contexts`, with those for gradients if `gradients` is set.
    pub(super) fn all(contexts: Ragged<'_>, memory: Option<&Gated>, gradients: bool) -> Vec<Self> {
        let projected = memory.map(|memory| (memory, memory.projected(contexts.all_values())));
        let table = |item: usize| {
            let made = projected.as_ref().map(|(memory, projected)| {
                let rows = contexts.rows_of(item);
                let first = rows.start - contexts.first_row();
                let size = 2 * contexts.dim;
                (*memory, &projected[first * size..][..rows.len() * size])
            });
            Context::new(contexts.values_of(item), contexts.dim, made, gradients)
        };
        (0..contexts.len()).into_par_iter().map(table).collect()
    }

    fn new(
        values: &[f32],
        dim: usize,
        projected: Option<(&Gated, &[f32])>,
        gradients: bool,
    ) -> Self {
        let rows = values.len() / dim;
        let plan = Plan::new(rows, 1, tile_size().0);
        let mut gram = vec![0.0; rows * rows];
        Packed::transposed(rows, dim, values).multiply(Left::rows(values, dim), &mut gram);
        let turned = gradients.then(|| Turned {
            regions: {
                let plan = Plan::new(dim, 1, tile_size().0);
                Tiles::new(Left::transposed(values, dim), 0, rows, plan)
            },
            projected: projected
                .map(|(_, projected)| Tiles::new(Left::rows(projected, 2 * dim), 0, 2 * dim, plan)),
        });
        Context {
            rows,
            regions: Tiles::new(Left::rows(values, dim), 0, dim, plan),
            gram: Tiles::new(Left::rows(&gram, rows), 0, rows, plan),
            projected: projected.map(|(memory, projected)| {
                Tiles::new(Left::transposed(projected, 2 * dim), 0, rows, memory.plan)
            }),
            turned,
        }
    }

    /// The memory's projection of the rows, as the left side of a product with weights.
    pub(super) fn projected(&self) -> &Tiles {
        self.projected.as_ref().expect("a matcher of several steps has a memory")
    }

    /// The memory's projection of the rows, as the left side of products over its outputs.
    pub(super) fn turned_projected(&self) -> &Tiles {
        let turned = self.turned.as_ref().and_then(|turned| turned.projected.as_ref());
        turned.expect("made for gradients of several steps")
    }

    /// The transpose of the rows, as a left side.
    pub(super) fn turned_regions(&self) -> &Tiles {
        &self.turned.as_ref().expect("made for gradients").regions
    }
}
