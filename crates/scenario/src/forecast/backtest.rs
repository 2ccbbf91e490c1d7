//! Backtests: forecasts for past batches, compared with their actual gains.

use serde::Serialize;

use super::{Forecast, forecast};
use crate::Round;
use crate::analysis::r1;
use crate::statistics::mean;

/// The forecast for a past batch, and its actual gain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Backtest {
    /// The forecast before the batch.
    pub forecast: Forecast,
    /// The actual gain, as a mean over seeds.
    pub came: f64,
    /// Number of seeds that bought the batch.
    pub seeds: usize,
    /// Number of seeds whose gain was within the interval.
    pub within: usize,
}

/// Forecasts every batch after the first from the rounds before it.
pub fn backtest(lanes: &[Vec<&Round>]) -> Vec<Backtest> {
    let longest = lanes.iter().map(Vec::len).max().unwrap_or(0);
    let check = |known: usize| {
        // Only seeds that bought the batch: compare the same seeds before and after.
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
