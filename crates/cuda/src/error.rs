//! Errors of GPUs. Each says what failed and what can be done.

use crate::libraries::THE_DRIVER;

/// Why a GPU cannot be used, or failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A library that is not installed.
    #[error("{library} was not found: {advice}")]
    NoLibrary {
        /// Its name.
        library: &'static str,
        /// What to install, or where to point to.
        advice: String,
    },
    /// A library that does not load, or lacks functions.
    #[error("{library} cannot be used: {why}")]
    BadLibrary {
        /// Its name.
        library: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A machine whose driver finds no device.
    #[error("the CUDA driver sees no GPU")]
    NoGpu,
    /// A driver or a device that is too old.
    #[error("{why}")]
    Unusable {
        /// What is missing.
        why: String,
    },
    /// A device that does not exist.
    #[error("there is no GPU {index}; there are {count}, counted from 0")]
    NoDevice {
        /// Number that was asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// Memory that the device does not have.
    #[error(
        "the GPU has no {bytes} bytes of memory left ({free} of {total} are free): take a smaller \
         batch, or end other programs on it"
    )]
    OutOfMemory {
        /// Bytes that were asked for.
        bytes: usize,
        /// Bytes that are free.
        free: usize,
        /// Bytes of the device.
        total: usize,
    },
    /// A call to the driver or a library that failed, or work that failed before it.
    #[error("{call} failed on the GPU: {why}")]
    Failed {
        /// Which call.
        call: &'static str,
        /// What it said.
        why: String,
    },
    /// A kernel that NVRTC refused.
    #[error("the kernels {name} do not compile for {architecture}: {log}")]
    Compile {
        /// The kernels.
        name: &'static str,
        /// The architecture.
        architecture: String,
        /// What the compiler said.
        log: String,
    },
}

impl Error {
    /// Whether the device has no memory for something, and may have some for less.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Error::OutOfMemory { .. })
    }

    /// Whether there is no GPU at all, rather than one that cannot be used.
    pub fn is_absence(&self) -> bool {
        match self {
            Error::NoGpu => true,
            Error::NoLibrary { library, .. } => *library == THE_DRIVER,
            _ => false,
        }
    }
}
