//! Items with the same numbers, found by fingerprints and confirmed number by number.

use std::collections::HashMap;
use std::ops::Range;

use half::{bf16, f16};
use nextpair_core::{Dtype, Element, Matrix};
use rayon::prelude::*;

use crate::error::unless_stopped;
use crate::{Error, Progress, ROW_BLOCK};

/// Numbers of an item that its fingerprint reads: all of most embeddings, some of region features and
/// of rows of similarities, which may be long.
const READ: usize = 1024;
/// Pieces that they are read in.
const PIECES: usize = 8;
/// Four lanes of a fingerprint, because every step of one waits for the step before.
const LANES: [u64; 4] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];

/// For every row of all matrices, one after the other, the first row with the same numbers: itself if
/// there is none before. Zeros are equal whatever their sign, and so are equal numbers of different
/// types.
pub(crate) fn first_copies(
    matrices: &[&Matrix],
    progress: &dyn Progress,
) -> Result<Vec<usize>, Error> {
    let total: usize = matrices.iter().map(|matrix| matrix.rows()).sum();
    progress.start("copies", total as u64);
    let mut prints = vec![0; total];
    let mut rest = &mut prints[..];
    for matrix in matrices {
        let (own, others) = rest.split_at_mut(matrix.rows());
        own.par_chunks_mut(ROW_BLOCK).enumerate().try_for_each(|(block, prints)| {
            unless_stopped(progress)?;
            for (row, print) in (block * ROW_BLOCK..).zip(prints.iter_mut()) {
                *print = short_print(matrix, row);
            }
            progress.advance(prints.len() as u64);
            Ok::<_, Error>(())
        })?;
        rest = others;
    }
    let mut first: Vec<usize> = (0..total).collect();
    for (row, earlier) in copies_among(matrices, |row| prints[row]) {
        first[row] = earlier;
    }
    Ok(first)
}

/// The rows of all matrices, one after the other, that have the same numbers as an earlier one, and the
/// first of those. Rows ascend. `print` is the fingerprint of a row.
pub(crate) fn copies_among(
    matrices: &[&Matrix],
    print: impl Fn(usize) -> u64 + Sync,
) -> Vec<(usize, usize)> {
    let rows = matrices.iter().map(|matrix| matrix.rows()).sum();
    let place = |row: usize| {
        let (mut number, mut row) = (0, row);
        while row >= matrices[number].rows() {
            row -= matrices[number].rows();
            number += 1;
        }
        (matrices[number], row)
    };
    let mut copies = Vec::new();
    for run in alike(rows, print).chunk_by(|a, b| a.0 == b.0) {
        // Rows that differ only in numbers that the short fingerprint did not read are told apart.
        let mut leaders: HashMap<u64, Vec<usize>> = HashMap::new();
        for &(_, at) in run {
            let (matrix, row) = place(at);
            let leaders = leaders.entry(fingerprint(matrix, row, usize::MAX)).or_default();
            match leaders.iter().find(|&&other| equal(place(other), (matrix, row))) {
                Some(&other) => copies.push((at, other)),
                None => leaders.push(at),
            }
        }
    }
    copies.sort_unstable();
    copies
}

/// The fingerprints that occur several times, with the places where they do, ascending.
fn alike(rows: usize, print: impl Fn(usize) -> u64 + Sync) -> Vec<(u64, usize)> {
    // Few do: sorted fingerprints tell which, without their places.
    let mut sorted: Vec<u64> = (0..rows).into_par_iter().map(&print).collect();
    sorted.par_sort_unstable();
    let mut several: Vec<u64> = sorted.windows(2).filter(|w| w[0] == w[1]).map(|w| w[0]).collect();
    drop(sorted);
    several.dedup();
    if several.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(u64, usize)> = (0..rows)
        .into_par_iter()
        .map(|row| (print(row), row))
        .filter(|(print, _)| several.binary_search(print).is_ok())
        .collect();
    found.par_sort_unstable();
    found
}

