//! Damaged copies of a file, for the tests of every reader. The fuzz targets go further.

/// Opens every proper prefix of `bytes`; none may succeed.
pub(crate) fn truncate(bytes: &[u8], opens: impl Fn(&[u8]) -> bool) {
    for end in 0..bytes.len() {
        assert!(!opens(&bytes[..end]), "{end} of {} bytes were accepted", bytes.len());
    }
}

/// Opens `times` copies of `bytes` with one to four bytes changed. Any result is fine, as long as
/// the reader returns.
pub(crate) fn mutate(bytes: &[u8], times: usize, opens: impl Fn(&[u8]) -> bool) {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..times {
        let mut copy = bytes.to_vec();
        for _ in 0..next() % 4 + 1 {
            let at = next() as usize % copy.len();
            copy[at] = next() as u8;
        }
        opens(&copy);
    }
}
