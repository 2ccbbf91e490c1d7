//! Sums of some rows of a matrix for each of several places.

use nextpair_cuda::{Array, Grid};
use rayon::prelude::*;

use super::Unit;
use crate::Error;

/// Pairs of numbers that several threads sort.
const MANY: usize = 1 << 16;

/// Places for every pair, up to which pairs are counted rather than sorted.
const COUNTED: usize = 8;

/// Which rows each place gets.
pub(crate) struct Grouping {
    places: usize,
    named: usize,
    of_places: Array<u32>,
    firsts: Array<u32>,
    rows_of: Array<u32>,
}

impl Unit {
    /// Groups pairs `(place, row)`, in any order. Rows are added up in the order of their numbers.
    pub(crate) fn grouping(
        &self,
        pairs: impl Iterator<Item = (u32, u32)>,
        places: usize,
    ) -> Result<Grouping, Error> {
        let (named, firsts, rows_of) = grouped(pairs.collect(), places);
        Ok(Grouping {
            places,
            named: named.len(),
            of_places: self.array(&named)?,
            firsts: self.array(&firsts)?,
            rows_of: self.array(&rows_of)?,
        })
    }

    /// The sums of the rows of `dim` numbers that every place gets; other places get zeros.
    pub(crate) fn add_grouped(
        &self,
        rows: &Array<f32>,
        dim: usize,
        grouping: &Grouping,
    ) -> Result<Array<f32>, Error> {
        let out = match grouping.named == grouping.places {
            true => self.empty(grouping.places * dim)?,
            false => self.zeros(grouping.places * dim)?,
        };
        let arguments = [
            (&out).into(),
            rows.into(),
            (&grouping.of_places).into(),
            (&grouping.firsts).into(),
            (&grouping.rows_of).into(),
            dim.into(),
        ];
        self.run("add_rows", Grid::plane(grouping.named, dim.div_ceil(256), 256), &arguments)?;
        Ok(out)
    }

    /// The same for pairs that are used once.
    pub(crate) fn add_rows(
        &self,
        rows: &Array<f32>,
        dim: usize,
        pairs: impl Iterator<Item = (u32, u32)>,
        places: usize,
    ) -> Result<Array<f32>, Error> {
        self.add_grouped(rows, dim, &self.grouping(pairs, places)?)
    }
}

/// The places that have rows, the first row of each and the end of the last, and the rows.
fn grouped(mut pairs: Vec<(u32, u32)>, places: usize) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let rising = pairs.is_sorted_by_key(|&(_, row)| row);
    if rising && places <= COUNTED * pairs.len() {
        return counted(&pairs, places);
    }
    // Waking other threads takes longer than sorting some thousand pairs.
    match pairs.len() {
        0..MANY => pairs.sort_unstable(),
        _ => pairs.par_sort_unstable(),
    }
    let (mut named, mut firsts) = (Vec::new(), vec![0]);
    for run in pairs.chunk_by(|a, b| a.0 == b.0) {
        named.push(run[0].0);
        firsts.push(firsts[named.len() - 1] + run.len() as u32);
    }
    (named, firsts, pairs.into_iter().map(|(_, row)| row).collect())
}

/// The same for rows in rising order, without sorting.
fn counted(pairs: &[(u32, u32)], places: usize) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let mut next = vec![0u32; places];
    pairs.iter().for_each(|&(place, _)| next[place as usize] += 1);
    let (mut named, mut firsts, mut end) = (Vec::new(), vec![0], 0);
    for (place, next) in next.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
        named.push(place as u32);
        end += std::mem::replace(next, end);
        firsts.push(end);
    }
    let mut rows_of = vec![0; pairs.len()];
    for &(place, row) in pairs {
        let next = &mut next[place as usize];
        rows_of[*next as usize] = row;
        *next += 1;
    }
    (named, firsts, rows_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_pairs_are_sorted_pairs() {
        let pairs: Vec<(u32, u32)> = (0..500).map(|row| (row * 7919 % 97, row)).collect();
        let expected = grouped(pairs.iter().rev().copied().collect(), 100);
        assert_eq!(grouped(pairs.clone(), 100), expected);
        assert_eq!(grouped(pairs, 1 << 20), expected);
        assert_eq!(grouped(Vec::new(), 3), (vec![], vec![0], vec![]));
        let (named, firsts, rows) = expected;
        assert_eq!((named.len(), firsts.len(), rows.len()), (97, 98, 500));
        assert!(firsts.windows(2).all(|span| {
            let own = &rows[span[0] as usize..span[1] as usize];
            own.is_sorted() && own.iter().all(|row| row * 7919 % 97 == own[0] * 7919 % 97)
        }));
    }
}
