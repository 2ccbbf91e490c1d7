//! The numbers behind the models: packed products, attention matching, elementwise functions. Results
//! have the same bits whatever the threads, tiles and neighbours.

mod cross;
pub mod elementwise;
mod error;
mod packed;
mod process;
mod unit;

pub use cross::{Aggregation, Attention, Gradients, Matcher, Memory, Normaliser, Ragged};
pub use error::Error;
pub use packed::{Left, Packed};
pub use process::prepare_process;
pub use unit::vector_unit;
