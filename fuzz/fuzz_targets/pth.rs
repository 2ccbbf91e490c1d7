//! Any bytes as a checkpoint of PyTorch: an error, or tensors no larger than the file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use nextpair_models::pth;

fuzz_target!(|bytes: &[u8]| {
    let Ok(checkpoint) = pth::from_bytes(Path::new("fuzzed"), bytes) else { return };
    // A number takes at least two bytes in the file.
    let numbers: usize =
        checkpoint.parameters.values().map(|tensor| tensor.shape().iter().product::<usize>()).sum();
    assert!(2 * numbers <= bytes.len());
});
