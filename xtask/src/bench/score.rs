//! `cargo xtask bench score`: a tile of Text-IMRAM similarities from encoded images and captions.

use anyhow::{Result, ensure};

use super::matching::{self, Bench, Case};
use super::options::Options;

const CASES: [Case; 1] =
    [Case { name: "d256-tile128", run: "score", pairs: 128, dim: 256, calls: 1 }];

/// Tolerance of a similarity.
const ALLOWED: f64 = 4e-6;

pub(super) fn run(options: &Options) -> Result<()> {
    matching::run(&Bench { name: "score", cases: &CASES, compare }, options)
}

/// Returns the largest difference between similarities.
fn compare(ours: &[f64], theirs: &[f64]) -> Result<f64> {
    ensure!(ours.len() == theirs.len(), "{} similarities, not {}", theirs.len(), ours.len());
    let mut most = 0.0f64;
    for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let off = (ours - theirs).abs();
        // Written so that NaN fails.
        let same = off <= ALLOWED;
        ensure!(same, "similarity {at} is {theirs}, ours {ours}");
        most = most.max(off);
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarities_agree_to_rounding() {
        assert!(compare(&[1.0, -2.0], &[1.000001, -2.0]).is_ok());
        assert!(compare(&[1.0, -2.0], &[1.0001, -2.0]).is_err());
        assert!(compare(&[1.0], &[f64::NAN]).is_err());
        assert!(compare(&[1.0, -2.0], &[1.0]).is_err());
    }
}
