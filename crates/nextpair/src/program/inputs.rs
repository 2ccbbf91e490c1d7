//! The flags of a selection, and the settings they resolve to.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::data::dataset::Dataset;
use crate::data::queue::{read_refused, refused};
use crate::data::{Columns, Matrix, Side, open_columns, read_costs, read_groups, read_indices};
use crate::engine::{Alike, BuiltIn, Metric, Rule, Scope, Settings, Spend, Strategy, group_labels};
use crate::{BagOfWords, Files, Paths, Selection, SimilarityPaths};
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::program::device::SelectionDeviceArgs;
use crate::program::parameters::ParameterArgs;
use crate::program::selection::{Opened, WHERE_HARD_NEGATIVES_LOSE};

/// The flags of a selection.
#[derive(clap::Args, Debug)]
pub(crate) struct SelectionArgs {
    /// The dataset that the pool is taken from. Without --model, for strategies that compare nothing
    /// with pairs: the pool is what has no other half and no answer, among the items of the split train
    /// or without a split, by features of the dataset
    #[arg(conflicts_with_all = [
        "paired_images", "paired_texts", "pool", "similarity", "ids", "paired_ids",
        "pair_similarities", "pool_similarities"
    ])]
    dataset: Option<PathBuf>,
    /// Select with a trained model: pairs and similarities are those of this model, the pool is
    /// what it did not learn from in DATASET, among the items of the split train or without a split
    #[arg(long, value_name = "MODEL", requires = "dataset")]
    model: Option<PathBuf>,
    /// With DATASET and without --model: its features to use [default: the last that were added]
    #[arg(long, value_name = "NAME", requires = "dataset", conflicts_with = "model")]
    feature_set: Option<String>,
    /// Embeddings of the paired images, row j of pair j (.npy, .npz:array, .parquet,
    /// .safetensors:tensor, folder). Strategies that compare nothing with pairs need none
    #[arg(long, value_name = "FILE")]
    paired_images: Option<PathBuf>,
    /// Embeddings of the paired texts, row j of pair j
    #[arg(long, value_name = "FILE")]
    paired_texts: Option<PathBuf>,
    /// Embeddings of the unpaired items
    #[arg(long, value_name = "FILE", required_unless_present_any = ["dataset", "pool_similarities"])]
    pool: Option<PathBuf>,
    /// Similarities of any model in the place of embeddings: a row for every pair, of its half on the
    /// side of the pool, and a column for every pair, of its other half. Several files, or a folder
    /// of them, continue each other's rows
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "pool_similarities")]
    pair_similarities: Vec<PathBuf>,
    /// With --pair-similarities: a row for every pool item, and the same columns. With them, --pool and
    /// the paired embeddings on its side are only needed by strategies that measure distances
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1..,
        requires = "pair_similarities",
        conflicts_with = "similarity"
    )]
    pool_similarities: Vec<PathBuf>,
    /// What the pool holds. Needed where something depends on it: strategies that compare the pool with
    /// pairs, a model, or both --paired-images and --paired-texts [default: image]
    #[arg(long, value_parser = sides())]
    pool_side: Option<Side>,
    /// How many items to pick; with --spend, at most
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = budget,
        required_unless_present = "spend"
    )]
    budget: Option<usize>,
    /// v-optimal: pick what tells most for its cost, until this much is spent
    #[arg(long, value_name = "MONEY", requires = "costs", allow_negative_numbers = true)]
    spend: Option<f64>,
    /// With --spend: what every pool item costs, as a CSV with the columns id and cost
    #[arg(long, value_name = "FILE", requires = "spend")]
    costs: Option<PathBuf>,
    #[arg(long, value_parser = strategies(), help = about_strategies())]
    strategy: Option<String>,
    #[command(flatten)]
    parameters: ParameterArgs,
    /// All pairs, or a sample of them
    #[arg(long, value_enum)]
    scope: Option<ScopeName>,
    /// Pairs of the mini batch, one index per line: anchors and rivals
    #[arg(long, value_name = "FILE", conflicts_with = "sample")]
    sample_indices: Option<PathBuf>,
    /// Pairs whose rivals set the thresholds, one index per line
    #[arg(long, value_name = "FILE")]
    rival_indices: Option<PathBuf>,
    /// How embeddings are compared
    #[arg(long, value_enum, default_value_t = SimilarityName::Cosine)]
    similarity: SimilarityName,
    /// One label per pair and line; pairs with equal labels are never rivals. Give it once with the
    /// images and once with the texts where both repeat: pairs that share either are one group.
    /// With
    /// --model, the images and captions of the dataset unless it is given
    #[arg(long, value_name = "FILE")]
    groups: Vec<PathBuf>,
    /// One id per pool item and line
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    /// One id per pair and line
    #[arg(long, value_name = "FILE")]
    paired_ids: Option<PathBuf>,
    #[command(flatten)]
    columns: ColumnArgs,
    /// --features bow: local vectors that k-means finds the visual words of [default: 30000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    bow_sample: Option<usize>,
    /// --features bow: rounds of k-means at most [default: 20]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    bow_iterations: Option<usize>,
    #[arg(long, value_name = "FILE", help = about_queries())]
    pub(crate) queries: Option<PathBuf>,
    /// Leave out items that people may refuse. Answers of annotators (.jsonl, .csv, Label Studio's .json) say
    /// what they skipped: that is not picked, nor what looks like it. They are found by id: with files, give
    /// --ids. With DATASET, the answers that `nextpair add` put into it count too. Before ten were skipped,
    /// --usable alone avoids what looks like nothing that is paired
    #[arg(long, value_name = "ANSWERS", num_args = 0..=1)]
    usable: Option<Option<PathBuf>>,
    /// Leave out pool items that are duplicates of an earlier one or of something paired: all their
    /// numbers are equal, or the cosine of their vectors is at least COSINE (0.98, say)
    #[arg(
        long,
        value_name = "COSINE",
        num_args = 0..=1,
        default_missing_value = "exact",
        allow_negative_numbers = true
    )]
    pub(crate) dedupe: Option<Alike>,
    /// Seed of every draw
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// How many hits of each pick, or items that learn from it, to report
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true)]
    explain: usize,
    #[command(flatten)]
    pub(crate) device: SelectionDeviceArgs,
}

