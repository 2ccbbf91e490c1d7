//! Any bytes as a `.parquet` file: an error or a matrix whose rows can all be read.
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use nextpair_data::parquet;

fuzz_target!(
    init: nextpair_fuzz::end_at_our_panics(),
    |bytes: &[u8]| {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(bytes).expect("room for a temporary file");
        let _ = parquet::read_strings(file.path(), &["id", "uid"]);
        let Ok(table) = parquet::open(file.path()) else { return };
        assert!(table.ids.is_none_or(|ids| ids.len() == table.matrix.rows()));
        nextpair_fuzz::read_all(&table.matrix);
    }
);
