//! Losses of squares of scores, one for each member of an ensemble. On a GPU, a loss and its
//! derivatives are computed together, and nobody waits for them.
//!
//! With `S[i, j]` the score of image `i` and caption `j`, positives on the diagonal:
//!
//! ```text
//! a_ij = max(0, margin + S_ij - S_ii)      b_ij = max(0, margin + S_ij - S_jj)
//! hinges:   sum_ij a_ij + sum_ij b_ij,  or of each row and column only the largest
//! InfoNCE:  sum_i ln(sum_{j in N_i} exp((S_ij - S_ii) / t)) / 2, and the same for columns
//! ```
//!
//! where `N_i` are pair `i` and those that share neither an image nor a caption with it.

mod info_nce;

use std::sync::{Arc, OnceLock};

use nextpair_cuda::{Array, Grid, Pointer};

use super::tally::Tally;
use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Device, Error, Real, Tensor};
pub use info_nce::info_nce;

/// The hinge losses of members, whose squares of scores lie one after the other. `hardest`: only the
/// largest hinge of each row and column counts, the first of equal ones. A hinge of exactly 0 passes
/// its gradient on.
///
/// # Errors
/// If the scores are not squares.
pub fn hinges(
    scores: &Tensor,
    members: usize,
    margin: f64,
    hardest: bool,
) -> Result<(Tensor, Tally), Error> {
    let squares = Squares::new(scores, members)?;
    let (tally, slopes) = Default::default();
    losses(Hinges { squares, margin, hardest, tally, slopes }, &[scores])
}

/// Squares of scores.
#[derive(Clone, Copy)]
struct Squares {
    members: usize,
    /// Pairs of each.
    batch: usize,
}

impl Squares {
    fn new(scores: &Tensor, members: usize) -> Result<Self, Error> {
        let (rows, batch) = scores.matrix_shape()?;
        Error::check_len("the rows of squares of scores", rows, members * batch)?;
        Ok(Squares { members, batch })
    }

    /// The scores of every member.
    fn each<'a, N>(&self, scores: &'a [N]) -> impl Iterator<Item = &'a [N]> {
        scores.chunks_exact((self.batch * self.batch).max(1))
    }

    fn pairs(self) -> usize {
        self.members * self.batch
    }

    /// A block for each row.
    fn grid(self) -> Grid {
        Grid::plane(self.batch, self.members, 128)
    }
}

/// A loss that is told what to keep.
trait Reports: Operation {
    fn squares(&self) -> Squares;
    /// What is known when it was computed on a GPU.
    fn tally(&self) -> Arc<OnceLock<Tally>>;
}

fn losses<O: Reports>(operation: O, inputs: &[&Tensor]) -> Result<(Tensor, Tally), Error> {
    let members = operation.squares().members;
    let tally = operation.tally();
    if !matches!(inputs[0].device(), Device::Cuda(_)) {
        let known = Tally::by_formula(&operation, inputs, members)?;
        tally.get_or_init(|| known);
    }
    let losses = apply(operation, inputs)?;
    let tally = tally.get().cloned().expect("computed with the losses");
    Ok((losses, tally))
}

/// What a GPU found of every pair, and the derivatives of the losses.
struct Found {
    values: Array<f64>,
    bads: Array<u32>,
    actives: Array<u32>,
    slopes: Array<f32>,
}

impl Found {
    fn room(unit: &Unit, squares: Squares) -> Result<Self, Error> {
        let pairs = squares.pairs();
        Ok(Found {
            values: unit.empty(pairs)?,
            bads: unit.empty(pairs)?,
            actives: unit.empty(pairs)?,
            slopes: unit.empty(pairs * squares.batch)?,
        })
    }

