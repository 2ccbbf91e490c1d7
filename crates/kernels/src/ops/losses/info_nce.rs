//! InfoNCE.

use std::sync::{Arc, OnceLock};

use nextpair_cuda::Array;

use super::{Found, Reports, Squares, losses, scaled};
use crate::cuda::Unit;
use crate::operation::Operation;
use crate::ops::tally::Tally;
use crate::{Error, Real, Tensor};

/// The InfoNCE losses of members, whose squares of scores lie one after the other. There is one
/// logarithm of a temperature for each; `pairs` has the image and the caption of every row.
///
/// # Errors
/// If the scores are not squares over the pairs.
pub fn info_nce(
    scores: &Tensor,
    log_temperatures: &Tensor,
    pairs: Vec<(u32, u32)>,
) -> Result<(Tensor, Tally), Error> {
    let squares = Squares::new(scores, log_temperatures.len())?;
    Error::check_len("the pairs of a batch", pairs.len(), squares.members * squares.batch)?;
    let (tally, slopes) = Default::default();
    losses(InfoNce { squares, pairs, tally, slopes }, &[scores, log_temperatures])
}

struct InfoNce {
    squares: Squares,
    pairs: Vec<(u32, u32)>,
    tally: Arc<OnceLock<Tally>>,
    /// The derivatives by the scores and by the logarithms of temperatures, on a GPU.
    slopes: OnceLock<[Array<f32>; 2]>,
}

impl Reports for InfoNce {
    fn squares(&self) -> Squares {
        self.squares
    }

    fn tally(&self) -> Arc<OnceLock<Tally>> {
        self.tally.clone()
    }
}

impl Operation for InfoNce {
    fn shape(&self) -> Vec<usize> {
        vec![self.squares.members]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let batch = self.squares.batch;
        let loss = |(member, scores): (usize, &[R])| {
            let temperature = inputs[1][member].exp();
            let pairs = &self.pairs[member * batch..][..batch];
            let mut sum = R::of(0.0);
            for own in 0..batch {
                let apart = |other: &usize| {
                    *other == own
                        || pairs[*other].0 != pairs[own].0 && pairs[*other].1 != pairs[own].1
                };
                for place in [|own: usize, other: usize| (own, other), |own, other| (other, own)] {
                    let term = |other: usize| {
                        let (i, j) = place(own, other);
                        let above = scores[i * batch + j] - scores[own * batch + own];
                        (above / temperature).exp()
                    };
                    let of_own = R::sum((0..batch).filter(apart).map(term)).ln();
                    sum = sum + R::of(0.5) * of_own;
                }
            }
            sum
        };
        self.squares.each(inputs[0]).enumerate().map(loss).collect()
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let Squares { members, batch } = self.squares;
        let (items, captions): (Vec<u32>, Vec<u32>) = self.pairs.iter().copied().unzip();
        let (items, captions) = (unit.array(&items)?, unit.array(&captions)?);
        let found = Found::room(unit, self.squares)?;
        let stats = unit.empty::<f64>(4 * self.squares.pairs())?;
        let arguments = [
            (&found.values).into(),
            (&stats).into(),
            (&found.bads).into(),
            inputs[0].into(),
            inputs[1].into(),
            (&items).into(),
            (&captions).into(),
            batch.into(),
        ];
        unit.run("info_nce_rows", self.squares.grid(), &arguments)?;
        let by_logs = unit.empty::<f64>(self.squares.pairs())?;
        let arguments = [
            (&found.slopes).into(),
            (&found.actives).into(),
            (&by_logs).into(),
            inputs[0].into(),
            (&stats).into(),
            inputs[1].into(),
            (&items).into(),
            (&captions).into(),
            batch.into(),
        ];
        unit.run("info_nce_slopes", self.squares.grid(), &arguments)?;
        let of_logs = unit.empty(members)?;
        let by_logs = Some((&by_logs, &of_logs));
        let (losses, tally) = found.tally(unit, self.squares, inputs[0], by_logs)?;
        self.tally.get_or_init(|| tally);
        self.slopes.get_or_init(|| [found.slopes, of_logs]);
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
        slopes.iter().map(|slopes| scaled(unit, slopes, upstream).map(Some)).collect()
    }
}
