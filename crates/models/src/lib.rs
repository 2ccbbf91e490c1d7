//! Image-text retrieval models, trained exactly and fast: VSE++, SCAN, IMRAM, and heads on
//! frozen embeddings.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod adam;
mod attention;
mod corpus;
mod device;
mod encoder;
mod encodings;
mod error;
mod evaluate;
mod gru;
mod heads;
mod imram;
mod linear;
mod loss;
mod model;
mod norm;
mod numbers;
mod origin;
mod parameters;
pub mod pth;
mod published;
mod ragged;
mod run;
mod scan;
mod scorer;
mod similarity;
mod step;
mod texts;
mod train;
mod vse;

pub use adam::Adam;
pub use candle_core::{DType, Device, Tensor};
pub use corpus::{Choice, Corpus, Pair, drawn};
pub use device::device;
pub use encoder::Encoders;
pub use encodings::Encodings;
pub use error::Error;
pub use evaluate::{Evaluation, Retrieval, evaluate};
pub use heads::Heads;
pub use imram::{Imram, Mode};
pub use loss::{Loss, Violation, loss};
pub use model::{Config, Inputs, Model, NAMES};
pub use origin::{Admission, Makers, Mixing, Origin};
pub use parameters::Parameters;
pub use ragged::Encoded;
pub use run::{Run, Spec};
pub use scan::{Asks, Scan};
pub use scorer::{Direction, Scorer};
pub use similarity::{Rows, similarity};
pub use step::{Slope, slope};
pub use texts::Texts;
pub use train::{Epoch, Training, train};
pub use vse::{Measure, Vse};
