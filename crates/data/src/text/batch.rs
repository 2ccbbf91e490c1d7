//! Captions of different lengths as one padded batch of word ids.

/// The padding id. The reference implementations pad with 0, whatever the vocabulary says.
pub const PADDING: u32 = 0;

/// A batch of captions in rows of one width, the longest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaddedBatch {
    /// The index of the caption in each row.
    pub order: Vec<usize>,
    /// Number of ids of each caption; [`PADDING`] fills the rest of its row.
    pub lengths: Vec<usize>,
    /// Number of ids per row: the length of the longest caption.
    pub width: usize,
    /// The rows, one after the other.
    pub ids: Vec<u32>,
}

impl PaddedBatch {
    /// Sorts the captions by length, the longest first and ties in the order given, and pads them
    /// to the length of the longest.
    pub fn new(captions: &[impl AsRef<[u32]>]) -> Self {
        let ids_of = |row: usize| captions[row].as_ref();
        let mut order: Vec<usize> = (0..captions.len()).collect();
        order.sort_by_key(|&row| std::cmp::Reverse(ids_of(row).len()));
        let lengths: Vec<usize> = order.iter().map(|&row| ids_of(row).len()).collect();
        let width = lengths.first().copied().unwrap_or(0);
        let mut ids = Vec::with_capacity(width * order.len());
        for (at, &row) in order.iter().enumerate() {
            ids.extend_from_slice(ids_of(row));
            ids.resize((at + 1) * width, PADDING);
        }
        PaddedBatch { order, lengths, width, ids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equally_long_captions_keep_their_order() {
        let batch = PaddedBatch::new(&[vec![1, 2], vec![1, 9, 9, 2], vec![1, 7, 2], vec![1, 8, 2]]);
        assert_eq!(batch.order, [1, 2, 3, 0]);
        assert_eq!(batch.lengths, [4, 3, 3, 2]);
        assert_eq!(batch.ids, [1, 9, 9, 2, 1, 7, 2, 0, 1, 8, 2, 0, 1, 2, 0, 0]);
    }

    #[test]
    fn no_caption_is_no_row() {
        let batch = PaddedBatch::new(&[] as &[Vec<u32>]);
        assert_eq!((batch.width, batch.ids.len(), batch.order.len()), (0, 0, 0));
    }
}
