//! Seeded random draws that depend neither on their order nor on the machine.

use std::collections::BinaryHeap;

/// SplitMix64's mixing function (Steele, Lea and Flood, OOPSLA 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The draw of one item: a number that depends only on the seed, the purpose and the item.
///
/// The items with the smallest draws are a uniform sample without replacement, and any shard of the
/// items can compute its own draws.
pub fn draw_of(seed: u64, purpose: u64, item: u64) -> u64 {
    mix(mix(mix(seed.wrapping_add(STEP)) ^ purpose.wrapping_mul(STEP)).wrapping_add(item))
        .wrapping_add(STEP)
}

/// Samples `count` of `0..len` uniformly (all of them if there are fewer), in ascending order.
pub fn sample(seed: u64, purpose: u64, len: usize, count: usize) -> Vec<u32> {
    // The smallest draws so far: only they take memory.
    let mut smallest = BinaryHeap::with_capacity(count.min(len) + 1);
    for item in 0..len as u32 {
        let keyed = (draw_of(seed, purpose, u64::from(item)), item);
        if smallest.len() < count {
            smallest.push(keyed);
        } else if smallest.peek().is_some_and(|largest| keyed < *largest) {
            smallest.pop();
            smallest.push(keyed);
        }
    }
    let mut chosen: Vec<u32> = smallest.into_iter().map(|(_, item)| item).collect();
    chosen.sort_unstable();
    chosen
}

/// A stream of random numbers for the synthetic data of tests, probes and the quickstart.
pub struct Draws(u64);

impl Draws {
    /// Starts the stream of a seed.
    pub fn new(seed: u64) -> Self {
        Draws(mix(seed.wrapping_add(STEP)))
    }

    /// The stream that begins in this state.
    pub fn of_state(state: u64) -> Self {
        Draws(state)
    }

    /// The state of the stream when `count` more numbers are drawn: draws can be taken from anywhere.
    pub fn state_after(&self, count: u64) -> u64 {
        self.0.wrapping_add(STEP.wrapping_mul(count))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..len`; 0 if `len` is 0.
    pub fn below(&mut self, len: usize) -> usize {
        ((self.bits() as u128 * len as u128) >> 64) as usize
    }

    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_distinct_sorted_and_seeded() {
        let a = sample(1, 0, 100, 30);
        assert_eq!(a.len(), 30);
        assert!(a.windows(2).all(|w| w[0] < w[1]));
        assert_eq!(a, sample(1, 0, 100, 30));
        assert_ne!(a, sample(2, 0, 100, 30));
        assert_ne!(a, sample(1, 1, 100, 30));
        assert_eq!(sample(1, 0, 5, 5), [0, 1, 2, 3, 4]);
        assert_eq!(sample(1, 0, 2, 5), [0, 1]);
    }

    #[test]
    fn a_stream_can_be_taken_up_anywhere() {
        let mut draws = Draws::new(3);
        let mut later = Draws::of_state(draws.state_after(5));
        let drawn: Vec<u64> = (0..6).map(|_| draws.bits()).collect();
        assert_eq!(drawn[5], later.bits());
        assert_eq!(draws.state_after(0), later.state_after(0));
    }

    #[test]
    fn below_reaches_everything_and_nothing_more() {
        let mut draws = Draws::new(2);
        let mut seen = [0; 3];
        (0..300).for_each(|_| seen[draws.below(3)] += 1);
        assert!(seen.iter().all(|&count| count > 60), "{seen:?}");
        assert_eq!((draws.below(1), draws.below(0)), (0, 0));
    }

    #[test]
    fn every_item_is_drawn_about_equally_often() {
        let mut counts = [0; 20];
        for seed in 0..4000 {
            for item in sample(seed, 0, 20, 5) {
                counts[item as usize] += 1;
            }
        }
        // Expected 1000 each, standard deviation 27.
        assert!(counts.iter().all(|&c| (850..1150).contains(&c)), "{counts:?}");
    }
}
