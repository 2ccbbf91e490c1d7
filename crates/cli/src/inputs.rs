//! What was typed for a selection, and what it means: files opened, ids matched, rules checked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use nextpair_data::{Side, Table, open, read_groups, read_ids, read_indices};
use nextpair_engine::{Guards, Metric, Rule, Scope, Settings, StrategyName, Weight};

use crate::selection::{POOL_NAME, Selection, Sources};

/// The flags of a selection.
#[derive(clap::Args, Debug)]
pub(crate) struct SelectionArgs {
    /// Embeddings of the paired images, row j of pair j (.npy, .parquet, .safetensors:tensor, folder)
    #[arg(long, value_name = "FILE")]
    paired_images: Option<PathBuf>,
    /// Embeddings of the paired texts, row j of pair j
    #[arg(long, value_name = "FILE")]
    paired_texts: Option<PathBuf>,
    /// Embeddings of the unpaired items
    #[arg(long, value_name = "FILE")]
    pool: PathBuf,
    /// What the pool holds
    #[arg(long, value_enum)]
    pool_side: PoolSide,
    /// How many items to pick
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) budget: usize,
    /// How items are chosen
    #[arg(long, default_value = "hard-negative", value_parser = strategies())]
    pub(crate) strategy: StrategyName,
    /// All pairs, or a sample of them
    #[arg(long, value_enum)]
    scope: Option<ScopeName>,
    /// Pairs of the mini batch, drawn by the seed
    #[arg(
        long,
        value_name = "M",
        conflicts_with = "sample_indices",
        allow_negative_numbers = true
    )]
    sample: Option<usize>,
    /// Pairs of the mini batch, one index per line: anchors and rivals
    #[arg(long, value_name = "FILE")]
    sample_indices: Option<PathBuf>,
    /// Pairs whose rivals set the thresholds, one index per line
    #[arg(long, value_name = "FILE")]
    rival_indices: Option<PathBuf>,
    /// The threshold is the k-th largest rival similarity
    #[arg(long, value_name = "K", default_value_t = 1, allow_negative_numbers = true)]
    top_k: usize,
    /// What a hit is worth
    #[arg(long, value_enum, default_value_t = WeightName::Surplus)]
    weight: WeightName,
    /// How embeddings are compared
    #[arg(long, value_enum, default_value_t = SimilarityName::Cosine)]
    similarity: SimilarityName,
    /// One label per pair and line; pairs with equal labels are never rivals
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
    /// One id per pool item and line
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    /// One id per pair and line
    #[arg(long, value_name = "FILE")]
    paired_ids: Option<PathBuf>,
    /// One vector per item from several, for core-set: their mean, or a bag of 300 visual words
    #[arg(long, value_enum, default_value_t = FeaturesName::Mean)]
    features: FeaturesName,
    /// Ignore similarities above this as likely false negatives
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    max_score: Option<f64>,
    /// Ignore similarities above the own pair's minus this
    #[arg(long, value_name = "M", allow_negative_numbers = true)]
    absolute_margin: Option<f64>,
    /// Ignore similarities above the own pair's minus this share of it
    #[arg(long, value_name = "M", allow_negative_numbers = true)]
    relative_margin: Option<f64>,
    /// Seed of every draw
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// How many of each pick's strongest hits to report
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true)]
    pub(crate) explain: usize,
    /// Threads; all cores by default
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    threads: Option<usize>,
}

