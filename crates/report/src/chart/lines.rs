//! Lines with bands: learning curves and shares by round.

use std::fmt::Write;

use super::axis::Axis;
use super::{Chart, WIDE, WIDTH, number, style, text_width};
use nextpair_scenario::Estimate;
use nextpair_scenario::numbers::grouped;

const LEFT: f64 = 38.0;
const RIGHT: f64 = 12.0;
const PLOT: f64 = 220.0;
/// Maximum number of lines that all have bands. Beyond it, only the baseline has one.
pub(crate) const MOST_BANDS: usize = 6;

/// A chart of lines.
pub(crate) struct Lines {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) x_label: String,
    pub(crate) series: Vec<Series>,
    /// Whether it spans the page.
    pub(crate) wide: bool,
}

/// One line.
pub(crate) struct Series {
    pub(crate) name: String,
    /// The number of its style; 0 is the baseline.
    pub(crate) style: usize,
    pub(crate) points: Vec<Point>,
}

/// A point of a line.
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: Estimate,
}

impl Lines {
    pub(crate) fn draw(&self) -> Chart {
        let mut chart = Chart::new(&self.name, &self.title, &self.description());
        chart.x_label.clone_from(&self.x_label);
        chart.legend = self.series.iter().map(|s| (s.name.clone(), s.style)).collect();
        chart.width = if self.wide { WIDE } else { WIDTH };
        let (width, top) = (chart.width, 8.0);
        let bottom = top + PLOT;
        chart.height = bottom + 38.0;
        let points = || self.series.iter().flat_map(|series| &series.points);
        // With many bands, no one could tell them apart; the page shows that of the series in focus.
        let few = self.series.len() <= MOST_BANDS;
        let values = self.series.iter().flat_map(|series| {
            series.points.iter().flat_map(|Point { y, .. }| {
                let (low, high) = interval(y).unwrap_or((y.mean, y.mean));
                [low, high, y.mean]
            })
        });
        let y = Axis::new(values, bottom, top).rounded();
        let x = Axis::new(points().map(|point| point.x), LEFT + 14.0, width - RIGHT - 14.0);
        for (value, label) in y.ticks() {
            let at = y.place(value);
            chart.line((LEFT, at), (width - RIGHT, at), "grid");
            chart.text(LEFT - 6.0, at + 4.0, "tick end", &label);
        }
        self.x_labels(&mut chart, &x, bottom);
        for (at, series) in self.series.iter().enumerate() {
            let band = band(series, &x, &y);
            if band.is_empty() {
                continue;
            }
            let quiet = if few || series.style == 0 { "" } else { " quiet" };
            let _ = write!(chart.body, "<g class=\"bands{quiet}\" data-series=\"{at}\">{band}</g>");
        }
        // Draw the baseline below the others.
        for (at, series) in self.series.iter().enumerate() {
            let _ = write!(chart.body, "<g class=\"drawn\" data-series=\"{at}\">");
            let place = |point: &Point| (x.place(point.x), y.place(point.y.mean));
            let places: Vec<(f64, f64)> = series.points.iter().map(place).collect();
            chart.path(&style::line(series.style), &polyline(&places));
            for (point, at) in series.points.iter().zip(places) {
                let (paid, value) = (grouped(point.x.round() as usize), said(&point.y));
                let attributes = format!(
                    " data-x=\"{paid}\" data-v=\"{value}\" data-at=\"{} {}\"",
                    number(at.0),
                    number(at.1)
                );
                let told = format!("{}, {paid} {}: {value}", series.name, self.x_label);
                chart.told_marker(at, series.style, &attributes, &told);
            }
            chart.push("</g>");
        }
        chart
    }

    /// Labels every distinct value, as far as there is room.
    fn x_labels(&self, chart: &mut Chart, x: &Axis, bottom: f64) {
        let points = self.series.iter().flat_map(|series| &series.points);
        let mut values: Vec<f64> = points.map(|point| point.x).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let mut free = f64::NEG_INFINITY;
        for value in values {
            let (at, label) = (x.place(value), grouped(value.round() as usize));
            let half = text_width(&label, 11.0) / 2.0;
            if at - half < free {
                continue;
            }
            chart.line((at, bottom), (at, bottom + 4.0), "zero");
            chart.text(at, bottom + 17.0, "tick middle", &label);
            free = at + half + 8.0;
        }
        chart.text(chart.width - RIGHT, bottom + 33.0, "tick end", &self.x_label);
    }

    fn description(&self) -> String {
        let of_series = |series: &Series| {
            let mut text = format!("{}:", series.name);
            for Point { x, y } in &series.points {
                let _ = write!(text, " {} at {},", number(y.mean), number(*x));
            }
            text.trim_end_matches(',').to_owned()
        };
        let series: Vec<String> = self.series.iter().map(of_series).collect();
        format!("By {}. {}.", self.x_label, series.join("; "))
    }
}

/// Formats a value with its interval.
fn said(estimate: &Estimate) -> String {
    match interval(estimate) {
        Some((low, high)) => format!("{:.1} [{low:.1}, {high:.1}]", estimate.mean),
        None => format!("{:.1}", estimate.mean),
    }
}

fn polyline(places: &[(f64, f64)]) -> String {
    let mut d = String::new();
    for (at, (x, y)) in places.iter().enumerate() {
        let _ = write!(d, "{}{} {}", if at == 0 { 'M' } else { 'L' }, number(*x), number(*y));
    }
    d
}

/// Returns the interval of a percentage, which is never below zero.
fn interval(percent: &Estimate) -> Option<(f64, f64)> {
    let (low, high) = percent.interval()?;
    Some((low.max(0.0), high))
}

/// Returns the area of the intervals, if all points have one.
fn band(series: &Series, x: &Axis, y: &Axis) -> String {
    let edge = |high: bool| -> Option<Vec<(f64, f64)>> {
        let place = |point: &Point| {
            let (bottom, top) = interval(&point.y)?;
            Some((x.place(point.x), y.place(if high { top } else { bottom })))
        };
        series.points.iter().map(place).collect()
    };
    let (Some(mut around), Some(mut low)) = (edge(true), edge(false)) else {
        return String::new();
    };
    if around.len() < 2 {
        return String::new();
    }
    low.reverse();
    around.append(&mut low);
    let colour = style::colour(series.style);
    format!("<path class=\"band f{colour} l{colour}\" d=\"{}Z\"/>", polyline(&around))
}
