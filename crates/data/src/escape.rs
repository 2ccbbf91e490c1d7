//! Escaping for CSV cells and URLs, and hexadecimal digits.

use std::borrow::Cow;
use std::fmt::Write;

/// A CSV cell, quoted where it needs quotes (RFC 4180).
pub fn csv_cell(cell: &str) -> Cow<'_, str> {
    if cell.contains([',', '"', '\n', '\r']) {
        return Cow::Owned(format!("\"{}\"", cell.replace('"', "\"\"")));
    }
    Cow::Borrowed(cell)
}

/// Percent-encodes one path segment of a URL.
pub fn url_part(part: &str) -> String {
    let mut address = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                address.push(byte.into());
            }
            _ => write!(address, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    address
}

/// Percent-encodes every segment of a path with slashes.
pub fn url_path(path: &str) -> String {
    path.split('/').map(url_part).collect::<Vec<_>>().join("/")
}

/// Encodes bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_need_it() {
        for (cell, written) in [
            ("plain", "plain"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("a\r", "\"a\r\""),
        ] {
            assert_eq!(csv_cell(cell), written);
        }
    }

    #[test]
    fn texts_become_parts_of_addresses() {
        for (text, part) in [
            ("a-1_~.jpg", "a-1_~.jpg"),
            ("x/../y z?&#%", "x%2F..%2Fy%20z%3F%26%23%25"),
            ("ü", "%C3%BC"),
        ] {
            assert_eq!(url_part(text), part);
        }
        assert_eq!(url_path("/a b/ü//c"), "/a%20b/%C3%BC//c");
    }

    #[test]
    fn bytes_become_digits() {
        assert_eq!(hex(&[0, 0x0f, 0xff]), "000fff");
    }
}
