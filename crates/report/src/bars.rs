//! Bars of similarities with a mark at the threshold.

/// Bars on a common scale, on which similarities differ visibly from their thresholds.
pub(crate) struct Bars {
    low: f64,
    high: f64,
    digits: usize,
}

impl Bars {
    /// Scales the bars of similarities and thresholds.
    pub(crate) fn of(reasons: impl Iterator<Item = (f64, f64)>) -> Self {
        let (mut low, mut high, mut surplus) = (f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY);
        for (similarity, threshold) in reasons {
            low = low.min(threshold.min(similarity));
            high = high.max(similarity.max(threshold));
            surplus = surplus.min((similarity - threshold).abs());
        }
        if low > high {
            return Bars { low: 0.0, high: 1.0, digits: 3 };
        }
        // Start at zero, unless all bars would look alike.
        let range = high - low;
        let low = if low > 0.0 && low < 2.0 * range { 0.0 } else { low - range };
        let digits = (1.0 - surplus.max(1e-6).log10()).ceil().clamp(3.0, 6.0) as usize;
        Bars { low, high, digits }
    }

    /// Returns a bar with its numbers.
    pub(crate) fn bar(&self, similarity: f64, threshold: f64) -> String {
        let range = (self.high - self.low).max(1e-12);
        let percent = |value: f64| (100.0 * (value - self.low) / range).clamp(0.0, 100.0);
        let said = |value: f64| format!("{value:.*}", self.digits);
        format!(
            "{}<p class=\"note\">{} against {} ({}{})</p>",
            bar(percent(similarity), Some(percent(threshold))),
            said(similarity),
            said(threshold),
            if similarity >= threshold { "+" } else { "−" },
            said((similarity - threshold).abs())
        )
    }
}

/// Returns a bar of this length, perhaps with a mark, both in percent. It needs no inline style, which the
/// policy of pages forbids.
pub(crate) fn bar(length: f64, mark: Option<f64>) -> String {
    let mark = mark.map_or(String::new(), |mark| {
        format!("<line x1=\"{mark:.1}%\" x2=\"{mark:.1}%\" y2=\"100%\"/>")
    });
    format!(
        "<svg class=\"bar\" aria-hidden=\"true\"><rect width=\"{length:.1}%\" height=\"100%\"/>{mark}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_tell_similarities_from_thresholds() {
        let wide = Bars::of([(0.9, 0.5)].into_iter());
        assert_eq!((wide.low, wide.digits), (0.0, 3));
        let narrow = Bars::of([(0.5002, 0.5)].into_iter());
        assert!(narrow.low > 0.499 && narrow.low < 0.5);
        assert!(narrow.bar(0.5002, 0.5).contains("x1=\"50.0%\""));
        assert_eq!(narrow.digits, 5);
        assert!(Bars::of([].into_iter()).bar(0.5, 0.2).contains("rect width=\"50.0%\""));
    }
}
