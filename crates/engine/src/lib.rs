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
//!
//! # How a selection is made
//!
//! 1. **State the problem.** [`Candidates`] give rows, vectors, similarities and refused items: files, the items of a dataset as a model sees them, or
//!    arrays. A [`Selection`] leaves out what is refused and duplicates, and makes a [`Problem`]. Every number is checked once; a NaN, an infinity or a
//!    zero vector is an error with its place. What a strategy asks of the pairs becomes a [`Rule`] that nothing downstream checks again.
//! 2. **Thresholds** (`threshold.rs`, `top.rs`). For every anchor the k-th largest rival, exactly: a few rows seed a lower bound, waves of rows are
//!    searched for anything above it, and what is found raises it.
//! 3. **Scores** (`score.rs`). Blocks of pool rows are searched in parallel for pairs above the thresholds. Survivors are computed canonically (float64,
//!    ascending dimension), become hits, and are added up in ascending order of the anchors.
//! 4. **Picks** (`strategy/`). A strategy turns scores, hits or distances into picks. One that can be split makes a [`Partial`] per shard; `select` is the
//!    same code with one shard.
//!
//! # How pairs are ruled out
//!
//! [`Similarity`] is the door for models: tiles, their error bound, exact values. [`Sieve::above`] is the one question in bulk: *which pairs could be above
//! these cuts?* Any similarity answers it by its tiles. Embeddings and distances answer it faster (`screen.rs`):
//!
//! - vectors are scaled to unit length and mixed (`screen/mixer.rs`), so that no coordinate sticks out;
//! - optionally they are projected on principal axes (`screen/axes.rs`); the norm of the rest is kept;
//! - they are coded in 8 bits with the norm of the loss, and multiplied by a byte kernel (`screen/kernel/`, one file per instruction set) that tests
//!   `product + Cauchy-Schwarz terms > cut` in registers and never writes a tile;
//! - survivors get a second product over all dimensions, and survivors of that an exact one.
//!
//! `screen/plan.rs` tries the routes on a sample of the data and takes the cheapest. The bound accounts for every rounding, so the route changes the time
//! and nothing else. On a GPU (`device.rs`) directions are coded in half precision, multiplied by cuBLAS, and sifted by a kernel that lists the pairs which
//! the product cannot rule out. Greedy strategies ask a GPU for upper bounds of all items at once, and decide about the few that could be next.

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
