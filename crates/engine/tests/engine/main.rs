//! Every path of the engine against `reference`, which is plain and slow.

#![allow(clippy::unwrap_used)]

mod problem;
mod recall;
mod rejections;
mod selection;
mod shards;
mod strategies;
