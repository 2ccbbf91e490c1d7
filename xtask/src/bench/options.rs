//! Flags of the benchmarks.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use super::case::Case;

pub(super) const USAGE: &str =
    "cargo xtask bench select|core-set|herding|design|embed|train|score|gpu|scale|annotate [FLAGS]
  --only CASE        this case alone (repeat for more)
  --repeats N        timed rounds, 5 unless told otherwise
  --rivals A,B       these rivals in every case; 'none' for none
  --threads N        threads of everyone, 2 unless told otherwise
  --seed N           seed of the data, 1 unless told otherwise
  --pool N, --pairs N, --dim N, --budget N
                     other sizes than those of the case (select, core-set)
  --without A,B      vector instructions that we do without (avx512, vnni, avx2); rivals keep
                     them (select, core-set, herding, design, train, score)
  --venv DIR         a Python environment that has bench/requirements.txt; also NEXTPAIR_BENCH_VENV
  --out DIR          folder of the record: bench/results, or target/bench-results when
                     sizes, cases or rivals are not the standard ones";

#[derive(Debug)]
pub(super) struct Options {
    only: Vec<String>,
    rivals: Option<Vec<String>>,
    pub(super) repeats: usize,
    pub(super) threads: usize,
    pub(super) seed: u64,
    pool: Option<usize>,
    pairs: Option<usize>,
    dim: Option<usize>,
    budget: Option<usize>,
    pub(super) without: Option<String>,
    pub(super) venv: Option<PathBuf>,
    out: Option<PathBuf>,
    /// The flags as typed, without folders of this machine.
    pub(super) typed: Vec<String>,
}

impl Options {
    pub(super) fn parse(flags: &[String]) -> Result<Self> {
        let mut options = Options {
            only: Vec::new(),
            rivals: None,
            repeats: 5,
            threads: 2,
            seed: 1,
            pool: None,
            pairs: None,
            dim: None,
            budget: None,
            without: None,
            venv: std::env::var_os("NEXTPAIR_BENCH_VENV").map(PathBuf::from),
            out: None,
            typed: Vec::new(),
        };
        let mut rest = flags.iter();
        while let Some(flag) = rest.next() {
            let value = rest.next().with_context(|| format!("{flag} needs a value\n{USAGE}"))?;
            match flag.as_str() {
                "--only" => options.only.push(value.clone()),
                "--rivals" => {
                    let names = value.split(',').filter(|&name| name != "none");
                    options.rivals = Some(names.map(str::to_string).collect());
                }
                "--repeats" => options.repeats = number(flag, value)?,
                "--threads" => options.threads = number(flag, value)?,
                "--seed" => options.seed = number(flag, value)?,
                "--pool" => options.pool = Some(number(flag, value)?),
                "--pairs" => options.pairs = Some(number(flag, value)?),
                "--dim" => options.dim = Some(number(flag, value)?),
                "--budget" => options.budget = Some(number(flag, value)?),
                "--without" => options.without = Some(value.clone()),
                "--venv" => options.venv = Some(value.into()),
                "--out" => options.out = Some(value.into()),
                _ => bail!("unknown flag {flag}\n{USAGE}"),
            }
            if !["--venv", "--out"].contains(&flag.as_str()) {
                options.typed.extend([flag.clone(), value.clone()]);
            }
        }
        ensure!(options.repeats > 0, "--repeats is 0; at least one round is needed");
        ensure!(options.threads > 0, "--threads is 0; at least one is needed");
        Ok(options)
    }

    pub(super) fn wants(&self, case: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == case)
    }

    /// Returns the case with the sizes given as flags.
    pub(super) fn sized(&self, case: Case) -> Case {
        let pool = self.pool.unwrap_or(case.pool);
        Case {
            pool,
            pairs: self.pairs.unwrap_or(case.pairs),
            dim: self.dim.unwrap_or(case.dim),
            budget: self.budget.unwrap_or(case.budget).min(pool),
            ..case
        }
    }

    /// Returns an error if sizes were given, for benchmarks with fixed sizes.
    pub(super) fn refuse_sizes(&self) -> Result<()> {
        let sizes = [self.pool, self.pairs, self.dim, self.budget];
        ensure!(sizes.iter().all(Option::is_none), "this bench has sizes of its own\n{USAGE}");
        Ok(())
    }

    /// Returns the name of the record of a bench.
    pub(super) fn record(&self, bench: &str) -> String {
        match &self.without {
            Some(without) => format!("{bench}-without-{}", without.replace(',', "-")),
            None => bench.to_string(),
        }
    }

    /// Returns the rivals to run: those given as flags, or `usual`.
    pub(super) fn rivals<'a>(&'a self, usual: &[&'a str]) -> Vec<&'a str> {
        match &self.rivals {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => usual.to_vec(),
        }
    }

    /// Returns the folder of the record.
    pub(super) fn out(&self) -> PathBuf {
        let sizes = [self.pool, self.pairs, self.dim, self.budget];
        let standard =
            sizes.iter().all(Option::is_none) && self.only.is_empty() && self.rivals.is_none();
        let folder = if standard { "bench/results" } else { "target/bench-results" };
        self.out.clone().unwrap_or_else(|| folder.into())
    }
}

fn number<T: FromStr>(flag: &str, value: &str) -> Result<T> {
    value.parse().ok().with_context(|| format!("{flag} {value}: not a number"))
}
