//! Dots with intervals around zero: differences to the baseline.

use super::axis::Axis;
use super::{Chart, WIDTH, escaped, number, style, text_width};
use nextpair_scenario::Estimate;
use nextpair_scenario::numbers::signed;

/// The least room for labels.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 16.0;
/// The size of labels.
const LABEL: f64 = 11.0;
const ROW: f64 = 19.0;

/// A chart of differences.
pub(crate) struct Intervals {
    pub(crate) name: String,
    pub(crate) title: String,
    /// A note on the two sides of zero.
    pub(crate) note: String,
    pub(crate) rows: Vec<Row>,
}

/// A group of intervals.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) style: usize,
    pub(crate) values: Vec<(String, Estimate)>,
    /// The first value of every seed.
    pub(crate) seeds: Vec<(u64, f64)>,
}

impl Row {
    fn height(&self) -> f64 {
        24.0 + ROW * (self.values.len() + usize::from(!self.seeds.is_empty())) as f64
    }
}

impl Intervals {
    pub(crate) fn draw(&self) -> Chart {
        let mut chart = Chart::new(&self.name, &self.title, &self.description());
        chart.note.clone_from(&self.note);
        let top = 0.0;
        let height: f64 = self.rows.iter().map(Row::height).sum();
        let bottom = top + height;
        chart.height = bottom + 22.0;
        let all = self.rows.iter().flat_map(|row| &row.values);
        let values = all.flat_map(|(_, estimate)| {
            let (low, high) = estimate.interval().unwrap_or((estimate.mean, estimate.mean));
            [low, high, 0.0]
        });
        let values = values.chain(self.rows.iter().flat_map(|row| &row.seeds).map(|seed| seed.1));
        let labels = self.rows.iter().flat_map(|row| &row.values);
        let left = labels.map(|(label, _)| text_width(label, LABEL) + 14.0).fold(LEFT, f64::max);
        let x = Axis::new(values, left, WIDTH - RIGHT).rounded();
        for (value, label) in x.ticks() {
            let at = x.place(value);
            let class = if value == 0.0 { "zero" } else { "grid" };
            // Keep the line clear of the names.
            let mut y = top;
            for row in &self.rows {
                let end = y + row.height();
                chart.line((at, y + 24.0), (at, end), class);
                y = end;
            }
            let sign = if value > 0.0 { "+" } else { "" };
            chart.text(at, bottom + 16.0, "tick middle", &format!("{sign}{label}"));
        }
        let mut y = top;
        for row in &self.rows {
            chart.text(0.0, y + 17.0, "key", &row.name);
            y += 24.0;
            for (label, estimate) in &row.values {
                let at = y + ROW / 2.0;
                chart.text(left - 10.0, at + 4.0, "tick end", label);
                if let Some((low, high)) = estimate.interval() {
                    let class = format!("range l{}", style::colour(row.style));
                    chart.line((x.place(low), at), (x.place(high), at), &class);
                }
                let told = format!("{}, {label}: {}", row.name, signed(estimate));
                let attributes = format!(" data-tip=\"{}\"", escaped(&told));
                chart.told_marker((x.place(estimate.mean), at), row.style, &attributes, &told);
                y += ROW;
            }
            if !row.seeds.is_empty() {
                let at = y + ROW / 2.0;
                chart.text(left - 10.0, at + 4.0, "tick end", "seeds");
                for (seed, value) in &row.seeds {
                    let told = escaped(&format!("{}, seed {seed}: {value:+.1}", row.name));
                    chart.push(&format!(
                        "<circle class=\"seed f{}\" cx=\"{}\" cy=\"{}\" r=\"3\" data-tip=\"{told}\">\
                         <title>{told}</title></circle>",
                        style::colour(row.style),
                        number(x.place(*value)),
                        number(at)
                    ));
                }
                y += ROW;
            }
        }
        chart
    }

    fn description(&self) -> String {
        let row = |row: &Row| {
            let values =
                row.values.iter().map(|(label, value)| format!("{label} {}", signed(value)));
            format!("{}: {}", row.name, values.collect::<Vec<_>>().join(", "))
        };
        self.rows.iter().map(row).collect::<Vec<_>>().join("; ")
    }
}
