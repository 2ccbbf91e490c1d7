//! The bound with 8-bit codes: four products in the time of one.

use super::kernel::{
    Columns, PANEL, PanelCodes, Range, RowCodes, Unit, VectorCodes, retain_by_product, survivors,
};
use super::{BlockCuts, Projected, round_down, round_up};
use crate::widest::{in_halves, widest};

/// Up to [`PANEL`] columns.
pub(super) struct Panel {
    count: usize,
    first: PanelCodes,
    scales: [f32; PANEL],
    errors: [f64; PANEL],
    residuals: [f64; PANEL],
    /// Codes over all dimensions, if the first product is over leading axes only.
    whole: Option<FullCodes>,
}

/// Codes of whole vectors.
struct FullCodes {
    codes: VectorCodes,
    scales: Vec<f32>,
    errors: Vec<f64>,
    largest_error: f64,
}

impl Panel {
    pub(super) fn new(unit: Unit, columns: &Projected) -> Self {
        let (values, width, error) = columns.first();
        let mut panel = Panel {
            count: columns.count(),
            first: PanelCodes::new(unit, width),
            scales: [1.0; PANEL],
            errors: [0.0; PANEL],
            residuals: [0.0; PANEL],
            whole: columns.lead.as_ref().map(|_| FullCodes::new(columns)),
        };
        let mut codes = vec![0; width];
        for (c, values) in values.chunks_exact(width).enumerate() {
            let (scale, lost) = quantise(values, unit.range(), &mut codes);
            panel.first.set(c, &codes);
            panel.scales[c] = scale;
            panel.errors[c] = lost + error;
            panel.residuals[c] = columns.residual(c);
        }
        panel
    }
}

impl FullCodes {
    fn new(vectors: &Projected) -> Self {
        let mut whole = FullCodes {
            codes: VectorCodes::new(vectors.count(), vectors.dim),
            scales: Vec::with_capacity(vectors.count()),
            errors: Vec::with_capacity(vectors.count()),
            largest_error: 0.0,
        };
        let mut codes = vec![0; vectors.dim];
        for (v, unit) in vectors.units.chunks_exact(vectors.dim).enumerate() {
            let (scale, lost) = quantise(unit, Range::FULL, &mut codes);
            whole.codes.set(v, &codes);
            whole.scales.push(scale);
            whole.errors.push(lost + vectors.error);
            whole.largest_error = whole.largest_error.max(lost + vectors.error);
        }
        whole
    }
}

/// Appends the pairs of `rows` and the panels' columns that may be above the cuts.
pub(super) fn search(
    unit: Unit,
    panels: &[Panel],
    rows: &Projected,
    aim: &BlockCuts,
    finish: bool,
    found: &mut Vec<(u32, u32)>,
) {
    let (values, width, error) = rows.first();
    let mut first = RowCodes::new(unit, rows.count(), width);
    let mut largest_error = 0.0;
    let mut codes = vec![0; width];
    for (r, values) in values.chunks_exact(width).enumerate() {
        let (scale, lost) = quantise(values, unit.range(), &mut codes);
        first.set(r, &codes);
        first.scales[r] = scale;
        first.residuals[r] = round_up(rows.residual(r));
        first.offsets[r] = aim.offsets[r];
        largest_error = f64::max(largest_error, lost);
    }
    let row_error = largest_error + error;
    let projected = finish && rows.lead.is_some();
    let whole = projected.then(|| FullCodes::new(rows));
    let mut standing = Vec::new();
    for (p, panel) in panels.iter().enumerate() {
        let (mut spread, mut tilt) = ([0.0; PANEL], [0.0; PANEL]);
        let mut limit = [f32::INFINITY; PANEL];
        for c in 0..panel.count {
            let (column, scale) = (p * PANEL + c, panel.scales[c] as f64);
            spread[c] = round_up(panel.residuals[c] / scale);
            tilt[c] = (aim.tilts[column] / scale) as f32;
            limit[c] = round_down(aim.limit(column, row_error, panel.errors[c]) / scale);
        }
        standing.clear();
        let columns = Columns { spread: &spread, tilt: &tilt, cut: &limit };
        survivors(&panel.first, panel.count, &first, columns, &mut standing);
        if let (Some(rows), Some(columns)) = (&whole, &panel.whole) {
            let limits: Vec<f64> = (0..panel.count)
                .map(|c| aim.limit(p * PANEL + c, rows.largest_error, columns.errors[c]))
                .collect();
            retain_by_product(unit, &rows.codes, &columns.codes, &mut standing, |r, c, product| {
                let product = product as f64 * (rows.scales[r] * columns.scales[c]) as f64;
                let bound = product + aim.offsets[r] as f64 * aim.tilts[p * PANEL + c];
                let ruled_out = bound <= limits[c];
                !ruled_out
            });
        }
        found.extend(standing.iter().map(|&(r, c)| (r, (p * PANEL) as u32 + c)));
    }
}

