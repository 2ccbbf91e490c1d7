//! InfoNCE (van den Oord, Li and Vinyals, 2018, <https://arxiv.org/abs/1807.03748>) in both
//! directions, as CLIP takes it (<https://arxiv.org/abs/2103.00020>).
//!
//! With `S[i, j]` the score of image `i` and caption `j`, positives on the diagonal, `t` the
//! temperature and `N_i` all pairs of the batch but those that share an image or a caption with
//! pair `i`:
//!
//! ```text
//! a_i = ln(1 + sum_{j in N_i} exp((S_ij - S_ii) / t))      image i against the wrong captions
//! b_i = ln(1 + sum_{j in N_i} exp((S_ji - S_ii) / t))      caption i against the wrong images
//! loss = sum_i (a_i + b_i) / 2
//! ```
//!
//! Like the hinges it is summed over the batch. Unlike them, as they were published, it never takes
//! another caption of the same image for a wrong one.

use crate::Pair;

/// The temperatures that learning stays within.
pub(crate) const COLDEST: f64 = 0.01;
/// See [`COLDEST`].
pub(crate) const HOTTEST: f64 = 1.0;

/// The InfoNCE loss of a square of scores, and its derivatives.
#[derive(Clone, Debug, PartialEq)]
pub struct InfoNce {
    /// The loss, summed over the batch.
    pub value: f64,
    /// Its derivatives by the scores, row by row.
    pub by_scores: Vec<f32>,
    /// Its derivative by the logarithm of the temperature.
    pub by_log_temperature: f64,
}

/// The InfoNCE loss of the scores of a batch, row by row.
///
/// # Panics
/// If the scores are not a square over the pairs.
pub fn info_nce(scores: &[f32], pairs: &[Pair], temperature: f64) -> InfoNce {
    let batch = pairs.len();
    assert_eq!(scores.len(), batch * batch, "the scores are a square");
    let score = |(i, j): (usize, usize)| f64::from(scores[i * batch + j]);
    let mut slopes = vec![0.0; batch * batch];
    let mut value = 0.0;
    let mut terms = vec![0.0; batch];
    for (own, pair) in pairs.iter().enumerate() {
        let apart = |other: &Pair| other.item != pair.item && other.caption != pair.caption;
        for place in [|own: usize, other: usize| (own, other), |own, other| (other, own)] {
            let mut largest = f64::NEG_INFINITY;
            for (other, term) in terms.iter_mut().enumerate() {
                let counts = other == own || apart(&pairs[other]);
                *term = if counts { score(place(own, other)) } else { f64::NEG_INFINITY };
                largest = largest.max(*term);
            }
            let mut sum = 0.0;
            for term in &mut terms {
                *term = ((*term - largest) / temperature).exp();
                sum += *term;
            }
            value += 0.5 * (sum.ln() + (largest - score((own, own))) / temperature);
            for (other, term) in terms.iter().enumerate() {
                let (i, j) = place(own, other);
                slopes[i * batch + j] += 0.5 * (term / sum - f64::from(other == own)) / temperature;
            }
        }
    }
    let by_log_temperature =
        -slopes.iter().zip(scores).map(|(slope, &s)| slope * f64::from(s)).sum::<f64>();
    let by_scores = slopes.into_iter().map(|slope| slope as f32).collect();
    InfoNce { value, by_scores, by_log_temperature }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula at the top, term by term.
    fn plain(scores: &[f32], pairs: &[Pair], temperature: f64) -> f64 {
        let score = |i: usize, j: usize| f64::from(scores[i * pairs.len() + j]);
        let of = |i: usize| {
            let wrong = (0..pairs.len()).filter(|&j| {
                pairs[j].item != pairs[i].item && pairs[j].caption != pairs[i].caption
            });
            let wrong: Vec<usize> = wrong.collect();
            let sum = |s: &dyn Fn(usize) -> f64| {
                wrong.iter().map(|&j| ((s(j) - score(i, i)) / temperature).exp()).sum::<f64>()
            };
            (sum(&|j| score(i, j)).ln_1p() + sum(&|j| score(j, i)).ln_1p()) / 2.0
        };
        (0..pairs.len()).map(of).sum()
    }

    fn case() -> (Vec<f32>, Vec<Pair>) {
        let scores = (0..25).map(|at| ((at * 7919) % 101) as f32 / 101.0 - 0.4).collect();
        // Pairs 1 and 3 are captions of one image; pairs 0 and 4 have one caption.
        let of = [(0, 0), (1, 1), (2, 2), (1, 3), (4, 0)];
        (scores, of.map(|(item, caption)| Pair { item, caption }).to_vec())
    }

    #[test]
    fn the_value_is_that_of_the_formula() {
        let (scores, pairs) = case();
        for temperature in [0.01, 0.07, 1.0] {
            let (found, expected) =
                (info_nce(&scores, &pairs, temperature).value, plain(&scores, &pairs, temperature));
            assert!((found - expected).abs() < 1e-12 * expected, "{found} {expected}");
        }
    }

    #[test]
    fn derivatives_are_limits_of_differences() {
        let (scores, pairs) = case();
        let temperature = 0.2;
        let found = info_nce(&scores, &pairs, temperature);
        const STEP: f32 = 1e-3;
        for at in 0..scores.len() {
            let moved = |step: f32| {
                let mut scores = scores.clone();
                scores[at] += step;
                (f64::from(scores[at]), plain(&scores, &pairs, temperature))
            };
            let ((right, above), (left, below)) = (moved(STEP), moved(-STEP));
            let slope = (above - below) / (right - left);
            let off = (f64::from(found.by_scores[at]) - slope).abs();
            assert!(off < 1e-4, "{at}: {} {slope}", found.by_scores[at]);
        }
        let at = |log: f64| plain(&scores, &pairs, log.exp());
        let slope = (at(temperature.ln() + 1e-6) - at(temperature.ln() - 1e-6)) / 2e-6;
        assert!((found.by_log_temperature - slope).abs() < 1e-6, "{slope}");
    }

    #[test]
    fn pairs_that_share_a_half_do_not_repel() {
        let (scores, pairs) = case();
        let found = info_nce(&scores, &pairs, 0.07);
        for (i, j) in [(1, 3), (3, 1), (0, 4), (4, 0)] {
            assert_eq!(found.by_scores[i * 5 + j], 0.0);
        }
        let one = [Pair { item: 0, caption: 0 }];
        assert_eq!(info_nce(&[0.3], &one, 0.07).by_scores, [0.0]);
        assert_eq!(info_nce(&[0.3], &one, 0.07).value, 0.0);
    }
}
