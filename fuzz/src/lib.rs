//! What the fuzz targets share. To run one, from the root of the repository:
//!
//! ```text
//! mkdir -p fuzz/corpus/npy
//! cargo fuzz run --sanitizer none npy fuzz/corpus/npy fuzz/seeds/npy -- -max_total_time=60
//! ```
//!
//! With a nightly toolchain, `cargo +nightly fuzz run npy ...` adds the address sanitizer.

use nextpair_data::Matrix;

/// Reads every row. A matrix without rows may declare any length for them.
pub fn read_all(matrix: &Matrix) {
    if matrix.rows() == 0 {
        return;
    }
    let mut numbers = vec![0.0; matrix.locals() * matrix.dim()];
    for row in 0..matrix.rows() {
        matrix.read_f64(row, &mut numbers);
    }
}

/// Lets panics of the decoders below us pass, which our readers turn into errors.
///
/// libFuzzer's own hook ends the process at every panic, before anyone can catch it. This one
/// does so only for a panic that starts in our code, where it is always a mistake.
pub fn end_at_our_panics() {
    std::panic::set_hook(Box::new(|panic| {
        if panic.location().is_some_and(|place| place.file().contains("crates/data/")) {
            eprintln!("{panic}");
            std::process::abort();
        }
    }));
}
