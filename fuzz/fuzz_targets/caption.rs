//! Any text as a caption: tokens that are not empty and hold no spaces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nextpair_data::text;

fuzz_target!(|caption: &str| {
    for token in text::tokenize(caption) {
        assert!(!token.is_empty() && !token.contains(' '));
    }
});