/// The columns of Parquet files, shared by all commands that read embeddings.
#[derive(clap::Args, Debug)]
pub(crate) struct ColumnArgs {
    /// Parquet: the column of ids [default: id, if it is there]
    #[arg(long, value_name = "NAME")]
    id_column: Option<String>,
    /// Parquet: the column of embeddings [default: embedding]
    #[arg(long, value_name = "NAME")]
    embedding_column: Option<String>,
}

impl ColumnArgs {
    /// Returns the columns for these files, one of which must be Parquet if a column is named.
    pub(crate) fn of<'a>(
        &self,
        files: impl IntoIterator<Item = Option<&'a PathBuf>>,
    ) -> Result<Columns> {
        let is_parquet = |path: &PathBuf| {
            path.is_dir() || path.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet"))
        };
        let flag = match (&self.id_column, &self.embedding_column) {
            (Some(_), _) => Some("--id-column"),
            (None, Some(_)) => Some("--embedding-column"),
            (None, None) => None,
        };
        if let Some(flag) = flag {
            let any = files.into_iter().flatten().any(is_parquet);
            ensure!(any, "{flag}: only Parquet files have columns, and none is given");
        }
        Ok(Columns { id: self.id_column.clone(), embedding: self.embedding_column.clone() })
    }
}

/// Parses a budget.
pub(crate) fn budget(text: &str) -> Result<usize, String> {
    let what = "a budget is how many items are to be paired: a whole number such as 500";
    text.parse().map_err(|_| what.to_owned())
}

/// Parses strategies by the names the engine knows.
fn strategies() -> PossibleValuesParser {
    PossibleValuesParser::new(BuiltIn::all().map(|strategy| strategy.name()))
}

