//! Whether forecasts would have been right.

use serde::Serialize;

use super::{Forecast, forecast};
use crate::Round;
use crate::analysis::r1;
use crate::statistics::mean;

/// The forecast for a batch that was bought, and the gain that came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Backtest {
    /// The forecast before the batch.
    pub forecast: Forecast,
    /// The gain, the mean over seeds.
    pub came: f64,
    /// Seeds that bought it.
    pub seeds: usize,
    /// Those of them for which it came within the interval.
    pub within: usize,
}

/// For every batch after the first, what would have been expected of it.
pub fn backtest(lanes: &[Vec<&Round>]) -> Vec<Backtest> {
    let longest = lanes.iter().map(Vec::len).max().unwrap_or(0);
    let check = |known: usize| {
        // Only seeds that went on: what came is compared with what they would have said.
        let went_on = lanes.iter().filter(|lane| lane.len() > known);
        let (before, after): (Vec<Vec<&Round>>, Vec<&Round>) =
            went_on.map(|lane| (lane[..known].to_vec(), lane[known])).unzip();
        let gains: Vec<f64> =
            before.iter().zip(&after).map(|(lane, next)| r1(next) - r1(lane[known - 1])).collect();
        let batches: Vec<f64> = (before.iter().zip(&after))
            .map(|(lane, next)| next.paired as f64 - lane[known - 1].paired as f64)
            .collect();
        let forecast = forecast(&before, mean(&batches)?.round() as usize)?;
        let inside = gains.iter().filter(|&&gain| (forecast.low..=forecast.high).contains(&gain));
        let (within, seeds) = (inside.count(), gains.len());
        Some(Backtest { forecast, came: mean(&gains)?, seeds, within })
    };
    (2..longest).filter_map(check).collect()
}
