//! Numbers and splits as people like to read them.

use indicatif::HumanCount;
use nextpair_data::dataset::{DEV, TEST, TRAIN};

/// 12,345.
pub(crate) fn grouped(number: usize) -> String {
    HumanCount(number as u64).to_string()
}

/// Train, dev, test, and then the rest as they come.
pub(crate) fn in_usual_order<T>(rows: &mut [T], split: impl Fn(&T) -> Option<&str>) {
    let usual = [TRAIN, DEV, TEST];
    rows.sort_by_key(|row| {
        usual.iter().position(|&name| split(row) == Some(name)).unwrap_or(usual.len())
    });
}

/// Bytes as people say them.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}
