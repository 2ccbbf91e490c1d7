//! A guard against panics in third-party decoders.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::Error;

/// Runs `decode` and reports a panic in it as a damaged file.
///
/// The decoders of parquet and safetensors check some properties of a file only by `expect`,
/// slicing or plain arithmetic, so damaged bytes can panic instead of returning an error. Such
/// bytes must not end the process. The panic drops whatever `decode` built, so nothing half-done
/// remains. The panic hook still prints its message.
pub(crate) fn guard<T>(path: &Path, decode: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|payload| {
        let said = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(Error::format(path, format!("damaged: its decoder failed ({said})")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_format_error() {
        let path = Path::new("broken.parquet");
        let error = guard::<()>(path, || panic!("page {} is odd", 3)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "broken.parquet: damaged: its decoder failed (page 3 is odd)"
        );
    }
}
