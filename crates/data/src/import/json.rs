//! JSON written by other programs: whole files, and entries that may be bad one by one.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::dataset::without_place;
use crate::{Error, mapping};

/// Reads a whole file as one value. Errors name the line and the column, because these files are
/// often one long line.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    mapping::read(path, |bytes| {
        let bytes = bytes.as_slice();
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        serde_json::from_slice(bytes).map_err(|e| {
            Error::line(path, e.line(), format!("not this layout: {}", without_place(&e)))
        })
    })
}

/// Parses one entry of such a file. The error describes the problem.
pub(crate) fn entry<T: DeserializeOwned>(raw: &RawValue) -> Result<T, String> {
    serde_json::from_str(raw.get()).map_err(|e| without_place(&e))
}
