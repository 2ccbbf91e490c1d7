//! Tables of pairs of items: products of the rows of one with the rows of the other, and sums of rows by
//! the numbers of a table. With a softmax between them they are attention.

mod gpu;

use std::ops::Range;
use std::sync::Arc;

use nextpair_cuda::Array;

use super::{softmax_spans, unit_columns};
use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Left, Packed, Real, Tensor};

/// Pairs of items of two sides, each with a table: a row for every row of its first item, a column for
/// every row of its second. The numbers of all tables stand one after the other, in a tensor of one column.
/// What tables say of the rows of their first items are lines, those of a pair one after the other.
#[derive(Clone)]
pub struct Tables(Arc<Shape>);

struct Shape {
    first: Vec<usize>,
    second: Vec<usize>,
    pairs: Vec<(u32, u32)>,
    /// The first number of every table, then the end of the last.
    numbers: Vec<usize>,
    /// The first line of every table, then the end of the last.
    lines: Vec<usize>,
}

impl Tables {
    /// Of some pairs of items of two sides: for each side the first row of each item, then the end of the
    /// last.
    ///
    /// # Errors
    /// If an item has no rows, or there is no such pair.
    pub fn new(first: &[usize], second: &[usize], pairs: &[(u32, u32)]) -> Result<Self, Error> {
        for (what, offsets) in [("the first items of pairs", first), ("the second", second)] {
            if let Some(item) = offsets.windows(2).position(|span| span[0] >= span[1]) {
                return Err(Error::EmptyItem { what, item });
            }
        }
        let (of_first, of_second): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        Error::check_indices("first items of pairs", &of_first, first.len() - 1)?;
        Error::check_indices("second items of pairs", &of_second, second.len() - 1)?;
        let (mut numbers, mut lines) = (vec![0], vec![0]);
        for (at, &(own, other)) in pairs.iter().enumerate() {
            let (rows, columns) = (span(first, own).len(), span(second, other).len());
            numbers.push(numbers[at] + rows * columns);
            lines.push(lines[at] + rows);
        }
        let (first, second, pairs) = (first.to_vec(), second.to_vec(), pairs.to_vec());
        Ok(Tables(Arc::new(Shape { first, second, pairs, numbers, lines })))
    }

    /// Of every item with itself.
    ///
    /// # Errors
    /// If an item has no rows.
    pub fn within(items: &[usize]) -> Result<Self, Error> {
        let pairs: Vec<(u32, u32)> =
            (1..items.len() as u32).map(|end| (end - 1, end - 1)).collect();
        Self::new(items, items, &pairs)
    }

    /// The first line of every pair, then the end of the last.
    pub fn lines(&self) -> &[usize] {
        &self.0.lines
    }

    /// The first number of every row of a table, then the end of the last.
    pub fn rows(&self) -> Vec<usize> {
        let Shape { numbers, .. } = &*self.0;
        let row = |at: usize| (numbers[at]..numbers[at + 1]).step_by(self.0.columns(at));
        (0..self.0.pairs.len()).flat_map(row).chain([self.0.len()]).collect()
    }

    /// The row of its item that every line is of.
    pub fn first_rows(&self) -> Vec<u32> {
        let Shape { first, pairs, .. } = &*self.0;
        pairs.iter().flat_map(|&(own, _)| span(first, own)).map(|row| row as u32).collect()
    }

    /// The products of the rows of all pairs.
    ///
    /// # Errors
    /// If the tensors are not the rows of the items, or have different dimensions.
    pub fn products(&self, first: &Tensor, second: &Tensor) -> Result<Tensor, Error> {
        let ((rows, dim), (others, of_others)) = (first.matrix_shape()?, second.matrix_shape()?);
        Error::check_dims("the rows of first items", dim, "those of second items", of_others)?;
        Error::check_len("the rows of first items", rows, end(&self.0.first))?;
        Error::check_len("the rows of second items", others, end(&self.0.second))?;
        apply(Products { of: self.clone(), dim }, &[first, second])
    }

    /// For every line the sum of the rows of the second item by the numbers of the line.
    ///
    /// # Errors
    /// If the tensors are not tables, and the rows of the items.
    pub fn sums(&self, tables: &Tensor, second: &Tensor) -> Result<Tensor, Error> {
        let (rows, dim) = second.matrix_shape()?;
        Error::check_len("the numbers of tables", tables.len(), self.0.len())?;
        Error::check_len("the rows of second items", rows, end(&self.0.second))?;
        apply(Sums { of: self.clone(), dim }, &[tables, second])
    }

    /// The softmax of every row of the tables.
    ///
    /// # Errors
    /// If the tensor is not that of tables.
    pub fn softmax(&self, tables: &Tensor) -> Result<Tensor, Error> {
        softmax_spans(tables, &self.rows())
    }

    /// The tables with columns over their norms plus 1e-8.
    ///
    /// # Errors
    /// If the tensor is not that of tables.
    pub fn unit_columns(&self, tables: &Tensor) -> Result<Tensor, Error> {
        let sizes = self.0.parts().map(|[_, lines, _, others]| (lines.len(), others.len()));
        unit_columns(tables, &sizes.collect::<Vec<_>>(), EPSILON)
    }
}

