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
    let hinge = |i: usize, j: usize, own: usize| {
        margin + f64::from(scores[i * batch + j]) - f64::from(scores[own * batch + own])
    };
    let mut gradient = vec![0i32; batch * batch];
    let mut value = 0.0;
    let mut count = |i: usize, j: usize, own: usize| {
        value += hinge(i, j, own).max(0.0);
        if i != j && hinge(i, j, own) >= 0.0 {
            gradient[i * batch + j] += 1;
            gradient[own * batch + own] -= 1;
        }
    };
    match violation {
        Violation::Max => {
            let (of_images, of_texts) = first_largest(scores, batch, margin);
            for own in 0..batch {
                let (text, image) = (of_images[own], of_texts[own]);
                if text != own {
                    count(own, text, own);
                }
                if image != own {
                    count(image, own, own);
                }
            }
        }
        Violation::Sum => {
            for own in 0..batch {
                (0..batch).filter(|&other| other != own).for_each(|text| count(own, text, own));
                (0..batch).filter(|&other| other != own).for_each(|image| count(image, own, own));
            }
        }
    }
    let pairs = gradient.iter().enumerate().filter(|&(_, &factor)| factor != 0);
    let pairs =
        pairs.map(|(at, &factor)| (((at / batch) as u32, (at % batch) as u32), factor as f32));
    Loss { value, pairs: pairs.collect() }
}

/// The smallest score that cross entropy tells from 0, and its distance to 1.
const EDGE: f64 = 1e-6;

/// The cross entropy of a square of scores, which are probabilities of pairs to be right:
///
/// ```text
/// max violation:  -(2 sum_i ln S_ii + sum_i min_j ln(1 - S_ij) + sum_j min_i ln(1 - S_ij))
/// otherwise:      -(sum_i ln S_ii / B + sum_ij ln(1 - S_ij) / B^2)
/// ```
///
/// over wrong pairs `i != j`. Scores are cut at `1e-6` and `1 - 1e-6`, beyond which nothing is learned.
///
/// # Panics
/// If the scores are not a square.
pub fn cross_entropy(scores: &[f32], batch: usize, violation: Violation) -> Loss {
    assert_eq!(scores.len(), batch * batch, "the scores are a square");
    let mut slopes = vec![0.0; batch * batch];
    let mut value = 0.0;
    let mut count = |i: usize, j: usize, weight: f64| {
        let score = f64::from(scores[i * batch + j]);
        let cut = score.clamp(EDGE, 1.0 - EDGE);
        let (right, slope) = match i == j {
            true => (cut.ln(), 1.0 / cut),
            false => ((1.0 - cut).ln(), -1.0 / (1.0 - cut)),
        };
        value -= weight * right;
        if (EDGE..=1.0 - EDGE).contains(&score) {
            slopes[i * batch + j] -= weight * slope;
        }
    };
    match violation {
        Violation::Max => {
            // Of equal scores the first counts.
            let largest = |places: &mut dyn Iterator<Item = (usize, usize)>| {
                let first = |best: Option<(usize, usize)>, at: (usize, usize)| match best {
                    Some(best)
                        if scores[at.0 * batch + at.1] <= scores[best.0 * batch + best.1] =>
                    {
                        Some(best)
                    }
                    _ => Some(at),
                };
                places.filter(|(i, j)| i != j).fold(None, first)
            };
            for own in 0..batch {
                count(own, own, 2.0);
                let row = largest(&mut (0..batch).map(|other| (own, other)));
                let column = largest(&mut (0..batch).map(|other| (other, own)));
                row.into_iter().chain(column).for_each(|(i, j)| count(i, j, 1.0));
            }
        }
        Violation::Sum => {
            let pairs = batch as f64;
            for (i, j) in (0..batch).flat_map(|i| (0..batch).map(move |j| (i, j))) {
                count(i, j, if i == j { 1.0 / pairs } else { 1.0 / (pairs * pairs) });
            }
        }
    }
    let pairs = slopes.iter().enumerate().filter(|&(_, &slope)| slope != 0.0);
    let pairs =
        pairs.map(|(at, &slope)| (((at / batch) as u32, (at % batch) as u32), slope as f32));
    Loss { value, pairs: pairs.collect() }
}

/// The caption that violates each image most, and the image that violates each caption most: of equal
/// ones the first. Own pairs count as 0.
fn first_largest(scores: &[f32], batch: usize, margin: f64) -> (Vec<usize>, Vec<usize>) {
    let own: Vec<f64> = (0..batch).map(|at| scores[at * batch + at].into()).collect();
    let mut of_images = vec![0; batch];
    let mut of_texts = vec![(f64::NEG_INFINITY, 0); batch];
    for (image, row) in scores.chunks_exact(batch).enumerate() {
        let mut largest = f64::NEG_INFINITY;
        for (text, &score) in row.iter().enumerate() {
            let (score, apart) = (f64::from(score), image != text);
            let by_text = if apart { (margin + score - own[image]).max(0.0) } else { 0.0 };
            let by_image = if apart { (margin + score - own[text]).max(0.0) } else { 0.0 };
            if by_text > largest {
                (largest, of_images[image]) = (by_text, text);
            }
            if by_image > of_texts[text].0 {
                of_texts[text] = (by_image, image);
            }
        }
    }
    (of_images, of_texts.into_iter().map(|(_, image)| image).collect())
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
    fn cross_entropy_has_the_slopes_of_its_value() {
        let scores = [0.6f32, 0.3, 0.8, 0.2, 0.7, 0.4, 0.1, 0.9, -0.5];
        for violation in [Violation::Max, Violation::Sum] {
            let found = cross_entropy(&scores, 3, violation);
            let mut slopes = [0.0; 9];
            found.pairs.iter().for_each(|&((i, j), slope)| slopes[(i * 3 + j) as usize] = slope);
            for at in 0..9 {
                let near = |step: f32| {
                    let mut scores = scores;
                    scores[at] += step;
                    cross_entropy(&scores, 3, violation).value
                };
                let slope = (near(1e-3) - near(-1e-3)) / 2e-3;
                assert!((slope - f64::from(slopes[at])).abs() < 2e-3 * slope.abs() + 1e-4, "{at}");
            }
            assert_eq!(slopes[8], 0.0, "out of range");
        }
        let alone = cross_entropy(&[0.5], 1, Violation::Max);
        assert!((alone.value - 2.0 * 2.0f64.ln()).abs() < 1e-12);
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
