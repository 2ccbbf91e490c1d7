//! Checks that the coded data of a JPEG file is complete.
//!
//! Decoders fill in data that is missing before a marker: a file whose data stops early but ends
//! properly becomes a picture with a grey or green part. This module counts all codes instead, in
//! sequential and progressive files with Huffman codes, without computing pixels. It skips only the
//! refinement scans of progressive files (except those of the first coefficients), because their
//! length depends on all earlier scans.

mod bits;

use bits::{Bits, Steps, Table};

/// A frame header.
struct Frame {
    progressive: bool,
    width: u32,
    height: u32,
    components: Vec<Component>,
}

struct Component {
    id: u8,
    across: u32,
    down: u32,
    seen: bool,
}

/// The content of one scan.
#[derive(Clone, Copy)]
enum Content {
    /// All coefficients.
    Whole,
    /// The first coefficient of every block.
    First,
    /// One more bit of the first coefficient of every block.
    FirstBit,
    /// This many coefficients after the first.
    Rest(u32),
}

/// The codes for the first coefficients and for the rest.
#[derive(Default)]
struct Tables {
    first: [Option<Table>; 4],
    rest: [Option<Steps>; 4],
}

/// Returns false if data is missing. Other damage, and other kinds of file, are left to the
/// decoder.
pub(super) fn is_complete(bytes: &[u8]) -> bool {
    walk(bytes).unwrap_or(true)
}

/// Walks over all markers; `None` for a file that is not understood.
fn walk(bytes: &[u8]) -> Option<bool> {
    let mut frame: Option<Frame> = None;
    let mut tables = Tables::default();
    let mut restart = 0;
    let mut at = 0;
    while let Some(marker) = next_marker(bytes, at) {
        at = marker + 2;
        let kind = bytes[marker + 1];
        match kind {
            0xd9 => break,
            0x01 | 0xd0..=0xd8 => continue,
            _ => {}
        }
        let segment = bytes.get(at + 2..at + usize::from(number(bytes, at)?))?;
        at += 2 + segment.len();
        match kind {
            0xc0..=0xc2 if frame.is_none() => frame = Some(Frame::parse(segment, kind == 0xc2)?),
            0xc4 => tables.define(segment)?,
            // Other frames: lossless, hierarchical, arithmetic codes.
            0xc0..=0xcf => return None,
            0xdd => restart = u32::from(number(segment, 0)?),
            0xda => {
                let frame = frame.as_mut()?;
                match scan(bytes, at, segment, frame, &tables, restart)? {
                    Some(end) => at = end,
                    None => return Some(false),
                }
            }
            _ => {}
        }
    }
    Some(frame?.components.iter().all(|component| component.seen))
}

/// Walks over one scan and returns its end. `Some(None)` means that it ends too early, `None` that
/// it is not understood.
fn scan(
    bytes: &[u8],
    mut at: usize,
    header: &[u8],
    frame: &mut Frame,
    tables: &Tables,
    restart: u32,
) -> Option<Option<usize>> {
    let (&count, rest) = header.split_first()?;
    let (chosen, rest) = rest.split_at_checked(2 * usize::from(count))?;
    let &[start, end, bits] = rest else { return None };
    let content = match (frame.progressive, start, bits >> 4) {
        (false, ..) => Content::Whole,
        (true, 0, 0) => Content::First,
        (true, 0, _) => Content::FirstBit,
        (true, _, 0) => Content::Rest(u32::from(end.checked_sub(start)?) + 1),
        // The next marker ends this scan, or is one that the caller skips.
        _ => return Some(Some(at)),
    };
    // The tables of all blocks of a unit: one block, if the scan has only one component.
    let mut unit = Vec::new();
    let mut left = frame.units();
    for pair in chosen.chunks_exact(2) {
        let index = frame.components.iter().position(|component| component.id == pair[0])?;
        let component = &frame.components[index];
        let mut blocks = component.across * component.down;
        if count == 1 {
            (blocks, left) = (1, frame.blocks(component));
        }
        let first = tables.first.get(usize::from(pair[1] >> 4))?.as_ref();
        let rest = tables.rest.get(usize::from(pair[1] & 15))?.as_ref();
        unit.extend((0..blocks).map(|_| (first, rest)));
        frame.components[index].seen |= !matches!(content, Content::Rest(_));
    }
    if unit.is_empty() {
        return None;
    }
    loop {
        let together = if restart == 0 { left } else { left.min(u64::from(restart)) };
        let mut data = Bits::new(bytes, at);
        let done = stretch(&mut data, content, &unit, together);
        if data.are_short() {
            return Some(None);
        }
        done?;
        at = data.position();
        left -= together;
        if left == 0 {
            return Some(Some(at));
        }
        match next_marker(bytes, at) {
            Some(marker) if matches!(bytes[marker + 1], 0xd0..=0xd7) => at = marker + 2,
            _ => return Some(None),
        }
    }
}

