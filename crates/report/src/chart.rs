//! Charts as SVG: inline on the page, which styles them, and as standalone files.

mod axis;
mod intervals;
mod lines;
mod map;
mod raster;
pub(super) mod style;

use std::fmt::Write;

pub(super) use intervals::{Intervals, Row};
pub(super) use lines::{Lines, MOST_BANDS, Point, Series};
pub(super) use map::{Panel, map};

use super::page::escaped;

/// The width of all charts. Phones show them a little smaller, laptops somewhat larger.
pub(super) const WIDTH: f64 = 440.0;
/// Margin of a standalone file. On the page, the page has one.
const MARGIN: f64 = 14.0;

/// A chart under construction.
pub(super) struct Chart {
    /// The base name of its files.
    pub(super) name: String,
    /// A short title.
    title: String,
    /// A text alternative for screen readers.
    description: String,
    height: f64,
    body: String,
}

impl Chart {
    /// Creates an empty chart. Its height is set at the end.
    pub(super) fn new(name: &str, title: &str, description: &str) -> Self {
        let (title, description) = (title.to_owned(), description.to_owned());
        Chart { name: name.to_owned(), title, description, height: 0.0, body: String::new() }
    }

    /// Returns the SVG for a page, which has the style.
    pub(super) fn inline(&self) -> String {
        self.svg("", "", 0.0)
    }

    /// Returns the SVG for a file.
    pub(super) fn standalone(&self) -> String {
        let (width, height) = (WIDTH + 2.0 * MARGIN, number(self.height + 2.0 * MARGIN));
        let size = format!("width=\"{width}\" height=\"{height}\"");
        let background = format!("<rect class=\"paper\" x=\"-{MARGIN}\" y=\"-{MARGIN}\" {size}/>");
        let style = format!("<style>{}</style>{background}", style::resolved());
        let attributes = format!(" xmlns=\"http://www.w3.org/2000/svg\" {size}");
        self.svg(&attributes, &style, MARGIN)
    }

    /// Renders the standalone SVG to PNG at twice its size.
    pub(super) fn png(&self) -> Result<Vec<u8>, String> {
        raster::png(&self.standalone())
    }

    fn svg(&self, attributes: &str, style: &str, margin: f64) -> String {
        let (width, height) = (WIDTH + 2.0 * margin, number(self.height + 2.0 * margin));
        let (start, body) = (number(0.0 - margin), &self.body);
        let (title, description) = (escaped(&self.title), escaped(&self.description));
        format!(
            "<svg class=\"chart\"{attributes} viewBox=\"{start} {start} {width} {height}\" role=\"img\">\
             <title>{title}</title><desc>{description}</desc>{style}{body}</svg>\n"
        )
    }

    fn push(&mut self, element: &str) {
        self.body.push_str(element);
    }

    /// Adds text at a point, styled by `class`.
    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let (x, y, text) = (number(x), number(y), escaped(text));
        // Writing to a string cannot fail.
        let _ = write!(self.body, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>");
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let (x1, y1, x2, y2) = (number(from.0), number(from.1), number(to.0), number(to.1));
        let _ = write!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"
        );
    }

    fn path(&mut self, class: &str, d: &str) {
        let _ = write!(self.body, "<path class=\"{class}\" d=\"{d}\"/>");
    }

    /// Adds a marker. Styles differ in shape as well as colour.
    fn marker(&mut self, at: (f64, f64), style: usize) {
        let (x, y) = at;
        let d = match style % 4 {
            0 => "a3.3 3.3 0 1 0 6.6 0a3.3 3.3 0 1 0 -6.6 0z".to_owned(),
            1 => "v3h6v-6h-6z".to_owned(),
            2 => "l3.3 -3.9l3.3 3.9l-3.3 3.9z".to_owned(),
            _ => "v3h6.6l-3.3 -6.4l-3.3 6.4z".to_owned(),
        };
        let left = if style % 4 == 1 { x - 3.0 } else { x - 3.3 };
        let d = format!("M{} {}{d}", number(left), number(y));
        self.path(&format!("marker f{}", style::colour(style)), &d);
    }

    /// Adds a legend in as many rows as needed. Returns its lower end.
    fn legend(&mut self, names: &[(String, usize)], top: f64) -> f64 {
        let (mut x, mut y) = (0.0, top);
        for (name, style) in names {
            let width = 30.0 + text_width(name, 11.5);
            if x > 0.0 && x + width > WIDTH {
                (x, y) = (0.0, y + 17.0);
            }
            self.line((x, y), (x + 20.0, y), &style::line(*style));
            self.marker((x + 10.0, y), *style);
            self.text(x + 25.0, y + 4.0, "key", name);
            x += width + 14.0;
        }
        y + 17.0
    }
}

/// Formats a coordinate with no more digits than are visible.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Estimates the width of a text.
fn text_width(text: &str, size: f64) -> f64 {
    0.56 * size * text.chars().count() as f64
}
