//! Benchmarks against rivals on the same data. Answers are compared first, then timed in turns.

mod annotate;
mod answers;
mod case;
mod ceiling;
mod embed;
mod machine;
mod matching;
mod memory;
mod options;
mod ours;
mod report;
mod rivals;
mod scale;
mod score;
mod script;
mod train;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Subcommand;
use serde_json::Value;

use answers::{Pick, SLACK, compare, compare_coarse, compare_greedy};
use case::{Bench, Case};
use options::{Options, Sizes};
use ours::Ours;
use report::{CaseReport, Contestant};
use rivals::Rivals;

pub(crate) use ours::build as build_nextpair;

/// Chunk sizes for rivals, in rows. Each rival uses its fastest one.
const CHUNKS: [usize; 5] = [512, 1024, 2048, 4096, 8192];
/// Number of pool rows for tuning.
const TUNING_ROWS: usize = 32_768;

/// A rival that does not compute in single precision throughout. Its answers are replayed.
const COARSE_RIVAL: &str = "lightly-mundig";

/// Rivals whose every pick depends on the ones before.
const GREEDY_RIVALS: [&str; 5] =
    ["numpy-herding", "numpy-512", "torch-512", "numpy-128", "torch-128"];

/// The benchmarks.
#[derive(Subcommand)]
pub(crate) enum Task {
    /// Selection beside NumPy and PyTorch
    Select(Cases),
    /// K-center beside scikit-activeml and lightly-mundig
    CoreSet(Cases),
    /// Herding and novelty beside lazy greedy in NumPy
    Herding(Cases),
    /// V-optimal design beside NumPy and PyTorch
    Design(Cases),
    /// Features of images and captions beside ONNX Runtime
    Embed(embed::Options),
    /// A training step of Text-IMRAM beside PyTorch
    Train(Options),
    /// A tile of its similarities beside PyTorch
    Score(Options),
    /// A pool of 10 GB from disk, whole and in shards
    Scale(scale::Options),
    /// The annotation app with 200 annotators and 20,000 tasks
    Annotate(annotate::Options),
}

/// Cases of whole selections.
#[derive(clap::Args)]
pub(crate) struct Cases {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    sizes: Sizes,
}

pub(crate) fn run(task: &Task) -> Result<()> {
    match task {
        Task::Select(cases) => cases.run(Bench::Select),
        Task::CoreSet(cases) => cases.run(Bench::CoreSet),
        Task::Herding(cases) => cases.run(Bench::Herding),
        Task::Design(cases) => cases.run(Bench::Design),
        Task::Embed(options) => embed::run(options),
        Task::Train(options) => train::run(options),
        Task::Score(options) => score::run(options),
        Task::Scale(options) => scale::run(options),
        Task::Annotate(options) => annotate::run(options),
    }
}

impl Cases {
    fn run(&self, bench: Bench) -> Result<()> {
        let options = &self.options;
        let cases: Vec<Case> =
            bench.cases().into_iter().filter(|case| options.wants(case.name)).collect();
        ensure!(!cases.is_empty(), "no such case; {} has {}", bench.name(), bench.names());

        let python = rivals::environment(&options.venv())?;
        let binary = ours::build()?;
        let mut reports = Vec::new();
        for case in cases {
            reports.push(measure(bench, &self.sizes.of(case), options, &python, &binary)?);
            println!("{}", reports.last().map(CaseReport::markdown).unwrap_or_default());
        }
        let versions = reports.first().map_or(Value::Null, |report| report.versions.clone());
        let cases = reports.iter().map(|report| report.json(options.seed)).collect();
        let tables: Vec<String> = reports.iter().map(CaseReport::markdown).collect();
        report::write(bench.name(), options, &versions, cases, &tables)
    }
}

fn measure(
    bench: Bench,
    case: &Case,
    options: &Options,
    python: &Path,
    binary: &Path,
) -> Result<CaseReport> {
    let data = case.data(bench, options.seed, python)?;
    let threads = options.threads;
    let without = options.without.as_deref().unwrap_or_default();
    let ours = Ours { binary, data: &data, bench, case: case.name, threads, without };

    let mut rivals = Rivals::start(python, &data, case.budget, options.threads, false)?;
    let mut contestants = vec![Contestant::new("nextpair")];
    contestants.extend(options.rivals(case.rivals).into_iter().map(Contestant::new));
    if bench == Bench::Select {
        tune(case, &mut rivals, &mut contestants[1..])?;
    }

    eprintln!("{}: answers and memory", case.name);
    let reference = ours.run((case.budget + SLACK).min(case.pool), false)?.picks;
    contestants[0].memory = ours.run(case.budget, true)?.memory;
    for rival in &mut contestants[1..] {
        let mut fresh = Rivals::start(python, &data, case.budget, options.threads, true)?;
        let run;
        (run, rival.memory) = fresh.watched(&rival.name, rival.chunk)?;
        rival.judge(run.picks, &reference, case.budget, &mut rivals)?;
    }

    let mut ceiling = Vec::new();
    for round in 0..options.repeats {
        eprintln!("{}: round {} of {}", case.name, round + 1, options.repeats);
        if bench == Bench::Select {
            ceiling.push(ceiling::measure(case.dim, options.threads));
        }
        // Each contestant goes first in some round.
        for turn in 0..contestants.len() {
            let count = contestants.len();
            let contestant = &mut contestants[(round + turn) % count];
            let seconds = match &contestant.agreement {
                None => {
                    let run = ours.run(case.budget, false)?;
                    let same = run.picks == reference[..case.budget];
                    ensure!(same, "{}: nextpair does not repeat its own answer", case.name);
                    contestant.reported_peak = contestant.reported_peak.max(run.reported_peak);
                    run.seconds
                }
                Some(_) => {
                    let run = rivals.run(&contestant.name, contestant.chunk, None)?;
                    contestant.judge(run.picks, &reference, case.budget, &mut rivals)?;
                    run.seconds
                }
            };
            contestant.seconds.push(seconds);
        }
    }
    let versions = rivals.versions();
    Ok(CaseReport { case: case.clone(), bench, contestants, ceiling, versions })
}

impl Contestant {
    /// Compares a rival's answer with ours, unless it equals the last one compared.
    fn judge(
        &mut self,
        picks: Vec<u64>,
        reference: &[Pick],
        budget: usize,
        process: &mut Rivals,
    ) -> Result<()> {
        if self.agreement.is_some() && picks == self.picks {
            return Ok(());
        }
        let agreement = if GREEDY_RIVALS.contains(&self.name.as_str()) {
            compare_greedy(&reference[..budget], &picks)
        } else if self.name == COARSE_RIVAL {
            compare_coarse(&reference[..budget], &picks, process.shortfall(&picks)?)
        } else {
            compare(reference, budget, &picks)
        };
        let agreement = agreement.with_context(|| format!("{} answers otherwise", self.name))?;
        (self.agreement, self.picks) = (Some(agreement), picks);
        Ok(())
    }
}

/// Chooses the fastest chunk size of each rival.
fn tune(case: &Case, process: &mut Rivals, rivals: &mut [Contestant]) -> Result<()> {
    eprintln!("{}: chunk sizes", case.name);
    for rival in rivals {
        let rows = Some(TUNING_ROWS.min(case.pool));
        let mut best = f64::INFINITY;
        for chunk in CHUNKS {
            let first = process.run(&rival.name, Some(chunk), rows)?.seconds;
            let second = process.run(&rival.name, Some(chunk), rows)?.seconds;
            if first.min(second) < best {
                (best, rival.chunk) = (first.min(second), Some(chunk));
            }
        }
    }
    Ok(())
}
