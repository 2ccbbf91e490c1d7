//! Formatting of numbers, and the usual order of splits.

use crate::data::dataset::{DEV, TEST, TRAIN};
use indicatif::HumanCount;

/// Formats a number with thousands separators: 12,345.
pub(crate) fn grouped(number: usize) -> String {
    HumanCount(number as u64).to_string()
}

/// Sorts rows by split: train, dev, test, then the rest in their given order.
pub(crate) fn in_usual_order<T>(rows: &mut [T], split: impl Fn(&T) -> Option<&str>) {
    let usual = [TRAIN, DEV, TEST];
    rows.sort_by_key(|row| {
        usual.iter().position(|&name| split(row) == Some(name)).unwrap_or(usual.len())
    });
}

/// Formats a number of bytes in megabytes.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}
