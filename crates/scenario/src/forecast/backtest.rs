//! Backtests: forecasts for past batches, compared with their actual gains.

use serde::Serialize;

use super::{Forecast, forecast};
use crate::Round;
use crate::analysis::log_rank;
use crate::statistics::mean;

/// The forecast for a past batch, and its actual gain by the mean log rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Backtest {
    /// The forecast before the batch.
    pub forecast: Forecast,
    /// How far the mean log rank fell, as a mean over seeds.
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
        let pairs = || before.iter().map(|lane| lane[known - 1]).zip(&after);
        let gains: Vec<f64> = pairs().map(|(last, next)| log_rank(last) - log_rank(next)).collect();
        let batches: Vec<f64> =
            pairs().map(|(last, next)| next.paired as f64 - last.paired as f64).collect();
        let forecast = forecast(&before, mean(&batches)?.round() as usize)?;
        let expected = forecast.log_rank.low..=forecast.log_rank.high;
        let within = gains.iter().filter(|gain| expected.contains(gain)).count();
        Some(Backtest { came: mean(&gains)?, seeds: gains.len(), within, forecast })
    };
    (2..longest).filter_map(check).collect()
}
