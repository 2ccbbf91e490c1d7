//! Tests of the app through its router, on both databases.

mod access;
mod attacks;
mod contract;
mod faults;
mod flags;
mod gold;
mod guidelines;
mod hosted;
mod links;
mod quality;
mod queue;
mod review;
mod rounds;
mod sealed;
mod suggestions;
mod time;
mod together;
mod uploads;
mod world;
