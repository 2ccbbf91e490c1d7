//! Picture files: their headers and their pixels.
//!
//! The formats are JPEG, PNG, WebP, GIF and BMP, detected by the first bytes and not by the name. A
//! decoded picture has three bytes per pixel. It is the first frame of an animation, rotated as its
//! EXIF orientation asks, with palettes, grey and CMYK converted to RGB, 16 bits rounded to 8, and
//! transparency blended over white.
//!
//! A truncated file is an error, never a picture with grey in it, even if a proper end was put
//! after the cut. Two kinds of damage go undetected: a progressive JPEG file without its last
//! scans, which is a whole picture with less detail, and changed bytes that are still valid, where
//! the format has no checksum.

mod ending;
mod jpeg;
mod memory;

use std::io::{BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};

use crate::guard::guard;
use crate::{Error, ordinary};

pub use memory::{MAX_BYTES, MAX_PIXELS};

/// Memory that decoders may allocate beyond pixels: colour profiles, comments, tables.
const BESIDE: u64 = 64 << 20;

/// A decoded picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Pixels per row.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
    /// Red, green and blue of every pixel, row by row from the top: `3 * width * height` bytes.
    pub pixels: Vec<u8>,
}

/// The header of a picture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The file format.
    pub format: Format,
    /// Pixels per row as stored, before any EXIF orientation is applied.
    pub width: u32,
    /// Number of rows as stored.
    pub height: u32,
}

/// The formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Baseline and progressive.
    Jpeg,
    /// Every colour type and depth.
    Png,
    /// Lossy and lossless.
    WebP,
    /// The first frame.
    Gif,
    /// Windows bitmaps.
    Bmp,
}

impl Format {
    /// The ending of file names.
    pub fn ending(self) -> &'static str {
        match self {
            Format::Jpeg => "jpg",
            Format::Png => "png",
            Format::WebP => "webp",
            Format::Gif => "gif",
            Format::Bmp => "bmp",
        }
    }
}

/// Reads the first and the last bytes of a file: format, size, and whether its end is there. It
/// decodes nothing, so damage in the middle goes undetected.
pub fn probe(path: &Path) -> Result<Header, Error> {
    probe_from(path, ordinary::open(path)?)
}

/// Like [`probe`], for a file that is open or in memory; errors name `path`. The final position of
/// the reader is unspecified.
pub fn probe_from(path: &Path, reader: impl Read + Seek) -> Result<Header, Error> {
    Ok(look(path, &mut BufReader::new(reader))?.0)
}

/// Like [`probe`], for a file in memory; errors name `path`.
pub fn probe_bytes(path: &Path, bytes: &[u8]) -> Result<Header, Error> {
    Ok(look(path, &mut Cursor::new(bytes))?.0)
}

/// Reads and decodes a file. Waits for other decoding threads until there is memory for the file
/// and its pixels, and only then reads it.
pub fn read(path: &Path) -> Result<Picture, Error> {
    decode_from(path, ordinary::open(path)?)
}

/// Like [`read`], for an open file; errors name `path`.
pub fn decode_from(path: &Path, mut file: impl Read + Seek) -> Result<Picture, Error> {
    let fail = |e| Error::io(path, e);
    let (header, needed) = look(path, &mut BufReader::new(&mut file))?;
    let _share = memory::GATE.take(needed);
    let length = file.seek(SeekFrom::End(0)).map_err(fail)?;
    file.seek(SeekFrom::Start(0)).map_err(fail)?;
    let mut bytes = Vec::new();
    // Bytes appended meanwhile do not belong to this picture.
    file.take(length.min(needed)).read_to_end(&mut bytes).map_err(fail)?;
    decode_as(path, &bytes, header)
}

/// Decodes a file in memory; errors name `path`. Waits for other decoding threads until there is
/// memory.
pub fn decode(path: &Path, bytes: &[u8]) -> Result<Picture, Error> {
    let (header, needed) = look(path, &mut Cursor::new(bytes))?;
    let _share = memory::GATE.take(needed);
    decode_as(path, bytes, header)
}

