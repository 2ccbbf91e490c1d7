//! `cargo xtask bench scale`: a pool that is large beside the memory, from disk, through `select` and
//! through shards of `score` and `merge`. Answers of all routes are compared byte by byte, and with
//! plain sums in double precision.

mod check;
mod files;

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::memory::Memory;
use super::options::positive;
use super::ours::{self, Finished};
use super::report::Record;
use check::Judge;
use files::World;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Pool items
    #[arg(long, value_name = "N", default_value = "20000000", value_parser = positive)]
    items: usize,
    /// Numbers of a vector, float16
    #[arg(long, value_name = "N", default_value = "256", value_parser = positive)]
    dim: usize,
    /// Numbers of pairs
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_values = ["100", "1000", "10000"], value_parser = positive)]
    pairs: Vec<usize>,
    /// Picks
    #[arg(long, value_name = "N", default_value = "1000", value_parser = positive)]
    budget: usize,
    /// Shards of `score`
    #[arg(long, value_name = "N", default_value = "4", value_parser = positive)]
    shards: usize,
    /// Runs of each kind, of which the fastest counts
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    repeats: usize,
    /// Threads
    #[arg(long, value_name = "N", default_value = "2", value_parser = positive)]
    threads: usize,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder of the pool, which is kept
    #[arg(long, value_name = "DIR", default_value = "target/bench-data/scale")]
    data: PathBuf,
    /// Folder of the record; bench/results, or target/bench-results when something is not the standard
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> Result<()> {
    ensure!(options.pairs.iter().all(|&pairs| pairs > 1), "--pairs: two are needed at least");
    ensure!(options.budget <= options.items / 4, "--budget: a quarter of the items at most");
    let binary = ours::build()?;
    std::fs::create_dir_all(&options.data).with_context(|| options.data.display().to_string())?;
    let world = World { seed: options.seed, dim: options.dim, threads: options.threads };
    let pool = world.pool(&options.data, options.items)?;
    let quarter = world.pool(&options.data, options.items / 4)?;
    eprintln!("reading     {}", pool.display());
    let mut disk = 0.0;
    for _ in 0..options.repeats {
        disk = files::rate(&pool, options.threads)?.max(disk);
    }
    let mut cases = Vec::new();
    for &pairs in &options.pairs {
        let paired = &world.pairs(&options.data, pairs)?;
        let bench = Bench { options, binary: &binary, pool: &pool, quarter: &quarter, paired };
        cases.push(bench.measure(pairs)?);
        println!("{}", cases.last().map(|case| case.markdown(options, disk)).unwrap_or_default());
    }
    write(options, disk, &cases)
}

/// A selection to be measured.
struct Bench<'a> {
    options: &'a Options,
    binary: &'a Path,
    pool: &'a Path,
    quarter: &'a Path,
    paired: &'a [PathBuf; 2],
}

/// A finished run.
struct Run {
    seconds: f64,
    memory: Memory,
    /// Predicted peak of anonymous memory.
    predicted: Option<u64>,
}

impl Run {
    fn of(binary: &Path, arguments: &[OsString]) -> Result<Self> {
        let finished = ours::finish(Command::new(binary).args(arguments), true)?;
        let Finished { seconds, memory, output } = finished;
        let said = String::from_utf8_lossy(&output.stderr);
        Ok(Run { seconds, memory, predicted: predicted(&said) })
    }
}

/// Returns the predicted memory of an announcement, in bytes.
fn predicted(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once("predicted peak memory ")?;
    let megabytes: f64 = rest.split_once(" MB")?.0.parse().ok()?;
    Some((megabytes * 1e6) as u64)
}

/// All runs with one number of pairs.
struct Case {
    pairs: usize,
    runs: Vec<(&'static str, usize, Run)>,
    /// Items whose scores were computed plainly.
    checked: usize,
}

impl Bench<'_> {
    fn measure(&self, pairs: usize) -> Result<Case> {
        let Options { items, shards, .. } = *self.options;
        let mut runs = Vec::new();
        eprintln!("{pairs} pairs: select");
        let picks = self.options.data.join("picks.jsonl");
        let mut answer = None;
        for (name, cold) in [("select, cold", true), ("select, warm", false)] {
            runs.push((name, items, self.best(|| self.select(self.pool, &picks, cold))?));
            let bytes = std::fs::read(&picks)?;
            ensure!(*answer.get_or_insert(bytes.clone()) == bytes, "{name}: other picks");
        }
        eprintln!("{pairs} pairs: plain sums");
        let judge = Judge::new(self.pool, self.paired, self.options.threads)?;
        let checked = judge.check(&picks, self.options.seed)?;
        drop(judge);
        eprintln!("{pairs} pairs: {shards} shards");
        let part = |shard: usize| self.options.data.join(format!("part-{shard}"));
        files::chill(self.pool)?;
        for shard in 0..shards {
            let name = if shard == 0 { "score, first shard" } else { "score, another shard" };
            let known = (shard > 0).then(|| part(0));
            let run = self.score(shard, known.as_deref(), &part(shard))?;
            runs.push((name, items / shards, run));
        }
        let merged = self.options.data.join("merged.jsonl");
        let mut arguments: Vec<OsString> = vec!["merge".into()];
        arguments.extend((0..shards).map(|shard| part(shard).into()));
        arguments.extend(["--out".into(), merged.clone().into()]);
        runs.push(("merge", items, Run::of(self.binary, &arguments)?));
        ensure!(Some(std::fs::read(&merged)?) == answer, "the merged shards have other picks");
        eprintln!("{pairs} pairs: a quarter of the pool");
        let run = self.best(|| self.select(self.quarter, &merged, true))?;
        runs.push(("select, a quarter of the pool, cold", items / 4, run));
        for file in (0..shards).map(part).chain([picks, merged]) {
            std::fs::remove_file(&file).with_context(|| file.display().to_string())?;
        }
        Ok(Case { pairs, runs, checked })
    }

