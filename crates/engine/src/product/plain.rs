//! Products in plain loops over small arrays, which the compiler turns into the vectors of 128 bits
//! that every x86-64 has.

/// Rows and columns of a tile: its sums, a line and a factor fit into 16 registers.
const ROWS: usize = 4;
const COLUMNS: usize = 8;

/// As [`product`](super::product()), for operands that reach all of their elements.
pub(super) fn product(
    (rows, inner, columns): (usize, usize, usize),
    (left, left_row, left_column): (&[f32], usize, usize),
    (right, right_row, right_column): (&[f32], usize, usize),
    out: &mut [f32],
) {
    let tiles: Vec<[f32; ROWS]> =
        lay_out(rows, inner, |row, k| left[row * left_row + k * left_column]);
    let panels: Vec<[f32; COLUMNS]> =
        lay_out(columns, inner, |column, k| right[k * right_row + column * right_column]);
    for (p, panel) in panels.chunks_exact(inner).enumerate() {
        let across = p * COLUMNS..columns.min((p + 1) * COLUMNS);
        let lines = out.chunks_mut(ROWS * columns);
        for (tile, lines) in tiles.chunks_exact(inner).zip(lines) {
            let sums = sums(tile, panel);
            for (line, sums) in lines.chunks_exact_mut(columns).zip(&sums) {
                line[across.clone()].copy_from_slice(&sums[..across.len()]);
            }
        }
    }
}

/// Groups of `N` vectors side by side, zeros after the last: for every group its numbers at each of
/// `inner` steps.
fn lay_out<const N: usize>(
    count: usize,
    inner: usize,
    number: impl Fn(usize, usize) -> f32,
) -> Vec<[f32; N]> {
    let mut groups = vec![[0.0; N]; count.div_ceil(N) * inner];
    for (g, group) in groups.chunks_exact_mut(inner).enumerate() {
        for n in 0..N.min(count - g * N) {
            for (k, line) in group.iter_mut().enumerate() {
                line[n] = number(g * N + n, k);
            }
        }
    }
    groups
}

/// The products of a tile's rows and a panel's columns.
fn sums(tile: &[[f32; ROWS]], panel: &[[f32; COLUMNS]]) -> [[f32; COLUMNS]; ROWS] {
    let mut sums = [[0.0; COLUMNS]; ROWS];
    for (factors, line) in tile.iter().zip(panel) {
        // By index, because iterators would move the sums out of the registers.
        for r in 0..ROWS {
            for c in 0..COLUMNS {
                sums[r][c] += factors[r] * line[c];
            }
        }
    }
    sums
}