/// Strategies by the names the engine knows.
fn strategies() -> impl TypedValueParser<Value = StrategyName> {
    let names = StrategyName::ALL.iter().map(|strategy| strategy.as_str());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<StrategyName>())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PoolSide {
    Image,
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScopeName {
    Full,
    Mini,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WeightName {
    Surplus,
    Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SimilarityName {
    Cosine,
    Dot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FeaturesName {
    Mean,
    Bow,
}

impl PoolSide {
    pub(crate) fn data(self) -> Side {
        match self {
            PoolSide::Image => Side::Image,
            PoolSide::Text => Side::Text,
        }
    }

    /// What errors call the pairs' own side and other side.
    pub(crate) fn paired_names(self) -> [&'static str; 2] {
        match self {
            PoolSide::Image => ["the paired images", "the paired texts"],
            PoolSide::Text => ["the paired texts", "the paired images"],
        }
    }

    fn other(self) -> Side {
        match self {
            PoolSide::Image => Side::Text,
            PoolSide::Text => Side::Image,
        }
    }
}

impl SelectionArgs {
    /// Sets the number of threads for everything that follows.
    pub(crate) fn set_threads(&self) -> Result<()> {
        if let Some(threads) = self.threads {
            ensure!(threads > 0, "--threads is 0; at least one is needed");
            rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
        }
        Ok(())
    }

    /// Opens the files and checks what can be checked without computing.
    pub(crate) fn open(&self) -> Result<Selection> {
        let needs = self.strategy.needs();
        let uses_hits = needs.matching;
        let pool = open(&self.pool, self.pool_side.data())?;
        ensure!(
            u32::try_from(pool.matrix.rows()).is_ok(),
            nextpair_engine::Error::TooManyRows { what: POOL_NAME, rows: pool.matrix.rows() }
        );
        let (own, other) = match self.pool_side {
            PoolSide::Image => (&self.paired_images, &self.paired_texts),
            PoolSide::Text => (&self.paired_texts, &self.paired_images),
        };
        let flags = match self.pool_side {
            PoolSide::Image => ["--paired-images", "--paired-texts"],
            PoolSide::Text => ["--paired-texts", "--paired-images"],
        };
        let own_path = own.as_deref().with_context(|| format!("{} is missing", flags[0]))?;
        let rivals = open(own_path, self.pool_side.data())?.matrix;
        let [own_name, _] = self.pool_side.paired_names();
        if (needs.features || needs.matching) && pool.matrix.dim() != rivals.dim() {
            bail!(nextpair_engine::Error::DimensionMismatch {
                left: POOL_NAME,
                left_dim: pool.matrix.dim(),
                right: own_name,
                right_dim: rivals.dim(),
            });
        }
        let anchors = match other {
            Some(path) => Some(open(path, self.pool_side.other())?),
            None if uses_hits => bail!("{} is missing; {} needs it", flags[1], self.strategy),
            None => None,
        };
        if let Some(anchors) = &anchors {
            let counts = match self.pool_side {
                PoolSide::Image => (rivals.rows(), anchors.matrix.rows()),
                PoolSide::Text => (anchors.matrix.rows(), rivals.rows()),
            };
            let (images, texts) = counts;
            ensure!(images == texts, nextpair_engine::Error::PairCount { images, texts });
        }
        let pairs = rivals.rows();
        ensure!(pairs > 0, nextpair_engine::Error::EmptyPaired);
        let settings = self.settings(pairs)?;
        let rule = match uses_hits {
            true => Some(Rule::new(&settings, pairs).map_err(|error| self.blame(error))?),
            false => None,
        };
        let ids = matched_ids(self.ids.as_deref(), &self.pool, pool.ids, pool.matrix.rows())?;
        let (anchors, from_table) = match anchors {
            Some(Table { matrix, ids }) => (Some(matrix), ids),
            None => (None, None),
        };
        let anchor_path = other.as_deref().unwrap_or(own_path);
        let anchor_ids = matched_ids(self.paired_ids.as_deref(), anchor_path, from_table, pairs)?;
        Ok(Selection {
            strategy: self.strategy,
            budget: self.budget,
            pool: pool.matrix,
            ids,
            anchor_ids,
            sources: Sources {
                pool: self.pool.clone(),
                paired: own_path.to_path_buf(),
                side: self.pool_side,
            },
            rivals,
            matched: anchors.zip(rule),
            metric: match self.similarity {
                SimilarityName::Cosine => Metric::Cosine,
                SimilarityName::Dot => Metric::Dot,
            },
            settings,
            features: self.features,
        })
    }

    /// Names the file that a refused rule came from.
    fn blame(&self, error: nextpair_engine::Error) -> anyhow::Error {
        use nextpair_engine::Error;
        let file = match &error {
            Error::EmptyIndexSet { set }
            | Error::IndexOutOfRange { set, .. }
            | Error::DuplicateIndex { set, .. } => match *set {
                "rival indices" => self.rival_indices.as_ref().or(self.sample_indices.as_ref()),
                _ => self.sample_indices.as_ref(),
            },
            Error::GroupCount { .. } => self.groups.as_ref(),
            _ => None,
        };
        match file {
            Some(file) => anyhow::Error::new(error).context(file.display().to_string()),
            None => error.into(),
        }
    }

    fn settings(&self, pairs: usize) -> Result<Settings> {
        let groups = match &self.groups {
            Some(path) => Some(numbered(&read_groups(path)?)),
            None => None,
        };
        Ok(Settings {
            scope: self.scope(pairs)?,
            top_k: self.top_k,
            weight: match self.weight {
                WeightName::Surplus => Weight::Surplus,
                WeightName::Count => Weight::Count,
            },
            groups,
            guards: Guards {
                max_score: self.max_score,
                absolute_margin: self.absolute_margin,
                relative_margin: self.relative_margin,
            },
            seed: self.seed,
            explain: self.explain,
        })
    }

    fn scope(&self, pairs: usize) -> Result<Scope> {
        let sampled = self.sample.is_some() || self.sample_indices.is_some();
        match self.scope {
            Some(ScopeName::Full) if sampled => {
                bail!("--scope full takes all pairs; --sample and --sample-indices go with mini")
            }
            Some(ScopeName::Mini) if !sampled => {
                bail!("--scope mini needs --sample M or --sample-indices FILE")
            }
            _ => {}
        }
        let anchors = match &self.sample_indices {
            Some(path) => Some(read_indices(path)?),
            None => None,
        };
        let rivals = match &self.rival_indices {
            Some(path) => Some(read_indices(path)?),
            None => None,
        };
        Ok(match (anchors, rivals, self.sample) {
            (None, None, None) => Scope::Full,
            (None, None, Some(sample)) => Scope::Mini(sample),
            (Some(anchors), rivals, _) => {
                Scope::Given { rivals: rivals.unwrap_or_else(|| anchors.clone()), anchors }
            }
            (None, Some(rivals), None) => Scope::Given { anchors: (0..pairs).collect(), rivals },
            (None, Some(_), Some(_)) => {
                bail!("--rival-indices goes with --sample-indices, not with --sample")
            }
        })
    }
}

/// Labels as numbers, equal where they are equal.
fn numbered(labels: &[String]) -> Vec<u32> {
    let mut known = HashMap::new();
    labels
        .iter()
        .map(|label| {
            let next = known.len() as u32;
            *known.entry(label).or_insert(next)
        })
        .collect()
}

/// The ids of a table's rows: those of a file if one is given, else those that came with it.
fn matched_ids(
    file: Option<&Path>,
    table: &Path,
    from_table: Option<Vec<String>>,
    rows: usize,
) -> Result<Option<Vec<String>>> {
    if let Some(file) = file {
        let ids = read_ids(file)?;
        let count = ids.len();
        ensure!(
            count == rows,
            "{}: {count} ids for the {rows} rows of {}",
            file.display(),
            table.display()
        );
        return Ok(Some(ids));
    }
    if let Some(ids) = &from_table {
        let mut first: HashMap<&str, usize> = HashMap::with_capacity(ids.len());
        for (row, id) in ids.iter().enumerate() {
            if let Some(earlier) = first.insert(id, row) {
                bail!("{}: rows {earlier} and {row} have the same id '{id}'", table.display());
            }
        }
    }
    Ok(from_table)
}
