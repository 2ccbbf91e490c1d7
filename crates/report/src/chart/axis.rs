//! Axes with round ticks.

/// A scale from values to coordinates.
pub(super) struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Creates an axis that spans these values between two coordinates.
    pub(super) fn new(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if high - low < 1e-9 * high.abs().max(1e-3) {
            (low, high) = (low - 0.5, high + 0.5);
        }
        Axis { low, high, from, to }
    }

    /// Extends the axis to round numbers.
    pub(super) fn rounded(self) -> Self {
        let step = step(self.high - self.low);
        let (low, high) = ((self.low / step).floor() * step, (self.high / step).ceil() * step);
        Axis { low, high, ..self }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Returns the ticks, with their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let step = step(self.high - self.low);
        let digits = (-(step * 1.0001).log10().floor()).max(0.0) as usize;
        let first = (self.low / step - 1e-6).ceil() as i64;
        let last = (self.high / step + 1e-6).floor() as i64;
        let tick = |at: i64| {
            let value = at as f64 * step;
            (value, format!("{value:.digits$}"))
        };
        (first..=last).map(tick).collect()
    }
}

/// Returns a step of 1, 2 or 5 times a power of ten that makes about five ticks.
fn step(range: f64) -> f64 {
    let rough = range / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0].into_iter().find(|&round| round * power >= rough);
    round.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64) -> Vec<String> {
        let axis = Axis::new([low, high].into_iter(), 0.0, 100.0).rounded();
        axis.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(11.2, 19.8), ["10", "12", "14", "16", "18", "20"]);
        assert_eq!(labels(0.0, 0.1), ["0.00", "0.02", "0.04", "0.06", "0.08", "0.10"]);
        assert_eq!(labels(-3.0, 4.0), ["-4", "-2", "0", "2", "4"]);
        assert_eq!(labels(0.0, 500.0), ["0", "100", "200", "300", "400", "500"]);
        assert!(!labels(3.0, 3.0).is_empty());
        assert!(!Axis::new([].into_iter(), 0.0, 1.0).ticks().is_empty());
    }
}
