//! Forecasts as sentences.

use std::fmt;

use super::{Forecast, Spread};
use crate::numbers::{money_in, tenths};

impl Forecast {
    /// Returns the geometric mean of the ranks of right answers: now, expected, and the ends of its interval, the
    /// better one first.
    pub fn ranks(&self) -> [f64; 4] {
        let of = &self.log_rank;
        [0.0, of.gain, of.high, of.low].map(|gain| (of.reached - gain).exp())
    }

    /// Describes what the batch should do to the ranks: "from rank 18.2 to 14.5 [12.9, 16.6]".
    pub fn ranks_in_words(&self) -> String {
        let [now, expected, best, worst] = self.ranks().map(tenths);
        format!("from rank {now:.1} to {expected:.1} [{best:.1}, {worst:.1}]")
    }

    /// Describes the expected gain in R@1: "+2.0 points [+1.0, +4.0]".
    pub fn r1_in_words(&self) -> String {
        let [gain, low, high] = [self.r1.gain, self.r1.low, self.r1.high].map(tenths);
        format!("{gain:+.1} points [{low:+.1}, {high:+.1}]")
    }

    /// Describes the expected gain, and its cost at a price per item.
    pub fn sentence(&self, price: Option<f64>) -> String {
        self.sentence_in(price, None)
    }

    /// Like [`sentence`](Self::sentence), with the currency of the price.
    pub fn sentence_in(&self, price: Option<f64>, currency: Option<&str>) -> String {
        let money = |amount: f64| money_in(amount, currency);
        let hard = self.log_rank.hard_negatives.map_or(String::new(), |share| {
            format!(", when about {:.0} % of the pool is hard", 100.0 * share)
        });
        let from = match (self.log_rank.spread, self.batches) {
            (Spread::TestSet, 1) => {
                "one batch so far; the interval allows for the noise of the test set"
            }
            (Spread::TestSet, _) => {
                "the interval allows for the noise of the test set, as batches so far were off by less"
            }
            (Spread::Batches, _) => "the interval is what batches so far were off by",
        };
        let mut text = format!(
            "The next {} items are expected to bring right answers {} (geometric mean of both directions){hard}, and \
             R@1 (text and image added) {}; {from}.",
            self.batch,
            self.ranks_in_words(),
            self.r1_in_words()
        );
        if let Some(price) = price {
            let cost = price * self.batch as f64;
            let r1 = self.r1;
            let per_point = if r1.low > 0.0 {
                let [gain, high, low] = [r1.gain, r1.high, r1.low].map(|gain| money(cost / gain));
                format!(", {gain} a point of R@1 [{high}, {low}]")
            } else {
                String::new()
            };
            text += &format!(" They cost {}{per_point}.", money(cost));
        }
        if self.log_rank.high <= 0.0 {
            text += " A gain is not to be expected.";
        } else if self.log_rank.low <= 0.0 {
            text += " They may add nothing: the interval of the rank includes that of now.";
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
    use super::super::Gain;
    use super::*;

    #[test]
    fn a_sentence_says_what_the_interval_says() {
        let gain = |reached: f64, gain: f64, low: f64, high: f64| Gain {
            reached,
            gain,
            low,
            high,
            hard_negatives: Some(0.4),
            spread: Spread::Batches,
        };
        let mut forecast = Forecast {
            round: 2,
            paired: 500.0,
            batch: 100,
            batches: 6,
            seeds: 3,
            log_rank: gain(20f64.ln(), 2f64.ln(), 1.25f64.ln(), 4f64.ln()),
            r1: gain(40.0, 2.0, 1.0, 4.0),
        };
        let said = forecast.sentence(Some(0.25));
        assert!(said.contains("from rank 20.0 to 10.0 [5.0, 16.0]"), "{said}");
        assert!(said.contains("+2.0 points [+1.0, +4.0]"), "{said}");
        assert!(said.contains("about 40 % of the pool"), "{said}");
        assert!(said.ends_with("They cost 25, 12.50 a point of R@1 [6.25, 25]."), "{said}");
        forecast.log_rank.low = -1.0;
        assert!(forecast.to_string().contains("They may add nothing"), "{forecast}");
        forecast.log_rank.high = -0.5;
        forecast.r1.low = -1.0;
        let said = forecast.sentence(Some(0.25));
        assert!(said.ends_with("They cost 25. A gain is not to be expected."), "{said}");
    }
}
