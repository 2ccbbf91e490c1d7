//! Generalised pooling (Chen, Hu, Wang, Jiang and Lin, CVPR 2021, <https://arxiv.org/abs/2011.04305>): a
//! set of vectors becomes one, in every dimension the weighted sum of its largest number, its second
//! largest, and so on. The weights are learned, and depend on the size of the set alone:
//!
//! ```text
//! code of rank k:  p_k[2j] = sin(k w_j),  p_k[2j+1] = cos(k w_j),  w_j = 10000^(-2j / code), k from 0
//! o = both directions of a recurrent unit over p_0 .. p_{L-1}, averaged
//! weights = softmax over k of (w . o_k / 0.1)
//! ```

use nextpair_kernels::Tensor;
use nextpair_kernels::ops::{linear, ranked_sums, scale, softmax_spans};

use crate::encoder::{Reading, recurrent_layers, recurrent_states};
use crate::weights::Start;
use crate::{Declared, Error, Pass};

/// The temperature of the softmax.
const TEMPERATURE: f64 = 0.1;

/// A pooling, whose weights have names that begin with its own.
#[derive(Clone, Copy, Debug)]
pub struct Gpo<'a> {
    /// Its name.
    pub name: &'a str,
    /// Numbers of the code of a rank; an even number.
    pub code: usize,
    /// Dimensions of the recurrent unit.
    pub dim: usize,
}

impl Gpo<'_> {
    fn of(&self, part: &str) -> String {
        format!("{}.{part}", self.name)
    }

    /// Its weights.
    pub fn declare(&self) -> Vec<Declared> {
        let mut all = recurrent_layers(&self.of("gru"), self.code, self.dim, Reading::BothWays);
        let bound = Start::Uniform(1.0 / (self.dim as f64).sqrt());
        all.push(Declared::new(self.of("linear.weight"), &[1, self.dim], bound));
        all
    }

    /// One vector for each item; `offsets` has the first row of each, then the end of the last. Weights
    /// are computed once for every number of rows.
    ///
    /// # Errors
    /// If an item has no rows.
    pub fn pool(&self, pass: &Pass<'_>, rows: &Tensor, offsets: &[usize]) -> Result<Tensor, Error> {
        let lengths: Vec<usize> = offsets.windows(2).map(|span| span[1] - span[0]).collect();
        let (weights, starts) = self.weights(pass, &lengths)?;
        let starts: Vec<usize> = lengths.iter().map(|&length| starts[length]).collect();
        Ok(ranked_sums(rows, &weights, offsets, &starts)?)
    }

    /// The weights of all lengths that occur, one after the other, and where those of a length begin.
    fn weights(&self, pass: &Pass<'_>, lengths: &[usize]) -> Result<(Tensor, Vec<usize>), Error> {
        let mut distinct = lengths.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let mut starts = vec![0; distinct.last().map_or(0, |longest| longest + 1)];
        let mut offsets = vec![0];
        for &length in &distinct {
            starts[length] = offsets[offsets.len() - 1];
            offsets.push(starts[length] + length);
        }
        let last = pass.weight(&self.of("linear.weight"))?;
        let count = offsets[offsets.len() - 1];
        let codes: Vec<f64> =
            distinct.iter().flat_map(|&length| (0..length).flat_map(|k| self.code_of(k))).collect();
        let codes = Tensor::zeros(&[count, self.code], last.device())?.like(codes)?;
        let gru = self.of("gru");
        let states = recurrent_states(pass, &gru, &codes, &offsets, Reading::BothWays)?;
        let scores = linear(&states, last, &Tensor::zeros(&[1], last.device())?)?;
        let shares = softmax_spans(&scale(&scores, 1.0 / TEMPERATURE)?, &offsets)?;
        Ok((shares.reshaped(&[count])?, starts))
    }

    /// The code of a rank.
    fn code_of(&self, rank: usize) -> impl Iterator<Item = f64> {
        let code = self.code;
        (0..code / 2).flat_map(move |j| {
            let angle = rank as f64 * 10_000f64.powf(-2.0 * j as f64 / code as f64);
            [angle.sin(), angle.cos()]
        })
    }
}
