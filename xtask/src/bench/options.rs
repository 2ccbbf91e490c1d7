//! Flags of the benchmarks that have cases and rivals.

use std::path::PathBuf;

use super::case::Case;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// This case alone; repeat for more
    #[arg(long, value_name = "CASE")]
    only: Vec<String>,
    /// These rivals in every case; 'none' for none
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    rivals: Option<Vec<String>>,
    /// Timed rounds
    #[arg(long, value_name = "N", default_value = "5", value_parser = positive)]
    pub(super) repeats: usize,
    /// Threads of everyone
    #[arg(long, value_name = "N", default_value = "2", value_parser = positive)]
    pub(super) threads: usize,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Vector instructions that we do without (avx512, vnni, avx2); rivals keep them
    #[arg(long, value_name = "A,B")]
    pub(super) without: Option<String>,
    /// A Python environment that has bench/requirements.txt; also NEXTPAIR_BENCH_VENV
    #[arg(long, value_name = "DIR")]
    venv: Option<PathBuf>,
    /// Folder of the record; bench/results, or target/bench-results when something is not the standard
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

/// Other sizes than those of the cases.
#[derive(clap::Args)]
pub(crate) struct Sizes {
    /// Pool items
    #[arg(long, value_name = "N")]
    pool: Option<usize>,
    /// Pairs, or centres
    #[arg(long, value_name = "N")]
    pairs: Option<usize>,
    /// Numbers of a vector
    #[arg(long, value_name = "N")]
    dim: Option<usize>,
    /// Picks
    #[arg(long, value_name = "N")]
    budget: Option<usize>,
}

impl Options {
    pub(super) fn wants(&self, case: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == case)
    }

    /// Returns the environment of the rivals, if there is one.
    pub(super) fn venv(&self) -> Option<PathBuf> {
        let known = || std::env::var_os("NEXTPAIR_BENCH_VENV").map(PathBuf::from);
        self.venv.clone().or_else(known)
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
            Some(names) => {
                names.iter().map(String::as_str).filter(|&name| name != "none").collect()
            }
            None => usual.to_vec(),
        }
    }
}

impl Sizes {
    /// Returns a case with these sizes.
    pub(super) fn of(&self, case: Case) -> Case {
        let pool = self.pool.unwrap_or(case.pool);
        Case {
            pool,
            pairs: self.pairs.unwrap_or(case.pairs),
            dim: self.dim.unwrap_or(case.dim),
            budget: self.budget.unwrap_or(case.budget).min(pool),
            ..case
        }
    }
}

/// Reads a number that is not 0.
pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 is needed".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}
