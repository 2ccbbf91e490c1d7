//! The operations that models are written in: one file each, with a formula and a CPU form.

mod attention;
mod columns;
mod dropout;
mod gather;
mod gru;
#[cfg(test)]
pub(crate) mod judge;
mod linear;
mod losses;
mod pairs;
mod pointwise;
mod scale;
mod spans;
mod tally;
mod unit_rows;

pub use attention::{Direction, Matching, MemoryWeights};
pub use columns::{concat, mean_rows};
pub use dropout::dropout;
pub use gather::gather;
pub use gru::{gru, gru_of_members};
pub use linear::{linear, linear_of_members};
pub use losses::{hinges, info_nce};
pub use pairs::{dot_pairs, dot_scores, order_pairs};
pub use pointwise::{abs, relu};
pub use scale::weight_norm;
pub use spans::mean_spans;
pub use tally::{Counted, Tally};
pub use unit_rows::unit_rows;
