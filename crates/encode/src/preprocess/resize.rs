//! Pixels of one size from pixels of another.

use fast_image_resize::images::{CroppedImage, Image, ImageRef};
use fast_image_resize::{FilterType, IntoImageView, PixelType, ResizeAlg, ResizeOptions, Resizer};
use nextpair_data::picture::{MAX_PIXELS, Picture};

use super::{Filter, Resize};

/// A rectangle of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Area {
    left: u32,
    top: u32,
    width: u32,
    height: u32,
}

/// Where the pixels of one axis come from: this far in, over this length.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: f64,
    length: f64,
}

impl Span {
    fn all(length: u32) -> Self {
        Span { start: 0.0, length: f64::from(length) }
    }

    /// The place of some of the `all` pixels that an axis of `length` is resized to.
    fn of(start: u32, count: u32, all: u32, length: u32) -> Self {
        let step = f64::from(length) / f64::from(all);
        Span { start: f64::from(start) * step, length: f64::from(count) * step }
    }
}

/// `3 * height * width` bytes.
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
            // The pixels that resizing everything and then cutting out the centre would give,
            // without making the others.
            let between = with_short_side(whole, side);
            let area = centre(between, width, height);
            let spans = (
                Span::of(area.left, width, between.0, whole.width),
                Span::of(area.top, height, between.1, whole.height),
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
fn with_short_side(whole: Area, side: u32) -> (u32, u32) {
    let (width, height) = (u64::from(whole.width), u64::from(whole.height));
    let longer = |long: u64, short: u64| (u64::from(side) * long / short) as u32;
    if width <= height { (side, longer(height, width)) } else { (longer(width, height), side) }
}

/// The middle, half a pixel going to the even side as Python rounds.
fn centre(all: (u32, u32), width: u32, height: u32) -> Area {
    let start = |all: u32, part: u32| (f64::from(all - part) / 2.0).round_ties_even() as u32;
    Area { left: start(all.0, width), top: start(all.1, height), width, height }
}

/// The largest width and height of the picture's shape that fit.
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

/// One area of a picture as if it were all there is, pixels outside do not bleed in, and of that
/// the pixels between the spans.
fn scaled(
    picture: &Picture,
    area: Area,
    (columns, rows): (Span, Span),
    (width, height): (u32, u32),
    filter: Filter,
) -> Vec<u8> {
    let source = ImageRef::new(picture.width, picture.height, &picture.pixels, PixelType::U8x3)
        .expect("a picture has three bytes per pixel");
    let source = CroppedImage::new(&source, area.left, area.top, area.width, area.height)
        .expect("the area lies within the picture");
    let (all_columns, all_rows) = (Span::all(area.width), Span::all(area.height));
    let done = (Span::all(width), Span::all(height));
    // Lines first and then columns, as Pillow does with all but tall pictures: what is clipped to a byte in between depends
    // on it. Only where that would take a huge picture in between, the other way round.
    if u64::from(width) * u64::from(area.height) <= MAX_PIXELS {
        let between = pass(&source, (columns, all_rows), (width, area.height), filter);
        pass(&between, (done.0, rows), (width, height), filter).into_vec()
    } else {
        let between = pass(&source, (all_columns, rows), (area.width, height), filter);
        pass(&between, (columns, done.1), (width, height), filter).into_vec()
    }
}

fn pass(
    source: &impl IntoImageView,
    (columns, rows): (Span, Span),
    (width, height): (u32, u32),
    filter: Filter,
) -> Image<'static> {
    let options = ResizeOptions::new().resize_alg(algorithm(filter)).crop(
        columns.start,
        rows.start,
        columns.length,
        rows.length,
    );
    let mut target = Image::new(width, height, PixelType::U8x3);
    Resizer::new()
        .resize(source, &mut target, &options)
        .expect("both pictures have three bytes per pixel, and the spans lie within");
    target
}
