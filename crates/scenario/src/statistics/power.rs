//! How many seeds a difference would take to be told from chance.

use super::{mean, sample_sd, student_t_quantile};

/// The chance to tell the difference that is asked for.
const POWER: f64 = 0.8;
/// More seeds than anybody runs.
const MOST: usize = 100_000;

/// Returns the number of seeds with which a difference of the size found would be told from chance four
/// times in five, if its mean and standard deviation are as found. `each` is the error of one
/// comparison ([`Family::each`](super::Family::each)). `None` with fewer than two seeds, without a
/// difference, or if 100,000 are not enough.
pub fn seeds_needed(differences: &[f64], each: f64) -> Option<usize> {
    let (mean, sd) = (mean(differences)?.abs(), sample_sd(differences)?);
    if !(mean > 0.0 && each > 0.0 && each < 1.0) {
        return None;
    }
    let enough = |seeds: usize| {
        let freedom = seeds as f64 - 1.0;
        let wanted =
            student_t_quantile(1.0 - each / 2.0, freedom) + student_t_quantile(POWER, freedom);
        mean * (seeds as f64).sqrt() >= wanted * sd
    };
    if !enough(MOST) {
        return None;
    }
    // What is enough stays enough: bisect.
    let (mut low, mut high) = (super::FEWEST, MOST);
    while low < high {
        let middle = usize::midpoint(low, high);
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_those_of_the_tables() {
        // A paired difference of half a standard deviation at 5 %, power 80 %: 34 pairs.
        let half = [0.5 - 0.866_025_4, 0.5, 0.5, 0.5 + 0.866_025_4, 0.5 - 0.866_025_4, 0.5];
        let list: Vec<f64> = half.into_iter().chain([0.5 + 0.866_025_4]).collect();
        let sd = sample_sd(&list).unwrap();
        let list: Vec<f64> = list.iter().map(|v| 0.5 + (v - 0.5) / sd).collect();
        let found = seeds_needed(&list, 0.05).unwrap();
        assert!((33..=35).contains(&found), "{found}");
        assert!(seeds_needed(&list, 0.01).unwrap() > 45);
    }

    #[test]
    fn no_difference_needs_no_seeds_at_all() {
        assert_eq!(seeds_needed(&[1.0, -1.0], 0.05), None);
        assert_eq!(seeds_needed(&[1.0], 0.05), None);
        assert_eq!(seeds_needed(&[1.0, -1.0, 0.001], 0.05), None);
        assert_eq!(seeds_needed(&[1.0, 1.0], 0.05), Some(3));
    }
}
