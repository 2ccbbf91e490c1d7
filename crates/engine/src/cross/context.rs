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
    projected: Option<Tiles>,
    turned: Option<Turned>,
}

/// The same, the other way round.
#[derive(Debug)]
struct Turned {
    /// The transpose of the rows, as a left side.
    regions: Tiles,
    /// What the memory makes of the rows, as the left side of products over its outputs.
    projected: Option<Tiles>,
}

impl Context {
    /// What gradients need is kept if they are wanted.
    pub(super) fn new(values: &[f32], dim: usize, memory: Option<&Gated>, gradients: bool) -> Self {
        let rows = values.len() / dim;
        let plan = Plan::new(rows, 1, tile_size().0);
        let mut gram = vec![0.0; rows * rows];
        Packed::transposed(rows, dim, values).multiply(Left::rows(values, dim), &mut gram);
        let projected = memory.map(|memory| (memory, memory.projected(values)));
        let turned = gradients.then(|| Turned {
            regions: {
                let plan = Plan::new(dim, 1, tile_size().0);
                Tiles::new(Left::transposed(values, dim), 0, rows, plan)
            },
            projected: projected
                .as_ref()
                .map(|(_, projected)| Tiles::new(Left::rows(projected, 2 * dim), 0, 2 * dim, plan)),
        });
        Context {
            rows,
            regions: Tiles::new(Left::rows(values, dim), 0, dim, plan),
            gram: Tiles::new(Left::rows(&gram, rows), 0, rows, plan),
            projected: projected.map(|(memory, projected)| {
                Tiles::new(Left::transposed(&projected, 2 * dim), 0, rows, memory.plan)
            }),
            turned,
        }
    }

    /// What the memory makes of the rows, as the left side of a product with weights.
    pub(super) fn projected(&self) -> &Tiles {
        self.projected.as_ref().expect("a matcher of several steps has a memory")
    }

    /// What the memory makes of the rows, as the left side of products over its outputs.
    pub(super) fn turned_projected(&self) -> &Tiles {
        let turned = self.turned.as_ref().and_then(|turned| turned.projected.as_ref());
        turned.expect("made for gradients of several steps")
    }

    /// The transpose of the rows, as a left side.
    pub(super) fn turned_regions(&self) -> &Tiles {
        &self.turned.as_ref().expect("made for gradients").regions
    }
}
