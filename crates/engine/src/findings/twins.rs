//! Near duplicates among picks, and between picks and pairs.

use nextpair_core::{Matrix, draw};
use rayon::prelude::*;

use crate::duplicates::{Search, first_copies};
use crate::similarity::exact_block;
use crate::top::COLUMNS_AT_ONCE;
use crate::{Embeddings, Error, Finding, Metric, Pick, Progress, Vectors};

/// Names of the two in errors.
const PICKED: &str = "the picked items";
const PAIRED: &str = "the paired items";

/// The cosine of near duplicates, where other items are far from each other.
const NEAR: f64 = 0.98;
/// A near duplicate is this much nearer than a typical neighbour, in squared distance.
const NEARER: f64 = 16.0;
/// Paired items that tell how far neighbours are, at most; and at least, to tell it at all.
const SAMPLE: usize = 256;
const FEWEST: usize = 20;
/// Purpose of their draw.
const SAMPLED: u64 = 26;
/// Fewer near duplicates pass, unless they are copies; and so does this share of the picks.
const FEWEST_PICKS: usize = 2;
const FEWEST_SHARE: f64 = 0.01;

pub(super) fn near_duplicates(
    picked: &Matrix,
    paired: &Matrix,
    picks: &[Pick],
    seed: u64,
    progress: &dyn Progress,
) -> Result<Vec<Finding>, Error> {
    if picked.locals() != 1 || paired.locals() != 1 || picked.dim() != paired.dim() {
        return Ok(Vec::new());
    }
    // Zero vectors have no direction to compare.
    let (rows, picked) = directed(picked, PICKED)?;
    let (pairs, paired) = directed(paired, PAIRED)?;
    if rows.is_empty() || pairs.is_empty() {
        return Ok(Vec::new());
    }
    let cosine = near(&paired, seed, progress)?;
    let all: Vec<u32> = (0..rows.len() as u32).collect();
    let item = |row: u32| picks[rows[row as usize] as usize].index;
    let told = |twins: &[(u32, u32)], other: &Vectors| {
        let exact = |&(row, column): &(u32, u32)| same(&picked, row, other, column);
        let few = FEWEST_PICKS.max((FEWEST_SHARE * picks.len() as f64).ceil() as usize);
        twins.len() >= few || twins.iter().any(exact)
    };
    let mut found = Vec::new();

    let among = Embeddings::new(picked.clone(), picked.clone(), Metric::Cosine)?;
    let twins = first_of_row(&among, &all, &all, cosine, |row, column| column < row, progress)?;
    if told(&twins, &picked) {
        let example = (item(twins[0].0), item(twins[0].1));
        found.push(Finding::PicksAlike { picks: twins.len(), of: picks.len(), cosine, example });
    }
    let with_paired = Embeddings::new(picked.clone(), paired.clone(), Metric::Cosine)?;
    let columns: Vec<u32> = (0..pairs.len() as u32).collect();
    let twins = first_of_row(&with_paired, &all, &columns, cosine, |_, _| true, progress)?;
    if told(&twins, &paired) {
        let example = (item(twins[0].0), pairs[twins[0].1 as usize]);
        found.push(Finding::PicksPaired { picks: twins.len(), of: picks.len(), cosine, example });
    }
    Ok(found)
}

/// The rows that have a direction, and their vectors.
fn directed(matrix: &Matrix, name: &'static str) -> Result<(Vec<u32>, Vectors), Error> {
    let all = Vectors::new(matrix.clone(), name)?;
    let rows: Vec<u32> =
        (0..all.len() as u32).filter(|&row| all.norm(row as usize) > 0.0).collect();
    if rows.len() == all.len() {
        return Ok((rows, all));
    }
    let some = matrix.view(rows.iter().map(|&row| row as usize));
    Ok((rows, Vectors::new(some, name)?))
}

/// The cosine from which on items are near duplicates: much nearer than neighbours are among the
/// pairs. Copies among them count once.
fn near(paired: &Vectors, seed: u64, progress: &dyn Progress) -> Result<f64, Error> {
    let sampled = draw::sample(seed, SAMPLED, paired.len(), paired.len().min(SAMPLE));
    let view = paired.matrix().view(sampled.iter().map(|&row| row as usize));
    let first = first_copies(&[&view], progress)?;
    let apart = (0..).zip(&first).filter(|(at, first)| at == *first);
    let rows: Vec<u32> = apart.map(|(at, _): (usize, _)| sampled[at]).collect();
    if rows.len() < FEWEST {
        return Ok(NEAR);
    }
    let among = Embeddings::new(paired.clone(), paired.clone(), Metric::Cosine)?;
    let of_block = |block: &[u32]| {
        let values = exact_block(&among, block, &rows)?;
        let nearest = |(row, values): (&u32, &[f64])| {
            let others = rows.iter().zip(values).filter(|(other, _)| *other != row);
            others.map(|(_, &value)| value).fold(-1.0, f64::max)
        };
        Ok(block.iter().zip(values.chunks_exact(rows.len())).map(nearest).collect::<Vec<f64>>())
    };
    let nearest: Result<Vec<Vec<f64>>, Error> = rows.par_chunks(64).map(of_block).collect();
    let mut nearest = nearest?.concat();
    let middle = nearest.len() / 2;
    let typical = *nearest.select_nth_unstable_by(middle, f64::total_cmp).1;
    Ok(NEAR.max(1.0 - (1.0 - typical) / NEARER))
}

/// For every row with a cosine of at least `cosine` to a column that counts, the first such column.
fn first_of_row(
    similarity: &Embeddings,
    rows: &[u32],
    columns: &[u32],
    cosine: f64,
    counts: impl Fn(u32, u32) -> bool,
    progress: &dyn Progress,
) -> Result<Vec<(u32, u32)>, Error> {
    let mut first: Vec<Option<u32>> = vec![None; rows.len()];
    for columns in columns.chunks(COLUMNS_AT_ONCE) {
        let search = Search::new(similarity, columns, cosine.next_down())?;
        for (row, at) in search.pairs(rows, progress)? {
            let column = columns[at as usize];
            if counts(row, column) && first[row as usize].is_none() {
                first[row as usize] = Some(column);
            }
        }
    }
    Ok((0..).zip(first).filter_map(|(row, column)| Some((row, column?))).collect())
}

fn same(left: &Vectors, row: u32, right: &Vectors, column: u32) -> bool {
    let read = |vectors: &Vectors, item: u32| {
        let mut values = vec![0.0; vectors.dim()];
        vectors.matrix().read_f64(item as usize, &mut values);
        values
    };
    read(left, row) == read(right, column)
}
