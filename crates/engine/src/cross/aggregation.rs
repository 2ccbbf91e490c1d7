//! One number of the relevances of an item's queries.

/// How the relevances of an item's queries become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aggregation {
    /// Their mean.
    Mean,
    /// Their sum.
    Sum,
    /// The largest.
    Max,
    /// The logarithm of the sum of their exponentials, after they are multiplied by the number
    /// given here, and divided by it.
    LogSumExp(f32),
}

impl Aggregation {
    pub(super) fn of(self, relevances: &[f32]) -> f64 {
        let relevances = relevances.iter().map(|&r| r as f64);
        match self {
            Aggregation::Mean => {
                let count = relevances.len() as f64;
                relevances.sum::<f64>() / count
            }
            Aggregation::Sum => relevances.sum(),
            Aggregation::Max => relevances.fold(f64::NEG_INFINITY, larger),
            Aggregation::LogSumExp(factor) => {
                let factor = factor as f64;
                let largest =
                    relevances.clone().map(|r| factor * r).fold(f64::NEG_INFINITY, larger);
                let sum: f64 = relevances.map(|r| (factor * r - largest).exp()).sum();
                (largest + sum.ln()) / factor
            }
        }
    }
}

/// The larger number, or NaN if there is one.
fn larger(x: f64, y: f64) -> f64 {
    if x > y || x.is_nan() { x } else { y }
}