/// What `--strategy` does. Where there is no default, the command says so.
fn about_strategies() -> String {
    format!("How items are chosen [default: {}]; {WHERE_HARD_NEGATIVES_LOSE}", BuiltIn::default())
}

/// What `--queries` does.
fn about_queries() -> String {
    format!(
        "{}: what people search for in a pool of images; items that it asks for count more. Embeddings of texts, or \
         with --model lines of text or vectors like the dataset's text features (.npy)",
        BuiltIn::listed(reads_queries, "and")
    )
}

fn reads_queries(strategy: &mut BuiltIn) -> bool {
    strategy.needs().queries
}

/// Parses the two sides of a pair by name.
pub(crate) fn sides() -> impl TypedValueParser<Value = Side> {
    PossibleValuesParser::new(["image", "text"]).map(|name| match name.as_str() {
        "image" => Side::Image,
        _ => Side::Text,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScopeName {
    Full,
    Mini,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SimilarityName {
    Cosine,
    Dot,
}

impl SelectionArgs {
    /// Returns whether a trained model selects.
    pub(crate) fn has_model(&self) -> bool {
        self.model.is_some()
    }

    /// Opens the files and checks everything that needs no computing.
    pub(crate) fn open(&self) -> Result<Opened> {
        Ok(match (&self.model, &self.dataset, &self.pool) {
            (Some(run), Some(dataset), _) => {
                Opened::Model(Box::new(self.open_model(run, dataset)?))
            }
            (None, Some(dataset), _) => Opened::Files(Box::new(self.open_dataset(dataset)?)),
            _ if !self.pool_similarities.is_empty() => {
                Opened::Files(Box::new(self.open_similarities()?))
            }
            (_, _, Some(pool)) => Opened::Files(Box::new(self.open_files(pool)?)),
            _ => bail!("give --pool with embeddings, or a DATASET"),
        })
    }

    /// Returns the side of the pool: that of images, where nothing depends on it.
    pub(crate) fn pool_side(&self) -> Result<Side> {
        let strategy = self.strategy()?;
        let compared = strategy.needs().matching.is_some();
        let why = match (&self.paired_images, &self.paired_texts) {
            _ if self.pool_side.is_some() => None,
            _ if self.model.is_some() => Some("a model tells images from texts".to_owned()),
            _ if compared => Some(format!("{} compares the pool with pairs", strategy.name())),
            (Some(_), Some(_)) => Some("there are vectors of both halves of the pairs".to_owned()),
            (None, Some(_)) => return Ok(Side::Text),
            _ => None,
        };
        match why {
            None => Ok(self.pool_side.unwrap_or(Side::Image)),
            Some(why) => bail!(
                "--pool-side is missing: is the pool of images (image) or of texts (text)? {why}"
            ),
        }
    }

    /// Returns the strategy with its parameters: the default one, unless another is named.
    pub(crate) fn strategy(&self) -> Result<BuiltIn> {
        let strategy = self.parameters.strategy(self.strategy.as_deref())?;
        let of_pairs = [
            ("--scope", self.scope.is_some()),
            ("--sample-indices", self.sample_indices.is_some()),
            ("--rival-indices", self.rival_indices.is_some()),
        ];
        for (flag, given) in of_pairs {
            ensure!(
                !given || self.strategy.is_some(),
                "{flag} is for strategies that compare the pool with pairs; name one with --strategy"
            );
        }
        Ok(strategy)
    }

    /// Fails unless a strategy is named, and can be split.
    pub(crate) fn check_shardable(&self) -> Result<()> {
        if self.strategy.is_none() {
            let splits = BuiltIn::all().filter(|strategy| strategy.check_shardable().is_ok());
            let splits: Vec<&str> = splits.map(|strategy| strategy.name()).collect();
            bail!(
                "--strategy is missing: {}, the default of select, cannot be split; name one of {}",
                BuiltIn::default(),
                splits.join(", ")
            );
        }
        Ok(self.strategy()?.check_shardable()?)
    }

    /// Returns the settings of the visual words.
    pub(crate) fn words(&self) -> Result<BagOfWords> {
        let given = [("--bow-sample", self.bow_sample), ("--bow-iterations", self.bow_iterations)];
        let bow = self.parameters.typed("features") == Some("bow");
        for (flag, number) in given.into_iter().filter_map(|(flag, n)| Some((flag, n?))) {
            ensure!(bow, "{flag} is for --features bow");
            ensure!(number > 0, "{flag} is 0; at least 1 is needed");
        }
        let usual = BagOfWords::default();
        Ok(BagOfWords {
            sample: self.bow_sample.unwrap_or(usual.sample),
            iterations: self.bow_iterations.unwrap_or(usual.iterations),
            ..usual
        })
    }

    fn metric(&self) -> Metric {
        match self.similarity {
            SimilarityName::Cosine => Metric::Cosine,
            SimilarityName::Dot => Metric::Dot,
        }
    }

    /// Opens the files of a selection and checks everything that needs no computing.
    fn open_files(&self, pool: &Path) -> Result<Selection<Files>> {
        let strategy = self.strategy()?;
        let compares = strategy.needs().matching.is_some();
        let given = [&self.paired_images, &self.paired_texts];
        let flags = ["--paired-images", "--paired-texts"];
        ensure!(
            !compares || given.iter().any(|half| half.is_some()),
            "{} and {} are missing: {} compares the pool with pairs. Without pairs, take {}",
            flags[0],
            flags[1],
            strategy.name(),
            need_no_pairs()
        );
        let pool_side = self.pool_side()?;
        let ((own, own_flag), (other, other_flag)) =
            pool_side.own_and_other((given[0], flags[0]), (given[1], flags[1]));
        ensure!(own.is_some() || other.is_none(), "{own_flag} is missing");
        if compares && other.is_none() {
            bail!("{other_flag} is missing; {} needs it", strategy.name());
        }
        let paths = Paths {
            pool_side,
            pool: pool.to_path_buf(),
            paired: own.clone(),
            anchors: other.clone(),
            pool_ids: self.ids.clone(),
            pair_ids: self.paired_ids.clone(),
        };
        let columns = self.columns.of([Some(&paths.pool), own.as_ref(), other.as_ref()])?;
        let mut files = Files::open_columns(paths, &columns)?;
        files.queries = self.open_queries(&columns)?;
        if files.queries.is_some() && own.is_some() && other.is_none() {
            bail!("{other_flag} is missing; --queries needs it");
        }
        self.with(files, self.refused()?)
    }

    /// Opens a dataset without a model and checks everything that needs no computing.
    fn open_dataset(&self, folder: &Path) -> Result<Selection<Files>> {
        let strategy = self.strategy()?;
        ensure!(
            strategy.needs().matching.is_none(),
            "{} compares the pool with pairs by a model: give --model. Without one, take \
             {}",
            strategy.name(),
            need_no_pairs()
        );
        let dataset = Dataset::open(folder)?;
        let refused = match self.refused()? {
            Some(ids) => Some([ids, refused(dataset.answers()?)].concat()),
            None => None,
        };
        let again = refused.as_deref().unwrap_or_default();
        let name = self.feature_set.as_deref();
        let mut files = Files::of_dataset(&dataset, self.pool_side()?, name, again)?;
        files.queries = self.open_queries(&Columns::default())?;
        self.with(files, refused)
    }

    /// Opens what people search for, if it is given.
    fn open_queries(&self, columns: &Columns) -> Result<Option<Matrix>> {
        self.check_queries()?;
        let open = |path: &PathBuf| open_columns(path, Side::Text, columns);
        Ok(self.queries.as_ref().map(open).transpose()?.map(|queries| queries.matrix))
    }

    /// Opens files of similarities, with vectors if they are given too.
    fn open_similarities(&self) -> Result<Selection<Files>> {
        let pool_side = self.pool_side()?;
        let given = [&self.paired_images, &self.paired_texts];
        let flags = ["--paired-images", "--paired-texts"];
        let ((own, own_flag), (other, other_flag)) =
            pool_side.own_and_other((given[0], flags[0]), (given[1], flags[1]));
        ensure!(
            other.is_none(),
            "{other_flag} is not read with --pair-similarities, which say how near the pairs are to it"
        );
        ensure!(self.queries.is_none(), "--queries needs embeddings, not similarities");
        let vectors = match (&self.pool, own) {
            (Some(pool), Some(own)) => Some((pool.clone(), own.clone())),
            (None, None) => None,
            (Some(_), None) => {
                bail!("{own_flag} is missing; with --pool it is needed for distances")
            }
            (None, Some(_)) => {
                bail!("--pool is missing; with {own_flag} it is needed for distances")
            }
        };
        let strategy = self.strategy()?;
        if strategy.needs().features.is_some() && vectors.is_none() {
            bail!(
                "{} looks at vectors of the items, which similarities do not tell: give --pool and {own_flag} \
                 too, or name a strategy that needs none, such as --strategy hard-negative",
                strategy.name()
            );
        }
        let all = self.pool_similarities.iter().chain(&self.pair_similarities);
        let columns = self.columns.of(all.map(Some).chain([self.pool.as_ref()]))?;
        let paths = SimilarityPaths {
            pool_side,
            pool: self.pool_similarities.clone(),
            pairs: self.pair_similarities.clone(),
            vectors,
            pool_ids: self.ids.clone(),
            pair_ids: self.paired_ids.clone(),
        };
        self.with(Files::open_similarity_columns(paths, &columns)?, self.refused()?)
    }

    /// Returns the selection on open files and checks everything that needs no computing.
    fn with(&self, mut files: Files, refused: Option<Vec<String>>) -> Result<Selection<Files>> {
        files.words = self.words()?;
        files.refused = refused.map(|ids| rows_of(&files, &ids)).transpose()?;
        files.device = self.device.of_search()?;
        files.metric = self.metric();
        let budget = self.budget(files.items());
        let selection = Selection {
            strategy: self.strategy()?,
            settings: self.settings(files.pairs())?,
            dedupe: self.dedupe,
            spend: self.spend((0..files.items() as u32).map(|item| files.pool_id(item)))?,
            ..Selection::new(files, budget)
        };
        match selection.check() {
            Err(crate::Error::Selection(error)) => Err(self.blame(error)),
            checked => Ok(checked.map(|()| selection)?),
        }
    }

    /// Checks that the strategy and the pool go with queries.
    pub(crate) fn check_queries(&self) -> Result<()> {
        if self.queries.is_some() {
            ensure!(
                reads_queries(&mut self.strategy()?),
                "--queries is for {}",
                BuiltIn::listed(reads_queries, "and")
            );
            ensure!(self.pool_side()? == Side::Image, "--queries is for pools of images");
        }
        Ok(())
    }

    /// Returns how many items to pick, at most, from a pool of so many.
    pub(crate) fn budget(&self, pool: usize) -> usize {
        self.budget.unwrap_or(pool)
    }

    /// Returns what the items of these ids cost and what there is to spend, if that is given.
    pub(crate) fn spend(&self, ids: impl Iterator<Item = String>) -> Result<Option<Spend>> {
        let (Some(path), Some(money)) = (&self.costs, self.spend) else { return Ok(None) };
        let weigh = |strategy: &mut BuiltIn| strategy.needs().weighs;
        ensure!(weigh(&mut self.strategy()?), "--spend is for {}", BuiltIn::listed(weigh, "and"));
        let ids: Vec<String> = ids.collect();
        Ok(Some(Spend { costs: read_costs(path, ids.iter().map(String::as_str))?, money }))
    }

    /// Returns the dataset that the pool is taken from, if it is one.
    pub(crate) fn dataset(&self) -> Option<&Path> {
        self.dataset.as_deref()
    }

    /// Returns the model that chooses, if there is one.
    pub(crate) fn model(&self) -> Option<&Path> {
        self.model.as_deref()
    }

    /// Returns the ids of the items that annotators refused, if their answers are given.
    pub(crate) fn refused(&self) -> Result<Option<Vec<String>>> {
        Ok(match &self.usable {
            None => None,
            Some(Some(path)) => Some(read_refused(path, self.pool_side()?)?),
            Some(None) => Some(Vec::new()),
        })
    }

    /// Checks the rule for hits, if the strategy uses hits.
    pub(crate) fn check_rule(&self, settings: &Settings, pairs: usize) -> Result<()> {
        if let Some(hits) = self.strategy()?.needs().matching {
            Rule::new(hits, settings, pairs).map_err(|error| self.blame(error))?;
        }
        Ok(())
    }

    /// Adds the file that a bad rule came from to its error.
    fn blame(&self, error: crate::engine::Error) -> anyhow::Error {
        use crate::engine::{Error, IndexSet};
        let file = match &error {
            Error::EmptyIndexSet { set }
            | Error::IndexOutOfRange { set, .. }
            | Error::DuplicateIndex { set, .. } => match set {
                IndexSet::Rivals => self.rival_indices.as_ref().or(self.sample_indices.as_ref()),
                _ => self.sample_indices.as_ref(),
            },
            _ => None,
        };
        match file {
            Some(file) => anyhow::Error::new(error).context(file.display().to_string()),
            None => error.into(),
        }
    }

    pub(crate) fn settings(&self, pairs: usize) -> Result<Settings> {
        Ok(Settings {
            scope: self.scope(pairs)?,
            groups: self.group_labels(pairs)?,
            seed: self.seed,
            explain: self.explain,
        })
    }

    /// Returns the labels of all files merged into one grouping.
    fn group_labels(&self, pairs: usize) -> Result<Option<Vec<u32>>> {
        let mut kinds = Vec::with_capacity(self.groups.len());
        for path in &self.groups {
            let labels = numbered(&read_groups(path)?);
            // Check here, where the file is known.
            if labels.len() != pairs {
                let count = crate::engine::Error::GroupCount { labels: labels.len(), pairs };
                return Err(anyhow::Error::new(count).context(path.display().to_string()));
            }
            kinds.push(labels);
        }
        if kinds.is_empty() {
            Ok(None)
        } else {
            Ok(Some(group_labels(pairs, kinds.iter().map(Vec::as_slice))?))
        }
    }

    fn scope(&self, pairs: usize) -> Result<Option<Scope>> {
        let drawn = self.parameters.typed("sample").is_some();
        ensure!(
            !drawn || self.rival_indices.is_none(),
            "--rival-indices goes with --sample-indices, not with --sample"
        );
        let given = drawn || self.sample_indices.is_some();
        match self.scope {
            Some(ScopeName::Full) if given => {
                bail!("--scope full takes all pairs; --sample and --sample-indices go with mini")
            }
            Some(ScopeName::Mini) if !given => {
                bail!("--scope mini needs --sample M or --sample-indices FILE")
            }
            _ => {}
        }
        let read = |path: &Option<PathBuf>| path.as_deref().map(read_indices).transpose();
        let (anchors, rivals) = (read(&self.sample_indices)?, read(&self.rival_indices)?);
        if anchors.is_none() && rivals.is_none() {
            return Ok(None);
        }
        let anchors = anchors.unwrap_or_else(|| (0..pairs).collect());
        Ok(Some(Scope { rivals: rivals.unwrap_or_else(|| anchors.clone()), anchors }))
    }
}

/// The strategies that compare nothing with pairs.
fn need_no_pairs() -> String {
    BuiltIn::listed(|strategy| strategy.needs().matching.is_none(), "or")
}

/// Returns the places of items in the pool, ascending. Items of other pools have none.
fn rows_of(files: &Files, ids: &[String]) -> Result<Vec<u32>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let names = files.pool_ids().context("--usable: the pool items have no ids; give --ids")?;
    let ids: HashSet<&String> = ids.iter().collect();
    Ok((0..).zip(names).filter(|(_, name)| ids.contains(name)).map(|(row, _)| row).collect())
}

/// Numbers the labels. Equal labels get equal numbers.
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
