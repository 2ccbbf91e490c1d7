//! Seals: a hash chain over all events, which reveals edits.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::rows::Row;

/// The seal of an event: a hash of the event and of the seal before it. It does not stop an
/// attacker, who can write new seals; it reveals slips, repairs by hand and damaged disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seal(String);

impl Seal {
    /// The stored form.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    pub(super) fn of_text(text: &str) -> Self {
        Seal(text.to_owned())
    }

    /// The seal of the next event.
    pub(super) fn next(&self, row: &Row) -> Self {
        let mut hash = Sha256::new();
        // Lengths come first, so that nothing can move from one field to the next.
        let mut field = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        field(self.0.as_bytes());
        for number in [row.seq, row.at, row.round, row.person] {
            field(&number.to_le_bytes());
        }
        for text in [&row.what, &row.item, &row.key, &row.body] {
            field(text.as_bytes());
        }
        Seal(URL_SAFE_NO_PAD.encode(hash.finalize()))
    }
}

/// The end of the history, in `nextpair_meta`. Every write changes it in the same transaction, so
/// reading it shows whether anything is new or missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The number of the last event.
    pub(super) seq: i64,
    /// Number of transactions that changed drafts.
    pub(super) drafts: i64,
    /// The seal of the last event.
    pub(super) seal: Seal,
}

impl Head {
    pub(super) fn text(&self) -> String {
        format!("{} {} {}", self.seq, self.drafts, self.seal.text())
    }

    pub(super) fn of_text(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let seq = parts.next()?.parse().ok()?;
        let drafts = parts.next()?.parse().ok()?;
        Some(Head { seq, drafts, seal: Seal::of_text(parts.next()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let text = |text: &str| text.to_owned();
        let (what, item, key, body) = (text("answered"), text("a"), text("key"), text("{}"));
        Row { seq: 1, at: 2, round: 3, person: 4, what, item, key, body }
    }

    #[test]
    fn every_field_is_sealed_and_so_is_what_was_before() {
        let first = Seal::default();
        let edits: [fn(&mut Row); 9] = [
            |_| {},
            |row| row.seq += 1,
            |row| row.at += 1,
            |row| row.round += 1,
            |row| row.person += 1,
            |row| row.what.push('x'),
            |row| row.item.push('k'),
            |row| row.key.insert(0, 'a'),
            |row| row.body.push(' '),
        ];
        let mut seals: Vec<Seal> = edits
            .iter()
            .map(|edit| {
                let mut row = row();
                edit(&mut row);
                first.next(&row)
            })
            .collect();
        // "a" + "key" is not "ak" + "ey".
        let moved = Row { item: "ak".to_owned(), key: "ey".to_owned(), ..row() };
        seals.push(first.next(&moved));
        seals.push(seals[0].next(&row()));
        let texts: std::collections::HashSet<&str> = seals.iter().map(Seal::text).collect();
        assert_eq!(texts.len(), seals.len());
    }

    #[test]
    fn heads_are_read_as_they_are_written() {
        let head = Head { seq: 7, drafts: 3, seal: Seal::default().next(&row()) };
        assert_eq!(Head::of_text(&head.text()), Some(head));
        assert_eq!(Head::of_text(&Head::default().text()), Some(Head::default()));
        for text in ["", "7", "7 x y", "x"] {
            assert_eq!(Head::of_text(text), None);
        }
    }
}
