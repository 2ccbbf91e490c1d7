//! Tests of the importers on handmade files in the published layouts, and on malicious files.
#![allow(clippy::unwrap_used)]

mod bottom_up;
mod damaged;
mod embeddings;
mod layouts;
mod scan;
mod source;
mod tables;
mod webdataset;
