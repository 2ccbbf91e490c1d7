//! Items of nearly the same direction: a sieve finds the candidates, canonical cosines decide.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::Distinct;
use crate::error::unless_stopped;
use crate::similarity::{Sieve, exact_rows, row_block};
use crate::{Embeddings, Error, Metric, Progress, Similarity, Vectors};

/// Items compared with all later ones at once. Few, because among them every pair that is alike is
/// listed.
const CHUNK: usize = 2048;

/// What is left of a pool so far.
pub(super) struct State {
    left: Vec<bool>,
    like_paired: usize,
    like_earlier: usize,
}

impl State {
    pub(super) fn new(pool: usize) -> Self {
        State { left: vec![true; pool], like_paired: 0, like_earlier: 0 }
    }

    pub(super) fn drop_like_paired(&mut self, item: u32) {
        self.left[item as usize] = false;
        self.like_paired += 1;
    }

    pub(super) fn drop_like_earlier(&mut self, item: u32) {
        self.left[item as usize] = false;
        self.like_earlier += 1;
    }

    pub(super) fn into_distinct(self) -> Distinct {
        let State { left, like_paired, like_earlier } = self;
        let kept = (0..).zip(left).filter(|(_, left)| *left).map(|(item, _)| item).collect();
        Distinct { kept, like_paired, like_earlier }
    }

    /// The items that are left, from one on.
    fn left_from(&self, first: u32) -> Vec<u32> {
        (first..self.left.len() as u32).filter(|&item| self.left[item as usize]).collect()
    }

    /// Drops every item with a cosine of at least `cosine` to a paired item, or to an earlier item that was kept.
    pub(super) fn thin_out(
        &mut self,
        pool: &Vectors,
        (paired, pairs): (&Vectors, &[u32]),
        cosine: f64,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let items = self.left.len() as u64;
        progress.start("duplicates", items * pairs.len() as u64 + items * items / 2);
        // Alike is what is not below.
        let cut = cosine.next_down();
        let with_paired = Embeddings::new(pool.clone(), paired.clone(), Metric::Cosine)?;
        for columns in pairs.chunks(CHUNK) {
            let search = Search::new(&with_paired, columns, cut)?;
            let rows = self.left_from(0);
            let alike = search.rows_alike(&rows, &|_| true, progress)?;
            alike.into_iter().for_each(|item| self.drop_like_paired(item));
        }
        let among = Embeddings::new(pool.clone(), pool.clone(), Metric::Cosine)?;
        let mut first = 0;
        loop {
            let mut columns = self.left_from(first);
            columns.truncate(CHUNK);
            let Some(&last) = columns.last() else { return Ok(()) };
            let search = Search::new(&among, &columns, cut)?;
            // Within the chunk in order: a dropped item drops no other.
            let mut kept = vec![true; columns.len()];
            for (row, column) in search.pairs(&columns, progress)? {
                if column < row && kept[column as usize] && kept[row as usize] {
                    kept[row as usize] = false;
                    self.drop_like_earlier(columns[row as usize]);
                }
            }
            first = last + 1;
            let rows = self.left_from(first);
            let alike = search.rows_alike(&rows, &|column| kept[column as usize], progress)?;
            alike.into_iter().for_each(|item| self.drop_like_earlier(item));
        }
    }
}

/// A search for items that are alike one of some columns.
pub(crate) struct Search<'a> {
    similarity: &'a Embeddings,
    columns: &'a [u32],
    sieve: Box<dyn Sieve + 'a>,
    cuts: Vec<f64>,
}

impl<'a> Search<'a> {
    /// Prepares the search for similarities above `cut`.
    pub(crate) fn new(
        similarity: &'a Embeddings,
        columns: &'a [u32],
        cut: f64,
    ) -> Result<Self, Error> {
        let cuts = vec![cut; columns.len()];
        let sieve = similarity.sieve(columns, Some(&cuts))?;
        Ok(Search { similarity, columns, sieve, cuts })
    }

    /// Positions of the rows and columns that are alike, rows ascending and the columns of each.
    pub(crate) fn pairs(
        &self,
        rows: &[u32],
        progress: &dyn Progress,
    ) -> Result<Vec<(u32, u32)>, Error> {
        let at_once = row_block(&*self.sieve);
        let block = |(number, rows): (usize, &[u32])| {
            let first = (number * at_once) as u32;
            let mut found = Vec::new();
            self.visit(rows, progress, |row, column| found.push((first + row, column)))?;
            Ok(found)
        };
        let blocks: Result<Vec<_>, Error> =
            rows.par_chunks(at_once).enumerate().map(block).collect();
        Ok(blocks?.concat())
    }

    /// The rows that are alike a column that `counts`, by position.
    fn rows_alike(
        &self,
        rows: &[u32],
        counts: &(dyn Fn(u32) -> bool + Sync),
        progress: &dyn Progress,
    ) -> Result<Vec<u32>, Error> {
        let alike: Vec<AtomicBool> = rows.iter().map(|_| AtomicBool::new(false)).collect();
        let at_once = row_block(&*self.sieve);
        rows.par_chunks(at_once).zip(alike.par_chunks(at_once)).try_for_each(|(rows, alike)| {
            self.visit(rows, progress, |row, column| {
                if counts(column) {
                    alike[row as usize].store(true, Ordering::Relaxed);
                }
            })
        })?;
        let alike = rows.iter().zip(alike).filter(|(_, alike)| alike.load(Ordering::Relaxed));
        Ok(alike.map(|(&row, _)| row).collect())
    }

    fn visit(
        &self,
        rows: &[u32],
        progress: &dyn Progress,
        mut visit: impl FnMut(u32, u32),
    ) -> Result<(), Error> {
        unless_stopped(progress)?;
        let pairs = self.sieve.above(rows, &self.cuts)?;
        exact_rows(self.similarity, rows, self.columns, &pairs, |row, pairs, values| {
            for (&(_, column), &value) in pairs.iter().zip(values) {
                if value > self.cuts[column as usize] {
                    visit(row, column);
                }
            }
        })?;
        progress.advance(rows.len() as u64 * self.columns.len() as u64);
        Ok(())
    }
}
