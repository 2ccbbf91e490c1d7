//! Any bytes as a `.npy` file: an error or a matrix whose rows can all be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nextpair_data::npy;

fuzz_target!(|bytes: &[u8]| {
    let Ok(matrix) = npy::from_bytes(bytes.to_vec()) else { return };
    nextpair_fuzz::read_all(&matrix);
});
