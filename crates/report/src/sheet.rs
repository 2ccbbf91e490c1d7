//! A contact sheet: samples of a dataset with their captions, in one picture.

use std::fmt::Write;

use crate::card::{Card, HEIGHT, WIDTH};
use crate::chart::{SCALE, png, text_width, wrapped};
use crate::page::escaped;

const COLUMNS: u32 = 4;
const MARGIN: u32 = 16;
const HEAD: u32 = 40;
/// Lines of captions under an image. Captions that do not fit appear on the HTML page only.
const LINES: usize = 6;
const LINE: u32 = 15;
const SIZE: f64 = 12.0;
const CARD_WIDTH: u32 = WIDTH + MARGIN;
const CARD_HEIGHT: u32 = HEIGHT + (LINES as u32 + 1) * LINE + MARGIN;

const PAPER: &str = "#fafaf8";
const FRAME: &str = "#e4e4e0";
const INK: &str = "#222226";
const PALE: &str = "#707078";

/// Draws cards under a line that says what they are, and returns the bytes of a PNG file.
pub fn contact_sheet(head: &str, cards: &[Card]) -> Result<Vec<u8>, String> {
    let rows = (cards.len() as u32).div_ceil(COLUMNS);
    let (width, height) = (COLUMNS * CARD_WIDTH + MARGIN, HEAD + rows * CARD_HEIGHT + MARGIN);
    let units = |pixels: u32| f64::from(pixels) / f64::from(SCALE);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {width} {height}\" \
         font-size=\"{SIZE}\"><rect width=\"{width}\" height=\"{height}\" fill=\"{PAPER}\"/>",
        units(width),
        units(height)
    );
    write_line(&mut svg, head, (MARGIN, MARGIN), INK);
    let mut pictures = Vec::new();
    for (number, card) in (0..).zip(cards) {
        let left = MARGIN + number % COLUMNS * CARD_WIDTH;
        let top = HEAD + number / COLUMNS * CARD_HEIGHT;
        // Writing to a string cannot fail.
        let _ = write!(
            svg,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"{FRAME}\"/>"
        );
        match &card.thumbnail {
            Ok(thumbnail) => {
                let x = left + (WIDTH - thumbnail.width()) / 2;
                let y = top + (HEIGHT - thumbnail.height()) / 2;
                pictures.push(((units(x), units(y)), thumbnail.clone()));
            }
            Err(why) => write_line(&mut svg, why, (left + MARGIN, top + HEIGHT / 2), PALE),
        }
        let split = card.item.split.as_deref().map_or(String::new(), |split| format!("{split}  "));
        let mut y = top + HEIGHT + 4;
        write_line(&mut svg, &cut(&format!("{split}{}", card.item.id)), (left, y), PALE);
        let captions = card.item.captions.iter().map(|caption| format!("- {caption}"));
        let mut lines: Vec<String> = captions.flat_map(|caption| lines(&caption)).collect();
        if lines.len() > LINES {
            lines.truncate(LINES - 1);
            lines.push("…".to_owned());
        }
        for line in lines {
            y += LINE;
            write_line(&mut svg, &line, (left, y), INK);
        }
    }
    png(&(svg + "</svg>"), pictures.into_iter())
}

/// Divides a caption into lines.
fn lines(caption: &str) -> Vec<String> {
    wrapped(caption, SIZE, f64::from(WIDTH)).into_iter().map(cut).collect()
}

/// Cuts what is too long for a card.
fn cut(line: &str) -> String {
    line.chars().take((f64::from(WIDTH) / text_width("x", SIZE)) as usize).collect()
}

/// Writes a line of text with its upper left corner at a point.
fn write_line(svg: &mut String, text: &str, (x, y): (u32, u32), colour: &str) {
    // What XML does not allow.
    let text = text.replace(|c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'), " ");
    let (y, text) = (f64::from(y) + SIZE, escaped(&text));
    let _ = write!(svg, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{text}</text>");
}
