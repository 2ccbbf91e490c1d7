//! The operations that models are written in: one file each, with a formula and a CPU form.

mod activations;
mod arithmetic;
mod attend;
mod attention;
mod batch_norm;
mod columns;
mod dropout;
mod gather;
mod gru;
mod join;
#[cfg(test)]
pub(crate) mod judge;
mod layer_norm;
mod linear;
mod losses;
mod pairs;
mod pointwise;
mod ranked_sums;
mod scale;
mod softmax;
mod spans;
mod tally;
mod unit_columns;
mod unit_rows;

pub use activations::{sigmoid, square, tanh};
pub use arithmetic::{add, multiply, scale, subtract};
pub use attend::{attend, relate};
pub use attention::{Direction, Matching, MemoryWeights};
pub use batch_norm::{Groups, Statistics, batch_norm, normalise};
pub use columns::{concat, mean_rows};
pub use dropout::dropout;
pub use gather::gather;
pub use gru::{gru, gru_of_members};
pub use join::concat_columns;
pub use layer_norm::layer_norm;
pub use linear::{linear, linear_of_members};
pub use losses::{hinges, info_nce};
pub use pairs::{dot_pairs, dot_scores, order_pairs};
pub use pointwise::{abs, relu};
pub use ranked_sums::ranked_sums;
pub use scale::weight_norm;
pub use softmax::softmax_spans;
pub use spans::mean_spans;
pub use tally::{Counted, Tally};
pub use unit_columns::unit_columns;
pub use unit_rows::unit_rows;
