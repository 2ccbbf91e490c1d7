//! Which unpaired item should be paired next: exact selection on any similarity.
//!
//! A [`Question`] holds the similarities of a pool and of a paired set; a [`StrategyName`]
//! answers it with [`Picks`]. Embeddings come in as [`Vectors`] and [`Embeddings`]; any other
//! model implements [`Similarity`].
//!
//! ```
//! use nextpair_core::Matrix;
//! use nextpair_engine::*;
//!
//! let images = Matrix::from_f32(2, &[1.0, 0.0, 0.0, 1.0, 0.8, 0.6]);
//! let texts = Matrix::from_f32(2, &[0.9, 0.1, 0.2, 0.9, 0.7, 0.7]);
//! let pool = Matrix::from_f32(2, &[0.9, 0.2, -1.0, 0.3, 0.1, 1.0]);
//! let (images, texts) = (Vectors::new(images, "images")?, Vectors::new(texts, "texts")?);
//! let pool = Vectors::new(pool, "pool")?;
//! let rule = Rule::new(&Settings::default(), images.len())?;
//! let matching = Matching {
//!     pool: &Embeddings::new(pool.clone(), texts.clone(), Metric::Cosine)?,
//!     paired: &Embeddings::new(images, texts, Metric::Cosine)?,
//!     rule: &rule,
//! };
//! let question = Question {
//!     pool: pool.len(),
//!     matching: Some(matching),
//!     features: None,
//!     seed: 0,
//!     progress: &(),
//! };
//! let picks = StrategyName::HardNegative.select(&question, 2)?;
//! assert_eq!(picks.indices(), [2, 0]);
//! # Ok::<(), nextpair_engine::Error>(())
//! ```

mod distance;
mod embeddings;
mod error;
mod features;
mod groups;
mod kcenter;
mod lazy;
mod memory;
mod partial;
mod picks;
mod question;
mod recall;
pub mod reference;
mod score;
mod screen;
mod similarity;
mod strategy;
mod threshold;
mod top;
mod vectors;

pub use embeddings::{Embeddings, Metric};
pub use error::Error;
pub use features::{BagOfWords, bag_of_words, histograms, mean_features, visual_words};
pub use groups::group_labels;
pub use kcenter::{k_center, nearest};
pub use memory::Size;
pub use nextpair_core::{Draws, Progress};
pub use partial::Partial;
pub use picks::{Pick, Picks, Reason};
pub use question::{Features, Guards, Matching, Question, Rule, Scope, Settings, Shard, Weight};
pub use recall::{Ranks, Recall, ranks};
pub use score::Hit;
pub use screen::{Code, Route, product};
pub use similarity::{Given, Sieve, Similarity};
pub use strategy::{Finish, Needs, Sharded, Strategy, StrategyName};
pub use threshold::thresholds;
pub use vectors::{Vectors, require_finite};

/// Rows handled together: a multiple of the kernel's, small enough to stay in cache.
const ROW_BLOCK: usize = 252;
