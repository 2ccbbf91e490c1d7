//! How much memory decoding takes, and that all decoders of a process together take no more than
//! one large picture.

use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use image::ColorType;

use crate::Error;

/// The most memory that decoding may take, the bytes of the file included: 600 MiB. A file of a
/// few kilobytes can claim to be any size, so pictures that need more are refused before anything
/// is allocated for them.
pub const MAX_BYTES: u64 = 600 << 20;

/// No picture has more pixels: the cheapest kind takes seven bytes for each while it is decoded.
pub const MAX_PIXELS: u64 = MAX_BYTES / LEAST;

/// The decoded pixels, and a copy of another kind: with transparency and without.
const LEAST: u64 = 4 + 3;

/// Bytes per pixel for pictures that the decoder returns in some kind of colour: what it returns,
/// and four bytes of red, green, blue and transparency.
pub(super) fn of_colour(colour: ColorType) -> u64 {
    (u64::from(colour.bytes_per_pixel()) + 4).max(LEAST)
}

/// Bytes per pixel for GIF: the canvas, and a frame of twice its size at most.
pub(super) const GIF: u64 = 4 + 8;

/// Bytes per pixel for WebP, which may be an animation: the canvas, a frame as it is coded, as
/// colours and maybe its transparency before and after decoding, and what the decoder returns.
pub(super) fn of_webp(colour: ColorType) -> u64 {
    if colour.has_alpha() { 4 + 2 + 4 + 5 + 4 } else { 4 + 2 + 4 + 3 }
}

/// Bytes per pixel for JPEG: files that come in several scans keep two bytes of every component
/// until the last one.
pub(super) fn of_scans(components: u8) -> u64 {
    (3 + 2 * u64::from(components)).max(LEAST)
}

/// An error unless a picture of this size can be decoded.
pub(super) fn check(
    path: &Path,
    (width, height): (u32, u32),
    per_pixel: u64,
    file: u64,
) -> Result<u64, Error> {
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(Error::format(path, format!("{width} x {height} pixels; there is none")));
    }
    let bytes = pixels.saturating_mul(per_pixel).saturating_add(file);
    match bytes > MAX_BYTES {
        true => Err(Error::format(
            path,
            format!(
                "{width} x {height} pixels; decoding them takes {bytes} bytes of memory, accepted \
                 are {MAX_BYTES}"
            ),
        )),
        false => Ok(bytes),
    }
}

/// A share of the memory for decoding; given back when it is dropped.
pub(super) struct Share<'a> {
    gate: &'a Gate,
    bytes: u64,
}

/// The memory for decoding that is free.
pub(super) struct Gate {
    free: Mutex<u64>,
    more: Condvar,
}

/// Of the process.
pub(super) static GATE: Gate = Gate::new(MAX_BYTES);

impl Gate {
    const fn new(bytes: u64) -> Self {
        Gate { free: Mutex::new(bytes), more: Condvar::new() }
    }

    /// Waits until so much is free. [`check`] refuses what could never be.
    pub(super) fn take(&self, bytes: u64) -> Share<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let enough = self.more.wait_while(free, |free| *free < bytes);
        *enough.unwrap_or_else(PoisonError::into_inner) -= bytes;
        Share { gate: self, bytes }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        *self.gate.free.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.gate.more.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn pictures_are_bounded_by_bytes() {
        let path = Path::new("a.png");
        let ten_thousand = (10_000, 10_000);
        for colour in [ColorType::Rgb16, ColorType::Rgba16, ColorType::La16, ColorType::Rgb8] {
            let what = check(path, ten_thousand, of_colour(colour), 0).unwrap_err().to_string();
            assert!(what.starts_with("a.png: 10000 x 10000 pixels; decoding"), "{what}");
        }
        // The largest of common cameras.
        check(path, (9504, 6336), of_scans(3), 60 << 20).unwrap();
        check(path, (9504, 6336), of_colour(ColorType::Rgb8), 180 << 20).unwrap();
        assert!(check(path, (9504, 6336), of_colour(ColorType::Rgb8), 400 << 20).is_err());
        assert!(check(path, (u32::MAX, u32::MAX), u64::MAX, u64::MAX).is_err());
        assert!(check(path, (0, 5), 7, 0).is_err());
    }

    #[test]
    fn decoders_together_take_no_more_than_there_is() {
        let (gate, taken) = (Gate::new(10), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for bytes in [1, 10, 4, 7, 3, 10, 5, 2] {
                let (gate, taken) = (&gate, &taken);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let share = gate.take(bytes);
                        assert!(taken.fetch_add(bytes, Ordering::SeqCst) + bytes <= 10);
                        std::thread::yield_now();
                        taken.fetch_sub(bytes, Ordering::SeqCst);
                        drop(share);
                    }
                });
            }
        });
        assert_eq!(*gate.free.lock().unwrap(), 10);
    }
}
