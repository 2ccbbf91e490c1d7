//! The bound in single precision, for CPUs without byte products and as a second opinion.

use super::sums::dot;
use super::{BlockCuts, Projected, gamma, round_down, round_up};
use crate::product::product;

/// Columns per tile.
pub(super) const BLOCK: usize = 512;

/// Up to [`BLOCK`] columns.
pub(super) struct Block {
    columns: Projected,
    residuals: Vec<f32>,
}

impl Block {
    pub(super) fn new(columns: Projected) -> Self {
        let residuals = (0..columns.count()).map(|c| round_up(columns.residual(c))).collect();
        Block { columns, residuals }
    }
}

/// Appends the pairs of `rows` and the blocks' columns that may be above the cuts.
pub(super) fn search(
    blocks: &[Block],
    rows: &Projected,
    aim: &BlockCuts,
    finish: bool,
    found: &mut Vec<(u32, u32)>,
) {
    let (values, width, error) = rows.first();
    // The product itself is rounded too; that counts as an error of the rows.
    let row_error = error + gamma(width + 8);
    // Without projection the tile is as good as the second product.
    let finish = finish && rows.lead.is_some();
    let row_residuals: Vec<f32> = (0..rows.count()).map(|r| round_up(rows.residual(r))).collect();
    let mut tile = vec![0.0; rows.count() * BLOCK.min(aim.cuts.len())];
    for (b, block) in blocks.iter().enumerate() {
        let (columns, _, column_error) = block.columns.first();
        let (start, count) = (b * BLOCK, block.columns.count());
        let tile = &mut tile[..rows.count() * count];
        product((rows.count(), width, count), (values, width, 1), (columns, 1, width), tile);
        let limits: Vec<f32> = (start..start + count)
            .map(|column| round_down(aim.limit(column, row_error, column_error)))
            .collect();
        let tilts: Vec<f32> = aim.tilts[start..][..count].iter().map(|&t| t as f32).collect();
        for (r, values) in tile.chunks_exact(count).enumerate() {
            let (residual, offset) = (row_residuals[r], aim.offsets[r]);
            let stands = |c: usize| {
                let bound = values[c] + residual * block.residuals[c] + offset * tilts[c];
                // A comparison with NaN is false, so such a pair stands.
                let ruled_out = bound <= limits[c];
                !ruled_out
            };
            for first in (0..count).step_by(16) {
                let chunk = first..count.min(first + 16);
                // One test for the whole chunk, which the compiler vectorises.
                if !chunk.clone().fold(false, |any, c| any | stands(c)) {
                    continue;
                }
                for c in chunk.filter(|&c| stands(c)) {
                    if !finish || stands_whole(rows, r, block, c, start + c, aim) {
                        found.push((r as u32, (start + c) as u32));
                    }
                }
            }
        }
    }
}

/// Whether a pair may be above its cut, by the product over all dimensions.
fn stands_whole(
    rows: &Projected,
    row: usize,
    block: &Block,
    position: usize,
    column: usize,
    aim: &BlockCuts,
) -> bool {
    let x = &rows.units[row * rows.dim..][..rows.dim];
    let y = &block.columns.units[position * rows.dim..][..rows.dim];
    let value = dot(x, y) as f64 + aim.offsets[row] as f64 * aim.tilts[column];
    let ruled_out =
        value <= aim.limit(column, rows.error + gamma(rows.dim + 8), block.columns.error);
    !ruled_out
}