/// Walks over `count` units between two markers, or to the end of the bits. `None` for an undefined
/// code or table.
fn stretch(
    bits: &mut Bits<'_>,
    content: Content,
    unit: &[(Option<&Table>, Option<&Steps>)],
    count: u64,
) -> Option<()> {
    let mut at = 0;
    while at < count && !bits.are_short() {
        at += 1;
        for &(first, rest) in unit {
            match content {
                Content::FirstBit => bits.skip(1),
                Content::First => bits.skip_value(first?)?,
                Content::Whole => {
                    bits.skip_value(first?)?;
                    bits.skip_block(rest?, 63)?;
                }
                Content::Rest(coefficients) => {
                    let mut left = coefficients;
                    while left > 0 {
                        left -= match bits.symbol(&rest?.codes)? {
                            // The end of this block and of some of the next.
                            (run @ 0..15, 0) => {
                                at += (1 << run) - 1 + u64::from(bits.take(run));
                                left
                            }
                            (zeros, _) => left.min(zeros + 1),
                        };
                    }
                }
            }
        }
    }
    Some(())
}

impl Frame {
    fn parse(segment: &[u8], progressive: bool) -> Option<Self> {
        let (height, width) = (number(segment, 1)?, number(segment, 3)?);
        let components = segment.get(6..)?.chunks_exact(3).map(|three| Component {
            id: three[0],
            across: u32::from(three[1] >> 4),
            down: u32::from(three[1] & 15),
            seen: false,
        });
        let components: Vec<_> = components.collect();
        let sampled = |c: &Component| (1..=4).contains(&c.across) && (1..=4).contains(&c.down);
        let usual = height > 0 && width > 0 && components.iter().all(sampled);
        let frame = Frame { progressive, width: width.into(), height: height.into(), components };
        (usual && !frame.components.is_empty()).then_some(frame)
    }

    /// The most blocks that a component has in one unit, across and down.
    fn largest(&self) -> (u32, u32) {
        let components = self.components.iter();
        components.fold((1, 1), |most, c| (most.0.max(c.across), most.1.max(c.down)))
    }

    /// Number of units of all components together.
    fn units(&self) -> u64 {
        let (across, down) = self.largest();
        u64::from(self.width.div_ceil(8 * across)) * u64::from(self.height.div_ceil(8 * down))
    }

    /// Number of blocks of a component by itself, without those that only fill up units.
    fn blocks(&self, component: &Component) -> u64 {
        let (across, down) = self.largest();
        let width = (self.width * component.across).div_ceil(across).div_ceil(8);
        let height = (self.height * component.down).div_ceil(down).div_ceil(8);
        u64::from(width) * u64::from(height)
    }
}

impl Tables {
    fn define(&mut self, mut segment: &[u8]) -> Option<()> {
        while let Some((&place, rest)) = segment.split_first() {
            let (counts, rest) = rest.split_first_chunk::<16>()?;
            let count = counts.iter().map(|&count| usize::from(count)).sum();
            let (symbols, rest) = rest.split_at_checked(count)?;
            let codes = Table::new(counts, symbols);
            let at = usize::from(place & 15);
            if place >> 4 == 0 {
                *self.first.get_mut(at)? = Some(codes);
            } else {
                *self.rest.get_mut(at)? = Some(Steps::new(codes));
            }
            segment = rest;
        }
        Some(())
    }
}

/// The position of the next marker. In coded data, a zero follows a byte that would look like one.
fn next_marker(bytes: &[u8], from: usize) -> Option<usize> {
    let pairs = bytes.get(from..)?.windows(2);
    let found = pairs.zip(from..).find(|(pair, _)| pair[0] == 0xff && !matches!(pair[1], 0 | 0xff));
    found.map(|(_, at)| at)
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|&two| u16::from_be_bytes(two))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use image::{ImageFormat, RgbImage};

    use super::*;
    use crate::damage;

    const PROGRESSIVE: &[u8] = include_bytes!("../../../tests/fixtures/pictures/progressive.jpg");
    const RESTARTS: &[u8] = include_bytes!("../../../tests/fixtures/pictures/restarts.jpg");
    const GREY: &[u8] = include_bytes!("../../../tests/fixtures/pictures/grey.jpg");
    const CMYK: &[u8] = include_bytes!("../../../tests/fixtures/pictures/cmyk.jpg");

    fn files() -> Vec<Vec<u8>> {
        let mut busy = Cursor::new(Vec::new());
        let colour = |x, y| image::Rgb([x * y, x * x, y * 9].map(|level: u32| level as u8));
        RgbImage::from_fn(43, 21, colour).write_to(&mut busy, ImageFormat::Jpeg).unwrap();
        vec![PROGRESSIVE.into(), RESTARTS.into(), GREY.into(), CMYK.into(), busy.into_inner()]
    }

    #[test]
    fn every_early_end_is_found() {
        for bytes in &files() {
            assert!(is_complete(bytes));
            let header = bytes.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap() + 2;
            let start = header + usize::from(number(bytes, header).unwrap());
            let first_scan = next_marker(bytes, start).unwrap();
            let end = if bytes == PROGRESSIVE { first_scan } else { bytes.len() - 2 };
            for cut in start..end {
                let early = [&bytes[..cut], &[0xff, 0xd9]].concat();
                assert!(!is_complete(&early), "{cut} of {end} bytes were enough");
            }
        }
    }

    #[test]
    fn damaged_files_never_panic() {
        for bytes in files() {
            damage::mutate(&bytes, 2000, is_complete);
        }
    }
}
