//! Results of benchmarks: a table and a record.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::answers::Agreement;
use super::case::{Bench, Case};
use super::machine;
use super::memory::Memory;
use super::options::Options;

/// A contestant: our side, without an agreement, or a rival.
pub(super) struct Contestant {
    pub(super) name: String,
    pub(super) chunk: Option<usize>,
    pub(super) memory: Memory,
    pub(super) agreement: Option<Agreement>,
    /// The rival's answer that was judged.
    pub(super) picks: Vec<u64>,
    pub(super) seconds: Vec<f64>,
    pub(super) reported_peak: u64,
}

pub(super) struct CaseReport {
    pub(super) case: Case,
    pub(super) bench: Bench,
    /// All contestants, beginning with ours.
    pub(super) contestants: Vec<Contestant>,
    /// Operations per second of the product alone, by round.
    pub(super) ceiling: Vec<f64>,
    pub(super) versions: Value,
}

/// Median, smallest and largest value.
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

pub(super) fn spread(values: &[f64]) -> Spread {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    Spread {
        median: (sorted[low] + sorted[high]) / 2.0,
        low: sorted[0],
        high: sorted[sorted.len() - 1],
    }
}

impl Contestant {
    pub(super) fn new(name: &str) -> Self {
        Contestant {
            name: name.to_string(),
            chunk: None,
            memory: Memory::default(),
            agreement: None,
            picks: Vec::new(),
            seconds: Vec::new(),
            reported_peak: 0,
        }
    }
}

impl CaseReport {
    /// Returns the time of a contestant relative to ours: of the medians, and by round.
    fn ratio(&self, of: &Contestant) -> Spread {
        let ours = &self.contestants[0].seconds;
        let rounds: Vec<f64> = of.seconds.iter().zip(ours).map(|(t, o)| t / o).collect();
        let median = spread(&of.seconds).median / spread(ours).median;
        Spread { median, ..spread(&rounds) }
    }

    /// Returns the operations of the definition per second of our time.
    fn our_rate(&self) -> f64 {
        let operations = 2.0 * self.case.similarities() * self.case.dim as f64;
        operations / spread(&self.contestants[0].seconds).median
    }

    pub(super) fn markdown(&self) -> String {
        let Case { name, pool, pairs, dim, budget, note, .. } = &self.case;
        let pairs_are = if self.bench != Bench::CoreSet { "pairs" } else { "centres" };
        let mut text = format!(
            "### {name}\n\nPool {pool} x {dim}, {pairs} {pairs_are}, {budget} picks. {note}\n\n\
             | | seconds, median | min..max | times ours | round by round | anonymous MB | \
             resident MB | answer |\n|---|---:|---:|---:|---:|---:|---:|---|\n"
        );
        for contestant in &self.contestants {
            let (time, ratio) = (spread(&contestant.seconds), self.ratio(contestant));
            let megabytes = |bytes: u64| bytes as f64 / 1e6;
            let chunk = contestant.chunk.map(|c| format!(" (chunk {c})")).unwrap_or_default();
            let answer = contestant.agreement.as_ref().map_or("exact".to_string(), |a| {
                let Agreement { others, moved, error, coarse } = a;
                if *coarse {
                    format!("**{others} other picks**, {moved} moved, within {error:.0e}")
                } else {
                    format!("{others} tied at the end, {moved} moved by up to {error:.0e}")
                }
            });
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {}{chunk} | {:.3} | {:.3}..{:.3} | {:.2} | {:.2}..{:.2} | {:.0} | {:.0} | {answer} |",
                contestant.name,
                time.median,
                time.low,
                time.high,
                ratio.median,
                ratio.low,
                ratio.high,
                megabytes(contestant.memory.anonymous),
                megabytes(contestant.memory.resident),
            );
        }
        if !self.ceiling.is_empty() {
            let (product, ours) = (spread(&self.ceiling), self.our_rate());
            let _ = writeln!(
                text,
                "\nThe product alone: {:.0} GFLOP/s ({:.0}..{:.0}). nextpair: {:.0} GFLOP/s' worth \
                 of similarities, {:.0} % of it.",
                product.median / 1e9,
                product.low / 1e9,
                product.high / 1e9,
                ours / 1e9,
                100.0 * ours / product.median
            );
        }
        text
    }

    pub(super) fn json(&self, seed: u64) -> Value {
        let contestant = |c: &Contestant| {
            let (time, ratio) = (spread(&c.seconds), self.ratio(c));
            json!({
                "name": c.name,
                "chunk": c.chunk,
                "seconds": c.seconds,
                "median": time.median,
                "times_ours": {"of_medians": ratio.median, "rounds": [ratio.low, ratio.high]},
                "anonymous_bytes": c.memory.anonymous,
                "resident_bytes": c.memory.resident,
                "reported_peak_bytes": (c.reported_peak > 0).then_some(c.reported_peak),
                "answer": c.agreement.as_ref().map(|a| json!({
                    "other_picks": a.others,
                    "moved": a.moved,
                    "largest_error": a.error,
                    "coarse": a.coarse,
                })),
            })
        };
        let select = self.bench == Bench::Select;
        json!({
            "case": self.case.name,
            "budget": self.case.budget,
            "generator": self.case.parameters(self.bench, seed),
            "contestants": self.contestants.iter().map(contestant).collect::<Vec<_>>(),
            "product_flops": self.ceiling,
            "our_flops": select.then(|| self.our_rate()),
        })
    }
}

