//! Rasterises SVG to PNG.

use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// Pixels per unit.
const SCALE: f32 = 2.0;

/// Renders one of our charts to PNG. The font is embedded, so that the result is the same
/// everywhere.
pub(super) fn png(svg: &str) -> Result<Vec<u8>, String> {
    let options = Options { fontdb: fonts(), font_family: FAMILY.to_owned(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|e| e.to_string())?;
    let size = tree.size();
    let side = |length: f32| (length * SCALE).ceil() as u32;
    let mut pixels =
        Pixmap::new(side(size.width()), side(size.height())).ok_or("an empty drawing")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| e.to_string())
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
