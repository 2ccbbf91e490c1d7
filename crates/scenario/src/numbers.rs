//! Formatting of numbers, for terminals and reports.

use crate::Estimate;
use crate::statistics::Worth;

/// Formats a number with thousands separators: 12,345.
pub fn grouped(number: usize) -> String {
    grouped_digits(&number.to_string())
}

/// Formats an amount of money without its currency: 1,234.50 or 87.
pub fn money(amount: f64) -> String {
    let cents = (amount * 100.0).round();
    if !cents.is_finite() {
        return "-".to_owned();
    }
    let (whole, cents) = ((cents / 100.0).trunc(), (cents % 100.0).abs());
    let whole = grouped_digits(&format!("{:.0}", whole.abs()));
    let sign = if amount < 0.0 { "-" } else { "" };
    if cents == 0.0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{cents:02.0}") }
}

/// Formats an amount of money in a currency: EUR 1,234.50, €87, or 87 if none is named.
pub fn money_in(amount: f64, currency: Option<&str>) -> String {
    let (sign, plain) = (if amount < 0.0 { "-" } else { "" }, money(amount.abs()));
    match currency {
        None => format!("{sign}{plain}"),
        Some(code) if code.ends_with(char::is_alphanumeric) => format!("{sign}{code} {plain}"),
        Some(symbol) => format!("{sign}{symbol}{plain}"),
    }
}

/// Formats a difference with its interval: +0.5 [-0.4, +1.4], or +0.5 (2 seeds: no interval).
pub fn signed(estimate: &Estimate) -> String {
    let mean = tenths(estimate.mean);
    match estimate.interval() {
        Some((low, high)) => format!("{mean:+.1} [{:+.1}, {:+.1}]", tenths(low), tenths(high)),
        None => format!("{mean:+.1} ({}: no interval)", few_seeds(estimate.count)),
    }
}

/// Formats a difference of logarithms or shares with its interval, to thousandths.
pub fn signed_fine(estimate: &Estimate) -> String {
    let fine = |value: f64| (value * 1000.0).round() / 1000.0 + 0.0;
    let mean = fine(estimate.mean);
    match estimate.interval() {
        Some((low, high)) => format!("{mean:+.3} [{:+.3}, {:+.3}]", fine(low), fine(high)),
        None => format!("{mean:+.3} ({}: no interval)", few_seeds(estimate.count)),
    }
}

/// Formats the worth of a caption with its interval: 1.24 [0.81, 1.70]. Beyond 100 it says no more than that.
pub fn worth(worth: &Worth) -> String {
    let shown = |value: f64| match value {
        value if value > 100.0 => "over 100".to_owned(),
        value => format!("{value:.2}"),
    };
    match worth.low.zip(worth.high) {
        Some((low, high)) => {
            format!("{} [{}, {}]", shown(worth.captions), shown(low), shown(high))
        }
        None => format!("{} (no interval)", shown(worth.captions)),
    }
}

/// Formats the random captions that a hundred chosen ones replace, with the interval: 124 [81, 170].
pub fn worth_of_a_hundred(worth: &Worth) -> String {
    let shown = |value: f64| match value {
        value if value > 100.0 => "over 10,000".to_owned(),
        value => format!("{:.0}", 100.0 * value + 0.0),
    };
    match worth.low.zip(worth.high) {
        Some((low, high)) => {
            format!("{} [{}, {}]", shown(worth.captions), shown(low), shown(high))
        }
        None => format!("{} (no interval)", shown(worth.captions)),
    }
}

/// Formats a number of seeds that is too low for an interval.
pub fn few_seeds(count: usize) -> String {
    if count == 1 { "one seed".to_owned() } else { format!("{count} seeds") }
}

/// Rounds to tenths, without a negative zero.
pub fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0 + 0.0
}

fn grouped_digits(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short_to_read() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn money_is_short_to_read() {
        for (amount, text) in
            [(0.0, "0"), (0.25, "0.25"), (87.0, "87"), (1234.5, "1,234.50"), (1e6, "1,000,000")]
        {
            assert_eq!(money(amount), text);
        }
        assert_eq!(money(f64::INFINITY), "-");
        assert_eq!(money_in(1234.5, Some("EUR")), "EUR 1,234.50");
        assert_eq!(money_in(-87.0, Some("€")), "-€87");
        assert_eq!(money_in(0.25, None), "0.25");
    }
}
