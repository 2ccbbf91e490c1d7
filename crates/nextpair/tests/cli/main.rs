//! End-to-end tests of the program: files in; exit code, messages and files out.

#![allow(clippy::unwrap_used)]

mod add;
mod annotate;
mod by_hand;
mod changed;
mod cold;
mod convert;
mod damaged;
mod datasets;
mod duplicates;
mod embed;
mod every_model;
mod formats;
mod gpu;
mod guards;
mod large;
mod logs;
mod loops;
mod manners;
mod money;
mod not_finite;
mod outputs;
mod own_vectors;
mod pages;
mod quickstart;
mod refusals;
mod rehearse;
mod reports;
mod scenario;
mod search;
mod selection;
mod shards;
mod similarities;
mod special;
mod streams;
mod study;
mod train;
mod trained;
mod verify;
mod watch;
mod without;
mod world;
