//! Hinge losses on a square of scores, and the scores that they depend on.
//!
//! With `S[i, j]` the score of image `i` and caption `j`, positives on the diagonal:
//!
//! ```text
//! a_ij = max(0, margin + S_ij - S_ii)      image i against the wrong captions
//! b_ij = max(0, margin + S_ij - S_jj)      caption j against the wrong images
//! max violation:  sum_i max_j a_ij + sum_j max_i b_ij
//! sum of hinges:  sum_ij a_ij + sum_ij b_ij
//! ```
//!
//! Once it is known which hinges count, both are sums of scores with whole-number factors. So a
//! loss is its value and those factors; scores with factor 0 need no gradient. With max violation,
//! at most `3 B` of the `B^2` pairs remain.

use serde::{Deserialize, Serialize};

/// Which hinges of a row or column count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Violation {
    /// Only the largest.
    #[default]
    Max,
    /// All of them.
    Sum,
}

/// A loss: its value and its gradient.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// The loss, summed over the batch.
    pub value: f64,
    /// The scores with a gradient, as `(image, caption)`, and their gradients.
    pub pairs: Vec<((u32, u32), f32)>,
}

/// The loss of a square of scores, row by row.
///
/// Follows PyTorch where there is a choice: of equal violations the first counts, and a hinge of
/// exactly 0 still passes its gradient on.
///
/// # Panics
/// If the scores are not a square.
pub fn loss(scores: &[f32], batch: usize, margin: f64, violation: Violation) -> Loss {
    assert_eq!(scores.len(), batch * batch, "the scores are a square");
    let score = |i: usize, j: usize| f64::from(scores[i * batch + j]);
    let mut gradient = vec![0i32; batch * batch];
    let mut value = 0.0;
    for own in 0..batch {
        let positive = score(own, own);
        // Images against captions first, then captions against images.
        for place in [|own: usize, other: usize| (own, other), |own, other| (other, own)] {
            let hinge = |other: usize| {
                let (i, j) = place(own, other);
                margin + score(i, j) - positive
            };
            let mut count = |other: usize| {
                let (i, j) = place(own, other);
                value += hinge(other).max(0.0);
                if other != own && hinge(other) >= 0.0 {
                    gradient[i * batch + j] += 1;
                    gradient[own * batch + own] -= 1;
                }
            };
            match violation {
                Violation::Max => {
                    let violated =
                        |other: usize| if other == own { 0.0 } else { hinge(other).max(0.0) };
                    let first_largest = (1..batch).fold(0, |best, other| {
                        if violated(other) > violated(best) { other } else { best }
                    });
                    if first_largest != own {
                        count(first_largest);
                    }
                }
                Violation::Sum => (0..batch).filter(|&other| other != own).for_each(&mut count),
            }
        }
    }
    let pairs = gradient.iter().enumerate().filter(|&(_, &factor)| factor != 0);
    let pairs =
        pairs.map(|(at, &factor)| (((at / batch) as u32, (at % batch) as u32), factor as f32));
    Loss { value, pairs: pairs.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_largest_violations_count() {
        // Row 0 is violated by caption 1 (0.25) and 2 (0.125); the rest is far away.
        let scores = [0.5, 0.55, 0.425, -9.0, 0.9, -9.0, -9.0, -9.0, 0.8];
        let loss_of = |violation| loss(&scores, 3, 0.2, violation);
        let max = loss_of(Violation::Max);
        assert!((max.value - 0.25).abs() < 1e-6, "{}", max.value);
        assert_eq!(max.pairs, [((0, 0), -1.0), ((0, 1), 1.0)]);
        let sum = loss_of(Violation::Sum);
        assert!((sum.value - 0.375).abs() < 1e-6);
        assert_eq!(sum.pairs, [((0, 0), -2.0), ((0, 1), 1.0), ((0, 2), 1.0)]);
    }

    #[test]
    fn one_pair_has_no_loss() {
        for violation in [Violation::Max, Violation::Sum] {
            assert_eq!(loss(&[0.3], 1, 0.2, violation), Loss { value: 0.0, pairs: Vec::new() });
        }
    }

    #[test]
    fn at_most_three_scores_a_pair_have_a_gradient() {
        let batch = 40;
        let scores: Vec<f32> =
            (0..batch * batch).map(|i| ((i * 7919) % 101) as f32 / 101.0).collect();
        let loss = loss(&scores, batch, 0.2, Violation::Max);
        assert!(loss.pairs.len() <= 3 * batch);
        assert_eq!(loss.pairs.iter().map(|(_, factor)| factor).sum::<f32>(), 0.0);
    }
}
