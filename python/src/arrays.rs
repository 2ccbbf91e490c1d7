//! Arrays that Python lends, as matrices. This file holds the only unsafe code of the bindings.

use std::sync::Arc;

use nextpair::{Dtype, Matrix};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::errors;

/// An array as `nextpair/_arrays.py` hands it over: its bytes in C order, then items, vectors per item,
/// dimensions and type.
#[derive(FromPyObject)]
pub(crate) struct ArrayView(PyBuffer<u8>, usize, usize, usize, String);

/// Keeps the array, and whatever owns its memory, alive.
struct Holder(PyBuffer<u8>);

impl AsRef<[u8]> for Holder {
    fn as_ref(&self) -> &[u8] {
        let bytes = self.0.len_bytes();
        if bytes == 0 {
            // The pointer of an empty buffer may be anything.
            return &[];
        }
        // SAFETY: `ArrayView::matrix` checked that the buffer is contiguous, so that `bytes` bytes begin at
        // its pointer. The exported buffer keeps its owner from freeing or moving them until it is
        // released, which dropping `self` does, and the slice does not outlive `self`. Any bytes are
        // valid numbers. The package's documentation asks people not to write to an array while it is
        // lent; no lock could keep them from it.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast::<u8>(), bytes) }
    }
}

impl ArrayView {
    /// The matrix over the array's own memory.
    pub(crate) fn matrix(self, py: Python<'_>) -> PyResult<Matrix> {
        let ArrayView(buffer, rows, locals, dim, dtype) = self;
        let dtype = match dtype.as_str() {
            "float16" => Dtype::F16,
            "float32" => Dtype::F32,
            "float64" => Dtype::F64,
            other => return Err(errors::input(py, format!("no numbers of type {other}"))),
        };
        if !buffer.is_c_contiguous() {
            return Err(errors::input(py, "the array is not contiguous".to_owned()));
        }
        Matrix::lent(Arc::new(Holder(buffer)), rows, locals, dim, dtype)
            .map_err(|error| errors::raise(py, error))
    }
}
