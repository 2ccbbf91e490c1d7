//! Intervals that hold for other test images as well as for other seeds.
//!
//! All seeds are tested on the same images. An interval over seeds tells what other seeds would give on
//! these images; it says nothing about other images, however many seeds there are. The difference of
//! a seed is a mean over test images, so both can be resampled: seeds and images are crossed, like
//! rows and columns. The variance is that of rows, plus that of columns, less that of single cells, which
//! both contain (Cameron, Gelbach and Miller 2011; Owen 2007). An image and all its captions are one
//! column, because their ranks depend on each other.
//!
//! The images that a query is looked for among count as given: the interval is for test sets of the
//! same size.

use super::{Estimate, Family, mean, sample_sd, student_t_quantile};

/// The variance of a mean over seeds and test images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoWay {
    /// The variance of the mean.
    pub variance: f64,
    /// Satterthwaite's degrees of freedom.
    pub freedom: f64,
}

/// Returns the variance over seeds and images of the mean of `differences`, one per seed.
/// `parts[seed][image]` is what an image adds to the difference of a seed beyond its fair share, so that
/// every row adds up to 0. `None` with fewer than two seeds or images, or rows of different lengths.
pub fn two_way(differences: &[f64], parts: &[Vec<f64>]) -> Option<TwoWay> {
    let (seeds, images) = (differences.len(), parts.first()?.len());
    let fits = parts.len() == seeds && parts.iter().all(|row| row.len() == images);
    if !fits || seeds < 2 || images < 2 {
        return None;
    }
    let (rows, columns) = (seeds as f64, images as f64);
    let of_seeds = sample_sd(differences)?.powi(2) / rows;
    let mut means = vec![0.0; images];
    for row in parts {
        means.iter_mut().zip(row).for_each(|(mean, part)| *mean += part / rows);
    }
    let of_images = columns / (columns - 1.0) * means.iter().map(|mean| mean * mean).sum::<f64>();
    let off = |row: &Vec<f64>| {
        row.iter().zip(&means).map(|(part, mean)| (part - mean).powi(2)).sum::<f64>()
    };
    let cells: f64 = parts.iter().map(off).sum();
    let of_cells = columns * cells / (rows * (rows - 1.0) * (columns - 1.0));
    // The estimate of a difference of variances may be too small by chance.
    let variance = (of_seeds + of_images - of_cells).max(of_seeds).max(of_images);
    let squares = of_seeds.powi(2) / (rows - 1.0) + of_images.powi(2) / (columns - 1.0);
    let freedom = if squares > 0.0 { variance.powi(2) / squares } else { rows - 1.0 };
    Some(TwoWay { variance, freedom })
}

impl Family {
    /// Estimates the mean of differences with an interval that holds for other seeds and other test
    /// images, simultaneously for the family. It is never narrower than that over seeds.
    pub fn estimate_two_way(&self, differences: &[f64], parts: &[Vec<f64>]) -> Option<Estimate> {
        let by_seeds = self.estimate(differences)?;
        let (each, both) = (self.each(differences.len())?, two_way(differences, parts)?);
        let half = student_t_quantile(1.0 - each / 2.0, both.freedom) * both.variance.sqrt();
        let half = by_seeds.high.map_or(half, |high| half.max(high - by_seeds.mean));
        let mean = mean(differences)?;
        Some(Estimate { low: Some(mean - half), high: Some(mean + half), ..by_seeds })
    }
}

#[cfg(test)]
mod tests {
    use nextpair_data::Draws;

    use super::*;

    /// Differences and parts of a world with these standard deviations of seeds, images and cells.
    fn world(
        seed: u64,
        (rows, columns): (usize, usize),
        sd: [f64; 3],
    ) -> (Vec<f64>, Vec<Vec<f64>>) {
        let mut draws = Draws::new(seed);
        let images: Vec<f64> = (0..columns).map(|_| sd[1] * draws.normal()).collect();
        let mut row = |_| {
            let of_seed = sd[0] * draws.normal();
            let mut values: Vec<f64> =
                images.iter().map(|image| of_seed + image + sd[2] * draws.normal()).collect();
            let mean = mean(&values).unwrap();
            values.iter_mut().for_each(|value| *value = (*value - mean) / columns as f64);
            (mean, values)
        };
        (0..rows).map(&mut row).unzip()
    }

    #[test]
    fn the_variance_is_that_of_seeds_and_images() {
        for sd in [[0.1f64, 1.0, 2.0], [0.0, 0.0, 1.0], [0.3, 0.0, 1.0], [0.0, 2.0, 0.5]] {
            let (rows, columns) = (10, 200);
            let truth = sd[0].powi(2) / rows as f64
                + sd[1].powi(2) / columns as f64
                + sd[2].powi(2) / (rows * columns) as f64;
            let of = |seed| {
                let (differences, parts) = world(seed, (rows, columns), sd);
                two_way(&differences, &parts).unwrap().variance
            };
            let found = (0..200).map(of).sum::<f64>() / 200.0;
            // The floor at the larger part makes it a little too large, never too small.
            assert!(found > 0.95 * truth && found < 1.35 * truth, "{sd:?}: {found} {truth}");
        }
    }

    /// Returns how often intervals over seeds, and over seeds and images, hold the truth for all images.
    fn coverage(rows: usize, sd: [f64; 3], simulations: u64) -> (f64, f64) {
        let family = Family { comparisons: 1, correlation: 0.0, error: 0.05 };
        let (mut by_seeds, mut by_both) = (0.0, 0.0);
        for seed in 0..simulations {
            let (differences, parts) = world(1000 + seed, (rows, 150), sd);
            let inside = |estimate: Estimate| {
                let (low, high) = estimate.interval().unwrap();
                f64::from(u8::from(low <= 0.0 && 0.0 <= high)) / simulations as f64
            };
            by_seeds += inside(family.estimate(&differences).unwrap());
            by_both += inside(family.estimate_two_way(&differences, &parts).unwrap());
        }
        (by_seeds, by_both)
    }

    #[test]
    fn other_images_are_covered() {
        let (by_seeds, by_both) = coverage(8, [0.02, 1.0, 1.5], 400);
        // Seeds alone miss the images that all of them share.
        assert!(by_seeds < 0.75 && by_both >= 0.92, "{by_seeds} {by_both}");
    }

    #[test]
    #[ignore = "prints the rates"]
    fn other_images_are_covered_in_a_thousand_worlds() {
        for rows in [3, 5, 8, 24] {
            for sd in [[0.02, 1.0, 1.5], [0.1, 1.0, 1.5], [0.1, 0.0, 1.0], [0.0, 1.0, 0.5]] {
                let (by_seeds, by_both) = coverage(rows, sd, 1000);
                println!(
                    "{rows} seeds, 150 images, sd of seeds, images and cells {sd:?}: new images are \
                     covered in {:.1} %, by seeds alone in {:.1} %",
                    100.0 * by_both,
                    100.0 * by_seeds
                );
                assert!(by_both >= 0.93, "{rows} {sd:?}: {by_both}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_has_no_interval() {
        assert_eq!(two_way(&[1.0, 2.0], &[vec![0.0; 3]]), None);
        assert_eq!(two_way(&[1.0], &[vec![0.0; 3]]), None);
        assert_eq!(two_way(&[1.0, 2.0], &[vec![0.0], vec![0.0]]), None);
        assert_eq!(two_way(&[1.0, 2.0], &[vec![0.0; 3], vec![0.0; 2]]), None);
        assert_eq!(two_way(&[], &[]), None);
    }
}
