//! Tests of the models as a whole.
#![allow(clippy::unwrap_used, missing_docs)]

mod gradients;
mod scores;
mod small;
