//! The app through its router, on both databases.

mod access;
mod contract;
mod queue;
mod rounds;
mod together;
mod world;
