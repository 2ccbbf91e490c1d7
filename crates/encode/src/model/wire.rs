//! Checks of the bytes of an ONNX file before they are parsed.
//!
//! The parser trusts the lengths in a file, and an unterminated ten-byte integer keeps it busy
//! forever. So every length and integer of every message is checked first.

use super::limits::NODES;

/// Deepest nesting of graphs in graphs, such as the branches of conditions.
const DEPTH: usize = 64;

/// Most messages of a file: even an empty one takes memory when it is parsed.
const MESSAGES: usize = 1_000_000;

/// The kinds of messages; `Other` has no nested messages that the parser reads.
#[derive(Clone, Copy, Debug)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Value,
    Type,
    TensorType,
    Sequence,
    Shape,
    Other,
}

/// The content of a field.
enum Content {
    Message(Message),
    Integers,
    Bytes,
}

/// The content of a field, by the field numbers of `onnx.proto`.
fn content(message: Message, field: u64) -> Content {
    Content::Message(match (message, field) {
        (Message::Model, 7) | (Message::Attribute, 6) => Message::Graph,
        (Message::Model, 8 | 14) | (Message::Tensor, 13) | (Message::Shape, 1) => Message::Other,
        (Message::Graph, 1) => Message::Node,
        (Message::Graph, 5) | (Message::Attribute, 5) => Message::Tensor,
        (Message::Graph, 11..=13) => Message::Value,
        (Message::Node, 5) => Message::Attribute,
        (Message::Value, 2) | (Message::Sequence, 1) => Message::Type,
        (Message::Type, 1) => Message::TensorType,
        (Message::Type, 4) => Message::Sequence,
        (Message::TensorType, 2) => Message::Shape,
        (Message::Tensor, 1 | 5 | 7) | (Message::Attribute, 8) => return Content::Integers,
        _ => return Content::Bytes,
    })
}

/// Checks that `bytes` are a complete model. The error names the place.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    let mut reader = Reader { bytes, at: 0, nodes: 0, messages: 0 };
    reader
        .message(Message::Model, bytes.len(), DEPTH)
        .map_err(|what| format!("{what} at byte {} of {}", reader.at, bytes.len()))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: usize,
    messages: usize,
}

impl Reader<'_> {
    fn message(&mut self, message: Message, end: usize, depth: usize) -> Result<(), &'static str> {
        let depth = depth.checked_sub(1).ok_or("too many graphs inside graphs")?;
        self.messages += 1;
        self.nodes += usize::from(matches!(message, Message::Node));
        if self.nodes > NODES {
            return Err("more than 50,000 nodes");
        }
        if self.messages > MESSAGES {
            return Err("more than a million parts");
        }
        while self.at < end {
            let tag = self.integer(end)?;
            match tag & 7 {
                0 => drop(self.integer(end)?),
                1 => self.skip(8, end)?,
                2 => {
                    let length = self.integer(end)?;
                    let length = usize::try_from(length).ok().filter(|&l| l <= end - self.at);
                    let inner = self.at + length.ok_or("more is announced than there is")?;
                    match content(message, tag >> 3) {
                        Content::Message(message) => self.message(message, inner, depth)?,
                        Content::Integers => {
                            while self.at < inner {
                                self.integer(inner)?;
                            }
                        }
                        Content::Bytes => self.at = inner,
                    }
                }
                5 => self.skip(4, end)?,
                _ => return Err("an unknown kind of field"),
            }
        }
        Ok(())
    }

    /// Reads a varint: seven bits per byte, the lowest first; the last byte is below 128.
    fn integer(&mut self, end: usize) -> Result<u64, &'static str> {
        let mut value = 0;
        for (n, &byte) in self.bytes[self.at..end].iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * n);
            if byte < 0x80 {
                self.at += n + 1;
                return Ok(value);
            }
        }
        Err("an integer without an end")
    }

    fn skip(&mut self, count: usize, end: usize) -> Result<(), &'static str> {
        if count > end - self.at {
            return Err("cut off");
        }
        self.at += count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &[u8] = include_bytes!("../../tests/fixtures/image.onnx");

    #[test]
    fn a_model_is_whole_and_its_parts_are_not() {
        check(MODEL).unwrap();
        // A cut between two fields of the model leaves a smaller model.
        let accepted = (0..MODEL.len()).filter(|&end| check(&MODEL[..end]).is_ok()).count();
        assert!(accepted < 5, "{accepted}");
    }

    #[test]
    fn what_the_parser_cannot_bear_is_refused() {
        for (bytes, expected) in [
            (vec![0xff; 100], "an integer without an end at byte 0 of 100"),
            (vec![0x08], "an integer without an end at byte 1 of 1"),
            (vec![0x12, 0xff, 0xff, 0xff, 0x7f], "more is announced than there is at byte 5 of 5"),
            (vec![0x3a, 0x02, 0x0a, 0x09], "more is announced than there is at byte 4 of 4"),
            (vec![0x09, 1, 2], "cut off at byte 1 of 3"),
            (vec![0x0b], "an unknown kind of field at byte 1 of 1"),
        ] {
            assert_eq!(check(&bytes).unwrap_err(), expected);
        }
        // A graph, node, attribute, graph and so on, each inside the one before.
        let mut nested = Vec::new();
        for field in [6, 5, 1].iter().cycle().take(120) {
            let mut length = nested.len();
            let mut outer = vec![field << 3 | 2];
            while length > 0x7f {
                outer.push(length as u8 | 0x80);
                length >>= 7;
            }
            outer.push(length as u8);
            nested = [outer, nested].concat();
        }
        let mut model = vec![0x3a, nested.len() as u8 | 0x80, (nested.len() >> 7) as u8];
        model.extend(nested);
        let what = check(&model).unwrap_err();
        assert!(what.starts_with("too many graphs inside graphs"), "{what}");
        // Empty nodes and empty inputs, two bytes each.
        let of = |field: u8, count: usize| {
            let parts = [field << 3 | 2, 0].repeat(count);
            let length = parts.len();
            let length =
                (0..4).map(|n| (length >> (7 * n) & 0x7f) as u8 | if n < 3 { 0x80 } else { 0 });
            [vec![0x3a], length.collect(), parts].concat()
        };
        check(&of(1, NODES)).unwrap();
        let what = check(&of(1, NODES + 1)).unwrap_err();
        assert!(what.starts_with("more than 50,000 nodes at byte"), "{what}");
        check(&of(11, MESSAGES - 2)).unwrap();
        let what = check(&of(11, MESSAGES)).unwrap_err();
        assert!(what.starts_with("more than a million parts at byte"), "{what}");
    }
}
