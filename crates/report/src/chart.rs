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
pub(super) use raster::{SCALE, png};

use super::gallery::jpeg;
use super::page::escaped;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::{Rgb, RgbImage};

/// The width of most charts. Phones show them a little smaller, laptops somewhat larger.
pub(super) const WIDTH: f64 = 440.0;
/// The width of the chart that decides, where there is room.
pub(super) const WIDE: f64 = 720.0;
/// Margin of a standalone file. On the page, the page has one.
const MARGIN: f64 = 14.0;

/// A chart under construction.
#[derive(Clone)]
pub(super) struct Chart {
    /// The base name of its files.
    pub(super) name: String,
    /// A short title.
    title: String,
    /// A text alternative for screen readers.
    description: String,
    /// A second line under the title.
    pub(super) note: String,
    /// What the horizontal axis counts, for charts of lines.
    x_label: String,
    /// The width, [`WIDTH`] for all but the widest.
    pub(super) width: f64,
    /// Names and styles of the series. On the page they are a list beside the drawing, in files a part of it.
    legend: Vec<(String, usize)>,
    pub(super) height: f64,
    body: String,
    /// Pictures of items.
    pub(super) tiles: Vec<Tile>,
}

/// A square picture on a chart.
#[derive(Clone)]
pub(super) struct Tile {
    /// The upper left corner.
    pub(super) place: (f64, f64),
    pub(super) side: f64,
    /// The picture at the size that it has in PNG.
    pub(super) image: RgbImage,
    /// Whether it is shown faintly.
    pub(super) faint: bool,
}

/// The quality of their JPEG.
const QUALITY: u8 = 70;
/// How much of a faint picture shows.
const FAINT: f64 = 0.3;
/// What shows through it in PNG.
const PAPER: f64 = 250.0;

impl Chart {
    /// Creates an empty chart. Its height is set at the end.
    pub(super) fn new(name: &str, title: &str, description: &str) -> Self {
        Chart {
            name: name.to_owned(),
            title: title.to_owned(),
            description: description.to_owned(),
            note: String::new(),
            x_label: String::new(),
            width: WIDTH,
            legend: Vec::new(),
            height: 0.0,
            body: String::new(),
            tiles: Vec::new(),
        }
    }

    /// Returns the chart for a page, which has the style: title, legend and drawing.
    pub(super) fn inline(&self) -> String {
        let note = match self.note.as_str() {
            "" => String::new(),
            note => format!("<p class=\"chart-note\">{}</p>", escaped(note)),
        };
        let key = |(at, (name, style)): (usize, &(String, usize))| {
            let mut swatch = Chart::new("", "", "");
            swatch.line((0.0, 6.0), (22.0, 6.0), &style::line(*style));
            swatch.marker((11.0, 6.0), *style);
            format!(
                "<li data-series=\"{at}\"><svg class=\"chart swatch\" viewBox=\"0 0 22 12\" \
                 aria-hidden=\"true\">{}</svg><span>{}</span></li>",
                swatch.body,
                escaped(name)
            )
        };
        let keys: String = self.legend.iter().enumerate().map(key).collect();
        let legend = match keys.as_str() {
            "" => String::new(),
            keys => format!("<ul class=\"legend\" aria-label=\"Series\">{keys}</ul>"),
        };
        format!(
            "<p class=\"chart-title\">{}</p>{note}{legend}{}",
            escaped(&self.title),
            self.svg(
                &format!(" data-x=\"{}\"", escaped(&self.x_label)),
                "",
                0.0,
                self.height,
                &self.drawing()
            )
        )
    }

    /// Returns the SVG for a file.
    pub(super) fn standalone(&self) -> String {
        let (head, top) = self.head();
        let height = self.height + top;
        let whole = number(height + 2.0 * MARGIN);
        let size = format!("width=\"{}\" height=\"{whole}\"", self.width + 2.0 * MARGIN);
        let background = format!("<rect class=\"paper\" x=\"-{MARGIN}\" y=\"-{MARGIN}\" {size}/>");
        let style = format!("<style>{}</style>{background}", style::resolved());
        let attributes = format!(" xmlns=\"http://www.w3.org/2000/svg\" {size}");
        let drawing = self.drawing();
        let body = format!("{head}<g transform=\"translate(0 {})\">{drawing}</g>", number(top));
        self.svg(&attributes, &style, MARGIN, height, &body)
    }

    /// Returns what a file has above the drawing: title, note and legend; and where the drawing begins.
    fn head(&self) -> (String, f64) {
        let mut head = Chart::new("", "", "");
        head.width = self.width;
        // Where the last line of text stands.
        let mut line = -3.0;
        for (class, text, size) in [("title", &self.title, 13.0), ("note", &self.note, 11.0)] {
            for part in wrapped(text, size, self.width) {
                line += 17.0;
                head.text(0.0, line, class, part);
            }
        }
        let mut top = line + if self.note.is_empty() { 12.0 } else { 11.0 };
        if !self.legend.is_empty() {
            top = head.keys(&self.legend, top + 6.0) + 4.0;
        }
        (head.body, top)
    }

