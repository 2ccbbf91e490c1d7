//! Errors of the engine. Each names the input and the place.

use std::fmt;

use nextpair_core::Progress;

use crate::{BuiltIn, Strategy};

/// A set of indices in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexSet {
    /// Pairs of a mini batch.
    SampledPairs,
    /// Pairs whose anchors count.
    Anchors,
    /// Pairs whose rivals set the thresholds.
    Rivals,
    /// Images to rank.
    Images,
    /// Captions to rank.
    Captions,
}

impl fmt::Display for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IndexSet::SampledPairs => "sampled pairs",
            IndexSet::Anchors => "anchor indices",
            IndexSet::Rivals => "rival indices",
            IndexSet::Images => "images",
            IndexSet::Captions => "captions",
        })
    }
}

/// Why a selection or an evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing to pick from.
    #[error("the pool is empty")]
    EmptyPool,
    /// There is nothing to compare the pool with.
    #[error("the paired set is empty")]
    EmptyPaired,
    /// A budget of zero.
    #[error("the budget is 0; ask for at least one item")]
    ZeroBudget,
    /// A budget larger than the pool.
    #[error("the budget is {budget} but the pool has only {pool} items")]
    BudgetTooLarge {
        /// The budget.
        budget: usize,
        /// Items in the pool.
        pool: usize,
    },
    /// `k` counts from 1.
    #[error("top-k is 0; the threshold is the k-th largest rival, k >= 1")]
    ZeroTopK,
    /// Some anchor has too few rivals for its threshold to exist.
    #[error("anchor {anchor} has {count} rival groups, fewer than top-k = {k}")]
    TooFewRivals {
        /// The pair whose anchor it is.
        anchor: usize,
        /// The `k` asked for.
        k: usize,
        /// Rival groups it has.
        count: usize,
    },
    /// A mini batch larger than the paired set.
    #[error("the sample of {sample} is larger than the paired set of {pairs}")]
    SampleTooLarge {
        /// Pairs to draw.
        sample: usize,
        /// Pairs there are.
        pairs: usize,
    },
    /// An empty index set.
    #[error("the {set} are empty")]
    EmptyIndexSet {
        /// Which set.
        set: IndexSet,
    },
    /// An index that names no item.
    #[error("the {set}: index {index} at position {position} is out of range, there are {len}")]
    IndexOutOfRange {
        /// Which set.
        set: IndexSet,
        /// Where in the set.
        position: usize,
        /// The index.
        index: usize,
        /// One more than the largest valid index.
        len: usize,
    },
    /// An index set that names an item twice.
    #[error("the {set}: index {index} appears twice")]
    DuplicateIndex {
        /// Which set.
        set: IndexSet,
        /// The index.
        index: usize,
    },
    /// Group labels whose number does not match the pairs.
    #[error("{labels} group labels for {pairs} pairs; one label per pair is needed")]
    GroupCount {
        /// Labels given.
        labels: usize,
        /// Pairs there are.
        pairs: usize,
    },
    /// Vectors of different dimensions.
    #[error(
        "{left} have {left_dim} dimensions but {right} have {right_dim}; vectors of two encoders can be compared \
         through heads that are trained on their pairs: `nextpair import embeddings` with --other and --captions \
         makes a dataset of them, `nextpair train --model heads` joins the two, `nextpair select --model` picks"
    )]
    DimensionMismatch {
        /// One input.
        left: &'static str,
        /// Its dimensions.
        left_dim: usize,
        /// The other input.
        right: &'static str,
        /// Its dimensions.
        right_dim: usize,
    },
    /// Paired images and paired texts that differ in number.
    #[error("{images} paired images but {texts} paired texts; row j of both is pair j")]
    PairCount {
        /// Image rows.
        images: usize,
        /// Text rows.
        texts: usize,
    },
    /// Similarities whose shape does not match the pairs.
    #[error("{found} {what}, but there are {pairs} pairs")]
    SimilarityShape {
        /// The kind of rows or columns.
        what: &'static str,
        /// Their number.
        found: usize,
        /// Columns of the paired similarities.
        pairs: usize,
    },
    /// Features whose number does not match the pool.
    #[error("features of {features} items for a pool of {pool}")]
    FeatureCount {
        /// Items that have features.
        features: usize,
        /// Items in the pool.
        pool: usize,
    },
    /// A NaN or an infinity in an input.
    #[error("{what}: row {row}, {}dimension {dimension} is {value}", of_vector(*vector))]
    NotFinite {
        /// Which input.
        what: &'static str,
        /// The row.
        row: usize,
        /// Which of its vectors, where a row has several.
        vector: Option<usize>,
        /// The dimension.
        dimension: usize,
        /// NaN or an infinity.
        value: f64,
    },
    /// A norm whose square overflows or vanishes in float64.
    #[error(
        "{what}: row {row} has a norm of {norm:e}, outside of what float64 can square: \
         1e-145 to 1e150, or zero"
    )]
    NormOutOfRange {
        /// Which input.
        what: &'static str,
        /// The row.
        row: usize,
        /// Its norm as computed.
        norm: f64,
    },
    /// A zero vector under cosine similarity.
    #[error("{what}: row {row} is a zero vector, which has no cosine similarity")]
    ZeroVector {
        /// Which input.
        what: &'static str,
        /// The row.
        row: usize,
    },
    /// Several vectors per item where one is needed.
    #[error(
        "{what} have {locals} vectors per item; embeddings need one \
         (core-set takes local vectors with features mean or bow)"
    )]
    LocalVectors {
        /// Which input.
        what: &'static str,
        /// Vectors per item.
        locals: usize,
    },
    /// More rows than 32-bit indices can reach.
    #[error("{what} have {rows} rows; at most {} are supported", u32::MAX)]
    TooManyRows {
        /// Which input.
        what: &'static str,
        /// Its rows.
        rows: usize,
    },
    /// A similarity that is NaN or infinite.
    #[error("the similarity of row {row} and anchor {column} is {value}")]
    SimilarityNotFinite {
        /// The pool item or rival.
        row: usize,
        /// The anchor.
        column: usize,
        /// NaN or an infinity.
        value: f64,
    },
    /// A stored similarity that is NaN or infinite.
    #[error("{what}: row {row}, column {column} is {value}")]
    StoredNotFinite {
        /// Which similarities.
        what: &'static str,
        /// The pool item or rival.
        row: usize,
        /// The anchor.
        column: usize,
        /// NaN or an infinity.
        value: f64,
    },
    /// Similarities of a pool that have its items in columns.
    #[error(
        "the pool's similarities have {rows} rows and {columns} columns, and there are {rows} pairs: \
         transpose them, so that rows are pool items and columns are pairs"
    )]
    SimilarityTransposed {
        /// Rows, as many as there are pairs.
        rows: usize,
        /// Columns.
        columns: usize,
    },
    /// A draw of pairs although their indices are given.
    #[error("pairs are drawn, or given by their indices, not both")]
    SampledScope,
    /// A setting that must be above zero.
    #[error("{setting} is {value}; it must be a number above 0")]
    NotPositive {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: f64,
    },
    /// A setting that is too small.
    #[error("{setting} is {value}; it must be at least {least}")]
    TooSmall {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: f64,
        /// The smallest value.
        least: f64,
    },
    /// Queries for a strategy that would ignore them.
    #[error(
        "{strategy} does not look at queries; {} do",
        BuiltIn::listed(|own| own.needs().queries, "and")
    )]
    QueriesUnread {
        /// The strategy.
        strategy: &'static str,
    },
    /// Costs or probabilities of items for a strategy that would ignore them.
    #[error(
        "{strategy} does not weigh items by {what}; {} does",
        BuiltIn::listed(|own| own.needs().weighs, "or")
    )]
    Unweighed {
        /// The strategy.
        strategy: &'static str,
        /// What was given.
        what: &'static str,
    },
    /// Weights that are not one per pool item.
    #[error("{found} {what} for {pool} pool items")]
    WeightCount {
        /// What was given.
        what: &'static str,
        /// How many.
        found: usize,
        /// Items in the pool.
        pool: usize,
    },
    /// A cost that is not above 0, or a probability that is none.
    #[error("{what} of pool item {item} is {value}")]
    BadWeight {
        /// What was given.
        what: &'static str,
        /// The item.
        item: usize,
        /// Its value.
        value: f64,
    },
    /// Probabilities that are all 0.
    #[error("the probability of every pool item is 0: there is nothing to pair")]
    NothingUsable,
    /// Too little money for any item.
    #[error("{money} is too little to spend: the cheapest item costs {cheapest}")]
    TooLittleMoney {
        /// The money.
        money: f64,
        /// What the cheapest item costs.
        cheapest: f64,
    },
    /// An empty set of queries.
    #[error("the queries are empty; give at least one")]
    NoQueries,
    /// Embeddings of queries without embeddings to compare them with.
    #[error("queries are embeddings, but the pool is not")]
    QueriesWithoutEmbeddings,
    /// More items to pick than there are without duplicates.
    #[error(
        "the budget is {budget}, but without its duplicates the pool has only {left} of {pool} items"
    )]
    TooFewDistinct {
        /// Items to pick.
        budget: usize,
        /// Items without duplicates.
        left: usize,
        /// Items.
        pool: usize,
    },
    /// A cosine that cannot tell duplicates.
    #[error("duplicates are told by a cosine above 0 and at most 1, not {value}")]
    NotACosine {
        /// The number.
        value: f64,
    },
    /// A guard that is NaN or infinite.
    #[error("{guard} is {value}; a finite number is needed")]
    BadGuard {
        /// Which guard.
        guard: &'static str,
        /// Its value.
        value: f64,
    },
    /// A caption of an image that does not exist.
    #[error("caption {caption} belongs to image {image}, but there are {images} images")]
    CaptionWithoutImage {
        /// The caption.
        caption: usize,
        /// The image it names.
        image: usize,
        /// Images there are.
        images: usize,
    },
    /// An image without a caption, which has no rank.
    #[error("image {image} has no caption")]
    ImageWithoutCaption {
        /// The image.
        image: usize,
    },
    /// A strategy that needs similarities, on a problem without them.
    #[error("{strategy} needs the similarities of the pool and of the paired set")]
    NoSimilarity {
        /// The strategy's name.
        strategy: &'static str,
    },
    /// A strategy that needs vectors, on a problem without them.
    #[error(
        "{strategy} needs a vector for every item of the pool and of the paired set; give vectors, or name a strategy that \
         needs none, such as hard-negative"
    )]
    NoFeatures {
        /// The strategy's name.
        strategy: &'static str,
    },
    /// More clusters than vectors to fit them on.
    #[error("{clusters} clusters need at least as many local vectors, there are {vectors}")]
    TooFewVectors {
        /// Clusters asked for.
        clusters: usize,
        /// Local vectors there are.
        vectors: usize,
    },
    /// A strategy that needs the whole pool at once.
    #[error("{strategy} cannot be split into shards: {reason}")]
    NotShardable {
        /// The strategy's name.
        strategy: &'static str,
        /// Why it cannot be split.
        reason: &'static str,
    },
    /// A strategy that returned invalid picks.
    #[error("{strategy} picked wrongly: {what}")]
    BadPicks {
        /// The strategy's name.
        strategy: &'static str,
        /// What is wrong with the picks.
        what: String,
    },
    /// Parts of a split selection that do not belong together.
    #[error("the parts do not fit together: {0}")]
    Parts(String),
    /// A caller's own similarity failed.
    #[error("the similarity failed: {0}")]
    Similarity(Box<dyn std::error::Error + Send + Sync>),
    /// An unknown device name.
    #[error("device {name}: there are cpu, cuda, cuda:N and auto")]
    NoSuchDevice {
        /// The name.
        name: String,
    },
    /// A GPU that cannot be used, or failed.
    #[error(transparent)]
    Gpu(#[from] nextpair_cuda::Error),
    /// The caller's progress asked to stop.
    #[error("stopped before the end, as was asked for")]
    Stopped,
    /// No scratch space on disk, or a file that changed while it was read.
    #[error(transparent)]
    Data(#[from] nextpair_core::Error),
}

/// Names the vector of a row, in front of the dimension.
fn of_vector(vector: Option<usize>) -> String {
    vector.map(|vector| format!("vector {vector}, ")).unwrap_or_default()
}

/// Fails if `progress` asks to stop. Long work calls this between blocks.
pub(crate) fn unless_stopped(progress: &dyn Progress) -> Result<(), Error> {
    if progress.stopped() { Err(Error::Stopped) } else { Ok(()) }
}

impl Error {
    /// Moves the row of the error by `first`, where the checked rows began.
    pub fn in_rows_from(mut self, first: usize) -> Self {
        if let Error::NotFinite { row, .. }
        | Error::NormOutOfRange { row, .. }
        | Error::ZeroVector { row, .. }
        | Error::StoredNotFinite { row, .. } = &mut self
        {
            *row += first;
        }
        self
    }
}
