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

/// For every row of all matrices, one after the other, the first row with the same numbers: itself if
/// there is none before. Zeros are equal whatever their sign, and so are equal numbers of different
/// types.
pub(crate) fn first_copies(
    matrices: &[&Matrix],
    progress: &dyn Progress,
) -> Result<Vec<usize>, Error> {
    let total: usize = matrices.iter().map(|matrix| matrix.rows()).sum();
    progress.start("copies", total as u64);
    let mut prints = Vec::with_capacity(total);
    for (number, matrix) in matrices.iter().enumerate() {
        let places: Vec<usize> = (0..matrix.rows()).collect();
        let of_block = |rows: &[usize]| {
            unless_stopped(progress)?;
            let print = |&row: &usize| (fingerprint(matrix, row, READ), number, row);
            progress.advance(rows.len() as u64);
            Ok(rows.iter().map(print).collect::<Vec<_>>())
        };
        let blocks: Result<Vec<_>, Error> = places.par_chunks(ROW_BLOCK).map(of_block).collect();
        prints.extend(blocks?.into_iter().flatten());
    }
    let mut first: Vec<usize> = (0..total).collect();
    let offset = |number: usize| matrices[..number].iter().map(|m| m.rows()).sum::<usize>();
    let offsets: Vec<usize> = (0..matrices.len()).map(offset).collect();
    prints.par_sort_unstable();
    for run in prints.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1) {
        // Rows that differ only in numbers that the short fingerprint did not read are told apart.
        let mut leaders: HashMap<u64, Vec<(usize, usize)>> = HashMap::new();
        for &(_, number, row) in run {
            let print = fingerprint(matrices[number], row, usize::MAX);
            let leaders = leaders.entry(print).or_default();
            let same = |&&(other, at): &&(usize, usize)| {
                equal((matrices[other], at), (matrices[number], row))
            };
            match leaders.iter().find(same) {
                Some(&(other, at)) => first[offsets[number] + row] = offsets[other] + at,
                None => leaders.push((number, row)),
            }
        }
    }
    Ok(first)
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
    let mut lanes =
        [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, width as u64];
    for piece in pieces(width, read) {
        match matrix.dtype() {
            Dtype::F16 => mix::<f16>(&bytes[piece.start * 2..piece.end * 2], &mut lanes),
            Dtype::Bf16 => mix::<bf16>(&bytes[piece.start * 2..piece.end * 2], &mut lanes),
            Dtype::F32 => mix::<f32>(&bytes[piece.start * 4..piece.end * 4], &mut lanes),
            Dtype::F64 => mix::<f64>(&bytes[piece.start * 8..piece.end * 8], &mut lanes),
        }
    }
    let whole = lanes.iter().fold(0, |whole, &lane| stir(whole, lane));
    whole ^ (whole >> 32)
}

/// Four lanes, because every step of one waits for the step before.
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
        }
    }

    #[test]
    fn what_differs_where_the_fingerprint_does_not_look_is_no_copy() {
        let mut values = vec![1.0f32; 2 * 5000];
        // Outside of every piece of the second row.
        values[5000 + 200] = 2.0;
        assert!(pieces(5000, READ).all(|piece| !piece.contains(&200)));
        let found = first_copies(&[&Matrix::from_vec(5000, values)], &()).unwrap();
        assert_eq!(found, [0, 1]);
        let zeros = Matrix::from_vec(2, vec![0.0f32, 1.0, -0.0, 1.0, f32::NAN, 1.0, f32::NAN, 1.0]);
        assert_eq!(first_copies(&[&zeros], &()).unwrap(), [0, 0, 2, 3]);
    }
}
