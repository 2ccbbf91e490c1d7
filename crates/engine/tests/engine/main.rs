//! Every path of the engine against `reference`, which is plain and slow.

#![allow(clippy::unwrap_used)]

mod case;
mod cover;
mod design;
mod device;
mod duplicates;
mod findings;
mod outside;
mod recall;
mod rejections;
mod rough;
mod selection;
mod shards;
mod stored;
mod strategies;
mod without;
