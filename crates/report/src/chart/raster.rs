//! Rasterises SVG to PNG, and puts pictures into it.

use std::io::Cursor;
use std::sync::{Arc, OnceLock};

use image::imageops::overlay;
use image::{DynamicImage, ImageFormat, RgbImage};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// Pixels per unit.
pub(crate) const SCALE: f32 = 2.0;

/// Renders one of our charts to PNG. The font is embedded, so that the result is the same
/// everywhere. Pictures are put on top of it, each with its upper left corner at a point.
pub(crate) fn png(
    svg: &str,
    pictures: impl Iterator<Item = ((f64, f64), RgbImage)>,
) -> Result<Vec<u8>, String> {
    let options = Options { fontdb: fonts(), font_family: FAMILY.to_owned(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|e| e.to_string())?;
    let size = tree.size();
    let side = |length: f32| (length * SCALE).ceil() as u32;
    let mut pixels =
        Pixmap::new(side(size.width()), side(size.height())).ok_or("an empty drawing")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    let png = pixels.encode_png().map_err(|e| e.to_string())?;
    let mut pictures = pictures.peekable();
    if pictures.peek().is_none() {
        return Ok(png);
    }
    let whole = image::load_from_memory(&png).map_err(|e| e.to_string())?;
    let mut whole = whole.into_rgb8();
    for ((x, y), picture) in pictures {
        let pixel = |at: f64| (f64::from(SCALE) * at).round() as i64;
        overlay(&mut whole, &picture, pixel(x), pixel(y));
    }
    let mut png = Cursor::new(Vec::new());
    let written = DynamicImage::ImageRgb8(whole).write_to(&mut png, ImageFormat::Png);
    written.map_err(|e| e.to_string())?;
    Ok(png.into_inner())
}

const FAMILY: &str = "DejaVu Sans";

fn fonts() -> Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    let load = || {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(dejavu::sans::regular().to_vec());
        fonts.set_sans_serif_family(FAMILY);
        Arc::new(fonts)
    };
    FONTS.get_or_init(load).clone()
}
