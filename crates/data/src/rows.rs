//! Rows of CSV files: their line numbers and their errors.

use crate::mapping::Bytes;

/// Counts lines. The CSV reader's own count is taken where it stopped before a row, which may be
/// within a line end or before empty lines.
pub(crate) struct Newlines {
    bytes: Bytes,
    at: usize,
    line: usize,
}

impl Newlines {
    pub(crate) fn of(bytes: Bytes) -> Self {
        Newlines { bytes, at: 0, line: 1 }
    }

    /// The line of the row that begins at or after `start`. `start` must not decrease between
    /// calls.
    pub(crate) fn line_of(&mut self, start: usize) -> usize {
        let bytes = self.bytes.as_slice();
        let is_end = |byte: &u8| *byte == b'\n' || *byte == b'\r';
        let start = start.min(bytes.len());
        let row = start + bytes[start..].iter().take_while(|byte| is_end(byte)).count();
        let between = bytes.get(self.at..row).unwrap_or_default();
        self.line += between.iter().filter(|&&byte| byte == b'\n').count();
        self.at = self.at.max(row);
        self.line
    }
}

/// The problem with a row, without its place.
pub(crate) fn reason(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Utf8 { .. } => "not UTF-8".to_owned(),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} columns, but the first line has {expected_len}")
        }
        _ => error.to_string(),
    }
}
