//! Measures a selection on a GPU, and compares its answer with the CPU's on a sample.
//!
//! ```text
//! measure_gpu [ITEMS [PAIRS [DIM [ROWS COLUMNS LANES]]]]
//! ```
//!
//! By default 10,000,000 items against 100,000 pairs of 512 numbers, which takes 21 GB of memory. The
//! last three numbers cut the work another way.

#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::error::Error;
use std::sync::Mutex;
use std::time::Instant;

use nextpair_core::{Matrix, Progress, Side};
use nextpair_engine::{Device, HardNegative, Picks, Problem, Tiles};
use rayon::prelude::*;

const BUDGET: usize = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Result<Vec<usize>, _> =
        std::env::args().skip(1).map(|word| word.parse()).collect();
    let numbers = numbers?;
    let number = |at: usize, usual: usize| numbers.get(at).copied().unwrap_or(usual);
    let (items, pairs, dim) = (number(0, 10_000_000), number(1, 100_000), number(2, 512));
    let usual = Tiles::default();
    let tiles = Tiles {
        rows: number(3, usual.rows),
        columns: number(4, usual.columns),
        lanes: number(5, usual.lanes),
        ..usual
    };

    let clock = Instant::now();
    let images = made(1, pairs, dim, None);
    let texts = made(2, pairs, dim, Some(&images));
    let pool = made(3, items, dim, None);
    let (images, texts) = (Matrix::from_vec(dim, images), Matrix::from_vec(dim, texts));
    let pool = Matrix::from_vec(dim, pool);
    println!("{items} x {dim} against {pairs}, {tiles:?}");
    println!("numbers made      {:8.3} s", clock.elapsed().as_secs_f64());

    let operations = 2.0 * (items as f64 + pairs as f64) * pairs as f64 * dim as f64;
    let problem = |device: Device| {
        let pool = pool.clone();
        Problem::of_embeddings(images.clone(), texts.clone(), pool, Side::Image).on(device).build()
    };
    let mut answers = Vec::new();
    for keep in [true, false] {
        let clock = Instant::now();
        let device = Device::cuda_in(0, Tiles { keep, ..tiles })?;
        println!("{device} opened {:6.3} s", clock.elapsed().as_secs_f64());
        let clock = Instant::now();
        let problem = problem(device)?;
        println!("numbers checked   {:8.3} s", clock.elapsed().as_secs_f64());
        let runs: &[&str] = match keep {
            true => &["copied, kept", "resident", "resident"],
            false => &["warm", "streamed", "streamed"],
        };
        for run in runs {
            let phases = Phases::default();
            let clock = Instant::now();
            let picks = problem.select(&HardNegative::default(), BUDGET.min(items), &phases)?;
            let took = clock.elapsed().as_secs_f64();
            println!(
                "{run:<14} {took:8.3} s  {:.0} TFLOP/s, {} items with hits",
                operations / took / 1e12,
                picks.hard_negatives.unwrap_or(0)
            );
            phases.print(clock);
            answers.push(picks);
        }
    }
    for other in &answers[1..] {
        assert!(*other == answers[0], "every run has the same answer");
    }

    let clock = Instant::now();
    let compared = check(&answers[0], &pool, |pool| {
        Problem::of_embeddings(images.clone(), texts.clone(), pool, Side::Image).build()
    })?;
    println!("equal to the CPU's for {compared} items, {:.3} s", clock.elapsed().as_secs_f64());
    Ok(())
}

/// Directions of no structure, or those near others.
fn made(seed: u64, count: usize, dim: usize, near: Option<&[f32]>) -> Vec<f32> {
    let mut values = vec![0.0f32; count * dim];
    values.par_chunks_mut(dim).enumerate().for_each(|(row, values)| {
        let mut state = (seed << 40 ^ row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for (k, value) in values.iter_mut().enumerate() {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = state;
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            bits ^= bits >> 31;
            // The sum of four is nearly normal.
            let sum: u64 = (0..4).map(|part| bits >> (16 * part) & 0xffff).sum();
            *value = (sum as f32 - 131_070.0) / 37_837.0;
            if let Some(near) = near {
                *value = 0.6 * near[row * dim + k] + 0.8 * *value;
            }
        }
    });
    values
}

/// Compares picks, and a few items that were not picked, with what the CPU says of them alone.
fn check(
    picks: &Picks,
    pool: &Matrix,
    problem: impl Fn(Matrix) -> Result<Problem, nextpair_engine::Error>,
) -> Result<usize, Box<dyn Error>> {
    let step = (pool.rows() / 2000).max(1);
    let others = (0..pool.rows() as u32).step_by(step);
    let mut sample: Vec<u32> = picks.indices().into_iter().chain(others).collect();
    sample.sort_unstable();
    sample.dedup();
    let some = pool.view(sample.iter().map(|&item| item as usize));
    let there = problem(some)?.select(&HardNegative::default(), sample.len(), &())?;
    assert!(
        there
            .thresholds
            .iter()
            .map(|t| t.to_bits())
            .eq(picks.thresholds.iter().map(|t| t.to_bits())),
        "thresholds have the same bits"
    );
    let picked: HashMap<u32, usize> =
        picks.picks.iter().enumerate().map(|(at, pick)| (pick.index, at)).collect();
    let lowest = picks.picks.last().map_or(0.0, |pick| pick.score);
    for pick in &there.picks {
        match picked.get(&sample[pick.index as usize]) {
            Some(&at) => {
                let own = &picks.picks[at];
                assert_eq!(own.score.to_bits(), pick.score.to_bits(), "item {}", own.index);
                assert_eq!((own.hits, &own.why), (pick.hits, &pick.why), "item {}", own.index);
            }
            None => assert!(pick.score <= lowest, "an item that should be picked"),
        }
    }
    Ok(sample.len())
}

/// When phases began.
#[derive(Default)]
struct Phases(Mutex<Vec<(&'static str, Instant)>>);

impl Progress for Phases {
    fn start(&self, phase: &'static str, _: u64) {
        self.0.lock().expect("nobody panics").push((phase, Instant::now()));
    }

    fn advance(&self, _: u64) {}
}

impl Phases {
    fn print(&self, start: Instant) {
        let phases = self.0.lock().expect("nobody panics");
        let ends = phases.iter().skip(1).map(|phase| phase.1).chain([Instant::now()]);
        for ((phase, began), end) in phases.iter().zip(ends) {
            let (began, took) = (*began - start, end - *began);
            let (began, took) = (began.as_secs_f64(), took.as_secs_f64());
            println!("    {phase:<12} from {began:7.3} s, {took:7.3} s");
        }
    }
}
