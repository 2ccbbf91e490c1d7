//! The threshold between matched and mismatched words, found on the way through a batch.

use crate::Error;

/// Words of correctly ranked captions that a threshold needs.
const WORDS: usize = 200;

/// The weight of a new threshold.
const MOVE: f64 = 0.7;

/// The scores of a batch, and the thresholds on the way.
pub(super) struct MinedBatch {
    /// Images by captions.
    pub(super) scores: Vec<f32>,
    /// Of every caption.
    pub(super) thresholds: Vec<f32>,
    /// The thresholds of training and of evaluation after the batch.
    pub(super) after: [f64; 2],
}

/// Scores the captions of a batch, longest first. The threshold of a caption is that of the words of
/// the captions before it that rank their own image first, and 0 while these have too few words.
/// `column` has, of a caption and its threshold, the score of every image and the largest products of its
/// words, image after image.
pub(super) fn mine(
    (images, lengths): (usize, &[usize]),
    penalty: f64,
    before: [f64; 2],
    column: impl Fn(usize, f32) -> Result<(Vec<f32>, Vec<f32>), Error>,
) -> Result<MinedBatch, Error> {
    let captions = lengths.len();
    let mut found = MinedBatch {
        scores: vec![0.0; images * captions],
        thresholds: vec![0.0; captions],
        after: before,
    };
    let (mut matched, mut mismatched) = (Vec::new(), Vec::new());
    let mut order: Vec<usize> = (0..captions).collect();
    order.sort_by_key(|&caption| std::cmp::Reverse(lengths[caption]));
    for caption in order {
        let threshold = found.after[0] as f32;
        found.thresholds[caption] = threshold;
        let (column, tops) = column(caption, threshold)?;
        for (image, &score) in column.iter().enumerate() {
            found.scores[image * captions + caption] = score;
        }
        let by_score = |a: &usize, b: &usize| column[*a].total_cmp(&column[*b]);
        // Of equal scores the first image counts.
        let best = (0..images).rev().max_by(by_score);
        let worst = (0..images).min_by(by_score);
        if let (Some(best), Some(worst)) = (best, worst)
            && best == caption
        {
            let words = lengths[caption];
            let of =
                |image: usize| tops[image * words..][..words].iter().map(|&top| f64::from(top));
            matched.extend(of(best));
            mismatched.extend(of(worst));
            if matched.len() > WORDS {
                found.after = moved(&matched, &mismatched, penalty, found.after);
            }
        }
        if matched.len() < WORDS {
            found.after = [0.0; 2];
        }
    }
    Ok(found)
}

/// The thresholds of training and of evaluation, given products of matched and mismatched words. With
/// both normally distributed, the first is where mistakes of both kinds cost least.
fn moved(matched: &[f64], mismatched: &[f64], penalty: f64, old: [f64; 2]) -> [f64; 2] {
    let ((above, of_above), (below, of_below)) = (normal(matched), normal(mismatched));
    let a = of_above * of_above - of_below * of_below;
    let b = 2.0 * (above * of_below * of_below - below * of_above * of_above);
    let c = (below * of_above).powi(2) - (above * of_below).powi(2)
        + 2.0 * (of_above * of_below).powi(2) * (of_below / (penalty * of_above) + 1e-8).ln();
    let discriminant = b * b - 4.0 * a * c;
    let new = match discriminant > 0.0 {
        true => [(-b + discriminant.sqrt()) / (2.0 * a + 1e-10), above - 3.0 * of_above],
        false => old,
    };
    let within = |threshold: f64| if (0.0..=1.0).contains(&threshold) { threshold } else { 0.0 };
    [0, 1].map(|at| MOVE * within(new[at]) + (1.0 - MOVE) * old[at])
}

/// Mean and unbiased standard deviation.
fn normal(numbers: &[f64]) -> (f64, f64) {
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|x| (x - mean) * (x - mean)).sum();
    (mean, (squares / (count - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where both densities, one of them times the penalty, meet: the definition of the threshold.
    #[test]
    fn a_threshold_is_where_mistakes_cost_the_same() {
        let spread = |mean: f64, deviation: f64| -> Vec<f64> {
            let at = |i: usize| mean + deviation * ((i * 37 % 101) as f64 / 50.0 - 1.0);
            (0..300).map(at).collect()
        };
        let (matched, mismatched) = (spread(0.6, 0.2), spread(0.25, 0.15));
        let density = |x: f64, (mean, deviation): (f64, f64)| {
            (-(x - mean) * (x - mean) / (2.0 * deviation * deviation)).exp() / deviation
        };
        for penalty in [1.0, 2.0] {
            let [threshold, safe] = moved(&matched, &mismatched, penalty, [0.0; 2]);
            let new = threshold / MOVE;
            let (above, below) = (normal(&matched), normal(&mismatched));
            let off = density(new, above) - penalty * density(new, below);
            assert!(new > 0.25 && new < 0.6 && off.abs() < 1e-5, "{new}: {off}");
            assert!((safe - MOVE * (above.0 - 3.0 * above.1).max(0.0)).abs() < 1e-12);
            let kept = moved(&matched, &mismatched, penalty, [0.4, 0.2]);
            assert!((kept[0] - threshold - 0.3 * 0.4).abs() < 1e-12);
        }
    }
}