/// Added to norms.
const EPSILON: f32 = 1e-8;

/// The rows of an item.
fn span(offsets: &[usize], item: u32) -> Range<usize> {
    offsets[item as usize]..offsets[item as usize + 1]
}

fn end(offsets: &[usize]) -> usize {
    offsets.last().copied().unwrap_or(0)
}

impl Shape {
    /// Numbers of all tables.
    fn len(&self) -> usize {
        end(&self.numbers)
    }

    /// Columns of a table.
    fn columns(&self, pair: usize) -> usize {
        span(&self.second, self.pairs[pair].1).len()
    }

    /// Of every pair the numbers of its table, its lines, and the rows of its items.
    fn parts(&self) -> impl Iterator<Item = [Range<usize>; 4]> {
        self.pairs.iter().enumerate().map(|(at, &(own, other))| {
            let (numbers, lines) = (&self.numbers, &self.lines);
            [
                numbers[at]..numbers[at + 1],
                lines[at]..lines[at + 1],
                span(&self.first, own),
                span(&self.second, other),
            ]
        })
    }

    /// The same for runs of pairs whose first items stand one after the other and whose second items are the
    /// same: their tables are one matrix.
    fn runs(&self) -> Vec<[Range<usize>; 4]> {
        let mut runs: Vec<[Range<usize>; 4]> = Vec::new();
        for part in self.parts() {
            match runs.last_mut() {
                Some(run) if run[2].end == part[2].start && run[3] == part[3] => {
                    (0..3).for_each(|at| run[at].end = part[at].end);
                }
                _ => runs.push(part),
            }
        }
        runs
    }
}

/// The numbers of some rows of `dim`.
fn rows_of<N>(values: &[N], rows: &Range<usize>, dim: usize) -> Range<usize> {
    debug_assert!(rows.end * dim <= values.len());
    rows.start * dim..rows.end * dim
}

/// The right side of products, laid out again when its rows are others than before.
struct Right {
    packed: Packed,
    rows: Range<usize>,
}

impl Right {
    fn new() -> Self {
        Right { packed: Packed::empty(), rows: 0..0 }
    }

    /// Rows of `dim` numbers.
    fn of(&mut self, values: &[f32], rows: &Range<usize>, dim: usize) -> &Packed {
        if self.rows != *rows {
            self.packed.repack(rows.len(), dim, &values[rows_of(values, rows, dim)]);
            self.rows = rows.clone();
        }
        &self.packed
    }

    /// Rows of `dim` numbers as columns.
    fn of_columns(&mut self, values: &[f32], rows: &Range<usize>, dim: usize) -> &Packed {
        if self.rows != *rows {
            self.packed.repack_transposed(rows.len(), dim, &values[rows_of(values, rows, dim)]);
            self.rows = rows.clone();
        }
        &self.packed
    }
}

struct Products {
    of: Tables,
    dim: usize,
}

impl Operation for Products {
    fn shape(&self) -> Vec<usize> {
        vec![self.of.0.len(), 1]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let mut out = Vec::with_capacity(self.of.0.len());
        for [_, _, own, others] in self.of.0.parts() {
            let rows = |at: usize, rows: &Range<usize>| {
                inputs[at][rows_of(inputs[at], rows, self.dim)].chunks_exact(self.dim)
            };
            for row in rows(0, &own) {
                out.extend(rows(1, &others).map(|other| R::dot(row, other)));
            }
        }
        out
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = vec![0.0; self.of.0.len()];
        let mut right = Right::new();
        for [table, _, own, others] in self.of.0.runs() {
            let rows = &inputs[0][rows_of(inputs[0], &own, self.dim)];
            let right = right.of_columns(inputs[1], &others, self.dim);
            right.multiply(Left::rows(rows, self.dim), &mut out[table]);
        }
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let dim = self.dim;
        let [mut of_first, mut of_second] =
            [0, 1].map(|at| wanted[at].then(|| vec![0.0; inputs[at].len()]));
        let (mut by_second, mut by_first) = (Right::new(), Right::new());
        for [table, _, own, others] in self.of.0.runs() {
            let slopes = &upstream[table];
            if let Some(out) = &mut of_first {
                let out = &mut out[own.start * dim..own.end * dim];
                let right = by_second.of(inputs[1], &others, dim);
                right.multiply_add(Left::rows(slopes, others.len()), out);
            }
            if let Some(out) = &mut of_second {
                let out = &mut out[others.start * dim..others.end * dim];
                let right = by_first.of(inputs[0], &own, dim);
                right.multiply_add(Left::transposed(slopes, others.len()), out);
            }
        }
        Ok(vec![of_first, of_second])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        self.of.0.products_on(unit, (inputs[0], false), inputs[1], self.dim)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let shape = &self.of.0;
        let of_first = wanted[0]
            .then(|| shape.to_first_on(unit, upstream, inputs[1], self.dim))
            .transpose()?;
        let of_second = wanted[1]
            .then(|| shape.to_second_on(unit, upstream, (inputs[0], false), self.dim))
            .transpose()?;
        Ok(vec![of_first, of_second])
    }
}

