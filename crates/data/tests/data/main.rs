//! The importers on files made by hand to the published layouts, and on files made to harm.
#![allow(clippy::unwrap_used)]

mod bottom_up;
mod damaged;
mod embeddings;
mod layouts;
mod scan;
mod source;
mod tables;
mod webdataset;
