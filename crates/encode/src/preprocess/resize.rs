//! Resizing of pictures.

use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use nextpair_data::picture::{MAX_PIXELS, Picture};

use super::{Filter, Resize};

/// If more source pixels than this become one, whole blocks are averaged first, until at most
/// [`MANY`] are left: the weights of a filter have 16 bits and would round to zero.
const TOO_MANY: f64 = 1024.0;
const MANY: f64 = 256.0;

/// A rectangle of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Area {
    left: u32,
    top: u32,
    width: u32,
    height: u32,
}

/// The source of the pixels of one axis: a start and a length.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: f64,
    length: f64,
}

impl Span {
    fn all(length: u32) -> Self {
        Span { start: 0.0, length: f64::from(length) }
    }

    /// The source of the middle `count` of the `all` pixels that an axis of `length` is resized to.
    /// `all` may be huge: the short side of a line of pixels is one.
    fn middle(count: u32, all: u64, length: u32) -> Self {
        let step = f64::from(length) / all as f64;
        // Half a pixel rounds to even, as in Python.
        let start = ((all - u64::from(count)) as f64 / 2.0).round_ties_even();
        Span { start: start * step, length: f64::from(count) * step }.within(length)
    }

    /// The same span after `block` pixels have become one, `length` in all.
    fn in_blocks(self, block: u32, length: u32) -> Self {
        let block = f64::from(block);
        Span { start: self.start / block, length: self.length / block }.within(length)
    }

    /// Cuts off a rounding error past the end.
    fn within(self, length: u32) -> Self {
        Span { length: self.length.min(f64::from(length) - self.start), ..self }
    }

    /// The number of pixels to average before resizing to `count` pixels.
    fn block(self, count: u32) -> u32 {
        let ratio = self.length / f64::from(count);
        if ratio > TOO_MANY { (ratio / MANY) as u32 } else { 1 }
    }
}

/// Resizes a picture with pixels to `3 * height * width` bytes.
pub(super) fn resize(
    picture: &Picture,
    (height, width): (u32, u32),
    resize: Resize,
    filter: Filter,
) -> Vec<u8> {
    let whole = Area { left: 0, top: 0, width: picture.width, height: picture.height };
    let all = |area: Area| (Span::all(area.width), Span::all(area.height));
    match resize {
        Resize::Squash => scaled(picture, whole, all(whole), (width, height), filter),
        Resize::Crop(part) => {
            let square = centre_square(whole, part);
            scaled(picture, square, all(square), (width, height), filter)
        }
        Resize::ShortSide(side) => {
            // The same pixels as resizing everything and then cutting out the centre, without
            // computing the others.
            let between = with_short_side(whole, side);
            let spans = (
                Span::middle(width, between.0, whole.width),
                Span::middle(height, between.1, whole.height),
            );
            scaled(picture, whole, spans, (width, height), filter)
        }
        Resize::Pad(fill) => {
            let (inner_width, inner_height) = fitting(whole, width, height);
            let pixels = scaled(picture, whole, all(whole), (inner_width, inner_height), filter);
            let mut padded = fill.repeat(width as usize * height as usize);
            let left = (width - inner_width) as usize / 2;
            let top = (height - inner_height) as usize / 2;
            let lines = padded.chunks_exact_mut(3 * width as usize).skip(top);
            for (to, from) in lines.zip(pixels.chunks_exact(3 * inner_width as usize)) {
                to[3 * left..][..from.len()].copy_from_slice(from);
            }
            padded
        }
    }
}

fn centre_square(whole: Area, part: f64) -> Area {
    let side = ((f64::from(whole.width.min(whole.height)) * part) as u32).max(1);
    Area {
        left: (whole.width - side).div_ceil(2),
        top: (whole.height - side).div_ceil(2),
        width: side,
        height: side,
    }
}

/// Width and height with the short side at `side`, the long one rounded down.
fn with_short_side(whole: Area, side: u32) -> (u64, u64) {
    let short = u64::from(whole.width.min(whole.height));
    let sized = |length: u32| u64::from(side) * u64::from(length) / short;
    (sized(whole.width), sized(whole.height))
}

/// The largest width and height of the picture's aspect ratio that fit.
fn fitting(whole: Area, width: u32, height: u32) -> (u32, u32) {
    let scale = f64::min(
        f64::from(width) / f64::from(whole.width),
        f64::from(height) / f64::from(whole.height),
    );
    let side = |long: u32, most: u32| ((f64::from(long) * scale).round() as u32).clamp(1, most);
    (side(whole.width, width), side(whole.height, height))
}

