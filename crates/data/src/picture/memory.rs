//! The memory that decoding takes. All decoders of a process together take no more than one large
//! picture may.

use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use image::ColorType;

use crate::Error;

/// Most memory that decoding may take, including the bytes of the file: 600 MiB. A file of a few
/// kilobytes can claim any size, so pictures that need more are refused before anything is
/// allocated for them.
pub const MAX_BYTES: u64 = 600 << 20;

/// Most pixels of any picture: the cheapest kind takes seven bytes per pixel while it is decoded.
pub const MAX_PIXELS: u64 = MAX_BYTES / LEAST;

/// Least bytes per pixel: the decoded pixels, and a copy with or without transparency.
const LEAST: u64 = 4 + 3;

/// Bytes per pixel for pictures that the decoder returns in this colour type: those pixels, and
/// four bytes of RGBA.
pub(super) fn of_colour(colour: ColorType) -> u64 {
    (u64::from(colour.bytes_per_pixel()) + 4).max(LEAST)
}

/// Bytes per pixel for GIF: the canvas, and a frame of at most twice its size.
pub(super) const GIF: u64 = 4 + 8;

/// Bytes per pixel for WebP, which may be an animation: the canvas, a coded frame, its colours,
/// perhaps its transparency before and after decoding, and the pixels that the decoder returns.
pub(super) fn of_webp(colour: ColorType) -> u64 {
    if colour.has_alpha() { 4 + 2 + 4 + 5 + 4 } else { 4 + 2 + 4 + 3 }
}

/// Bytes per pixel for JPEG: a file with several scans keeps two bytes per component until the last
/// scan.
pub(super) fn of_scans(components: u8) -> u64 {
    (3 + 2 * u64::from(components)).max(LEAST)
}

/// Returns the bytes that decoding takes, or an error if they are too many.
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
    if bytes > MAX_BYTES {
        Err(Error::format(
            path,
            format!(
                "{width} x {height} pixels; decoding them takes {bytes} bytes of memory, accepted \
                 are {MAX_BYTES}"
            ),
        ))
    } else {
        Ok(bytes)
    }
}

/// A share of the memory for decoding, released on drop.
pub(super) struct Share<'a> {
    gate: &'a Gate,
    bytes: u64,
}

/// The free memory for decoding.
pub(super) struct Gate {
    free: Mutex<u64>,
    more: Condvar,
}

/// The gate of this process.
pub(super) static GATE: Gate = Gate::new(MAX_BYTES);

impl Gate {
    const fn new(bytes: u64) -> Self {
        Gate { free: Mutex::new(bytes), more: Condvar::new() }
    }

    /// Waits until `bytes` are free. [`check`] has refused requests that could never be granted.
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
