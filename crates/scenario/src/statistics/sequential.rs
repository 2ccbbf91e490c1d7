//! Looking early without fooling oneself: how much error each of several looks may spend.
//!
//! Whoever looks after every few seeds and stops as soon as an interval leaves out zero is wrong more
//! often than the 5 % of each look. Spending functions (Lan and DeMets, Biometrika 1983) divide the
//! 5 % between looks that are planned beforehand: [`Looks::error`] is what a look may use, and
//! [`Family::at`](super::Family::at) makes intervals of it. The errors of all looks add up to 5 %, so
//! the chance of any wrong verdict at any look is at most that, however the looks depend on each other
//! and however few seeds there are. Points from the joint distribution of the looks would be a little
//! smaller; they hold for many seeds only.
//!
//! ```
//! use nextpair_scenario::statistics::{Family, Looks};
//!
//! let looks = Looks::new(&[4, 8, 12, 24]).unwrap();
//! let differences = [vec![0.4, 0.6, 0.5, 0.7]];
//! let family = Family::of(&differences, 1).at(looks.error(0));
//! let interval = family.estimate(&differences[0]).unwrap().interval();
//! ```

use super::{CONFIDENCE, normal_tail};

/// The 97.5 % point of the normal distribution.
const NORMAL: f64 = 1.959_964;

/// Looks planned beforehand, by their numbers of seeds. Almost nothing of the error is spent early, most at
/// the end, like O'Brien and Fleming's boundaries: the last look is nearly as sharp as if nobody had looked
/// before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looks {
    seeds: Vec<usize>,
}

impl Looks {
    /// Plans looks after so many seeds each. `None` unless the numbers rise from at least 1.
    pub fn new(seeds: &[usize]) -> Option<Self> {
        let rises = seeds.windows(2).all(|two| two[0] < two[1]);
        let fine = rises && seeds.first().is_some_and(|&first| first > 0);
        fine.then(|| Looks { seeds: seeds.to_vec() })
    }

    /// Returns the numbers of seeds.
    pub fn seeds(&self) -> &[usize] {
        &self.seeds
    }

    /// Returns the error of the simultaneous intervals at a look, from 0. The errors of all looks add up
    /// to 0.05; after the last look there is none left.
    pub fn error(&self, look: usize) -> f64 {
        let before = look.checked_sub(1).map_or(0.0, |before| self.spent(before));
        if look < self.seeds.len() { self.spent(look) - before } else { 0.0 }
    }

    /// Returns the error spent by the end of a look.
    fn spent(&self, look: usize) -> f64 {
        let last = self.seeds.len() - 1;
        let error = 1.0 - CONFIDENCE;
        if look >= last {
            return error;
        }
        let share = self.seeds[look] as f64 / self.seeds[last] as f64;
        2.0 * normal_tail(NORMAL / share.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_spend_all_and_no_more() {
        let looks = Looks::new(&[4, 6, 8, 12, 16, 24]).unwrap();
        let errors: Vec<f64> = (0..6).map(|look| looks.error(look)).collect();
        assert!((errors.iter().sum::<f64>() - 0.05).abs() < 1e-12, "{errors:?}");
        assert!(errors.iter().all(|&error| error > 0.0), "{errors:?}");
        assert_eq!(looks.error(6), 0.0);
        assert!((0.0..0.0001).contains(&errors[0]), "{errors:?}");
        let one = Looks::new(&[8]).unwrap();
        assert!((one.error(0) - 0.05).abs() < 1e-12);
        // O'Brien and Fleming at half of the seeds: 2 (1 - Phi(1.96 / sqrt(0.5))) = 0.0056.
        let halves = Looks::new(&[10, 20]).unwrap();
        assert!((halves.error(0) - 0.005_575).abs() < 1e-5, "{}", halves.error(0));
    }

    #[test]
    fn looks_rise() {
        for wrong in [&[][..], &[0, 4], &[4, 4], &[8, 4]] {
            assert_eq!(Looks::new(wrong), None);
        }
    }
}
