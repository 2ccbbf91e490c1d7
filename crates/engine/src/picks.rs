//! The best of many picks.

use nextpair_core::Pick;

/// The first `keep` in the order of picks, by partial selection.
pub(crate) fn keep_best(picks: impl Iterator<Item = Pick>, keep: usize) -> Vec<Pick> {
    if keep == 0 {
        return Vec::new();
    }
    let full = keep.saturating_mul(2);
    let mut best = Vec::with_capacity(full.min(1 << 16));
    // The last of those that were kept: whatever is behind it is out at once, as nearly all of a large pool are.
    let mut last: Option<Pick> = None;
    for pick in picks {
        if last.as_ref().is_some_and(|last| last.before(&pick).is_lt()) {
            continue;
        }
        best.push(pick);
        if best.len() == full {
            best.select_nth_unstable_by(keep - 1, Pick::before);
            best.truncate(keep);
            last = best.last().cloned();
        }
    }
    best.sort_unstable_by(Pick::before);
    best.truncate(keep);
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_whatever_their_order() {
        // Many ties; rising, falling and mixed scores.
        let scores: [fn(u32) -> u32; 4] = [|i| i, |i| 1000 - i, |i| i * 7919 % 13, |_| 0];
        for score in scores {
            let picks: Vec<Pick> = (0..1000).map(|i| Pick::new(i, f64::from(score(i)))).collect();
            let mut sorted = picks.clone();
            sorted.sort_by(Pick::before);
            for keep in [0, 1, 2, 3, 10, 499, 500, 501, 999, 1000, 1001, usize::MAX] {
                let best = keep_best(picks.iter().cloned(), keep);
                assert_eq!(best, sorted[..keep.min(1000)], "{keep}");
            }
        }
    }
}
