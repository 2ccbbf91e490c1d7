//! Aggregates the relevances of an item's queries into one number.

/// How to aggregate the relevances of an item's queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aggregation {
    /// Their mean.
    Mean,
    /// Their sum.
    Sum,
    /// The largest.
    Max,
    /// With `x` the relevances and `l` the number given here, `log(sum(exp(l x))) / l`.
    LogSumExp(f32),
}

impl Aggregation {
    /// Aggregates the relevances.
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

    /// Writes to `gains` the derivative of `upstream` times the aggregate by each relevance.
    pub(super) fn gains(self, relevances: &[f32], upstream: f32, gains: &mut [f32]) {
        match self {
            Aggregation::Mean => gains.fill(upstream / relevances.len() as f32),
            Aggregation::Sum => gains.fill(upstream),
            Aggregation::Max => {
                gains.fill(0.0);
                let largest = self.of(relevances);
                // The first of equal ones.
                if let Some(first) = relevances.iter().position(|&r| r as f64 == largest) {
                    gains[first] = upstream;
                }
            }
            Aggregation::LogSumExp(factor) => {
                let (factor, aggregate) = (factor as f64, self.of(relevances));
                for (gain, &r) in gains.iter_mut().zip(relevances) {
                    *gain = (upstream as f64 * (factor * (r as f64 - aggregate)).exp()) as f32;
                }
            }
        }
    }
}

/// The larger number, or NaN if there is one.
fn larger(x: f64, y: f64) -> f64 {
    if x > y || x.is_nan() { x } else { y }
}
