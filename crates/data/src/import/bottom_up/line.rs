//! One line of a table of region features.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The columns that are read.
const COLUMNS: [&str; 6] = ["image_id", "image_w", "image_h", "num_boxes", "boxes", "features"];

/// Bytes of a single-precision number.
const NUMBER: usize = 4;

/// The features of an image.
#[derive(Debug, PartialEq)]
pub(super) struct Regions {
    pub(super) id: String,
    pub(super) shape: Shape,
    /// Single-precision numbers, little-endian, all finite.
    pub(super) features: Vec<u8>,
}

/// The number of vectors of an image, and their dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) regions: usize,
    pub(super) dim: usize,
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} regions of {} numbers", self.regions, self.dim)
    }
}

/// The image id of a line.
pub(super) fn id(line: &str) -> &str {
    line.split('\t').next().unwrap_or_default().trim()
}

/// Returns whether a line is empty or a header, which some tools write first.
pub(super) fn says_nothing(number: usize, line: &str) -> bool {
    let names = || line.split('\t').map(str::trim).eq(COLUMNS);
    line.trim().is_empty() || (number == 1 && names())
}

/// Returns whether a line has all columns, whatever their contents.
pub(super) fn has_all_columns(line: &str) -> bool {
    let tabs = line.bytes().filter(|&byte| byte == b'\t').count();
    tabs + 1 == COLUMNS.len() && !line.ends_with('\t')
}

impl Regions {
    /// Decodes a line and checks every number. The error describes the problem.
    pub(super) fn decode(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [id, _, _, count, boxes, features] = fields[..] else {
            return Err(format!("{} columns, expected {}", fields.len(), COLUMNS.join(", ")));
        };
        let regions: usize = match count.parse() {
            Ok(regions) if regions > 0 => regions,
            _ => return Err(format!("num_boxes is '{}', not a number above 0", shown(count))),
        };
        let boxes = decode("boxes", boxes)?;
        if Some(boxes.len()) != regions.checked_mul(4 * NUMBER) {
            let (found, expected) = (boxes.len(), "4 numbers of 4 bytes each");
            return Err(format!("boxes: {found} bytes for {regions} boxes of {expected}"));
        }
        let features = decode("features", features)?;
        let each = regions * NUMBER;
        if features.is_empty() || !features.len().is_multiple_of(each) {
            return Err(format!(
                "features: {} bytes do not divide into {regions} vectors of numbers of 4 bytes",
                features.len()
            ));
        }
        let shape = Shape { regions, dim: features.len() / each };
        let value = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let numbers = || features.chunks_exact(NUMBER).map(value);
        // One pass without a branch per number: numbers that are not finite have the highest
        // exponent.
        let highest = numbers().map(|v| v.to_bits() & 0x7fff_ffff).fold(0, u32::max);
        if highest >= f32::INFINITY.to_bits() {
            let at = numbers().position(|v| !v.is_finite()).unwrap_or_default();
            let (region, number) = (at / shape.dim, at % shape.dim);
            let value = numbers().nth(at).unwrap_or_default();
            return Err(format!("features: region {region}, number {number} is {value}"));
        }
        Ok(Regions { id: id.to_owned(), shape, features })
    }
}

fn decode(column: &str, text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|e| format!("{column}: not base64: {e}"))
}

/// The beginning of a field.
fn shown(field: &str) -> String {
    field.chars().take(20).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(numbers: &[f32]) -> String {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        STANDARD.encode(bytes)
    }

    fn line(boxes: &str, features: &str) -> String {
        format!("391895\t640\t360\t2\t{boxes}\t{features}")
    }

    #[test]
    fn a_line_is_decoded() {
        let numbers = [1.0, -2.5, 0.0, 3.5, f32::MAX, f32::MIN_POSITIVE];
        let text = line(&encoded(&[0.5; 8]), &encoded(&numbers));
        // Python's csv module writes DOS line ends.
        for text in [text.clone(), text + "\r"] {
            let regions = Regions::decode(&text).unwrap();
            assert_eq!((regions.id.as_str(), id(&text)), ("391895", "391895"));
            assert_eq!(regions.shape, Shape { regions: 2, dim: 3 });
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            assert_eq!(regions.features, bytes);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let (boxes, features) = (encoded(&[0.5; 8]), encoded(&[1.0; 6]));
        let whole = line(&boxes, &features);
        for (text, says) in [
            ("", "1 columns, expected image_id, image_w"),
            ("7\t1\t1\t2\tAAAA", "5 columns, expected image_id"),
            ("7\t1\t1\t0\tAAAA\tAAAA", "num_boxes is '0'"),
            ("7\t1\t1\t-2\tAAAA\tAAAA", "num_boxes is '-2'"),
            (
                "7\t1\t1\t18446744073709551615\tAAAA\tAAAA",
                "boxes: 3 bytes for 18446744073709551615",
            ),
            (&line("AAAA", &features), "boxes: 3 bytes for 2 boxes of 4 numbers"),
            (&line("A*==", &features), "boxes: not base64: Invalid symbol 42, offset 1"),
            (&line(&boxes, ""), "features: 0 bytes do not divide into 2 vectors"),
            (&line(&boxes, &encoded(&[1.0; 5])), "features: 20 bytes do not divide into 2 vectors"),
            (&whole[..whole.len() - 1], "features: not base64"),
            (&whole[..whole.len() - 4], "features: 21 bytes do not divide"),
            (
                &line(&boxes, &encoded(&[1.0, 1.0, 1.0, 1.0, f32::NAN, 1.0])),
                "region 1, number 1 is NaN",
            ),
            (
                &line(&boxes, &encoded(&[1.0, f32::NEG_INFINITY, 1.0, f32::NAN])),
                "region 0, number 1 is -inf",
            ),
        ] {
            let what = Regions::decode(text).unwrap_err();
            assert!(what.contains(says), "no '{says}' in '{what}'");
        }
    }

    #[test]
    fn every_cut_of_a_line_is_found() {
        let whole = line(&encoded(&[0.5; 8]), &encoded(&[1.0; 6]));
        for end in 0..whole.len() {
            let cut = Regions::decode(&whole[..end]);
            assert!(cut.is_err() || cut.unwrap().shape.dim < 3, "{end}");
        }
    }
}
