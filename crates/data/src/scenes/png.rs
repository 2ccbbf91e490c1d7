//! Encoding of pictures as PNG.

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder, RgbImage};

use crate::Error;

/// Encodes a picture as PNG: lossless, fast, and the same bytes for the same picture. A picture
/// without pixels is an error.
pub fn encode_png(picture: &RgbImage) -> Result<Vec<u8>, Error> {
    let (width, height) = picture.dimensions();
    // A picture may hold more bytes than it shows.
    let pixels = &picture.as_raw()[..width as usize * height as usize * 3];
    let mut bytes = Vec::with_capacity(pixels.len() / 2 + 1024);
    // One filter for all rows: trying all filters costs more time than it saves bytes.
    PngEncoder::new_with_quality(&mut bytes, CompressionType::Fast, FilterType::Sub)
        .write_image(pixels, width, height, ExtendedColorType::Rgb8)
        .map_err(|error| Error::Argument { name: "picture", what: error.to_string() })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_any_size_come_back_or_are_refused() {
        for (width, height) in [(1, 1), (3, 200), (128, 128)] {
            let mut raw: Vec<u8> = (0..width * height * 3).map(|i| (i * 7 % 251) as u8).collect();
            raw.push(1);
            let picture = RgbImage::from_raw(width, height, raw).unwrap();
            let decoded = image::load_from_memory(&encode_png(&picture).unwrap()).unwrap();
            assert!(decoded.into_rgb8().pixels().eq(picture.pixels()));
        }
        let message = encode_png(&RgbImage::new(0, 3)).unwrap_err().to_string();
        assert!(message.starts_with("picture: "), "{message}");
    }
}