    /// The losses of the members, and what is known of them. With the parts of rows in the derivatives
    /// by the logarithms of temperatures, `by_logs`, these derivatives go to the second array.
    fn tally(
        &self,
        unit: &Unit,
        squares: Squares,
        scores: &Array<f32>,
        by_logs: Option<(&Array<f64>, &Array<f32>)>,
    ) -> Result<(Array<f32>, Tally), Error> {
        let (losses, numbers) = (unit.empty(squares.members)?, unit.empty(4 * squares.members)?);
        let (by_logs, of_logs) = match by_logs {
            Some((by_logs, of_logs)) => (by_logs.pointer(), of_logs.pointer()),
            None => (Pointer::NULL, Pointer::NULL),
        };
        let arguments = [
            (&losses).into(),
            (&numbers).into(),
            of_logs.into(),
            (&self.values).into(),
            (&self.actives).into(),
            (&self.bads).into(),
            by_logs.into(),
            scores.into(),
            squares.batch.into(),
        ];
        unit.run("tally", Grid::blocks(squares.members, 128), &arguments)?;
        Ok((losses, Tally::Pending(numbers)))
    }
}

/// Derivatives of members times those of what comes after.
fn scaled(unit: &Unit, slopes: &Array<f32>, upstream: &Array<f32>) -> Result<Array<f32>, Error> {
    let (out, count) = (unit.empty(slopes.len())?, slopes.len());
    let each = (count / upstream.len().max(1)) as u64;
    let arguments =
        [(&out).into(), slopes.into(), upstream.into(), each.into(), (count as u64).into()];
    unit.run("scale_members", Grid::each(count), &arguments)?;
    Ok(out)
}

struct Hinges {
    squares: Squares,
    margin: f64,
    hardest: bool,
    tally: Arc<OnceLock<Tally>>,
    /// The derivatives by the scores, on a GPU.
    slopes: OnceLock<Array<f32>>,
}

impl Reports for Hinges {
    fn squares(&self) -> Squares {
        self.squares
    }

    fn tally(&self) -> Arc<OnceLock<Tally>> {
        self.tally.clone()
    }
}

