//! Text-IMRAM compared with PyTorch: shared parts of `bench train` and `bench score`.

mod input;
mod rival;

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::options::Options;
use super::report::{self, Spread, spread};
use super::rivals;

use input::{LENGTH, REGIONS};
use rival::Rival;

/// The published procedure, and the same one rearranged like ours.
const RIVALS: [&str; 2] = ["published", "rearranged"];
/// Tile sizes of `rearranged`, in images and captions. It uses its fastest one.
const TILES: [[usize; 2]; 6] = [[8, 8], [4, 16], [32, 4], [4, 32], [2, 64], [8, 32]];

/// A benchmark: its cases, and how to run and judge them.
pub(super) struct Bench {
    pub(super) name: &'static str,
    pub(super) cases: &'static [Case],
    /// Returns the distance between our answer and a rival's, or an error if it is too large.
    pub(super) compare: fn(&[f64], &[f64]) -> Result<f64>,
}

#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The request to the rivals: `step` or `score`.
    pub(super) run: &'static str,
    /// Number of images, and of captions.
    pub(super) pairs: usize,
    /// Dimensions of a region and of a word.
    pub(super) dim: usize,
    /// Calls per turn, so that a turn is long enough to time.
    pub(super) calls: usize,
}

struct Contestant {
    name: String,
    side: Rival,
    /// Largest distance of the rival's answers from ours.
    off: f64,
    seconds: Vec<f64>,
}

/// Runs the cases and writes the record.
pub(super) fn run(bench: &Bench, options: &Options) -> Result<()> {
    let cases: Vec<&Case> = bench.cases.iter().filter(|case| options.wants(case.name)).collect();
    let names: Vec<&str> = bench.cases.iter().map(|case| case.name).collect();
    ensure!(!cases.is_empty(), "no such case; {} has {}", bench.name, names.join(", "));

    let python = rivals::environment(&options.venv())?;
    let binary = rival::build()?;
    let without = options.without.as_deref().unwrap_or_default();
    let (mut versions, mut records, mut tables) = (Value::Null, Vec::new(), Vec::new());
    for case in cases {
        let input = input::file(case, options.seed)?;
        let ours = Rival::ours(&binary, case, &input, options.threads, without)?;
        let mut contestants = vec![Contestant::new("nextpair", ours)];
        for name in options.rivals(&RIVALS) {
            let mut rival = Rival::start(&python, case, name, &input, options.threads)?;
            versions = rival.versions();
            if name == "rearranged" {
                eprintln!("{}: tiles of {name}", case.name);
                rival.tune(&TILES)?;
            }
            contestants.push(Contestant::new(&rival.title(), rival));
        }
        measure(bench, case, &mut contestants, options.repeats)?;
        tables.push(markdown(case, &contestants));
        records.push(record(case, options.seed, &contestants));
        println!("{}", tables[tables.len() - 1]);
    }
    report::write(bench.name, options, &versions, records, &tables)
}

/// Compares answers first, then times in turns. Every answer of every turn is compared.
fn measure(bench: &Bench, case: &Case, all: &mut [Contestant], rounds: usize) -> Result<()> {
    eprintln!("{}: answers", case.name);
    let reference = all[0].side.turn().context("nextpair")?.answer;
    let judge = |contestant: &mut Contestant| -> Result<f64> {
        let turn = contestant.side.turn().with_context(|| contestant.name.clone())?;
        let off = (bench.compare)(&reference, &turn.answer)
            .with_context(|| format!("{} answers otherwise", contestant.name))?;
        contestant.off = contestant.off.max(off);
        Ok(turn.seconds)
    };
    for contestant in &mut *all {
        judge(contestant)?;
    }
    for round in 0..rounds {
        eprintln!("{}: round {} of {rounds}", case.name, round + 1);
        // Each contestant goes first in some round.
        for turn in 0..all.len() {
            let at = (round + turn) % all.len();
            let seconds = judge(&mut all[at])?;
            all[at].seconds.push(seconds);
        }
    }
    Ok(())
}

impl Contestant {
    fn new(name: &str, side: Rival) -> Self {
        Contestant { name: name.to_string(), side, off: 0.0, seconds: Vec::new() }
    }

    /// Returns its time relative to ours: of the medians, and by round.
    fn ratio(&self, ours: &[f64]) -> Spread {
        let rounds: Vec<f64> = self.seconds.iter().zip(ours).map(|(t, o)| t / o).collect();
        let median = spread(&self.seconds).median / spread(ours).median;
        Spread { median, ..spread(&rounds) }
    }
}

fn markdown(case: &Case, contestants: &[Contestant]) -> String {
    let Case { name, pairs, dim, calls, run } = case;
    let mut text = format!(
        "### {name}\n\n{pairs} images of {REGIONS} regions, {pairs} captions of {LENGTH} words, d = \
         {dim}; {calls} x {run} a turn.\n\n| | milliseconds, median | min..max | times ours | \
         round by round | off by |\n|---|---:|---:|---:|---:|---:|\n"
    );
    for contestant in contestants {
        let (time, ratio) =
            (spread(&contestant.seconds), contestant.ratio(&contestants[0].seconds));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {:.1} | {:.1}..{:.1} | {:.2} | {:.2}..{:.2} | {:.0e} |",
            contestant.name,
            1e3 * time.median,
            1e3 * time.low,
            1e3 * time.high,
            ratio.median,
            ratio.low,
            ratio.high,
            contestant.off,
        );
    }
    text
}

fn record(case: &Case, seed: u64, contestants: &[Contestant]) -> Value {
    let contestant = |c: &Contestant| {
        let ratio = c.ratio(&contestants[0].seconds);
        json!({
            "name": c.name,
            "seconds": c.seconds,
            "median": spread(&c.seconds).median,
            "times_ours": {"of_medians": ratio.median, "rounds": [ratio.low, ratio.high]},
            "off_by": c.off,
        })
    };
    json!({
        "case": case.name,
        "pairs": case.pairs,
        "dim": case.dim,
        "calls": case.calls,
        "seed": seed,
        "config": input::config(case),
        "contestants": contestants.iter().map(contestant).collect::<Vec<_>>(),
    })
}

/// Returns the folder for files of these benchmarks.
fn folder() -> PathBuf {
    PathBuf::from("target/bench-data/matching")
}
