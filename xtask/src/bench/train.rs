//! `cargo xtask bench train`: whole training steps of Text-IMRAM, from the encoders to Adam.

use anyhow::{Result, ensure};

use super::matching::{self, Bench, Case};
use super::options::Options;

const CASES: [Case; 2] = [
    Case { name: "d256-batch32", run: "step", pairs: 32, dim: 256, calls: 3 },
    Case { name: "d1024-batch64", run: "step", pairs: 64, dim: 1024, calls: 2 },
];

/// Relative tolerances of the loss and of the gradient norm at the first step.
const FIRST: (f64, f64) = (1e-5, 1e-4);
/// Growth of the tolerances per step. The first steps of Adam depend on the sign of a gradient and
/// not on its size, so the rounding of small gradients reaches the weights at once. In double
/// precision, both rivals agree to ten digits for five steps.
const DRIFT: f64 = 10.0;

pub(super) fn run(options: &Options) -> Result<()> {
    matching::run(&Bench { name: "train", cases: &CASES, compare }, options)
}

/// Returns the largest relative difference of loss and norm at the first step. Later steps have the
/// tolerances of [`DRIFT`].
fn compare(ours: &[f64], theirs: &[f64]) -> Result<f64> {
    ensure!(ours.len() == theirs.len(), "{} numbers, not {}", theirs.len(), ours.len());
    let (mut first, mut allowed) = (0.0, FIRST);
    for (step, (ours, theirs)) in ours.chunks(2).zip(theirs.chunks(2)).enumerate() {
        let off = |at: usize| (ours[at] - theirs[at]).abs() / ours[at].abs();
        // Written so that NaN fails.
        let same = off(0) <= allowed.0 && off(1) <= allowed.1;
        ensure!(same, "step {step}: loss and norm {theirs:?}, ours {ours:?}");
        if step == 0 {
            first = off(0).max(off(1));
        }
        allowed = (DRIFT * allowed.0, DRIFT * allowed.1);
    }
    Ok(first)
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