impl Operation for Hinges {
    fn shape(&self) -> Vec<usize> {
        vec![self.squares.members]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let batch = self.squares.batch;
        let loss = |scores: &[R]| {
            let mut sum = R::of(0.0);
            for own in 0..batch {
                for place in [|own: usize, other: usize| (own, other), |own, other| (other, own)] {
                    let hinge = |other: usize| {
                        let (i, j) = place(own, other);
                        R::of(self.margin) + scores[i * batch + j] - scores[own * batch + own]
                    };
                    let violated = |other: usize| match other == own {
                        true => 0.0,
                        false => hinge(other).value().max(0.0),
                    };
                    let counted = match self.hardest {
                        true => {
                            let first = (1..batch).fold(0, |best, other| {
                                if violated(other) > violated(best) { other } else { best }
                            });
                            first..first + 1
                        }
                        false => 0..batch,
                    };
                    let counted = counted.filter(|&other| other != own);
                    sum = counted.fold(sum, |sum, other| sum + hinge(other).relu());
                }
            }
            sum
        };
        self.squares.each(inputs[0]).map(loss).collect()
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let Squares { batch, .. } = self.squares;
        let found = Found::room(unit, self.squares)?;
        let downs = unit.empty::<u32>(self.squares.pairs())?;
        let picks = unit.empty::<u32>(2 * self.squares.pairs())?;
        let hardest = u32::from(self.hardest);
        let arguments = [
            (&found.values).into(),
            (&downs).into(),
            (&picks).into(),
            (&found.bads).into(),
            inputs[0].into(),
            batch.into(),
            self.margin.into(),
            hardest.into(),
        ];
        unit.run("hinge_rows", self.squares.grid(), &arguments)?;
        let arguments = [
            (&found.slopes).into(),
            (&found.actives).into(),
            inputs[0].into(),
            (&downs).into(),
            (&picks).into(),
            batch.into(),
            self.margin.into(),
            hardest.into(),
        ];
        unit.run("hinge_slopes", self.squares.grid(), &arguments)?;
        let (losses, tally) = found.tally(unit, self.squares, inputs[0], None)?;
        self.tally.get_or_init(|| tally);
        self.slopes.get_or_init(|| found.slopes);
        Ok(losses)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        _inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let slopes = self.slopes.get().expect("the forward pass comes first");
        Ok(vec![Some(scaled(unit, slopes, upstream)?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    /// Scores of two members. The first has ties, and hinges of exactly 0.
    fn scores(batch: usize) -> Tensor {
        let mut all = tensor(1, &[2 * batch, batch]).to_f32s().unwrap();
        for (at, score) in all[..batch * batch].iter_mut().enumerate() {
            *score = [0.5, 0.25, 0.75, 0.5, 1.0][at * 7 % 5];
        }
        Tensor::new(all, &[2 * batch, batch], Device::Cpu).unwrap()
    }

    #[test]
    fn hinges_follow_the_formula_on_every_device() {
        for batch in [1, 2, 5, 9, 150] {
            for hardest in [true, false] {
                let loss = |inputs: &[Tensor]| Ok(hinges(&inputs[0], 2, 0.25, hardest)?.0);
                judge(&[scores(batch)], 1e-5, loss);
            }
        }
        assert!(hinges(&tensor(1, &[5, 3]), 2, 0.2, true).is_err());
    }

    #[test]
    fn info_nce_follows_the_formula_on_every_device() {
        for batch in [1, 2, 5, 9, 150] {
            // Some share an image, others a caption.
            let pair = |row: u32| (row % 7, if row.is_multiple_of(3) { 1 } else { 2 + row });
            let pairs: Vec<(u32, u32)> = (0..2 * batch as u32).map(pair).collect();
            let logs = Tensor::new(vec![-1.0, -0.3], &[2], Device::Cpu).unwrap();
            judge(&[scores(batch), logs], 1e-5, |inputs| {
                Ok(info_nce(&inputs[0], &inputs[1], pairs.clone())?.0)
            });
        }
        let logs = tensor(1, &[2]);
        assert!(info_nce(&tensor(1, &[4, 2]), &logs, vec![(0, 0); 3]).is_err());
    }

    #[test]
    fn every_device_counts_the_same_and_finds_bad_scores() {
        let (batch, logs) = (9, Tensor::new(vec![-1.0, -0.3], &[2], Device::Cpu).unwrap());
        let mut all = scores(batch).to_f32s().unwrap();
        let found = |all: &[f32], device: Device| {
            let scores = Tensor::new(all.to_vec(), &[2 * batch, batch], device).unwrap();
            let logs = logs.to_device(device).unwrap();
            let pairs = (0..2 * batch as u32).map(|row| (row, row)).collect();
            let read = |tally: Tally| tally.read().unwrap();
            [
                read(hinges(&scores, 2, 0.25, true).unwrap().1),
                read(hinges(&scores, 2, 0.25, false).unwrap().1),
                read(info_nce(&scores, &logs, pairs).unwrap().1),
            ]
        };
        let plain = found(&all, Device::Reference);
        for device in Device::available() {
            for (found, plain) in found(&all, device).iter().zip(&plain) {
                for (found, plain) in found.iter().zip(plain) {
                    assert!((found.loss - plain.loss).abs() < 1e-6 * plain.loss, "{device}");
                    assert_eq!((found.active, found.bad), (plain.active, None), "{device}");
                    assert!(found.active > 0);
                }
            }
        }
        all[batch * batch + 3 * batch + 4] = f32::INFINITY;
        all[batch * batch + 5 * batch + 1] = f32::NAN;
        for device in Device::available() {
            for found in found(&all, device) {
                let bad: Vec<_> = found.iter().map(|counted| counted.bad).collect();
                assert_eq!(bad, [None, Some((3 * batch + 4, f32::INFINITY))], "{device}");
            }
        }
    }
}
