//! The app through its router, on both databases.

mod access;
mod attacks;
mod contract;
mod links;
mod queue;
mod rounds;
mod together;
mod uploads;
mod world;