fn decode_as(path: &Path, bytes: &[u8], header: Header) -> Result<Picture, Error> {
    guard(path, || {
        let (picture, orientation) = match header.format {
            Format::Jpeg => jpeg::decode(bytes),
            _ => decode_other(bytes, header),
        }
        .map_err(|what| Error::format(path, format!("damaged: {what}")))?;
        Ok(upright(picture, orientation))
    })
}

/// The header of a file, and the bytes that decoding it takes.
fn look(path: &Path, reader: &mut (impl BufRead + Seek)) -> Result<(Header, u64), Error> {
    let length = reader.seek(SeekFrom::End(0)).map_err(|e| Error::io(path, e))?;
    reader.seek(SeekFrom::Start(0)).map_err(|e| Error::io(path, e))?;
    let format = format(path, reader)?;
    let ((width, height), per_pixel) = guard(path, || {
        match format {
            Format::Jpeg => jpeg::size(&mut *reader),
            _ => other_size(&mut *reader, format),
        }
        .map_err(|what| Error::format(path, format!("damaged: {what}")))
    })?;
    let needed = memory::check(path, (width, height), per_pixel, length)?;
    if !ending::is_there(format, reader).map_err(|e| Error::io(path, e))? {
        return Err(Error::format(path, "damaged: the file is cut off"));
    }
    Ok((Header { format, width, height }, needed))
}

/// Detects the format by the first bytes, without consuming them.
fn format(path: &Path, reader: &mut impl BufRead) -> Result<Format, Error> {
    let start = reader.fill_buf().map_err(|e| Error::io(path, e))?;
    Ok(match image::guess_format(start) {
        Ok(ImageFormat::Jpeg) => Format::Jpeg,
        Ok(ImageFormat::Png) => Format::Png,
        Ok(ImageFormat::WebP) => Format::WebP,
        Ok(ImageFormat::Gif) => Format::Gif,
        Ok(ImageFormat::Bmp) => Format::Bmp,
        _ if start.is_empty() => return Err(Error::format(path, "the file is empty")),
        _ => return Err(Error::format(path, "not a JPEG, PNG, WebP, GIF or BMP picture")),
    })
}

/// Width and height, and the bytes per pixel that decoding takes.
fn other_size(reader: impl BufRead + Seek, format: Format) -> Result<((u32, u32), u64), String> {
    let decoder = decoder(reader, BESIDE)?;
    let per_pixel = match format {
        Format::Gif => memory::GIF,
        Format::WebP => memory::of_webp(decoder.color_type()),
        _ => memory::of_colour(decoder.color_type()),
    };
    Ok((decoder.dimensions(), per_pixel))
}

fn decoder<'a>(
    reader: impl BufRead + Seek + 'a,
    allocates: u64,
) -> Result<impl ImageDecoder + 'a, String> {
    let mut limits = Limits::default();
    limits.max_alloc = Some(allocates);
    let mut reader = ImageReader::new(reader).with_guessed_format().map_err(|e| e.to_string())?;
    reader.limits(limits);
    reader.into_decoder().map_err(|e| e.to_string())
}

fn decode_other(bytes: &[u8], header: Header) -> Result<(RgbImage, Orientation), String> {
    let allocates = match header.format {
        // A frame need not lie within the canvas; memory::GIF leaves this much for it.
        Format::Gif => 8 * u64::from(header.width) * u64::from(header.height),
        _ => BESIDE,
    };
    let mut decoder = decoder(Cursor::new(bytes), allocates)?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let picture = DynamicImage::from_decoder(decoder).map_err(|e| e.to_string())?;
    Ok((over_white(picture), orientation))
}

fn over_white(picture: DynamicImage) -> RgbImage {
    if !picture.color().has_alpha() {
        return picture.into_rgb8();
    }
    let picture = picture.into_rgba8();
    let mut opaque = RgbImage::new(picture.width(), picture.height());
    for (to, from) in opaque.pixels_mut().zip(picture.pixels()) {
        let [red, green, blue, alpha] = from.0.map(u32::from);
        let blend = |colour: u32| ((colour * alpha + 255 * (255 - alpha) + 127) / 255) as u8;
        to.0 = [blend(red), blend(green), blend(blue)];
    }
    opaque
}