/// Adding and subtracting this number rounds a small one to a whole number.
const ROUND: f32 = 12_582_912.0;

/// Codes values in 8 bits, within `range`. Returns their scale, and a bound on the norm of the error.
fn quantise(values: &[f32], range: Range, codes: &mut [i8]) -> (f32, f64) {
    let largest = largest(values);
    if largest < 1e-12 {
        codes.fill(0);
        return (1.0, 1e-12 * (values.len() as f64).sqrt());
    }
    let scale = range.scale(values, largest);
    let lost = (code(values, scale, codes) as f64).sqrt();
    // Bounds the rounding of the single-precision sum and of the products with the scale.
    let hidden = 1e-5 * scale as f64 * (values.len() as f64).sqrt();
    (scale, lost * (1.0 + values.len() as f64 * 1e-7) + hidden)
}

/// Numbers that are looked at side by side.
const LANES: usize = 64;

widest! {
    /// The largest magnitude.
    largest(values: &[f32]) -> f32 {
        let (groups, rest) = values.as_chunks::<LANES>();
        let mut largest = [0.0f32; LANES];
        for group in groups {
            for (largest, value) in largest.iter_mut().zip(group) {
                *largest = if value.abs() > *largest { value.abs() } else { *largest };
            }
        }
        rest.iter().map(|value| value.abs()).fold(in_halves(largest, f32::max), f32::max)
    }
}

widest! {
    /// Codes values, and returns the squared norm of what that loses.
    code(values: &[f32], scale: f32, codes: &mut [i8]) -> f32 {
        let inverse = 1.0 / scale;
        let one = |value: f32, code: &mut i8| {
            let rounded = (value * inverse + ROUND) - ROUND;
            *code = rounded as i32 as i8;
            let lost = value - rounded * scale;
            lost * lost
        };
        let (groups, rest) = values.as_chunks::<LANES>();
        let (group_codes, rest_codes) = codes.as_chunks_mut::<LANES>();
        let mut sums = [0.0; LANES];
        for (group, codes) in groups.iter().zip(group_codes) {
            for lane in 0..LANES {
                sums[lane] += one(group[lane], &mut codes[lane]);
            }
        }
        let rest = rest.iter().zip(rest_codes).map(|(&value, code)| one(value, code));
        in_halves(sums, |one, other| one + other) + rest.sum::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;

    #[test]
    fn quantisation_error_is_bounded() {
        let mut draws = Draws::new(4);
        let ranges = Unit::best().map(Unit::range).into_iter().chain([Range::FULL]);
        for (len, range) in ranges.flat_map(|range| [1, 5, 64, 700].map(|len| (len, range))) {
            let values: Vec<f32> = (0..len).map(|_| draws.normal() as f32).collect();
            let mut codes = vec![0; len];
            let (scale, bound) = quantise(&values, range, &mut codes);
            let exact = values
                .iter()
                .zip(&codes)
                .map(|(&v, &c)| (v as f64 - scale as f64 * c as f64).powi(2))
                .sum::<f64>()
                .sqrt();
            assert!(exact <= bound && bound <= exact * 1.001 + 1e-3 * scale as f64);
        }
    }

    #[test]
    fn the_largest_uses_the_whole_range() {
        let mut codes = [0; 3];
        quantise(&[0.1, -0.4, 0.2], Range::FULL, &mut codes);
        assert_eq!(codes, [32, -127, 64]);
    }
}
