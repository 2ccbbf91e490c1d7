//! Embeddings of pictures and texts by any ONNX encoder.
//!
//! An encoder is opened once and shared. Every thread has its own [`Worker`] and encodes one
//! picture or one text at a time. A row therefore does not depend on other inputs, on their order
//! or on the number of threads.
//!
//! ```no_run
//! # fn main() -> Result<(), nextpair_encode::Error> {
//! use nextpair_encode::{ImageEncoder, Pooling, Preprocess, Worker};
//! let preprocess = Preprocess::read("clip.toml".as_ref())?;
//! let encoder = ImageEncoder::open("clip.onnx".as_ref(), preprocess, Pooling::Pooled, None)?;
//! let picture = nextpair_data::picture::read("dog.jpg".as_ref())?;
//! let row = encoder.encode(&Worker::new(), &picture)?;
//! assert_eq!(row.len(), encoder.locals() * encoder.dim());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod embed;
mod error;
mod hash;
mod image;
mod model;
mod pca;
mod preprocess;
mod recipe;
mod text;

pub use embed::{Output, Report, embed_images, embed_texts, rows_kept};
pub use error::Error;
pub use image::{ImageEncoder, Pooling};
pub use model::{TIME_LIMIT, Worker};
pub use pca::Pca;
pub use preprocess::{Channels, Filter, Layout, Preprocess, Resize};
pub use recipe::{DatasetEncoders, ImageRecipe, TextRecipe};
pub use text::{TextEncoder, TextPooling};
