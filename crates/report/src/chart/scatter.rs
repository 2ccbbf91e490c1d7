//! Points with intervals: how one thing goes with another.

use super::axis::Axis;
use super::lines::{Point, Series};
use super::{Chart, WIDTH, escaped, style};
use nextpair_scenario::Estimate;

const LEFT: f64 = 38.0;
const RIGHT: f64 = 12.0;
const PLOT: f64 = 240.0;
/// How far points of several series at one position are apart.
const ASIDE: f64 = 5.0;

/// A chart of points.
pub(crate) struct Scatter {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) x_label: String,
    /// The level with nothing to see.
    pub(crate) level: f64,
    pub(crate) series: Vec<Series>,
    /// The names of the points of every series, in their order.
    pub(crate) names: Vec<Vec<String>>,
}

impl Scatter {
    pub(crate) fn draw(&self) -> Chart {
        let mut chart = Chart::new(&self.name, &self.title, &self.description());
        chart.note.clone_from(&self.note);
        chart.x_label.clone_from(&self.x_label);
        chart.legend = self.series.iter().map(|s| (s.name.clone(), s.style)).collect();
        let (top, bottom) = (8.0, 8.0 + PLOT);
        chart.height = bottom + 38.0;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let values = points().flat_map(|Point { y, .. }| <[f64; 2]>::from(ends(y)));
        let y = Axis::new(values.chain([self.level]), bottom, top).rounded();
        let places = points().map(|point| point.x);
        let room = ASIDE * self.series.len() as f64 / 2.0;
        let x = Axis::new(places, LEFT + room, WIDTH - RIGHT - room).rounded();
        for (value, label) in y.ticks() {
            let class = if value == self.level { "zero" } else { "grid" };
            chart.line((LEFT, y.place(value)), (WIDTH - RIGHT, y.place(value)), class);
            chart.text(LEFT - 6.0, y.place(value) + 4.0, "tick end", &label);
        }
        for (value, label) in x.ticks() {
            chart.line((x.place(value), bottom), (x.place(value), bottom + 4.0), "zero");
            chart.text(x.place(value), bottom + 17.0, "tick middle", &label);
        }
        chart.text(WIDTH - RIGHT, bottom + 33.0, "tick end", &self.x_label);
        let middle = self.series.len().saturating_sub(1) as f64 / 2.0;
        for (number, (series, names)) in self.series.iter().zip(&self.names).enumerate() {
            // Beside each other, not on top of each other.
            let aside = (number as f64 - middle) * ASIDE;
            for (point, name) in series.points.iter().zip(names) {
                let (low, high) = ends(&point.y);
                let at = x.place(point.x) + aside;
                let class = format!("range l{}", style::colour(series.style));
                chart.line((at, y.place(low)), (at, y.place(high)), &class);
                let told =
                    format!("{}, {name}: {:.2} [{low:.2}, {high:.2}]", series.name, point.y.mean);
                let attributes = format!(" data-tip=\"{}\"", escaped(&told));
                let place = (at, y.place(point.y.mean));
                chart.told_marker(place, series.style, &attributes, &told);
            }
        }
        chart
    }

    fn description(&self) -> String {
        let point = |(point, name): (&Point, &String)| {
            format!("{name} {:.2} at {:.1}", point.y.mean, point.x)
        };
        let series = self.series.iter().zip(&self.names).map(|(series, names)| {
            let points: Vec<String> = series.points.iter().zip(names).map(point).collect();
            format!("{}: {}", series.name, points.join(", "))
        });
        format!("By {}. {}.", self.x_label, series.collect::<Vec<_>>().join("; "))
    }
}

/// The ends of an interval, or the mean where there is none.
fn ends(estimate: &Estimate) -> (f64, f64) {
    estimate.interval().unwrap_or((estimate.mean, estimate.mean))
}
