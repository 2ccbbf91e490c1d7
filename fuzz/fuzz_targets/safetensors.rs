//! Any bytes as a `.safetensors` file: an error, or tensors that can all be read.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use nextpair_data::safetensors::SafetensorsFile;

fuzz_target!(
    init: nextpair_fuzz::end_at_our_panics(),
    |bytes: &[u8]| {
        let Ok(file) = SafetensorsFile::from_bytes(Path::new("fuzz"), bytes.to_vec()) else {
            return;
        };
        file.metadata();
        for name in file.names() {
            let _ = file.f64s(&name);
            let _ = file.i64s(&name);
            if let Ok(matrix) = file.matrix(Some(&name)) {
                nextpair_fuzz::read_all(&matrix);
            }
        }
    }
);
