//! Statistics of feature sets.

use std::fmt::Write;

use crate::data::dataset::{Dataset, FeatureSet};
use crate::data::{Matrix, Progress};
use anyhow::Result;
use rayon::prelude::*;
use serde::Serialize;

use crate::program::numbers::grouped;

/// Rows that one thread sums up. The sums of all chunks are then merged in order.
const CHUNK: usize = 256;

#[derive(Serialize)]
pub(super) struct FeatureStatistics {
    name: String,
    side: String,
    rows: usize,
    regions: usize,
    dim: usize,
    dtype: String,
    /// Items or captions without a row.
    missing: usize,
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
    zero_share: f64,
    mean_norm: f64,
    /// Numbers that are NaN or infinite, and the first row that has one.
    not_finite: u64,
    first_not_finite: Option<usize>,
    zero_vectors: u64,
}

/// Sums over a range of rows.
#[derive(Clone, Default)]
struct Sums {
    count: u64,
    sum: f64,
    squares: f64,
    norms: f64,
    zeros: u64,
    zero_vectors: u64,
    not_finite: u64,
    first_not_finite: Option<usize>,
    range: Option<(f64, f64)>,
}

/// Computes the statistics in one pass over the rows.
pub(super) fn measure(
    dataset: &Dataset,
    set: &FeatureSet,
    progress: &dyn Progress,
) -> Result<FeatureStatistics> {
    let (_, features) = dataset.features(set.side, Some(&set.name))?;
    let matrix = features.matrix();
    let owners = match set.per {
        crate::data::dataset::Per::Item => dataset.items().len(),
        crate::data::dataset::Per::Caption => dataset.items().captions(),
    };
    progress.start("features", matrix.rows() as u64);
    let starts: Vec<usize> = (0..matrix.rows()).step_by(CHUNK).collect();
    let parts: Vec<Sums> = starts
        .into_par_iter()
        .map(|start| {
            let end = (start + CHUNK).min(matrix.rows());
            let sums = Sums::of(matrix, start..end);
            progress.advance((end - start) as u64);
            sums
        })
        .collect();
    matrix.check_unchanged()?;
    let all = parts.into_iter().fold(Sums::default(), Sums::and);
    let count = all.count.max(1) as f64;
    let mean = all.sum / count;
    let vectors = (matrix.rows() * matrix.locals()).max(1) as f64;
    let (min, max) = all.range.unwrap_or((0.0, 0.0));
    Ok(FeatureStatistics {
        name: set.name.clone(),
        side: set.side.to_string(),
        rows: matrix.rows(),
        regions: matrix.locals(),
        dim: matrix.dim(),
        dtype: format!("{:?}", matrix.dtype()).to_lowercase(),
        missing: (0..owners).filter(|&owner| features.row(owner).is_none()).count(),
        min,
        max,
        mean,
        deviation: (all.squares / count - mean * mean).max(0.0).sqrt(),
        zero_share: all.zeros as f64 / count,
        mean_norm: all.norms / vectors,
        not_finite: all.not_finite,
        first_not_finite: all.first_not_finite,
        zero_vectors: all.zero_vectors,
    })
}

impl Sums {
    fn of(matrix: &Matrix, rows: std::ops::Range<usize>) -> Self {
        let mut sums = Sums::default();
        let mut values = vec![0.0; matrix.locals() * matrix.dim()];
        for row in rows {
            matrix.read_f64(row, &mut values);
            for vector in values.chunks(matrix.dim()) {
                sums.add(row, vector);
            }
        }
        sums
    }

    fn add(&mut self, row: usize, vector: &[f64]) {
        let mut squares = 0.0;
        for &value in vector {
            if !value.is_finite() {
                self.not_finite += 1;
                self.first_not_finite.get_or_insert(row);
                continue;
            }
            self.count += 1;
            self.sum += value;
            squares += value * value;
            self.zeros += u64::from(value == 0.0);
            let (min, max) = self.range.unwrap_or((value, value));
            self.range = Some((min.min(value), max.max(value)));
        }
        self.squares += squares;
        self.norms += squares.sqrt();
        self.zero_vectors += u64::from(squares == 0.0);
    }

    /// Merges two sums. The rows of `self` come first.
    fn and(self, other: Sums) -> Sums {
        let range = match (self.range, other.range) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        Sums {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
            norms: self.norms + other.norms,
            zeros: self.zeros + other.zeros,
            zero_vectors: self.zero_vectors + other.zero_vectors,
            not_finite: self.not_finite + other.not_finite,
            first_not_finite: self.first_not_finite.or(other.first_not_finite),
            range,
        }
    }
}

impl FeatureStatistics {
    pub(super) fn describe(&self, text: &mut String) -> std::fmt::Result {
        let regions = match self.regions {
            1 => String::new(),
            regions => format!("{regions} regions x "),
        };
        writeln!(
            text,
            "\n{} features {}: {} rows x {regions}{} {}",
            self.side,
            self.name,
            grouped(self.rows),
            self.dim,
            self.dtype
        )?;
        writeln!(
            text,
            "  numbers {:.4} to {:.4}, mean {:.4}, deviation {:.4}, {:.1} % zero; mean norm {:.3}",
            self.min,
            self.max,
            self.mean,
            self.deviation,
            100.0 * self.zero_share,
            self.mean_norm
        )?;
        if self.missing > 0 {
            writeln!(text, "  {} have no row", grouped(self.missing))?;
        }
        if self.zero_vectors > 0 {
            writeln!(text, "  {} vectors are all zero", grouped(self.zero_vectors as usize))?;
        }
        if let Some(row) = self.first_not_finite {
            let count = grouped(self.not_finite as usize);
            writeln!(
                text,
                "  WARNING: {count} numbers are NaN or infinite, the first in row {row}"
            )?;
        }
        Ok(())
    }
}