    /// Returns the drawing with its pictures.
    fn drawing(&self) -> String {
        let mut drawing = self.body.clone();
        for Tile { place: (x, y), side, image, faint } in &self.tiles {
            let opacity = if *faint { format!(" opacity=\"{FAINT}\"") } else { String::new() };
            let picture = STANDARD.encode(jpeg(image, QUALITY).unwrap_or_default());
            let (x, y) = (number(*x), number(*y));
            // Writing to a string cannot fail.
            let _ = write!(
                drawing,
                "<image x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\"{opacity} \
                 href=\"data:image/jpeg;base64,{picture}\"/>"
            );
        }
        drawing
    }

    /// Renders the standalone SVG to PNG at twice its size.
    pub(super) fn png(&self) -> Result<Vec<u8>, String> {
        let top = MARGIN + self.head().1;
        let pictures = self.tiles.iter().map(|tile| {
            let mut image = tile.image.clone();
            let mixed =
                |value: &mut u8| *value = (PAPER + FAINT * (f64::from(*value) - PAPER)) as u8;
            if tile.faint {
                image.pixels_mut().for_each(|Rgb(values)| values.iter_mut().for_each(mixed));
            }
            ((MARGIN + tile.place.0, top + tile.place.1), image)
        });
        png(&self.standalone(), pictures)
    }

    fn svg(&self, attributes: &str, style: &str, margin: f64, height: f64, body: &str) -> String {
        let (width, height) = (self.width + 2.0 * margin, number(height + 2.0 * margin));
        let start = number(0.0 - margin);
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
    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
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

    /// Adds an empty square.
    pub(super) fn frame(&mut self, (x, y): (f64, f64), side: f64) {
        let (x, y) = (number(x), number(y));
        self.push(&format!(
            "<rect class=\"frame\" x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\"/>"
        ));
    }

    fn path(&mut self, class: &str, d: &str) {
        let _ = write!(self.body, "<path class=\"{class}\" d=\"{d}\"/>");
    }

    /// Adds a marker. Styles differ in shape as well as colour.
    fn marker(&mut self, at: (f64, f64), style: usize) {
        self.told_marker(at, style, "", "");
    }

    /// Adds a marker with attributes for the script of the page, and what it says when it is pointed at.
    fn told_marker(&mut self, at: (f64, f64), style: usize, attributes: &str, told: &str) {
        let (x, y) = at;
        let d = match style % 4 {
            0 => "a3.3 3.3 0 1 0 6.6 0a3.3 3.3 0 1 0 -6.6 0z".to_owned(),
            1 => "v3h6v-6h-6z".to_owned(),
            2 => "l3.3 -3.9l3.3 3.9l-3.3 3.9z".to_owned(),
            _ => "v3h6.6l-3.3 -6.4l-3.3 6.4z".to_owned(),
        };
        let left = if style % 4 == 1 { x - 3.0 } else { x - 3.3 };
        let d = format!("M{} {}{d}", number(left), number(y));
        let class = format!("marker f{}", style::colour(style));
        let told = match told {
            "" => String::new(),
            told => format!("<title>{}</title>", escaped(told)),
        };
        let _ = write!(self.body, "<path class=\"{class}\" d=\"{d}\"{attributes}>{told}</path>");
    }

    /// Adds a legend in as many rows as needed. Returns its lower end.
    fn keys(&mut self, names: &[(String, usize)], top: f64) -> f64 {
        let (mut x, mut y) = (0.0, top);
        for (name, style) in names {
            let width = 30.0 + text_width(name, 11.5);
            if x > 0.0 && x + width > self.width {
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
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    0.56 * size * text.chars().count() as f64
}

/// Divides a text into lines of at most this width, at spaces. An empty text has none.
pub(super) fn wrapped(text: &str, size: f64, width: f64) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let fits = |end: &usize| text_width(&rest[..*end], size) <= width;
        let ends = rest.match_indices(' ').map(|(at, _)| at).chain([rest.len()]);
        // A word that is too long has a line of its own.
        let first = rest.find(' ').unwrap_or(rest.len());
        let end = ends.take_while(fits).last().unwrap_or(first);
        lines.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_divided_at_spaces() {
        let lines = wrapped("points, text and image added; seeds: all", 10.0, 100.0);
        assert_eq!(lines, ["points, text and", "image added;", "seeds: all"]);
        assert_eq!(
            wrapped("incomprehensibilities of it", 10.0, 50.0),
            ["incomprehensibilities", "of it"]
        );
        assert!(wrapped("", 10.0, 50.0).is_empty());
    }

    #[test]
    fn nothing_in_a_file_is_wider_than_it() {
        let mut chart = Chart::new("long", &"title ".repeat(30), "");
        chart.note = "note ".repeat(50);
        chart.legend = vec![("random".to_owned(), 0)];
        let file = chart.standalone();
        let texts: Vec<&str> = file.split("<text ").skip(1).collect();
        assert!(texts.len() > 5);
        for text in texts {
            let shown = text.split(['>', '<']).nth(1).unwrap();
            let size = if text.contains("\"title\"") { 13.0 } else { 11.0 };
            assert!(text_width(shown, size) <= WIDTH, "{shown}");
        }
    }
}
