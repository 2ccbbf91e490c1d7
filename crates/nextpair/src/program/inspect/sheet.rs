//! The contact sheet as a PNG image.

use std::convert::Infallible;

use anyhow::{Context, Result};
use embedded_graphics::Drawable;
use embedded_graphics::Pixel;
use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{OriginDimensions, Point, Size};
use embedded_graphics::mono_font::iso_8859_1::{FONT_7X13, FONT_7X13_BOLD};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor};
use embedded_graphics::text::{Baseline, Text};
use image::{ImageFormat, Rgb, RgbImage, imageops};

use super::Inspection;
use crate::program::numbers::grouped;
use crate::report::card::{Card, HEIGHT, WIDTH};

const COLUMNS: u32 = 4;
const MARGIN: u32 = 16;
const HEAD: u32 = 40;
/// Lines of captions under an image. Captions that do not fit appear on the HTML page only.
const LINES: u32 = 6;
const LINE: u32 = 15;
const CARD_WIDTH: u32 = WIDTH + MARGIN;
const CARD_HEIGHT: u32 = HEIGHT + (LINES + 1) * LINE + MARGIN;

const PAPER: Rgb<u8> = Rgb([250, 250, 248]);
const FRAME: Rgb<u8> = Rgb([228, 228, 224]);
const INK: Rgb888 = Rgb888::new(34, 34, 38);
const PALE: Rgb888 = Rgb888::new(112, 112, 120);

/// Draws the sheet and returns the bytes of a PNG file.
pub(super) fn draw(inspection: &Inspection, cards: &[Card]) -> Result<Vec<u8>> {
    let rows = (cards.len() as u32).div_ceil(COLUMNS);
    let size = (COLUMNS * CARD_WIDTH + MARGIN, HEAD + rows * CARD_HEIGHT + MARGIN);
    let mut canvas = Canvas(RgbImage::from_pixel(size.0, size.1, PAPER));
    let synthetic = if inspection.synthetic { ", synthetic" } else { "" };
    let head = format!(
        "{}: {} of {} items{synthetic}",
        inspection.name,
        cards.len(),
        grouped(inspection.items)
    );
    canvas.write(&head, MARGIN, MARGIN, &FONT_7X13_BOLD, INK);
    for (number, card) in cards.iter().enumerate() {
        let (column, row) = (number as u32 % COLUMNS, number as u32 / COLUMNS);
        draw_card(&mut canvas, card, MARGIN + column * CARD_WIDTH, HEAD + row * CARD_HEIGHT);
    }
    let mut bytes = std::io::Cursor::new(Vec::new());
    canvas.0.write_to(&mut bytes, ImageFormat::Png).context("cannot encode the sheet")?;
    Ok(bytes.into_inner())
}

fn draw_card(canvas: &mut Canvas, card: &Card, left: u32, top: u32) {
    for (x, y) in (0..WIDTH).flat_map(|x| (0..HEIGHT).map(move |y| (x, y))) {
        canvas.0.put_pixel(left + x, top + y, FRAME);
    }
    match &card.thumbnail {
        Ok(thumbnail) => {
            let x = left + (WIDTH - thumbnail.width()) / 2;
            let y = top + (HEIGHT - thumbnail.height()) / 2;
            imageops::replace(&mut canvas.0, thumbnail, i64::from(x), i64::from(y));
        }
        Err(why) => canvas.write(why, left + MARGIN, top + HEIGHT / 2, &FONT_7X13, PALE),
    }
    let columns = (WIDTH / 7) as usize;
    let split = card.item.split.as_deref().map_or(String::new(), |split| format!("{split}  "));
    let label: String = format!("{split}{}", card.item.id).chars().take(columns).collect();
    let mut y = top + HEIGHT + 4;
    canvas.write(&label, left, y, &FONT_7X13, PALE);
    let captions = card.item.captions.iter().flat_map(|caption| wrapped(caption, columns));
    let mut lines: Vec<String> = captions.take(LINES as usize + 1).collect();
    if lines.len() > LINES as usize {
        lines.truncate(LINES as usize - 1);
        lines.push("  ...".to_owned());
    }
    for line in lines {
        y += LINE;
        canvas.write(&line, left, y, &FONT_7X13, INK);
    }
}

/// Wraps a caption into lines of at most `columns` characters. The first line starts with a dash.
fn wrapped(caption: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = "-".to_owned();
    for word in caption.split_whitespace() {
        let word: String = word.chars().take(columns - 2).collect();
        if line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(std::mem::replace(&mut line, " ".to_owned()));
        }
        line.push(' ');
        line.push_str(&word);
    }
    lines.push(line);
    lines
}

/// An image with text drawing.
struct Canvas(RgbImage);

impl Canvas {
    fn write(&mut self, text: &str, x: u32, y: u32, font: &MonoFont<'_>, colour: Rgb888) {
        let style = MonoTextStyle::new(font, colour);
        let place = Point::new(x as i32, y as i32);
        let Ok(_) = Text::with_baseline(text, place, style, Baseline::Top).draw(self);
    }
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        Size::new(self.0.width(), self.0.height())
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(
        &mut self,
        pixels: I,
    ) -> Result<(), Infallible> {
        for Pixel(place, colour) in pixels {
            let (Ok(x), Ok(y)) = (u32::try_from(place.x), u32::try_from(place.y)) else { continue };
            if let Some(pixel) = self.0.get_pixel_mut_checked(x, y) {
                *pixel = Rgb([colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}
