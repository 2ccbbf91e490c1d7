//! Errors of the kernels. Each names the input and the place.

/// Why a computation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An index that names no item.
    #[error("the {set}: index {index} at position {position} is out of range, there are {len}")]
    IndexOutOfRange {
        /// Which set.
        set: &'static str,
        /// Where in the set.
        position: usize,
        /// The index.
        index: usize,
        /// One more than the largest valid index.
        len: usize,
    },
    /// Vectors of different dimensions.
    #[error("{left} have {left_dim} dimensions but {right} have {right_dim}")]
    DimensionMismatch {
        /// One input.
        left: &'static str,
        /// Its dimensions.
        left_dim: usize,
        /// The other input.
        right: &'static str,
        /// Its dimensions.
        right_dim: usize,
    },
    /// A device that is not available.
    #[error("device {name}: {why}")]
    Device {
        /// Its name.
        name: String,
        /// Why it is not available.
        why: String,
    },
    /// A GPU that failed.
    #[error(transparent)]
    Gpu(#[from] nextpair_cuda::Error),
    /// Offsets that do not begin at 0, or fall.
    #[error("the offsets of captions do not begin at 0, or fall")]
    Offsets,
    /// Matching without a direction.
    #[error("attention in no direction")]
    NoDirection,
    /// Tensors on different devices in one operation.
    #[error("tensors on different devices")]
    Devices,
    /// A tensor that is not a matrix.
    #[error("a tensor of shape {shape:?}, where a matrix is needed")]
    NotAMatrix {
        /// Its shape.
        shape: Vec<usize>,
    },
    /// A setting that is not a finite number.
    #[error("{setting} is {value}; a finite number is needed")]
    NotFinite {
        /// Which setting.
        setting: &'static str,
        /// Its value.
        value: f64,
    },
    /// An image without regions, or a caption without words.
    #[error("{what}: item {item} has no rows; at least one is needed")]
    EmptyItem {
        /// Which input.
        what: &'static str,
        /// The item.
        item: usize,
    },
    /// Offsets that do not start at 0 or do not match the numbers.
    #[error(
        "{what}: the offsets speak of {rows} rows of {dim} from 0 on, there are {found} numbers"
    )]
    Rows {
        /// Which input.
        what: &'static str,
        /// The last offset.
        rows: usize,
        /// Numbers per row.
        dim: usize,
        /// Numbers there are.
        found: usize,
    },
    /// An array of the wrong length.
    #[error("{what}: {found} numbers, {expected} are needed")]
    Length {
        /// Which array.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The length it needs.
        expected: usize,
    },
    /// A weight that is not there.
    #[error("there is no weight called {name}")]
    NoWeight {
        /// Its name.
        name: String,
    },
    /// Matching with zero steps.
    #[error("0 matching steps; at least one is needed")]
    ZeroSteps,
    /// Vectors of zero dimensions.
    #[error("vectors of 0 dimensions cannot be matched")]
    ZeroDimensions,
    /// Several matching steps without a memory.
    #[error("{steps} matching steps need the weights of a memory")]
    NoMemory {
        /// Steps asked for.
        steps: usize,
    },
}

impl Error {
    /// Whether a GPU has no memory for something, and may have some for less.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Error::Gpu(error) if error.is_out_of_memory())
    }

    /// Fails if the dimensions differ.
    pub(crate) fn check_dims(
        left: &'static str,
        left_dim: usize,
        right: &'static str,
        right_dim: usize,
    ) -> Result<(), Self> {
        if left_dim == right_dim {
            return Ok(());
        }
        Err(Error::DimensionMismatch { left, left_dim, right, right_dim })
    }

    /// Fails if an index is not below `len`.
    pub(crate) fn check_indices(
        set: &'static str,
        indices: &[u32],
        len: usize,
    ) -> Result<(), Self> {
        match indices.iter().position(|&index| index as usize >= len) {
            None => Ok(()),
            Some(position) => {
                let index = indices[position] as usize;
                Err(Error::IndexOutOfRange { set, position, index, len })
            }
        }
    }

    /// Fails if an array has the wrong length.
    pub(crate) fn check_len(what: &'static str, found: usize, expected: usize) -> Result<(), Self> {
        if found == expected { Ok(()) } else { Err(Error::Length { what, found, expected }) }
    }
}
