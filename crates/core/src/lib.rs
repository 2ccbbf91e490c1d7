//! The foundation of all nextpair crates: matrices that are mapped or borrowed and never copied,
//! files that appear whole or not at all, seeded draws, progress, text for terminals, the two sides of
//! a pair, the vector instructions of the CPU, and the operating system.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod amount;
mod atomic;
mod cpu;
pub mod draw;
mod error;
mod fingerprint;
mod growing;
mod lock;
pub mod mapping;
mod matrix;
pub mod ordinary;
mod peak;
mod picks;
mod printable;
mod progress;
mod side;
mod spill;
pub mod stamp;
pub mod system;

pub use amount::{Amount, floor};
pub use atomic::{AtomicFile, remove_folder, rename};
pub use cpu::{Cpu, WITHOUT, cpu, unknown_switch};
pub use draw::Draws;
pub use error::Error;
pub use fingerprint::{fingerprint, fingerprint_of};
pub use growing::Growing;
pub use lock::{FolderLock, lock};
pub use mapping::stop_on_changed_inputs;
pub use matrix::{Dtype, Element, Matrix};
pub use peak::Watch;
pub use picks::{Effect, Fact, Measure, Near, Neighbour, Pick, Picks, Reason};
pub use printable::printable;
pub use progress::{Progress, Silent, Within};
pub use side::Side;
pub use spill::Spill;