/// Writes the dated record of cases with rivals.
pub(super) fn write(
    bench: &str,
    options: &Options,
    versions: &Value,
    cases: Vec<Value>,
    tables: &[String],
) -> Result<()> {
    let Options { threads, repeats, .. } = options;
    let record = Record {
        name: &options.record(bench),
        facts: json!({"threads": threads, "versions": versions, "cases": cases}),
        notes: vec![
            format!("versions: {}", line(versions)),
            format!("threads: {threads}, rounds: {repeats}"),
        ],
        text: tables.join("\n"),
    };
    record.write(options.out.as_deref())
}

/// What is kept of a benchmark: facts for programs, notes and tables for people.
pub(super) struct Record<'a> {
    pub(super) name: &'a str,
    pub(super) facts: Value,
    pub(super) notes: Vec<String>,
    pub(super) text: String,
}

/// Flags that name folders and files of this machine, which no record has.
const PLACES: [&str; 7] =
    ["--venv", "--out", "--data", "--images", "--image-model", "--text-model", "--captions"];
/// Flags with which a benchmark is still the standard one.
const STANDARD: [&str; 4] = ["--repeats", "--threads", "--seed", "--without"];

impl Record<'_> {
    /// Writes it with the date, the command and the machine: to a folder, or where records of its kind lie.
    pub(super) fn write(&self, out: Option<&Path>) -> Result<()> {
        let (date, machine, typed) = (machine::today()?, machine::describe()?, typed());
        let command = format!("cargo xtask {}", typed.join(" "));
        let mut record = json!({"date": date, "command": command, "machine": machine});
        for (name, fact) in self.facts.as_object().into_iter().flatten() {
            record[name] = fact.clone();
        }
        let mut text = format!("# {}, {date}\n\n`{command}`\n\n", self.name);
        for note in [&format!("machine: {}", line(&machine))].into_iter().chain(&self.notes) {
            let _ = writeln!(text, "* {note}");
        }
        let text = text + "\n" + &self.text;

        let flags = typed.iter().filter(|word| word.starts_with("--"));
        let is_standard = flags.into_iter().all(|flag| STANDARD.contains(&flag.as_str()));
        let usual = if is_standard { "bench/results" } else { "target/bench-results" };
        let out = out.unwrap_or(Path::new(usual));
        std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
        let facts = serde_json::to_string_pretty(&record)? + "\n";
        for (extension, content) in [("json", facts), ("md", text)] {
            let path = out.join(format!("{date}-{}.{extension}", self.name));
            std::fs::write(&path, content).with_context(|| path.display().to_string())?;
            eprintln!("written     {}", path.display());
        }
        Ok(())
    }
}

/// Returns the words of the command line after `xtask`, without places.
fn typed() -> Vec<String> {
    let mut words = std::env::args().skip(1);
    let mut typed = Vec::new();
    while let Some(word) = words.next() {
        match PLACES.contains(&word.as_str()) {
            true => drop(words.next()),
            false => typed.push(word),
        }
    }
    typed
}

/// Formats an object as `name value, name value`.
fn line(value: &Value) -> String {
    let entries = value.as_object().into_iter().flatten();
    let plain = |value: &Value| value.as_str().map_or(value.to_string(), str::to_string);
    entries.map(|(name, value)| format!("{name} {}", plain(value))).collect::<Vec<_>>().join(", ")
}