struct Sums {
    of: Tables,
    dim: usize,
}

impl Operation for Sums {
    fn shape(&self) -> Vec<usize> {
        vec![end(&self.of.0.lines), self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let mut out = Vec::with_capacity(self.shape().iter().product());
        for [table, _, _, others] in self.of.0.parts() {
            let rows = &inputs[1][rows_of(inputs[1], &others, self.dim)];
            for line in inputs[0][table].chunks_exact(others.len()) {
                let column = |at: usize| rows[at..].iter().step_by(self.dim);
                out.extend(
                    (0..self.dim).map(|at| {
                        R::sum(line.iter().zip(column(at)).map(|(&weight, &x)| weight * x))
                    }),
                );
            }
        }
        out
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let dim = self.dim;
        let mut out = vec![0.0; self.shape().iter().product()];
        let mut right = Right::new();
        for [table, lines, _, others] in self.of.0.runs() {
            let right = right.of(inputs[1], &others, dim);
            let out = &mut out[lines.start * dim..lines.end * dim];
            right.multiply(Left::rows(&inputs[0][table], others.len()), out);
        }
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let dim = self.dim;
        let [mut of_tables, mut of_second] =
            [0, 1].map(|at| wanted[at].then(|| vec![0.0; inputs[at].len()]));
        let (mut by_second, mut by_lines) = (Right::new(), Right::new());
        for [table, lines, _, others] in self.of.0.runs() {
            if let Some(out) = &mut of_tables {
                let slopes = &upstream[lines.start * dim..lines.end * dim];
                let right = by_second.of_columns(inputs[1], &others, dim);
                right.multiply(Left::rows(slopes, dim), &mut out[table.clone()]);
            }
            if let Some(out) = &mut of_second {
                let out = &mut out[others.start * dim..others.end * dim];
                let right = by_lines.of(upstream, &lines, dim);
                right.multiply_add(Left::transposed(&inputs[0][table], others.len()), out);
            }
        }
        Ok(vec![of_tables, of_second])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        self.of.0.to_lines_on(unit, inputs[0], inputs[1], self.dim)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let shape = &self.of.0;
        let of_tables = wanted[0]
            .then(|| shape.products_on(unit, (upstream, true), inputs[1], self.dim))
            .transpose()?;
        let of_second = wanted[1]
            .then(|| shape.to_second_on(unit, inputs[0], (upstream, true), self.dim))
            .transpose()?;
        Ok(vec![of_tables, of_second])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, judge_fast, tensor};

    /// With a run: the second and the third.
    const PAIRS: [(u32, u32); 6] = [(1, 0), (0, 2), (1, 2), (0, 0), (1, 2), (1, 2)];

    #[test]
    fn every_device_follows_the_formula() {
        for (dim, end) in [(5, 9), (140, 50)] {
            let (first, second) = ([0, 2, 7], [0, 3, 4, end]);
            let tables = Tables::new(&first, &second, &PAIRS).unwrap();
            let inputs = [tensor(1, &[7, dim]), tensor(2, &[end, dim])];
            let products = |inputs: &[Tensor]| tables.products(&inputs[0], &inputs[1]);
            judge(&inputs, 1e-5, products);
            judge_fast(&inputs, 1e-5, products);
            let inputs = [tensor(3, &[tables.0.len(), 1]), tensor(2, &[end, dim])];
            let sums = |inputs: &[Tensor]| tables.sums(&inputs[0], &inputs[1]);
            judge(&inputs, 1e-5, sums);
            judge_fast(&inputs, 1e-5, sums);
            judge(&inputs[..1], 1e-5, |inputs| tables.softmax(&inputs[0]));
        }
    }

    #[test]
    fn lines_are_those_of_pairs() {
        let tables = Tables::new(&[0, 2, 7], &[0, 3, 4, 9], &PAIRS).unwrap();
        assert_eq!(tables.lines(), [0, 5, 7, 12, 14, 19, 24]);
        assert_eq!(tables.0.runs().len(), 5);
        assert_eq!(tables.rows()[..8], [0, 3, 6, 9, 12, 15, 20, 25]);
        assert_eq!(tables.first_rows()[..8], [2, 3, 4, 5, 6, 0, 1, 2]);
        let units =
            tables.unit_columns(&tensor(1, &[tables.0.len(), 1])).unwrap().to_f32s().unwrap();
        let norm: f32 = (0..5).map(|row| units[3 * row] * units[3 * row]).sum();
        assert!((norm - 1.0).abs() < 1e-5);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Tables::new(&[0, 2, 2], &[0, 3], &[]).is_err());
        assert!(Tables::new(&[0, 2], &[0, 3], &[(0, 1)]).is_err());
        let tables = Tables::within(&[0, 2, 5]).unwrap();
        let (rows, few) = (tensor(1, &[5, 3]), tensor(1, &[4, 3]));
        assert!(tables.products(&rows, &few).is_err() && tables.products(&few, &rows).is_err());
        assert!(tables.sums(&tensor(1, &[12, 1]), &rows).is_err());
    }
}
