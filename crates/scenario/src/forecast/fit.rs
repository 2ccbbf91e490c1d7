//! Least-squares fits of gains: a line through the origin, or a plane.

/// Minimum number of batches to fit the effect of hard negatives.
const ENOUGH: usize = 4;

/// A past batch.
pub(super) struct Bought {
    /// `ln(n' / n)`, above zero.
    pub(super) growth: f64,
    /// Share of the pool that was hard, for strategies that use hits.
    pub(super) share: Option<f64>,
    pub(super) gain: f64,
}

/// `gain = (c0 + c1 h) ln(n' / n)`, or without the share: `c0 ln(n' / n)`.
pub(super) struct Fit {
    /// `c0` and `c1`. `c1` is 0 in fits without the share.
    slopes: [f64; 2],
    /// The inverse of the Gram matrix of the predictors.
    inverse: [[f64; 2]; 2],
    parameters: usize,
    batches: usize,
    /// The sum of squared residuals.
    residual: f64,
}

impl Fit {
    /// Fits by least squares. Returns `None` without any batch.
    pub(super) fn of(bought: &[Bought]) -> Option<Self> {
        Self::with_share(bought).or_else(|| Self::of_growth(bought))
    }

    /// Returns whether the fit uses the share of hard negatives.
    pub(super) fn by_share(&self) -> bool {
        self.parameters == 2
    }

    /// Returns the predicted gain of a batch and its leverage: the variance of the prediction
    /// relative to that of one batch.
    pub(super) fn predict(&self, growth: f64, share: f64) -> (f64, f64) {
        let [x, y] = [growth, growth * share];
        let [[a, b], [_, d]] = self.inverse;
        (self.slopes[0] * x + self.slopes[1] * y, a * x * x + 2.0 * b * x * y + d * y * y)
    }

    /// Returns the residual variance and its degrees of freedom, or `None` if there are none left.
    pub(super) fn variance(&self) -> Option<(f64, f64)> {
        let freedom = self.batches.checked_sub(self.parameters).filter(|&freedom| freedom > 0)?;
        Some((self.residual / freedom as f64, freedom as f64))
    }

    fn of_growth(bought: &[Bought]) -> Option<Self> {
        let squares: f64 = bought.iter().map(|b| b.growth * b.growth).sum();
        let products: f64 = bought.iter().map(|b| b.growth * b.gain).sum();
        let inverse = [[1.0 / squares, 0.0], [0.0, 0.0]];
        (squares > 0.0).then(|| Self::new(bought, [products / squares, 0.0], inverse, 1))
    }

    /// Fits with the share. Returns `None` for too few batches, for equal shares, or if `c1` is
    /// negative.
    fn with_share(bought: &[Bought]) -> Option<Self> {
        let shares: Vec<f64> = bought.iter().map(|b| b.share).collect::<Option<_>>()?;
        let [mut xx, mut xy, mut yy, mut xg, mut yg] = [0.0; 5];
        for (b, share) in bought.iter().zip(&shares) {
            let (x, y) = (b.growth, b.growth * share);
            xx += x * x;
            xy += x * y;
            yy += y * y;
            xg += x * b.gain;
            yg += y * b.gain;
        }
        let determinant = xx * yy - xy * xy;
        if bought.len() < ENOUGH || determinant <= 1e-9 * xx * yy {
            return None;
        }
        let inverse =
            [[yy / determinant, -xy / determinant], [-xy / determinant, xx / determinant]];
        let slopes =
            [inverse[0][0] * xg + inverse[0][1] * yg, inverse[1][0] * xg + inverse[1][1] * yg];
        (slopes[1] >= 0.0).then(|| Self::new(bought, slopes, inverse, 2))
    }

    fn new(bought: &[Bought], slopes: [f64; 2], inverse: [[f64; 2]; 2], parameters: usize) -> Self {
        let mut fit = Fit { slopes, inverse, parameters, batches: bought.len(), residual: 0.0 };
        let off = |b: &Bought| b.gain - fit.predict(b.growth, b.share.unwrap_or(0.0)).0;
        fit.residual = bought.iter().map(|b| off(b).powi(2)).sum();
        fit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fit_is_that_of_a_hand() {
        let bought =
            |growth: f64, share: f64, gain: f64| Bought { growth, share: Some(share), gain };
        // With a growth of 1, the ordinary line through (0, 1), (0, 3), (1, 4), (1, 6).
        let all = [
            bought(1.0, 0.0, 1.0),
            bought(1.0, 0.0, 3.0),
            bought(1.0, 1.0, 4.0),
            bought(1.0, 1.0, 6.0),
        ];
        let fit = Fit::of(&all).unwrap();
        assert!(fit.by_share());
        let (gain, leverage) = fit.predict(1.0, 0.5);
        assert!((gain - 3.5).abs() < 1e-9 && (leverage - 0.25).abs() < 1e-9, "{gain} {leverage}");
        // Every residual is 1: 4 / (4 - 2).
        assert_eq!(fit.variance(), Some((2.0, 2.0)));
        // The first three alone: their mean.
        let fit = Fit::of(&all[..3]).unwrap();
        assert!(!fit.by_share());
        let (gain, leverage) = fit.predict(2.0, 0.5);
        assert!((gain - 16.0 / 3.0).abs() < 1e-9 && (leverage - 4.0 / 3.0).abs() < 1e-9);
        assert_eq!(Fit::of(&all[..1]).unwrap().variance(), None);
        assert!(Fit::of(&[]).is_none());
    }
}
