//! What was typed for a selection, and what it means: files opened, ids matched, rules checked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use nextpair_data::{Matrix, Side, Table, open, read_groups, read_ids, read_indices};
use nextpair_engine::{
    BagOfWords, Embeddings, Features, Guards, Matching, Metric, Progress, Question, Rule, Scope,
    Settings, StrategyName, Vectors, Weight, bag_of_words, mean_features,
};

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
    #[arg(long, value_name = "N")]
    pub(crate) budget: usize,
    /// hard-negative, random, core-set, coverage or hybrid
    #[arg(long, default_value = "hard-negative")]
    pub(crate) strategy: StrategyName,
    /// All pairs, or a sample of them
    #[arg(long, value_enum)]
    scope: Option<ScopeName>,
    /// Pairs of the mini batch, drawn by the seed
    #[arg(long, value_name = "M", conflicts_with = "sample_indices")]
    sample: Option<usize>,
    /// Pairs of the mini batch, one index per line: anchors and rivals
    #[arg(long, value_name = "FILE")]
    sample_indices: Option<PathBuf>,
    /// Pairs whose rivals set the thresholds, one index per line
    #[arg(long, value_name = "FILE")]
    rival_indices: Option<PathBuf>,
    /// The threshold is the k-th largest rival similarity
    #[arg(long, value_name = "K", default_value_t = 1)]
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
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many of each pick's strongest hits to report
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) explain: usize,
    /// Threads; all cores by default
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
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

/// A selection with its files open and its flags checked.
pub(crate) struct Selection {
    pub(crate) strategy: StrategyName,
    pub(crate) budget: usize,
    pub(crate) pool: Matrix,
    pub(crate) ids: Option<Vec<String>>,
    pub(crate) anchor_ids: Option<Vec<String>>,
    pub(crate) weight: Weight,
    pub(crate) explain: usize,
    /// How the answer depends on what was typed, apart from files: parts must agree in it.
    pub(crate) fingerprint: String,
    /// Where distances can be taken from again, for `merge`.
    pub(crate) sources: Sources,
    rivals: Matrix,
    anchors: Option<Matrix>,
    metric: Metric,
    settings: Settings,
    features: FeaturesName,
}

/// The files of the pool's own side.
pub(crate) struct Sources {
    pub(crate) pool: PathBuf,
    pub(crate) paired: PathBuf,
    pub(crate) side: PoolSide,
}

impl Sources {
    /// The matrices of the pool and of its paired side.
    pub(crate) fn open(&self) -> Result<(Matrix, Matrix)> {
        let side = self.side.data();
        Ok((open(&self.pool, side)?.matrix, open(&self.paired, side)?.matrix))
    }
}

impl PoolSide {
    fn data(self) -> Side {
        match self {
            PoolSide::Image => Side::Image,
            PoolSide::Text => Side::Text,
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
        let uses_hits = self.strategy.needs().matching;
        let pool = open(&self.pool, self.pool_side.data())?;
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
        let settings = self.settings(pairs)?;
        let ids = matched_ids(self.ids.as_deref(), &self.pool, pool.ids, pool.matrix.rows())?;
        let (anchors, from_table) = match anchors {
            Some(Table { matrix, ids }) => (Some(matrix), ids),
            None => (None, None),
        };
        let anchor_path = other.as_deref().unwrap_or(own_path);
        let anchor_ids = matched_ids(self.paired_ids.as_deref(), anchor_path, from_table, pairs)?;
        let fingerprint = format!(
            "{:?}",
            (self.strategy, self.budget, self.pool_side, self.similarity, &settings)
        );
        Ok(Selection {
            strategy: self.strategy,
            budget: self.budget,
            pool: pool.matrix,
            ids,
            anchor_ids,
            weight: settings.weight,
            explain: self.explain,
            fingerprint,
            sources: Sources {
                pool: self.pool.clone(),
                paired: own_path.to_path_buf(),
                side: self.pool_side,
            },
            rivals,
            anchors: anchors.filter(|_| uses_hits),
            metric: match self.similarity {
                SimilarityName::Cosine => Metric::Cosine,
                SimilarityName::Dot => Metric::Dot,
            },
            settings,
            features: self.features,
        })
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

impl Selection {
    /// Asks `work` the question that was typed.
    pub(crate) fn ask<T>(
        &self,
        progress: &dyn Progress,
        work: impl FnOnce(&Question<'_>) -> Result<T>,
    ) -> Result<T> {
        let vectors = self.feature_vectors(progress)?;
        let (pool_features, paired_features) =
            vectors.as_ref().map_or((&self.pool, &self.rivals), |(pool, paired)| (pool, paired));
        let question = Question {
            pool: self.pool.rows(),
            matching: None,
            features: Some(Features { pool: pool_features, paired: paired_features }),
            seed: self.settings.seed,
            progress,
        };
        let Some(anchors) = &self.anchors else { return work(&question) };
        let names = match self.sources.side {
            PoolSide::Image => ["the paired images", "the paired texts"],
            PoolSide::Text => ["the paired texts", "the paired images"],
        };
        let rule = Rule::new(&self.settings, self.rivals.rows())?;
        let rivals = Vectors::new(&self.rivals, names[0])?;
        let anchors = Vectors::new(anchors, names[1])?;
        let pool = Vectors::new(&self.pool, "the pool")?;
        let columns = (&anchors, names[1]);
        let matching = Matching {
            pool: &Embeddings::new((&pool, "the pool"), columns, self.metric)?,
            paired: &Embeddings::new((&rivals, names[0]), columns, self.metric)?,
            rule: &rule,
        };
        work(&Question { matching: Some(matching), ..question })
    }

    /// One vector per item, where items have several.
    fn feature_vectors(&self, progress: &dyn Progress) -> Result<Option<(Matrix, Matrix)>> {
        let several = self.pool.locals() > 1 || self.rivals.locals() > 1;
        let needs = self.strategy.needs();
        // Similarities are of one vector per item; there the question itself refuses several.
        if !needs.features || needs.matching || !several {
            return Ok(None);
        }
        Ok(Some(match self.features {
            FeaturesName::Mean => (mean_features(&self.pool)?, mean_features(&self.rivals)?),
            FeaturesName::Bow => {
                let words = BagOfWords { seed: self.settings.seed, ..BagOfWords::default() };
                let (paired, pool) = bag_of_words(&self.rivals, &self.pool, words, progress)?;
                (pool, paired)
            }
        }))
    }

    /// What a pool item is called.
    pub(crate) fn id(&self, index: u32) -> String {
        name_of(self.ids.as_deref(), index)
    }

    /// What a pair is called.
    pub(crate) fn anchor_id(&self, index: u32) -> String {
        name_of(self.anchor_ids.as_deref(), index)
    }

    /// Rows, anchors and dimensions, for the prediction of memory.
    pub(crate) fn size(&self) -> (usize, usize, usize) {
        (self.pool.rows(), self.rivals.rows(), self.pool.dim())
    }
}

fn name_of(ids: Option<&[String]>, index: u32) -> String {
    ids.map_or_else(|| index.to_string(), |ids| ids[index as usize].clone())
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
