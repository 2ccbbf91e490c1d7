//! Maps of picks in the pool, one panel per strategy.

use std::fmt::Write;

use super::{Chart, WIDTH, number, style, text_width};

const GAP: f64 = 16.0;
const SIDE: f64 = (WIDTH - GAP) / 2.0;
const HEAD: f64 = 22.0;
/// Margin around the points within a frame.
const MARGIN: f64 = 7.0;

/// The picks of one strategy.
pub(crate) struct Panel {
    pub(crate) name: String,
    pub(crate) style: usize,
    /// Indices of the picks in the list of points.
    pub(crate) picks: Vec<usize>,
}

/// Draws all panels on the same points. Returns their places within a panel, too.
pub(crate) fn map(
    name: &str,
    title: &str,
    points: &[[f64; 2]],
    panels: &[Panel],
) -> (Chart, Vec<(f64, f64)>) {
    let description = format!(
        "A map of {} pool items, nearby where the model finds them alike; a panel for what each \
         strategy picked.",
        points.len()
    );
    let mut chart = Chart::new(name, title, &description);
    let places = fitted(points);
    let top = 0.0;
    // Write the pool once and show it in every panel.
    let pool = format!("{name}-pool");
    let _ = write!(chart.body, "<defs><path id=\"{pool}\" d=\"{}\"/></defs>", dots(places.iter()));
    for (at, panel) in panels.iter().enumerate() {
        let x = (at % 2) as f64 * (SIDE + GAP);
        let y = top + (at / 2) as f64 * (SIDE + HEAD + GAP);
        chart.text(x, y + 14.0, "key", &shortened(&panel.name));
        let picks = dots(panel.picks.iter().filter_map(|&pick| places.get(pick)));
        let (colour, side) = (style::colour(panel.style), number(SIDE));
        let _ = write!(
            chart.body,
            "<g class=\"panel\" transform=\"translate({} {})\"><rect class=\"frame\" width=\"{side}\" \
             height=\"{side}\" rx=\"4\"/><use class=\"dots pool\" href=\"#{pool}\"/>\
             <path class=\"dots picks l{colour}\" d=\"{picks}\"/></g>",
            number(x),
            number(y + HEAD)
        );
    }
    let rows = panels.len().div_ceil(2) as f64;
    chart.height = top + rows * (SIDE + HEAD) + (rows - 1.0).max(0.0) * GAP + 1.0;
    (chart, places)
}

/// Shortens a name to fit over a panel.
fn shortened(name: &str) -> String {
    let fits = |text: &str| text_width(text, 11.5) <= SIDE;
    let mut short = name.to_owned();
    while !fits(&short) && short.pop().is_some() {}
    if short.len() < name.len() { short + "…" } else { short }
}

/// Scales points to the frame of a panel, with their aspect ratio.
fn fitted(points: &[[f64; 2]]) -> Vec<(f64, f64)> {
    let range = |axis: usize| {
        let values = points.iter().map(|point| point[axis]);
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        (f64::midpoint(low, high), high - low)
    };
    let ((x, width), (y, height)) = (range(0), range(1));
    let scale = (SIDE - 2.0 * MARGIN) / width.max(height).max(1e-9);
    let place = |point: &[f64; 2]| {
        ((point[0] - x) * scale + SIDE / 2.0, (point[1] - y) * scale + SIDE / 2.0)
    };
    points.iter().map(place).collect()
}

/// Draws dots as one path: lines of almost zero length with round ends.
fn dots<'a>(places: impl Iterator<Item = &'a (f64, f64)>) -> String {
    places.fold(String::new(), |mut d, (x, y)| {
        let _ = write!(d, "M{} {}h.01", number(*x), number(*y));
        d
    })
}