fn upright(picture: RgbImage, orientation: Orientation) -> Picture {
    let mut picture = DynamicImage::ImageRgb8(picture);
    picture.apply_orientation(orientation);
    let (width, height) = (picture.width(), picture.height());
    Picture { width, height, pixels: picture.into_rgb8().into_raw() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;

    const PROGRESSIVE: &[u8] = include_bytes!("../tests/fixtures/pictures/progressive.jpg");
    const GREY: &[u8] = include_bytes!("../tests/fixtures/pictures/grey.jpg");
    const CMYK: &[u8] = include_bytes!("../tests/fixtures/pictures/cmyk.jpg");
    const PALETTE: &[u8] = include_bytes!("../tests/fixtures/pictures/palette.png");
    const GREY16: &[u8] = include_bytes!("../tests/fixtures/pictures/grey16.png");
    const ANIMATED: &[u8] = include_bytes!("../tests/fixtures/pictures/palette.gif");
    const LOSSLESS: &[u8] = include_bytes!("../tests/fixtures/pictures/lossless.webp");
    const LOSSY: &[u8] = include_bytes!("../tests/fixtures/pictures/lossy.webp");

    fn decoded(bytes: &[u8]) -> Result<Picture, Error> {
        decode(Path::new("a.jpg"), bytes)
    }

    /// A picture of 3 x 2 pixels with a different colour everywhere.
    fn colours() -> RgbImage {
        RgbImage::from_fn(3, 2, |x, y| image::Rgb([x as u8 * 100, y as u8 * 200, 30]))
    }

    fn encoded(picture: &RgbImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    fn every_format() -> Vec<(Format, Vec<u8>)> {
        // Noise, so that a cut anywhere loses something.
        let mut state = 1u32;
        let picture = RgbImage::from_fn(40, 30, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            image::Rgb([(state >> 8) as u8, (state >> 16) as u8, (state >> 24) as u8])
        });
        [
            (Format::Jpeg, ImageFormat::Jpeg),
            (Format::Png, ImageFormat::Png),
            (Format::WebP, ImageFormat::WebP),
            (Format::Gif, ImageFormat::Gif),
            (Format::Bmp, ImageFormat::Bmp),
        ]
        .map(|(ours, theirs)| (ours, encoded(&picture, theirs)))
        .into()
    }

    #[test]
    fn the_content_decides_the_format() {
        for (format, bytes) in every_format() {
            let header = probe_bytes(Path::new("wrong.name"), &bytes).unwrap();
            assert_eq!(header, Header { format, width: 40, height: 30 });
            let picture = decoded(&bytes).unwrap();
            assert_eq!((picture.width, picture.height), (40, 30));
            assert_eq!(picture.pixels.len(), 3 * 40 * 30);
        }
        let png = decoded(&encoded(&colours(), ImageFormat::Png)).unwrap();
        assert_eq!(png.pixels, colours().into_raw());
    }

    #[test]
    fn every_kind_of_colour_becomes_rgb() {
        for (bytes, left, right) in [
            (PROGRESSIVE, [200, 30, 60], [20, 90, 220]),
            (LOSSY, [200, 30, 60], [20, 90, 220]),
            (GREY, [40; 3], [210; 3]),
            (CMYK, [255, 0, 0], [0, 204, 204]),
            (GREY16, [0; 3], [255; 3]),
            (ANIMATED, [255, 0, 0], [0, 0, 255]),
            // The right half is transparent.
            (PALETTE, [255, 0, 0], [255; 3]),
            (LOSSLESS, [255, 0, 0], [255; 3]),
        ] {
            let picture = decoded(bytes).unwrap();
            assert_eq!((picture.width, picture.height), (16, 12));
            let row = &picture.pixels[5 * 3 * 16..];
            for (x, expected) in [(2, left), (13, right)] {
                let found = &row[3 * x..][..3];
                let close = found.iter().zip(expected).all(|(&f, e)| f.abs_diff(e) <= 2);
                assert!(close, "{found:?} instead of {expected:?}");
            }
        }
    }

    #[test]
    fn nothing_cut_off_is_accepted() {
        for (_, bytes) in every_format() {
            damage::truncate(&bytes, |part| decoded(part).is_ok());
            let half = probe_bytes(Path::new("a.jpg"), &bytes[..bytes.len() / 2]);
            let what = half.unwrap_err().to_string();
            assert!(what.starts_with("a.jpg: damaged: "), "{what}");
        }
        damage::truncate(PROGRESSIVE, |part| decoded(part).is_ok());
    }

    #[test]
    fn a_little_after_the_end_is_tolerated() {
        for (format, mut bytes) in every_format() {
            bytes.extend(vec![0; 3000]);
            assert_eq!(probe_bytes(Path::new("a"), &bytes).unwrap().format, format);
            decoded(&bytes).unwrap();
        }
    }

    #[test]
    fn a_bomb_is_refused_by_its_header() {
        let mut bmp = encoded(&colours(), ImageFormat::Bmp);
        bmp[18..26].copy_from_slice(&[0, 0x40, 0, 0, 0, 0x40, 0, 0]);
        let what = decoded(&bmp).unwrap_err().to_string();
        assert!(what.contains("16384 x 16384 pixels; decoding them takes 1879048"), "{what}");
    }

    /// The header of a PNG file of some size and colour type, without pixels.
    fn png_of(width: u32, height: u32, bits: u8, colour: u8) -> Vec<u8> {
        let mut header = vec![b'I', b'H', b'D', b'R'];
        header.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
        header.extend([bits, colour, 0, 0, 0]);
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0d".to_vec();
        bytes.extend(&header);
        bytes.extend(crc32(&header).to_be_bytes());
        let empty = |kind: &[u8; 4]| [&[0; 4], &kind[..], &crc32(kind).to_be_bytes()].concat();
        [bytes, empty(b"IDAT"), empty(b"IEND")].concat()
    }

    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
        })
    }

    #[test]
    fn what_counts_is_bytes_and_not_pixels() {
        let probe = |width, height, bits, colour| {
            probe_bytes(Path::new("a.png"), &png_of(width, height, bits, colour))
        };
        // Eighty megapixels: three bytes each, or eight.
        probe(10_000, 8_000, 8, 2).unwrap();
        let what = probe(10_000, 8_000, 16, 6).unwrap_err().to_string();
        assert!(what.contains("10000 x 8000 pixels; decoding them takes 960000"), "{what}");
    }

    #[test]
    fn a_frame_larger_than_its_canvas_is_refused() {
        let mut gif = encoded(&colours(), ImageFormat::Gif);
        let frame = gif.windows(9).position(|part| part == [0x2c, 0, 0, 0, 0, 3, 0, 2, 0]).unwrap();
        gif[frame + 5..frame + 9].copy_from_slice(&[0, 0x40, 0, 0x40]);
        assert!(decoded(&gif).is_err());
    }

    #[test]
    fn foreign_files_are_named() {
        for (bytes, expected) in [
            (&b""[..], "a.jpg: the file is empty"),
            (b"<html>not found</html>", "a.jpg: not a JPEG, PNG, WebP, GIF or BMP picture"),
        ] {
            assert_eq!(decoded(bytes).unwrap_err().to_string(), expected);
        }
        let missing = read(Path::new("no/such.jpg")).unwrap_err();
        assert!(matches!(missing, Error::Io { .. }), "{missing}");
    }

    #[test]
    fn damaged_files_never_panic() {
        let small = every_format().into_iter().map(|(_, bytes)| bytes);
        let made = [PROGRESSIVE, GREY, CMYK, PALETTE, GREY16, ANIMATED, LOSSLESS, LOSSY];
        for bytes in small.chain(made.map(<[u8]>::to_vec)) {
            damage::mutate(&bytes, 300, |copy| decoded(copy).is_ok());
        }
    }
}
