//! The app through its router, on both databases.

mod access;
mod attacks;
mod contract;
mod queue;
mod rounds;
mod together;
mod world;
