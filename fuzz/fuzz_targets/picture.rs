//! Any bytes as an image file: an error, or as many pixels as the header says.
#![no_main]

use std::path::Path;

use libfuzzer_sys::{fuzz_target, Corpus};
use nextpair_data::picture;

fuzz_target!(init: nextpair_fuzz::end_at_our_panics(), |bytes: &[u8]| -> Corpus {
    let path = Path::new("fuzzed");
    // Huge pictures are allowed, but decoding them would only make fuzzing slow.
    match picture::probe_bytes(path, bytes) {
        Ok(header) if u64::from(header.width) * u64::from(header.height) > 1 << 20 => {
            return Corpus::Reject;
        }
        _ => {}
    }
    if let Ok(picture) = picture::decode(path, bytes) {
        let pixels = 3 * picture.width as usize * picture.height as usize;
        assert_eq!(picture.pixels.len(), pixels);
    }
    Corpus::Keep
});