    /// The fastest of some runs.
    fn best(&self, run: impl Fn() -> Result<Run>) -> Result<Run> {
        let runs: Result<Vec<Run>> = (0..self.options.repeats).map(|_| run()).collect();
        let fastest = runs?.into_iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
        fastest.context("there is at least one run")
    }

    fn select(&self, pool: &Path, out: &Path, cold: bool) -> Result<Run> {
        if cold {
            files::chill(pool)?;
        }
        Run::of(self.binary, &self.arguments("select", pool, out))
    }

    fn score(&self, shard: usize, known: Option<&Path>, out: &Path) -> Result<Run> {
        let mut arguments = self.arguments("score", self.pool, out);
        arguments.extend(["--shard".into(), format!("{shard}/{}", self.options.shards).into()]);
        if let Some(part) = known {
            arguments.extend(["--thresholds".into(), part.into()]);
        }
        Run::of(self.binary, &arguments)
    }

    fn arguments(&self, command: &str, pool: &Path, out: &Path) -> Vec<OsString> {
        let [images, texts] = self.paired;
        let numbers = [self.options.budget, self.options.threads].map(|n| n.to_string());
        let [budget, threads] = &numbers;
        let words: [&std::ffi::OsStr; 19] = [
            command.as_ref(),
            "--strategy".as_ref(),
            "hard-negative".as_ref(),
            "--pool".as_ref(),
            pool.as_ref(),
            "--pool-side".as_ref(),
            "image".as_ref(),
            "--paired-images".as_ref(),
            images.as_ref(),
            "--paired-texts".as_ref(),
            texts.as_ref(),
            "--budget".as_ref(),
            budget.as_ref(),
            "--threads".as_ref(),
            threads.as_ref(),
            "--device".as_ref(),
            "cpu".as_ref(),
            "--out".as_ref(),
            out.as_ref(),
        ];
        words.into_iter().map(OsString::from).collect()
    }
}

impl Case {
    fn markdown(&self, options: &Options, disk: f64) -> String {
        let Options { items, dim, .. } = options;
        let mut text = format!(
            "### {} pairs\n\nPool {items} x {dim}, float16, {:.1} GB. {} items checked by plain sums; all routes give the \
             same bytes.\n\n| | seconds | GB/s | of the disk's rate | million items/s | from disk, GB | predicted MB | \
             anonymous MB | mapped MB | resident MB |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
            self.pairs,
            (items * dim * 2) as f64 / 1e9,
            self.checked,
        );
        let megabytes = |bytes: u64| format!("{:.0}", bytes as f64 / 1e6);
        for (name, items, run) in &self.runs {
            let rate = (items * dim * 2) as f64 / run.seconds;
            let reads = *name != "merge";
            let of_reads = |text: String| if reads { text } else { String::new() };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {name} | {:.2} | {} | {} | {} | {:.2} | {} | {} | {} | {} |",
                run.seconds,
                of_reads(format!("{:.2}", rate / 1e9)),
                of_reads(format!("{:.0} %", 100.0 * rate / disk)),
                of_reads(format!("{:.2}", *items as f64 / run.seconds / 1e6)),
                run.memory.from_disk as f64 / 1e9,
                run.predicted.map(megabytes).unwrap_or_default(),
                megabytes(run.memory.anonymous),
                megabytes(run.memory.mapped),
                megabytes(run.memory.resident),
            );
        }
        text
    }

    fn json(&self) -> Value {
        let run = |(name, items, run): &(&str, usize, Run)| {
            let Memory { anonymous, mapped, resident, from_disk } = run.memory;
            json!({
                "run": name, "items": items, "seconds": run.seconds, "predicted_bytes": run.predicted,
                "anonymous_bytes": anonymous, "mapped_bytes": mapped, "resident_bytes": resident,
                "bytes_from_disk": from_disk,
            })
        };
        let runs: Vec<Value> = self.runs.iter().map(run).collect();
        json!({"pairs": self.pairs, "checked_items": self.checked, "runs": runs})
    }
}

fn write(options: &Options, disk: f64, cases: &[Case]) -> Result<()> {
    let Options { items, dim, budget, shards, repeats, threads, seed, .. } = options;
    let tables: Vec<String> = cases.iter().map(|case| case.markdown(options, disk)).collect();
    let record = Record {
        name: "scale",
        facts: json!({
            "items": items,
            "dim": dim,
            "budget": budget,
            "shards": shards,
            "repeats": repeats,
            "threads": threads,
            "seed": seed,
            "disk_bytes_per_second": disk,
            "cases": cases.iter().map(Case::json).collect::<Vec<_>>(),
        }),
        notes: vec![
            format!("threads: {threads}, the fastest of {repeats}"),
            format!("plain reads of the pool, cold: {:.2} GB/s", disk / 1e9),
        ],
        text: tables.join("\n"),
    };
    record.write(options.out.as_deref())
}
