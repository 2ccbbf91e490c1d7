//! `cargo xtask bench scale`: a pool that is large beside the memory, from disk, through `select` and
//! through shards of `score` and `merge`. Answers of all routes are compared byte by byte, and with
//! plain sums in double precision.

mod check;
mod files;
mod process;

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::{machine, ours};
use check::Judge;
use files::World;
use process::Run;

const USAGE: &str = "cargo xtask bench scale [FLAGS]
  --items N          pool items, 20,000,000 unless told otherwise
  --dim N            numbers of a vector, 256 unless told otherwise; float16
  --pairs A,B        numbers of pairs, 100,1000,10000 unless told otherwise
  --budget N         picks, 1000 unless told otherwise
  --shards N         shards of `score`, 4 unless told otherwise
  --repeats N        runs of each kind, of which the fastest counts; 1 unless told otherwise
  --threads N        threads, 2 unless told otherwise
  --seed N           seed of the data, 1 unless told otherwise
  --data DIR         folder of the pool, which is kept; target/bench-data/scale unless told otherwise
  --out DIR          folder of the record: bench/results, or target/bench-results when sizes are
                     not the standard ones";

struct Options {
    items: usize,
    dim: usize,
    pairs: Vec<usize>,
    budget: usize,
    shards: usize,
    repeats: usize,
    threads: usize,
    seed: u64,
    data: PathBuf,
    out: PathBuf,
    /// The flags as typed, without folders of this machine.
    typed: Vec<String>,
}

impl Options {
    fn parse(flags: &[String]) -> Result<Self> {
        let mut options = Options {
            items: 20_000_000,
            dim: 256,
            pairs: vec![100, 1000, 10_000],
            budget: 1000,
            shards: 4,
            repeats: 1,
            threads: 2,
            seed: 1,
            data: "target/bench-data/scale".into(),
            out: "bench/results".into(),
            typed: Vec::new(),
        };
        let mut out = None;
        for flag in flags.chunks(2) {
            let [flag, value] = flag else { bail!("{} needs a value\n{USAGE}", flag[0]) };
            match flag.as_str() {
                "--items" => options.items = number(flag, value)?,
                "--dim" => options.dim = number(flag, value)?,
                "--pairs" => {
                    options.pairs =
                        value.split(',').map(|one| number(flag, one)).collect::<Result<_>>()?;
                }
                "--budget" => options.budget = number(flag, value)?,
                "--shards" => options.shards = number(flag, value)?,
                "--repeats" => options.repeats = number(flag, value)?,
                "--threads" => options.threads = number(flag, value)?,
                "--seed" => options.seed = number(flag, value)?,
                "--data" => options.data = value.into(),
                "--out" => out = Some(value.into()),
                _ => bail!("unknown flag {flag}\n{USAGE}"),
            }
            if !["--data", "--out"].contains(&flag.as_str()) {
                options.typed.extend([flag.clone(), value.clone()]);
            }
        }
        let counts = [options.items, options.dim, options.budget, options.shards];
        let others = [options.repeats, options.threads, options.pairs.len()];
        ensure!(counts.iter().chain(&others).all(|&n| n > 0), "a number is 0\n{USAGE}");
        ensure!(options.pairs.iter().all(|&pairs| pairs > 1), "--pairs: two are needed at least");
        ensure!(options.budget <= options.items / 4, "--budget: a quarter of the items at most");
        if !options.typed.iter().all(|word| word == "--repeats" || word.parse::<usize>().is_ok()) {
            options.out = "target/bench-results".into();
        }
        options.out = out.unwrap_or(options.out);
        Ok(options)
    }
}

fn number<T: FromStr>(flag: &str, value: &str) -> Result<T> {
    value.parse().ok().with_context(|| format!("{flag} {value}: not a number"))
}

pub(super) fn run(flags: &[String]) -> Result<()> {
    let options = Options::parse(flags)?;
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
        let paired = world.pairs(&options.data, pairs)?;
        let bench = Bench {
            options: &options,
            binary: &binary,
            pool: &pool,
            quarter: &quarter,
            paired: &paired,
        };
        cases.push(bench.measure(pairs)?);
        println!("{}", cases.last().map(|case| case.markdown(&options, disk)).unwrap_or_default());
    }
    write(&options, disk, &cases)
}

/// A selection to be measured.
struct Bench<'a> {
    options: &'a Options,
    binary: &'a Path,
    pool: &'a Path,
    quarter: &'a Path,
    paired: &'a [PathBuf; 2],
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
        for (name, _, run) in &self.runs {
            let phases = run.phases.iter().filter(|phase| phase.seconds >= 0.05);
            let phases: Vec<String> =
                phases.map(|phase| format!("{} {:.2} s", phase.name, phase.seconds)).collect();
            let told = |eta: &process::Eta| {
                format!("at {} % {:.0} s ({:.1} s)", eta.percent, eta.told, eta.left)
            };
            let told: Vec<String> = run.etas.iter().map(told).collect();
            let _ = writeln!(text, "\n{name}: {}.", phases.join(", "));
            if !told.is_empty() {
                let worst = run.etas.iter().map(process::Eta::error).fold(0.0, f64::max);
                let (told, worst) = (told.join(", "), 100.0 * worst);
                let _ = writeln!(
                    text,
                    "ETA told, and what was left of the command: {told}; off by {worst:.0} % at most."
                );
            }
        }
        text
    }

    fn json(&self) -> Value {
        let run = |(name, items, run): &(&str, usize, Run)| {
            let mut value = run.json();
            value["run"] = json!(name);
            value["items"] = json!(items);
            value
        };
        let runs: Vec<Value> = self.runs.iter().map(run).collect();
        json!({"pairs": self.pairs, "checked_items": self.checked, "runs": runs})
    }
}

/// Writes the dated record and its tables.
fn write(options: &Options, disk: f64, cases: &[Case]) -> Result<()> {
    let (date, machine) = (machine::today()?, machine::describe()?);
    let words = ["cargo xtask bench scale"].into_iter();
    let command: Vec<&str> = words.chain(options.typed.iter().map(String::as_str)).collect();
    let command = command.join(" ");
    let Options { items, dim, budget, shards, repeats, threads, seed, .. } = options;
    let record = json!({
        "date": date,
        "command": command,
        "machine": machine,
        "items": items,
        "dim": dim,
        "budget": budget,
        "shards": shards,
        "repeats": repeats,
        "threads": threads,
        "seed": seed,
        "disk_bytes_per_second": disk,
        "cases": cases.iter().map(Case::json).collect::<Vec<_>>(),
    });
    let mut text = format!("# scale, {date}\n\n`{command}`\n\n");
    let _ = writeln!(text, "* machine: {}", super::report::line(&machine));
    let _ = writeln!(text, "* threads: {threads}, the fastest of {repeats}");
    let _ = writeln!(text, "* plain reads of the pool, cold: {:.2} GB/s\n", disk / 1e9);
    for case in cases {
        text.push_str(&case.markdown(options, disk));
        text.push('\n');
    }
    std::fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    for (extension, content) in
        [("json", serde_json::to_string_pretty(&record)? + "\n"), ("md", text)]
    {
        let path = options.out.join(format!("{date}-scale.{extension}"));
        std::fs::write(&path, content).with_context(|| path.display().to_string())?;
        eprintln!("written     {}", path.display());
    }
    Ok(())
}
