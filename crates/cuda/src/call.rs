//! Results of calls to the driver and the libraries.

use std::ffi::CStr;

use cudarc::{cublas::sys as blas, driver::sys as driver, nvrtc::sys as nvrtc};

use crate::Error;

/// What a library returns.
pub(crate) trait Status: Copy {
    /// What went wrong, if anything did.
    fn failure(self) -> Option<String>;
}

impl Status for driver::CUresult {
    fn failure(self) -> Option<String> {
        if self == driver::CUresult::CUDA_SUCCESS {
            return None;
        }
        let mut text = std::ptr::null();
        // SAFETY: the driver writes a pointer to a constant string, or leaves it null.
        let said = unsafe {
            driver::cuGetErrorString(self, &mut text);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        Some(said.unwrap_or_else(|| format!("{self:?}")))
    }
}

impl Status for blas::cublasStatus_t {
    fn failure(self) -> Option<String> {
        (self != blas::cublasStatus_t::CUBLAS_STATUS_SUCCESS).then(|| format!("{self:?}"))
    }
}

impl Status for nvrtc::nvrtcResult {
    fn failure(self) -> Option<String> {
        (self != nvrtc::nvrtcResult::NVRTC_SUCCESS).then(|| format!("{self:?}"))
    }
}

/// Turns what a call returned into a result.
pub(crate) fn check(call: &'static str, status: impl Status) -> Result<(), Error> {
    match status.failure() {
        None => Ok(()),
        Some(why) => Err(Error::Failed { call, why }),
    }
}
