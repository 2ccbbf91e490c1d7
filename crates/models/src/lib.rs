//! Image-text retrieval models, trained exactly and fast: VSE++, SCAN, IMRAM, and heads on
//! frozen embeddings, or an [`Architecture`] of your own.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod architecture;
mod average;
mod batch;
pub mod bench;
mod comparison;
mod config;
mod corpus;
mod dropout;
mod encoder;
mod encodings;
mod error;
mod evaluate;
mod folder;
mod gpu_tiles;
mod heads;
mod imram;
mod info_nce;
mod logs;
mod loss;
mod members;
mod model;
mod normalise;
mod origin;
mod plateau;
pub mod pth;
mod published;
mod scan;
mod tensor_file;
mod texts;
mod train;
mod trainer;
mod training;
mod vse;
mod weights;

pub use architecture::{Architecture, Inputs, Mode, Pass, Setting};
pub use batch::{Batch, BatchLoss, Objective, batch_loss};
pub use comparison::{Comparison, Dot, Order, Tiles};
pub use config::Config;
pub use corpus::{Choice, Corpus, Pair, drawn};
pub use dropout::{Dropout, Layer};
pub use encoder::Encoders;
pub use encodings::Encodings;
pub use error::Error;
pub use evaluate::{Evaluation, QueryRanks, Retrieval, evaluate, evaluate_ranks};
pub use folder::{ModelFolder, Spec, epochs_of};
pub use heads::Heads;
pub use imram::{Directions, Imram};
pub use info_nce::{InfoNce, info_nce};
pub use logs::{LogFormat, LogRow, Tested, evaluation_metrics};
pub use loss::{Loss, Violation, loss};
pub use model::Model;
pub use nextpair_kernels::{Cuda, Device, Encoded, Gradients, Norm, Precision, Tensor};
pub use normalise::batch_norm_layer;
pub use origin::{Admission, Makers, Mixing, Origin};
pub use plateau::Plateau;
pub use scan::{Asks, Scan};
pub use texts::Texts;
pub use train::{Member, together_at_most, train, train_together};
pub use trainer::{Step, Trainer};
pub use training::{Criterion, Epoch, OptimiserName, Reduction, Training};
pub use vse::{Measure, Pooling, Vse};
pub use weights::{Declared, Kind, Start, Weights};
