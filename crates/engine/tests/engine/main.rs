//! Every path of the engine against `reference`, which is plain and slow.

mod problem;
mod recall;
mod rejections;
mod selection;
mod shards;
mod strategies;
