//! Tests of the models as a whole.
#![allow(clippy::unwrap_used, missing_docs)]

mod doors;
mod dropout;
mod gradients;
mod info_nce;
mod refusals;
mod scores;
mod small;
mod steps;
