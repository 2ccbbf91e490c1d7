//! Forecasts as sentences.

use std::fmt;

use super::{Forecast, Spread};
use crate::numbers::money_in;

impl Forecast {
    /// Describes the expected gain, and its cost at a price per item.
    pub fn sentence(&self, price: Option<f64>) -> String {
        self.sentence_in(price, None)
    }

    /// Like [`sentence`](Self::sentence), with the currency of the price.
    pub fn sentence_in(&self, price: Option<f64>, currency: Option<&str>) -> String {
        let money = |amount: f64| money_in(amount, currency);
        let (batch, gain, low, high) = (self.batch, self.gain, self.low, self.high);
        let hard = self.hard_negatives.map_or(String::new(), |share| {
            format!(", when about {:.0} % of the pool is hard", 100.0 * share)
        });
        let from = match (self.spread, self.batches) {
            (Spread::TestSet, 1) => "one batch so far; the interval is the noise of the test set",
            (Spread::TestSet, _) => {
                "the interval is the noise of the test set, as batches so far were off by less"
            }
            (Spread::Batches, _) => "the interval is what batches so far were off by",
        };
        let mut text = format!(
            "The next {batch} items are expected to add {gain:+.1} points of R@1 (text and image \
             added) [{low:+.1}, {high:+.1}]{hard}; {from}."
        );
        if let Some(price) = price {
            let cost = price * batch as f64;
            let per_point = match (low > 0.0, high > 0.0) {
                (true, _) => format!(
                    ", {} a point [{}, {}]",
                    money(cost / gain),
                    money(cost / high),
                    money(cost / low)
                ),
                (false, true) => "; the interval includes 0, so they may add nothing".to_owned(),
                (false, false) => "; a gain is not to be expected".to_owned(),
            };
            text += &format!(" They cost {}{per_point}.", money(cost));
        } else if low <= 0.0 {
            text += " The interval includes 0: they may add nothing.";
        }
        text
    }
}

/// Formats the forecast without a price.
impl fmt::Display for Forecast {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.sentence(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_says_what_the_interval_says() {
        let mut forecast = Forecast {
            round: 2,
            reached: 40.0,
            paired: 500.0,
            batch: 100,
            gain: 2.0,
            low: 1.0,
            high: 4.0,
            hard_negatives: Some(0.4),
            batches: 6,
            spread: Spread::Batches,
            seeds: 3,
        };
        let said = forecast.sentence(Some(0.25));
        assert!(said.contains("+2.0 points") && said.contains("[+1.0, +4.0]"), "{said}");
        assert!(said.contains("about 40 % of the pool"), "{said}");
        assert!(said.ends_with("They cost 25, 12.50 a point [6.25, 25]."), "{said}");
        forecast.low = -1.0;
        let said = forecast.sentence(Some(0.25));
        assert!(
            said.ends_with("They cost 25; the interval includes 0, so they may add nothing."),
            "{said}"
        );
        assert!(forecast.to_string().ends_with("The interval includes 0: they may add nothing."));
    }
}
