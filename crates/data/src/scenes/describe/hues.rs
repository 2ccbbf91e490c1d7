//! The division of a colour into shares of a few named ones.

use std::sync::LazyLock;

/// 12 hues, dark (0 to 11) and bright (12 to 23), then 4 greys from black to white.
pub(super) const COLOURS: usize = 2 * HUES + GREYS;

const HUES: usize = 12;
const GREYS: usize = 4;

/// Shares of at most two hues in two brightnesses, and of two greys.
pub(super) type Shares = [(u8, u8); 6];

/// Shares by coarse colour.
static TABLE: LazyLock<Vec<Shares>> = LazyLock::new(|| {
    (0..4096u32).map(|i| shares([i >> 8, i >> 4 & 15, i & 15].map(|c| c as f32 / 15.0))).collect()
});

/// The index of a colour in the table: the upper four bits of red, green and blue.
#[inline(always)]
pub(super) fn coarse(rgb: [u8; 3]) -> usize {
    let [red, green, blue] = rgb.map(|c| c as usize >> 4);
    red << 8 | green << 4 | blue
}

/// Indices of [`COLOURS`] with weights that add up to about 255.
pub(super) fn shares_of(coarse: usize) -> Shares {
    TABLE[coarse]
}

fn shares([red, green, blue]: [f32; 3]) -> Shares {
    let (high, low) = (red.max(green).max(blue), red.min(green).min(blue));
    let chroma = high - low;
    // Pale and dark colours are partly grey.
    let coloured = (2.0 * chroma).min(1.0);
    let sixth = match chroma {
        0.0 => 0.0,
        _ if high == red => (6.0 + (green - blue) / chroma) % 6.0,
        _ if high == green => 2.0 + (blue - red) / chroma,
        _ => 4.0 + (red - green) / chroma,
    };
    let hue = sixth * (HUES as f32 / 6.0);
    let (first, second, part) = neighbours(hue, HUES);
    let bright = ((high - 0.5) * 3.0).clamp(0.0, 1.0);
    let level = (red + green + blue) * ((GREYS - 1) as f32 / 3.0);
    let (darker, lighter, step) = neighbours(level, 2 * HUES + GREYS);
    let weight = |share: f32| (share * 255.0 + 0.5) as u8;
    [
        (first, weight(coloured * (1.0 - part) * (1.0 - bright))),
        (second, weight(coloured * part * (1.0 - bright))),
        (first + HUES as u8, weight(coloured * (1.0 - part) * bright)),
        (second + HUES as u8, weight(coloured * part * bright)),
        (darker + 2 * HUES as u8, weight((1.0 - coloured) * (1.0 - step))),
        ((lighter + 2 * HUES as u8).min(COLOURS as u8 - 1), weight((1.0 - coloured) * step)),
    ]
}

/// The two places around a position on a circle of `count`, and the distance from the first.
fn neighbours(position: f32, count: usize) -> (u8, u8, f32) {
    let first = position as usize;
    ((first % count) as u8, ((first + 1) % count) as u8, position - first as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_is_shared_out_whole() {
        for entry in TABLE.iter() {
            let sum: u32 = entry.iter().map(|&(_, weight)| weight as u32).sum();
            assert!((251..=259).contains(&sum), "{entry:?}");
            assert!(entry.iter().all(|&(colour, _)| (colour as usize) < COLOURS), "{entry:?}");
        }
    }

    #[test]
    fn pure_colours_have_a_place_of_their_own() {
        let main = |r, g, b| shares_of(coarse([r, g, b])).iter().max_by_key(|(_, w)| *w).unwrap().0;
        assert_eq!(main(255, 0, 0), 12);
        assert_eq!(main(0, 255, 0), 16);
        assert_eq!(main(0, 0, 255), 20);
        assert_eq!(main(0, 0, 0), 24);
        assert_eq!(main(255, 255, 255), 27);
    }
}
