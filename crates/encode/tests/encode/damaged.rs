use std::fs;

use nextpair_encode::{Error, ImageEncoder, Pooling, Preprocess};

use super::fixture;

fn open(bytes: &[u8]) -> Result<ImageEncoder, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    fs::write(&path, bytes).unwrap();
    let preprocess = Preprocess::parse("size = 8\nresize = \"squash\"").unwrap();
    ImageEncoder::open(&path, preprocess, Pooling::Regions(4), None)
}

#[test]
fn foreign_files_are_refused() {
    for bytes in [&b""[..], b"\x89PNG\r\n\x1a\n and so on", b"{\"a\": 1}", &[0xff; 100]] {
        let what = open(bytes).unwrap_err().to_string();
        assert!(what.contains("model.onnx: not an ONNX file"), "{what}");
    }
    let missing = fixture("none.onnx");
    let preprocess = Preprocess::preset("clip").unwrap();
    let error = ImageEncoder::open(&missing, preprocess, Pooling::Pooled, None).unwrap_err();
    assert!(matches!(error, Error::Data(nextpair_data::Error::Io { .. })), "{error}");
}

#[test]
fn truncated_files_are_refused() {
    let bytes = fs::read(fixture("image.onnx")).unwrap();
    assert!(open(&bytes).is_ok());
    for end in (0..bytes.len()).step_by(7) {
        assert!(open(&bytes[..end]).is_err(), "{end} of {} bytes were accepted", bytes.len());
    }
}

#[test]
fn damaged_files_come_back() {
    let bytes = fs::read(fixture("image.onnx")).unwrap();
    // Names and sizes of the graph are at the start, weights after them.
    let mut state = 1usize;
    for _ in 0..300 {
        let mut copy = bytes.clone();
        for _ in 0..2 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (state >> 33) % copy.len();
            copy[at] ^= 1 << (state >> 20 & 7);
        }
        // Any result is fine, as long as the call returns.
        let _ = open(&copy);
    }
}
