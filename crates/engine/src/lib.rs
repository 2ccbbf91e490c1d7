//! Exact selection on any similarity: which unpaired items to pair next.
//!
//! A [`Problem`] holds a pool, the paired set, and the rule that compares them. A [`BuiltIn`] strategy,
//! or any other [`Strategy`], answers it with [`Picks`]. Embeddings come in as matrices; any other
//! model implements [`Similarity`].
//!
//! ```
//! use nextpair_core::{Matrix, Side};
//! use nextpair_engine::*;
//!
//! let images = Matrix::from_f32(2, &[1.0, 0.0, 0.0, 1.0, 0.8, 0.6]);
//! let texts = Matrix::from_f32(2, &[0.9, 0.1, 0.2, 0.9, 0.7, 0.7]);
//! let pool = Matrix::from_f32(2, &[0.9, 0.2, -1.0, 0.3, 0.1, 1.0]);
//! let problem = Problem::of_embeddings(images, texts, pool, Side::Image).build()?;
//! let hard_negative = HardNegative::default();
//! let picks = problem.select(&hard_negative, 2, &())?;
//! assert_eq!(picks.indices(), [2, 0]);
//!
//! // The same in parts, which may be scored anywhere.
//! let part = |items| problem.only(items)?.score(&hard_negative, 2, &());
//! let whole = part(0..2)?.merge(part(2..3)?)?;
//! assert_eq!(problem.finish(&hard_negative, whole, 2, &())?, picks);
//! # Ok::<(), nextpair_engine::Error>(())
//! ```

mod ahead;
mod axes;
mod canonical;
mod centred;
mod clusters;
mod cover;
mod design;
mod device;
mod directions;
mod distance;
mod duplicates;
mod embeddings;
mod error;
mod features;
mod findings;
mod groups;
mod halves;
mod highest;
mod kcenter;
mod lazy;
mod memory;
mod packed;
mod parameters;
mod partial;
mod picks;
mod points;
mod problem;
mod product;
mod recall;
pub mod reference;
mod rule;
mod score;
mod screen;
mod selection;
mod shard;
mod similarity;
mod stored;
mod strategy;
mod threshold;
mod top;
mod usable;
mod vectors;
mod widest;

pub use device::{Device, Tiles};
pub use duplicates::{Alike, Distinct, distinct};
pub use embeddings::{Embeddings, Metric};
pub use error::{Error, IndexSet};
pub use features::{
    BagOfWords, ItemFeatures, bag_of_words, histograms, mean_features, visual_words,
};
pub use findings::{Chance, Finding, FindingInputs};
pub use groups::group_labels;
pub use kcenter::{k_center, nearest};
pub use memory::Size;
pub use nextpair_core::{
    Draws, Effect, Fact, Measure, Near, Neighbour, Pick, Picks, Progress, Reason,
};
pub use parameters::{Field, Kind, Parameter, Value};
pub use partial::Partial;
pub use points::QUERIES_CAVEAT;
pub use problem::{Features, Matching, Problem, ProblemBuilder, Queries, Spend};
pub use product::product;
pub use recall::{Ranks, Recall, ranks};
pub use rule::{Fill, Guards, Hits, Rule, Scope, Settings, Weight};
pub use score::Hit;
pub use screen::{Code, Route};
pub use selection::{
    Candidates, ItemNumbers, Refused, Remaining, Selection, one_each, pick, picked_rows, steady,
};
pub use shard::Shard;
pub use similarity::{KnownSimilarities, Sieve, Similarity};
pub use stored::Stored;
pub use strategy::{
    BuiltIn, CoreSet, CoreSetMargin, Coverage, Entropy, HardNegative, Herding, Hybrid,
    LeastSimilar, Margin, Needs, Novelty, Random, Sharded, Strategy, Stratified, Typical, VOptimal,
};
pub use threshold::thresholds;
pub use usable::{FEWEST_REFUSED, Usability};
pub use vectors::{Vectors, require_finite};

/// Rows handled together: a multiple of the kernel's rows, small enough to stay in cache.
const ROW_BLOCK: usize = 252;
