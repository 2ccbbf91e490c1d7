//! Numbers of items: a count, or a share of all.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A count (`500`) or a share of all items (`0.05`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// A number of items.
    Count(usize),
    /// A share of all items.
    Share(f64),
}

impl Amount {
    /// Returns the amount for `whole` items, before rounding.
    pub fn of(self, whole: usize) -> f64 {
        match self {
            Amount::Count(count) => count as f64,
            Amount::Share(share) => share * whole as f64,
        }
    }

    /// Returns the amount for `whole` items, rounded down.
    pub fn whole_of(self, whole: usize) -> usize {
        floor(self.of(whole))
    }

    /// Returns an error message if the amount is impossible.
    pub fn check(self) -> Result<(), String> {
        match self {
            Amount::Count(0) => Err("is 0; at least 1 is needed".to_owned()),
            Amount::Share(share) if share < 0.0 => Err(format!(
                "{share} is below 0; write how many items, such as 500, or their share, such as 0.05"
            )),
            Amount::Share(share) if !(share > 0.0 && share <= 1.0) => {
                Err(format!("{share} is not a share above 0 and at most 1; write 5 for 5 items"))
            }
            _ => Ok(()),
        }
    }
}

/// Rounds down, but forgives the last digit: an amount that is whole on paper stays whole.
pub fn floor(amount: f64) -> usize {
    (amount + 1e-9) as usize
}

/// Converts a percentage to a share, to nine digits.
fn shown(percent: f64) -> f64 {
    (percent * 1e9).round() / 1e11
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Parse as many digits as `Display` writes, so that values round-trip.
        let percent = text.strip_suffix('%').map(|number| number.parse().map(shown));
        let amount = match (text.parse(), percent) {
            (Ok(count), _) => Amount::Count(count),
            (_, Some(Ok(share))) => Amount::Share(share),
            _ => {
                let share: Result<f64, _> = text.parse();
                let share = share.map_err(|_| format!("{text} is neither a count nor a share"))?;
                Amount::Share(shown(100.0 * share))
            }
        };
        amount.check().map(|()| amount)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Count(count) => write!(out, "{count}"),
            // To nine digits, so that 0.29 is not 28.999999999999996 %.
            Amount::Share(share) => write!(out, "{}%", (share * 1e11).round() / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_shares_are_told_apart() {
        for (text, amount, shown) in [
            ("500", Amount::Count(500), "500"),
            ("0.05", Amount::Share(0.05), "5%"),
            ("29.4%", Amount::Share(0.294), "29.4%"),
            ("1", Amount::Count(1), "1"),
            ("1.0", Amount::Share(1.0), "100%"),
            ("33.3333333333333%", Amount::Share(0.33333333333), "33.333333333%"),
        ] {
            let read: Amount = text.parse().unwrap();
            assert_eq!((read, read.to_string().as_str()), (amount, shown));
            assert_eq!(shown.parse::<Amount>().unwrap(), amount);
        }
        for text in ["0", "0.0", "1.5", "-1", "nan", "x", "", "120%"] {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
        assert_eq!(floor(Amount::Share(0.29).of(100)), 29);
    }
}
