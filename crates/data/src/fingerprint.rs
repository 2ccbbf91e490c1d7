//! Fingerprints: they tell files apart that were changed, by accident or by hand.

use crate::draw;

/// A number of 64 bits in hexadecimal, the same on every machine. Not a seal against malice.
pub fn fingerprint(bytes: &[u8]) -> String {
    let hash = bytes.chunks(8).fold(bytes.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        draw::draw_of(hash, u64::from_le_bytes(word), 0)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::fingerprint;

    #[test]
    fn every_byte_counts_and_so_does_their_number() {
        let prints = ["", "\0", "a", "b", "ab", "ba", "12345678", "12345678\0"];
        let prints: std::collections::BTreeSet<String> =
            prints.iter().map(|text| fingerprint(text.as_bytes())).collect();
        assert_eq!(prints.len(), 8);
        assert!(prints.iter().all(|print| print.len() == 16));
    }
}
