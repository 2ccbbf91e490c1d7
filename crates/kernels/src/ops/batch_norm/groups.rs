//! Which numbers of a matrix are normalised together.

use std::sync::OnceLock;

use crate::{Error, Real, Tensor};

/// Which numbers of a matrix have a mean and a variance together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    /// Every column.
    Columns,
    /// Every `n`-th row: the same region of all images that have `n` regions.
    Slots(usize),
    /// The rows from each offset to the next: what belongs to one caption.
    Spans(Vec<usize>),
}

/// The groups of a matrix.
pub(super) struct Layout {
    pub(super) groups: Groups,
    pub(super) rows: usize,
    pub(super) dim: usize,
    /// The group of each row, once it was asked for.
    of_rows: OnceLock<Vec<u32>>,
    /// Numbers in each group.
    pub(super) counts: Vec<usize>,
}

impl Layout {
    pub(super) fn new(rows: &Tensor, groups: &Groups) -> Result<Self, Error> {
        let (count, dim) = rows.matrix_shape()?;
        let counts = match groups {
            Groups::Columns => vec![count; dim],
            Groups::Slots(each) => {
                let whole = count / (*each).max(1) * each;
                Error::check_len("the rows of slots", count, whole)?;
                vec![count / (*each).max(1) * dim; *each]
            }
            Groups::Spans(offsets) => {
                crate::ops::spans::check("rows to normalise", count, offsets)?;
                offsets.windows(2).map(|span| (span[1] - span[0]) * dim).collect()
            }
        };
        let (groups, of_rows) = (groups.clone(), OnceLock::new());
        Ok(Layout { groups, rows: count, dim, of_rows, counts })
    }

    /// The group of each row, unless groups are columns.
    pub(super) fn of_rows(&self) -> Option<&[u32]> {
        let of_rows = || match &self.groups {
            Groups::Columns => Vec::new(),
            Groups::Slots(each) => (0..self.rows).map(|row| (row % each) as u32).collect(),
            Groups::Spans(offsets) => {
                let lengths = offsets.windows(2).map(|span| span[1] - span[0]).enumerate();
                lengths.flat_map(|(group, n)| std::iter::repeat_n(group as u32, n)).collect()
            }
        };
        (self.groups != Groups::Columns).then(|| &self.of_rows.get_or_init(of_rows)[..])
    }

    pub(super) fn group(&self, row: usize, column: usize) -> usize {
        self.of_rows().map_or(column, |groups| groups[row] as usize)
    }

    /// Sums of a number per place, for every group.
    fn sums<R: Real>(&self, number: impl Fn(usize, usize) -> R) -> Vec<R> {
        let mut sums = vec![R::of(0.0); self.counts.len()];
        for at in 0..self.rows * self.dim {
            let group = self.group(at / self.dim, at % self.dim);
            sums[group] = sums[group] + number(at, group);
        }
        sums
    }

    /// Means and biased variances.
    pub(super) fn moments<R: Real>(&self, values: &[R]) -> (Vec<R>, Vec<R>) {
        let mean = |sums: Vec<R>| -> Vec<R> {
            let counts = self.counts.iter().map(|&count| R::of(count.max(1) as f64));
            sums.into_iter().zip(counts).map(|(sum, count)| sum / count).collect()
        };
        let means = mean(self.sums(|at, _| values[at]));
        let off = |at: usize, group: usize| values[at] - means[group];
        let variances = mean(self.sums(|at, group| off(at, group) * off(at, group)));
        (means, variances)
    }
}
