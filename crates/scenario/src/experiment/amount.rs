//! How many items: a count, or a share of all.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A count (`500`) or a share of all items (`0.05`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// So many items.
    Count(usize),
    /// This share of all items.
    Share(f64),
}

impl Amount {
    /// The amount of `whole`, not yet rounded.
    pub fn of(self, whole: usize) -> f64 {
        match self {
            Amount::Count(count) => count as f64,
            Amount::Share(share) => share * whole as f64,
        }
    }

    /// What makes this amount impossible, if anything does.
    pub(crate) fn check(self) -> Result<(), String> {
        match self {
            Amount::Count(0) => Err("is 0; at least 1 is needed".to_owned()),
            Amount::Share(share) if !(share > 0.0 && share <= 1.0) => {
                Err(format!("{share} is not a share above 0 and at most 1; write 5 for 5 items"))
            }
            _ => Ok(()),
        }
    }
}

/// What is a whole number on paper must not fall below it by rounding.
pub(crate) fn floor(amount: f64) -> usize {
    (amount + 1e-9) as usize
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%').map(|number| number.parse().map(|p: f64| p / 100.0));
        let amount = match (text.parse(), percent) {
            (Ok(count), _) => Amount::Count(count),
            (_, Some(Ok(share))) => Amount::Share(share),
            _ => Amount::Share(
                text.parse().map_err(|_| format!("{text} is neither a count nor a share"))?,
            ),
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
