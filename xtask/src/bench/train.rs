//! `cargo xtask bench train`: whole training steps of Text-IMRAM, from the encoders to Adam.

use anyhow::{Result, ensure};

use super::matching::{self, Bench, Case};

const CASES: [Case; 2] = [
    Case { name: "d256-batch32", run: "step", pairs: 32, dim: 256, calls: 5 },
    Case { name: "d1024-batch64", run: "step", pairs: 64, dim: 1024, calls: 2 },
];

/// How far loss and norm of the gradients may be apart, relative: of the first step, and of those
/// after it, which start from weights that single precision has already let drift.
const FIRST: (f64, f64) = (1e-5, 1e-4);
const LATER: (f64, f64) = (1e-4, 2e-3);

pub(super) fn run(flags: &[String]) -> Result<()> {
    matching::run(&Bench { name: "train", cases: &CASES, compare }, flags)
}

/// The most that loss or norm differ, relative.
fn compare(ours: &[f64], theirs: &[f64]) -> Result<f64> {
    ensure!(ours.len() == theirs.len(), "{} numbers, not {}", theirs.len(), ours.len());
    let mut most = 0.0f64;
    for (step, (ours, theirs)) in ours.chunks(2).zip(theirs.chunks(2)).enumerate() {
        let off = |at: usize| (ours[at] - theirs[at]).abs() / ours[at].abs();
        let allowed = if step == 0 { FIRST } else { LATER };
        // Written so that NaN is refused.
        let same = off(0) <= allowed.0 && off(1) <= allowed.1;
        ensure!(same, "step {step}: loss and norm {theirs:?}, ours {ours:?}");
        most = most.max(off(0)).max(off(1));
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_steps_are_held_to_more_than_later_ones() {
        assert!(compare(&[10.0, 5.0, 9.0, 4.0], &[10.0, 5.0, 9.0005, 4.001]).is_ok());
        assert!(compare(&[10.0, 5.0, 9.0, 4.0], &[10.0005, 5.0, 9.0, 4.0]).is_err());
        assert!(compare(&[10.0, 5.0], &[f64::NAN, 5.0]).is_err());
        assert!(compare(&[10.0, 5.0], &[10.0]).is_err());
    }
}
