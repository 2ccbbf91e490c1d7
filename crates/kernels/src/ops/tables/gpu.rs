//! The same on a GPU: a block for each line, or for some columns of a row.

use std::ops::Range;

use nextpair_cuda::Array;

use super::{Shape, end};
use crate::Error;
use crate::cuda::Unit;

/// A pair as kernels read it: its first number, and the numbers from one row of the item that is summed for
/// to the next, and from one row of the other to the next; the first rows of both, and how many there are.
type Described = [u32; 7];

impl Shape {
    /// The pairs for sums to the rows of an item, or products of them: those of the first item, or the
    /// second, which may be lines.
    fn described(&self, of_second: bool, as_lines: bool) -> Vec<u32> {
        let describe = |[table, lines, own, others]: [Range<usize>; 4]| -> Described {
            let first = if as_lines { &lines } else { &own };
            let (own, other, steps) = match of_second {
                false => (first, &others, (others.len(), 1)),
                true => (&others, first, (1, others.len())),
            };
            let numbers =
                [table.start, steps.0, steps.1, own.start, own.len(), other.start, other.len()];
            numbers.map(|number| number as u32)
        };
        self.parts().flat_map(describe).collect()
    }

    /// The products of rows of first items, or of lines, with the rows of second items.
    pub(super) fn products_on(
        &self,
        unit: &Unit,
        (own, as_lines): (&Array<f32>, bool),
        others: &Array<f32>,
        dim: usize,
    ) -> Result<Array<f32>, Error> {
        let out = unit.empty(self.len())?;
        let (pairs, lines) = (unit.array(&self.described(false, as_lines))?, &self.lines);
        let (owners, firsts) = (unit.array(&owners(lines))?, unit.offsets(lines)?);
        let arguments = [
            (&out).into(),
            own.into(),
            others.into(),
            (&pairs).into(),
            (&owners).into(),
            (&firsts).into(),
            dim.into(),
        ];
        unit.run("table_products", Unit::rows(end(lines)), &arguments)?;
        Ok(out)
    }

    /// For every line the sum of rows of its second item.
    pub(super) fn to_lines_on(
        &self,
        unit: &Unit,
        tables: &Array<f32>,
        others: &Array<f32>,
        dim: usize,
    ) -> Result<Array<f32>, Error> {
        let alone = (0..self.pairs.len() as u32).collect();
        sums(unit, (&self.lines, alone), self.described(false, true), tables, (others, dim))
    }

    /// For every row of first items the sum of rows of second items, over all of its pairs.
    pub(super) fn to_first_on(
        &self,
        unit: &Unit,
        tables: &Array<f32>,
        others: &Array<f32>,
        dim: usize,
    ) -> Result<Array<f32>, Error> {
        let of_pairs = self.pairs.iter().map(|pair| pair.0).collect();
        sums(unit, (&self.first, of_pairs), self.described(false, false), tables, (others, dim))
    }

    /// For every row of second items the sum of rows of first items, or of lines, over all of its pairs.
    pub(super) fn to_second_on(
        &self,
        unit: &Unit,
        tables: &Array<f32>,
        (own, as_lines): (&Array<f32>, bool),
        dim: usize,
    ) -> Result<Array<f32>, Error> {
        let of_pairs = self.pairs.iter().map(|pair| pair.1).collect();
        sums(unit, (&self.second, of_pairs), self.described(true, as_lines), tables, (own, dim))
    }
}

/// The item of every row.
fn owners(offsets: &[usize]) -> Vec<u32> {
    let lengths = offsets.windows(2).map(|span| span[1] - span[0]);
    lengths.enumerate().flat_map(|(item, rows)| std::iter::repeat_n(item as u32, rows)).collect()
}

/// For every row of items the sum of others by the tables of the item's pairs, in their order.
fn sums(
    unit: &Unit,
    (offsets, of_pairs): (&[usize], Vec<u32>),
    described: Vec<u32>,
    tables: &Array<f32>,
    (others, dim): (&Array<f32>, usize),
) -> Result<Array<f32>, Error> {
    let mut order: Vec<u32> = (0..of_pairs.len() as u32).collect();
    order.sort_by_key(|&pair| of_pairs[pair as usize]);
    let before =
        |item: usize| order.partition_point(|&pair| (of_pairs[pair as usize] as usize) < item);
    let firsts: Vec<usize> = (0..offsets.len()).map(before).collect();
    let rows = end(offsets);
    let out = unit.empty(rows * dim)?;
    let [pairs, order] = [unit.array(&described)?, unit.array(&order)?];
    let (owners, firsts) = (unit.array(&owners(offsets))?, unit.offsets(&firsts)?);
    let arguments = [
        (&out).into(),
        tables.into(),
        others.into(),
        (&pairs).into(),
        (&order).into(),
        (&firsts).into(),
        (&owners).into(),
        dim.into(),
    ];
    unit.run("table_sums", Unit::numbers(rows, dim), &arguments)?;
    Ok(out)
}