/// A fingerprint of a row as it is stored. Equal rows of one matrix have equal ones; [`copies_among`]
/// takes these as well.
pub(crate) fn stored_print(matrix: &Matrix, row: usize) -> u64 {
    let signs: u64 = match matrix.dtype() {
        Dtype::F16 | Dtype::Bf16 => 0x8000_8000_8000_8000,
        Dtype::F32 => 0x8000_0000_8000_0000,
        Dtype::F64 => 0x8000_0000_0000_0000,
    };
    // No negative zero: a number has a sign if adding its largest magnitude carries into it.
    let plain = |bytes: &[u8; 8]| {
        let word = u64::from_le_bytes(*bytes);
        let magnitudes = word & !signs;
        magnitudes | (word & magnitudes.wrapping_add(!signs) & signs)
    };
    let width = matrix.locals() * matrix.dim();
    let (bytes, size) = (matrix.row_bytes(row), matrix.dtype().size());
    let mut lanes = LANES;
    for piece in pieces(width, READ) {
        let (words, rest) = bytes[piece.start * size..piece.end * size].as_chunks::<8>();
        let (groups, few) = words.as_chunks::<4>();
        for group in groups {
            for (lane, word) in lanes.iter_mut().zip(group) {
                *lane = stir(*lane, plain(word));
            }
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        for (lane, word) in lanes.iter_mut().zip(few.iter().chain([&last])) {
            *lane = stir(*lane, plain(word));
        }
    }
    joined(lanes)
}

/// A fingerprint that reads at most [`READ`] numbers of a row.
fn short_print(matrix: &Matrix, row: usize) -> u64 {
    fingerprint(matrix, row, READ)
}

/// The numbers of a row that a fingerprint of at most `read` numbers looks at.
fn pieces(width: usize, read: usize) -> impl Iterator<Item = Range<usize>> {
    let (count, length) = if width <= read { (1, width) } else { (PIECES, read / PIECES) };
    (0..count).map(move |piece| {
        let start = piece * (width - length) / (count - 1).max(1);
        start..start + length
    })
}

fn fingerprint(matrix: &Matrix, row: usize, read: usize) -> u64 {
    let (width, bytes) = (matrix.locals() * matrix.dim(), matrix.row_bytes(row));
    let mut lanes = LANES;
    lanes[3] = width as u64;
    for piece in pieces(width, read) {
        match matrix.dtype() {
            Dtype::F16 => mix::<f16>(&bytes[piece.start * 2..piece.end * 2], &mut lanes),
            Dtype::Bf16 => mix::<bf16>(&bytes[piece.start * 2..piece.end * 2], &mut lanes),
            Dtype::F32 => mix::<f32>(&bytes[piece.start * 4..piece.end * 4], &mut lanes),
            Dtype::F64 => mix::<f64>(&bytes[piece.start * 8..piece.end * 8], &mut lanes),
        }
    }
    joined(lanes)
}

fn joined(lanes: [u64; 4]) -> u64 {
    let whole = lanes.iter().fold(0, |whole, &lane| stir(whole, lane));
    whole ^ (whole >> 32)
}

#[inline(always)]
fn mix<E: Element>(bytes: &[u8], lanes: &mut [u64; 4]) {
    // No negative zero, so that equal numbers have equal bits.
    let bits = |bytes: &[u8]| (E::decode(bytes) + 0.0).to_bits();
    let groups = bytes.chunks_exact(4 * E::SIZE);
    let rest = groups.remainder();
    for group in groups {
        for (lane, bytes) in lanes.iter_mut().zip(group.chunks_exact(E::SIZE)) {
            *lane = stir(*lane, bits(bytes));
        }
    }
    for (lane, bytes) in lanes.iter_mut().zip(rest.chunks_exact(E::SIZE)) {
        *lane = stir(*lane, bits(bytes));
    }
}

#[inline(always)]
fn stir(state: u64, bits: u64) -> u64 {
    (state.rotate_left(29) ^ bits).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn equal((left, a): (&Matrix, usize), (right, b): (&Matrix, usize)) -> bool {
    if (left.locals(), left.dim()) != (right.locals(), right.dim()) {
        return false;
    }
    let read = |matrix: &Matrix, row: usize| {
        let mut values = vec![0.0; matrix.locals() * matrix.dim()];
        matrix.read_f64(row, &mut values);
        values
    };
    read(left, a) == read(right, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_found_in_every_type_and_length() {
        for width in [1, 5, 1024, 3000] {
            let row = |salt: usize| (0..width).map(move |k| ((k * 7 + salt * salt) % 31) as f32);
            let single: Vec<f32> = [1, 2, 1, 3, 2].into_iter().flat_map(row).collect();
            let half: Vec<f16> = single.iter().map(|&v| f16::from_f32(v)).collect();
            let (a, b) = (Matrix::from_vec(width, single), Matrix::from_vec(width, half));
            let found = first_copies(&[&a, &b], &()).unwrap();
            assert_eq!(found, [0, 1, 0, 3, 1, 0, 1, 0, 3, 1], "{width}");
            for matrix in [a, b] {
                let prints: Vec<u64> = (0..5).map(|row| stored_print(&matrix, row)).collect();
                assert_eq!(
                    copies_among(&[&matrix], |row| prints[row]),
                    [(2, 0), (4, 1)],
                    "{width}"
                );
            }
        }
    }

    #[test]
    fn differences_outside_the_fingerprint_are_found() {
        let mut values = vec![1.0f32; 2 * 5000];
        // Outside of every piece of the second row.
        values[5000 + 200] = 2.0;
        assert!(pieces(5000, READ).all(|piece| !piece.contains(&200)));
        let found = first_copies(&[&Matrix::from_vec(5000, values)], &()).unwrap();
        assert_eq!(found, [0, 1]);
        let zeros = Matrix::from_vec(2, vec![0.0f32, 1.0, -0.0, 1.0, f32::NAN, 1.0, f32::NAN, 1.0]);
        assert_eq!(first_copies(&[&zeros], &()).unwrap(), [0, 0, 2, 3]);
        let minus = [f16::NEG_ONE, f16::NEG_ZERO, f16::NEG_ONE, f16::ZERO, f16::ONE, f16::ZERO];
        let minus = Matrix::from_vec(2, minus.to_vec());
        assert_eq!(stored_print(&minus, 0), stored_print(&minus, 1));
        assert_ne!(stored_print(&minus, 0), stored_print(&minus, 2));
    }
}
