//! The sign-flip test: how surprising differences are if every seed could as well have turned out the
//! other way round.
//!
//! If a strategy does not differ from the baseline, the differences of a seed are as likely as their
//! opposites, whatever their distribution. The signs of whole seeds are flipped, all strategies of a
//! seed together, which keeps the correlation between them. The p-value of a strategy is the share
//! of flips whose largest `|T|` over all strategies reaches its own (Westfall and Young's single step).

use nextpair_data::Draws;

/// Fewest seeds for the test. Eight have 128 different flips, and a p-value below 0.01 at best; five
/// could not get below 0.06.
pub const FLIPS_FROM: usize = 8;

/// Seeds up to which all flips are tried.
const EXACT: usize = 12;
/// Flips that are drawn otherwise.
const FLIPS: usize = 10_000;
const SEED: u64 = 0xf11b;

/// Returns the p-value of every strategy, adjusted for all of them. Each list holds the differences of
/// the same seeds. `None` with fewer than [`FLIPS_FROM`] seeds, or if the seeds are not the same.
pub fn sign_flip(differences: &[Vec<f64>]) -> Option<Vec<f64>> {
    let seeds = differences.first()?.len();
    if seeds < FLIPS_FROM || differences.iter().any(|list| list.len() != seeds) {
        return None;
    }
    let found: Vec<f64> = differences.iter().map(|list| statistic(list, |_| 1.0)).collect();
    let mut reached = vec![0usize; found.len()];
    let mut flip = |sign: &dyn Fn(usize) -> f64| {
        let largest = differences.iter().map(|list| statistic(list, sign)).fold(0.0, f64::max);
        for (count, own) in reached.iter_mut().zip(&found) {
            // Forgive the last digits, in which sums of another order differ.
            *count += usize::from(largest >= own * (1.0 - 1e-9));
        }
    };
    let flips = if seeds <= EXACT {
        // The first seed keeps its sign: a flip and its opposite have the same statistic.
        let all = 1usize << (seeds - 1);
        (0..all)
            .for_each(|signs| flip(&|seed| if signs << 1 >> seed & 1 == 1 { -1.0 } else { 1.0 }));
        all
    } else {
        let mut draws = Draws::new(SEED);
        flip(&|_| 1.0);
        for _ in 1..FLIPS {
            let words: Vec<u64> = (0..seeds.div_ceil(64)).map(|_| draws.bits()).collect();
            flip(&|seed| if words[seed / 64] >> (seed % 64) & 1 == 1 { -1.0 } else { 1.0 });
        }
        FLIPS
    };
    Some(reached.iter().map(|&count| count as f64 / flips as f64).collect())
}

/// Returns `|T|` of differences with signs. Signs change their sum, but not the sum of their squares.
fn statistic(list: &[f64], sign: impl Fn(usize) -> f64) -> f64 {
    let (mut sum, mut squares) = (0.0, 0.0);
    for (at, value) in list.iter().enumerate() {
        sum += sign(at) * value;
        squares += value * value;
    }
    let count = list.len() as f64;
    let mean = sum.abs() / count;
    let variance = (squares - count * mean * mean) / (count - 1.0);
    match mean {
        0.0 => 0.0,
        // Equal differences: their variance is 0 but for rounding.
        _ if variance <= 1e-12 * squares => f64::INFINITY,
        mean => mean / (variance / count).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_flips_of_few_seeds_are_tried() {
        // All eight on one side: only the flip that keeps them all is as far out.
        let far: Vec<f64> = (0..8).map(|at| 5.0 + f64::from(at)).collect();
        assert_eq!(sign_flip(std::slice::from_ref(&far)), Some(vec![1.0 / 128.0]));
        assert_eq!(sign_flip(&[far[..7].to_vec()]), None);
        assert_eq!(sign_flip(&[]), None);
        let none = vec![1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0];
        let both = sign_flip(&[far.clone(), none]).unwrap();
        assert!(both[0] < 0.03 && both[1] == 1.0, "{both:?}");
        assert_eq!(sign_flip(&[far, vec![1.0; 9]]), None);
        assert_eq!(sign_flip(&[vec![0.0; 8]]), Some(vec![1.0]));
    }

    #[test]
    fn flips_of_many_seeds_are_drawn() {
        let mut draws = Draws::new(4);
        let list: Vec<f64> = (0..24).map(|_| 0.4 + draws.normal()).collect();
        let p = sign_flip(std::slice::from_ref(&list)).unwrap()[0];
        assert_eq!(sign_flip(std::slice::from_ref(&list)).unwrap()[0], p);
        // The t-test of the same numbers is near it.
        let by_t = 2.0 * crate::statistics::student_t_tail(statistic(&list, |_| 1.0), 23.0);
        assert!((p - by_t).abs() < 0.02, "{p} {by_t}");
    }
}
