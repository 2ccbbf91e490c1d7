//! Pooling of the grid of vectors that an encoder computes for a picture.

use std::ops::Range;

use crate::preprocess::Layout;

/// `rows * columns` vectors of `dim` dimensions.
#[derive(Debug)]
pub(super) struct Grid<'a> {
    numbers: &'a [f32],
    rows: usize,
    columns: usize,
    dim: usize,
    /// Distances between the numbers of one vector, and between vectors.
    strides: (usize, usize),
}

impl<'a> Grid<'a> {
    /// Finds the grid in the output of one picture. The error says what was expected.
    pub(super) fn new(shape: &[usize], numbers: &'a [f32], layout: Layout) -> Result<Self, String> {
        if numbers.is_empty() {
            return Err("expected some numbers".into());
        }
        match (shape, layout) {
            (&[1, dim, rows, columns], Layout::Nchw) => {
                Ok(Grid { numbers, rows, columns, dim, strides: (rows * columns, 1) })
            }
            (&[1, rows, columns, dim], Layout::Nhwc) => {
                Ok(Grid { numbers, rows, columns, dim, strides: (1, dim) })
            }
            (&[1, tokens, dim], _) => {
                let is_square = |count: usize| count > 0 && count.isqrt().pow(2) == count;
                let class = match (is_square(tokens), is_square(tokens - 1)) {
                    (true, _) => 0,
                    (false, true) => 1,
                    _ => return Err("expected a square of tokens, or one token more".into()),
                };
                let side = (tokens - class).isqrt();
                let numbers = &numbers[class * dim..];
                Ok(Grid { numbers, rows: side, columns: side, dim, strides: (1, dim) })
            }
            _ => Err("expected the grid of one picture: a shape of four sizes, or of three with \
                      tokens in a square"
                .into()),
        }
    }

    /// The mean of all vectors.
    pub(super) fn mean(&self) -> Vec<f32> {
        self.average(0..self.rows, 0..self.columns).collect()
    }

    /// The means over `count` windows, one after another. The windows are those of PyTorch's
    /// adaptive pooling: every cell is in at least one, and some are in two.
    pub(super) fn regions(&self, count: usize) -> Result<Vec<f32>, String> {
        let (down, across) = arrangement(count);
        if down == 0 || down > self.rows || across > self.columns {
            let (rows, columns) = (self.rows, self.columns);
            return Err(format!(
                "{count} regions are {down} x {across}, the grid is {rows} x {columns}"
            ));
        }
        let window =
            |n: usize, of: usize, size: usize| n * size / of..((n + 1) * size).div_ceil(of);
        let windows = (0..count).map(|n| {
            (window(n / across, down, self.rows), window(n % across, across, self.columns))
        });
        Ok(windows.flat_map(|(rows, columns)| self.average(rows, columns)).collect())
    }

    fn average(&self, rows: Range<usize>, columns: Range<usize>) -> impl Iterator<Item = f32> {
        let count = (rows.len() * columns.len()) as f64;
        (0..self.dim).map(move |d| {
            let cells = rows.clone().flat_map(|r| columns.clone().map(move |c| (r, c)));
            let at = |(r, c)| d * self.strides.0 + (r * self.columns + c) * self.strides.1;
            let sum: f64 = cells.map(|cell| f64::from(self.numbers[at(cell)])).sum();
            (sum / count) as f32
        })
    }
}

/// Rows and columns: the two factors of `count` that are closest, the smaller first.
fn arrangement(count: usize) -> (usize, usize) {
    let down = (1..=count.isqrt()).rev().find(|rows| count.is_multiple_of(*rows)).unwrap_or(0);
    (down, count.checked_div(down).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements_are_as_square_as_they_can_be() {
        for (count, expected) in
            [(36, (6, 6)), (1, (1, 1)), (12, (3, 4)), (49, (7, 7)), (7, (1, 7)), (0, (0, 0))]
        {
            assert_eq!(arrangement(count), expected);
        }
    }

    #[test]
    fn layouts_agree() {
        // Two numbers per cell of a 2 x 3 grid: the index of the cell, and 100 more.
        let last: Vec<f32> = (0..6).flat_map(|cell| [cell as f32, 100.0 + cell as f32]).collect();
        let first: Vec<f32> = (0..12).map(|i| (i % 6 + 100 * (i / 6)) as f32).collect();
        let a = Grid::new(&[1, 2, 3, 2], &last, Layout::Nhwc).unwrap();
        let b = Grid::new(&[1, 2, 2, 3], &first, Layout::Nchw).unwrap();
        for grid in [a, b] {
            assert_eq!(grid.mean(), [2.5, 102.5]);
            assert_eq!(grid.regions(2).unwrap(), [2.0, 102.0, 3.0, 103.0]);
            let cells: Vec<f32> = grid.regions(6).unwrap();
            assert_eq!(cells, last);
            let what = grid.regions(9).unwrap_err();
            assert_eq!(what, "9 regions are 3 x 3, the grid is 2 x 3");
            assert!(grid.regions(0).is_err());
        }
    }

    #[test]
    fn windows_overlap_where_sizes_do_not_divide() {
        let numbers: Vec<f32> = (0..9).map(|n| n as f32).collect();
        let grid = Grid::new(&[1, 1, 3, 3], &numbers, Layout::Nchw).unwrap();
        assert_eq!(grid.regions(4).unwrap(), [2.0, 3.0, 5.0, 6.0]);
    }

    #[test]
    fn a_class_token_is_dropped() {
        let numbers = [9.0, 1.0, 2.0, 3.0, 4.0];
        let grid = |count: usize| Grid::new(&[1, count, 1], &numbers[..count], Layout::Nchw);
        assert_eq!(grid(5).unwrap().mean(), [2.5]);
        assert_eq!(grid(4).unwrap().mean(), [3.75]);
        assert_eq!(grid(2).unwrap().mean(), [1.0]);
        assert_eq!(grid(3).unwrap_err(), "expected a square of tokens, or one token more");
        for shape in [&[1, 4][..], &[2, 1, 1, 2], &[4]] {
            let what = Grid::new(shape, &numbers[..4], Layout::Nchw).unwrap_err();
            assert!(what.starts_with("expected the grid of one picture"), "{what}");
        }
    }
}
