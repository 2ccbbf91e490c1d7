//! Image-text retrieval models, trained exactly and fast: VSE++, SCAN, IMRAM, and heads on
//! frozen embeddings, or an [`Architecture`] of your own.
//!
//! # How a model is trained
//!
//! [`Trainer::step`] is the procedure, and `train` runs it. Models train as an *ensemble*, most often of one *member*; the weights of several members have a
//! leading axis, and each member learns what it would learn alone.
//!
//! 1. **Encode.** Images become regions and captions words, rows of one ragged matrix: nothing is padded. A [`Pass`] carries the weights, the mode, dropout
//!    (by seed, epoch and item) and new values of buffers.
//! 2. **Score all pairs** without gradients ([`Comparison::scores`]). The score of a pair has the same bits whatever else is in the call.
//! 3. **Look at the loss** (`loss.rs`, `info_nce.rs`). A hinge loss needs at most three scores per pair.
//! 4. **Score those again, with gradients**, and go back through the encoders.
//! 5. **Step**: clip, then one pass over weights and moments.
//!
//! After an epoch `folder/state.rs` writes best weights, log and state, in this order, each whole or not at all: a killed training goes on to the same bytes.
//! Shuffles and first weights depend on seed, epoch and names alone. A trained model is a `Similarity` of the engine; encoders run once, and their rows lie in
//! a mapped file. On a GPU `gpu_tiles.rs` rules pairs out in a fast precision, and single precision decides.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod alone;
mod architecture;
mod average;
mod batch;
pub mod bench;
mod camp;
mod comparison;
mod composed;
mod config;
mod corpus;
mod dropout;
mod encoder;
mod encodings;
mod error;
mod evaluate;
mod folder;
mod gpo;
mod gpu_tiles;
mod heads;
mod imram;
mod info_nce;
mod logs;
mod loss;
mod max_dot;
mod members;
mod model;
mod naaf;
mod normalise;
mod origin;
mod plateau;
pub mod pth;
mod published;
mod pvse;
mod scan;
mod sgraf;
mod tensor_file;
mod texts;
mod train;
mod trainer;
mod training;
mod unused;
mod vse;
mod vse_infinity;
mod vsrn;
mod weights;

pub use architecture::{Architecture, Inputs, Mode, Pass, Setting};
pub use batch::{Batch, Losses, MemberLoss, Objective, batch_loss};
pub use camp::{Camp, Messages};
pub use comparison::{Comparison, Dot, Order, Tiles};
pub use config::{Config, ModelKind};
pub use corpus::{Choice, Corpus, Pair, drawn};
pub use dropout::{Dropout, Layer};
pub use encoder::Encoders;
pub use encodings::Encodings;
pub use error::Error;
pub use evaluate::{Evaluation, QueryRanks, Retrieval, evaluate, evaluate_ranks};
pub use folder::{ModelFolder, Spec, epochs_of};
pub use gpo::Gpo;
pub use heads::Heads;
pub use imram::{Directions, Imram};
pub use info_nce::{InfoNce, info_nce};
pub use logs::{LogFormat, LogRow, Tested, evaluation_metrics};
pub use loss::{Loss, Violation, cross_entropy, loss};
pub use max_dot::MaxDot;
pub use model::Model;
pub use naaf::Naaf;
pub use nextpair_kernels::{Cuda, Device, Encoded, Gradients, Norm, Precision, Tensor};
pub use normalise::batch_norm_layer;
pub use origin::{Admission, Makers, Mixing, Origin};
pub use plateau::{Plateau, still_falling};
pub use pvse::Pvse;
pub use scan::{Asks, Scan};
pub use sgraf::{Module, Sgraf};
pub use texts::Texts;
pub use train::{Member, members_at_most, train, train_ensemble};
pub use trainer::{Step, Trainer};
pub use training::{Criterion, Epoch, OptimiserName, Reduction, Training};
pub use unused::Unused;
pub use vse::{Measure, Pooling, Vse};
pub use vse_infinity::VseInfinity;
pub use vsrn::{Captioner, Vsrn};
pub use weights::{Declared, Kind, Start, Weights};
