//! JPEG, by calling its decoder directly: only there is an option to refuse truncated or damaged
//! files. By default the decoder fills missing parts with grey. [`coded`] finds the gaps that it
//! fills even so.

mod coded;

use std::io::Cursor;

use image::RgbImage;
use image::metadata::Orientation;
use zune_core::bytestream::ZByteReaderTrait;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::memory;

fn strict() -> DecoderOptions {
    DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .jpeg_set_out_colorspace(ColorSpace::RGB)
}

/// Width and height, and the bytes per pixel that decoding takes.
pub(super) fn size(reader: impl ZByteReaderTrait) -> Result<((u32, u32), u64), String> {
    let mut decoder = JpegDecoder::new_with_options(reader, strict());
    decoder.decode_headers().map_err(|e| e.to_string())?;
    let (width, height) = decoder.dimensions().ok_or("no frame header")?;
    let info = decoder.info().ok_or("no frame header")?;
    Ok(((width as u32, height as u32), memory::of_scans(info.components)))
}

pub(super) fn decode(bytes: &[u8]) -> Result<(RgbImage, Orientation), String> {
    let mut decoder = JpegDecoder::new_with_options(Cursor::new(bytes), strict());
    let pixels = decoder.decode().map_err(|e| e.to_string())?;
    if !coded::is_complete(bytes) {
        return Err("its coded data ends too early".into());
    }
    let (width, height) = decoder.dimensions().ok_or("no frame header")?;
    let picture = RgbImage::from_raw(width as u32, height as u32, pixels);
    let orientation = decoder.exif().and_then(|exif| Orientation::from_exif_chunk(exif));
    Ok((
        picture.ok_or("fewer pixels than its size asks for")?,
        orientation.unwrap_or(Orientation::NoTransforms),
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use image::ImageFormat;

    use super::super::{decode, probe_bytes};
    use super::*;

    fn grey(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        let picture = RgbImage::from_pixel(width, height, image::Rgb([9; 3]));
        picture.write_to(&mut bytes, ImageFormat::Jpeg).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn exif_orientation_is_applied() {
        // A rotation by 90 degrees: the stored top belongs on the right.
        let jpeg = grey(24, 16);
        let exif = b"\xff\xe1\x00\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let turned = [&jpeg[..2], exif, &jpeg[2..]].concat();
        assert_eq!(probe_bytes(Path::new("a"), &turned).unwrap().width, 24);
        let picture = decode(Path::new("a"), &turned).unwrap();
        assert_eq!((picture.width, picture.height), (16, 24));
    }

    #[test]
    fn a_proper_end_after_a_cut_does_not_help() {
        let jpeg = grey(240, 160);
        let early = [&jpeg[..jpeg.len() - 20], &[0xff, 0xd9]].concat();
        let what = decode(Path::new("a"), &early).unwrap_err().to_string();
        assert_eq!(what, "a: damaged: its coded data ends too early");
    }

    #[test]
    fn a_bomb_is_refused_by_its_header() {
        let mut jpeg = grey(3, 2);
        let frame = jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
        jpeg[frame + 5..frame + 9].fill(0xff);
        let what = decode(Path::new("a"), &jpeg).unwrap_err().to_string();
        assert!(what.contains("65535 x 65535 pixels"), "{what}");
    }
}