fn algorithm(filter: Filter) -> ResizeAlg {
    match filter {
        Filter::Nearest => ResizeAlg::Nearest,
        Filter::Bilinear => ResizeAlg::Convolution(FilterType::Bilinear),
        Filter::Bicubic => ResizeAlg::Convolution(FilterType::CatmullRom),
        Filter::Lanczos => ResizeAlg::Convolution(FilterType::Lanczos3),
    }
}

/// Crops a picture to an area (pixels outside do not bleed in), and resizes the spans within it.
fn scaled(
    picture: &Picture,
    area: Area,
    (columns, rows): (Span, Span),
    (width, height): (u32, u32),
    filter: Filter,
) -> Vec<u8> {
    let block = (columns.block(width), rows.block(height));
    if filter != Filter::Nearest && block != (1, 1) {
        let small = averaged(picture, area, block);
        let whole = Area { left: 0, top: 0, width: small.width, height: small.height };
        let spans =
            (columns.in_blocks(block.0, small.width), rows.in_blocks(block.1, small.height));
        return scaled(&small, whole, spans, (width, height), filter);
    }
    let source = Pixels { width: picture.width, height: picture.height, bytes: &picture.pixels };
    let (all_columns, all_rows) = (Span::all(area.width), Span::all(area.height));
    let done = (Span::all(width), Span::all(height));
    // Rows first and then columns, as Pillow does: clipping to a byte in between depends on the
    // order. The other way round only if the intermediate picture would be huge.
    if u64::from(width) * u64::from(area.height) <= MAX_PIXELS {
        let bytes = pass(&source, area, (columns, all_rows), (width, area.height), filter);
        let between = Pixels { width, height: area.height, bytes: &bytes };
        pass(&between, between.area(), (done.0, rows), (width, height), filter)
    } else {
        let bytes = pass(&source, area, (all_columns, rows), (area.width, height), filter);
        let between = Pixels { width: area.width, height, bytes: &bytes };
        pass(&between, between.area(), (columns, done.1), (width, height), filter)
    }
}

/// A picture with three bytes per pixel.
struct Pixels<'a> {
    width: u32,
    height: u32,
    bytes: &'a [u8],
}

impl Pixels<'_> {
    fn area(&self) -> Area {
        Area { left: 0, top: 0, width: self.width, height: self.height }
    }
}

/// Averages every block of an area into one pixel; blocks at its right and lower ends may be
/// smaller.
fn averaged(picture: &Picture, area: Area, (columns, rows): (u32, u32)) -> Picture {
    let (width, height) = (area.width.div_ceil(columns), area.height.div_ceil(rows));
    let mut pixels = Vec::with_capacity(3 * width as usize * height as usize);
    let line = |y: u32| {
        let start = y as usize * picture.width as usize + area.left as usize;
        &picture.pixels[3 * start..][..3 * area.width as usize]
    };
    for block in 0..height {
        let lines = area.top + block * rows..area.top + area.height.min((block + 1) * rows);
        let mut sums = vec![[0u64; 3]; width as usize];
        for y in lines.clone() {
            for (sum, block) in sums.iter_mut().zip(line(y).chunks(3 * columns as usize)) {
                for pixel in block.as_chunks::<3>().0 {
                    (0..3).for_each(|colour| sum[colour] += u64::from(pixel[colour]));
                }
            }
        }
        for (x, sum) in (0..width).zip(&sums) {
            let across = area.width.min((x + 1) * columns) - x * columns;
            let count = u64::from(across) * lines.len() as u64;
            pixels.extend(sum.map(|sum| ((sum + count / 2) / count) as u8));
        }
    }
    Picture { width, height, pixels }
}

/// Resizes an area. The pixel type is fixed at compile time: choosing it at run time would compile
/// every type, thirteen times the code.
fn pass(
    source: &Pixels<'_>,
    area: Area,
    (columns, rows): (Span, Span),
    (width, height): (u32, u32),
    filter: Filter,
) -> Vec<u8> {
    let whole = TypedImageRef::<U8x3>::from_buffer(source.width, source.height, source.bytes)
        .expect("a picture has three bytes per pixel");
    let source = TypedCroppedImage::from_ref(&whole, area.left, area.top, area.width, area.height)
        .expect("the area lies within the picture");
    let options = ResizeOptions::new().resize_alg(algorithm(filter)).crop(
        columns.start,
        rows.start,
        columns.length,
        rows.length,
    );
    let mut bytes = vec![0; 3 * width as usize * height as usize];
    let mut target = TypedImage::<U8x3>::from_buffer(width, height, &mut bytes)
        .expect("the bytes are those of the pixels");
    Resizer::new()
        .resize_typed(&source, &mut target, &options)
        .expect("both pictures have three bytes per pixel, and the spans lie within");
    bytes
}
