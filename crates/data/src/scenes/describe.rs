//! Region features computed from pixels alone: colours, edges and patterns.
//!
//! The picture is cut into 7 by 7 cells; every 2 by 2 of them form a region, so 36 regions overlap
//! by half. All measurements are sums over pixels: each cell is measured once, in integers, and
//! a region is the sum of its four cells. The 64 numbers of a region are about 0 to 2 and vary by
//! some tenths:
//!
//! | numbers | what |
//! | --- | --- |
//! | 3 + 3 | mean and spread of red, green and blue |
//! | 24 + 4 | share of 12 hues, dark and bright, and of 4 greys |
//! | 8 | share of edges in 8 orientations |
//! | 6 | difference to the pixel 1, 2, 4 to the right and below |
//! | 4 + 4 | edges and brightness in the four quarters, relative to the region |
//! | 8 | edge density and strength; how the edges lie: centre, spread, slant, straightness |
//!
//! Shares enter as square roots, which makes small ones count. The factors make numbers of
//! different kinds vary about equally, so that a linear layer can learn from all of them.

mod cell;
mod hues;

use image::RgbImage;

use crate::picture::Picture;
use cell::Cell;

/// Regions of a picture, row by row.
pub const REGIONS: usize = SPAN * SPAN;

/// Dimensions of a region's features.
pub const DESCRIPTORS: usize = 64;

/// The manifest entry for features made here.
pub const MADE_BY: (&str, &str) = ("descriptors", "scenes");

/// Regions along a side.
const SPAN: usize = 6;

/// Cells along a side.
const CELLS: usize = SPAN + 1;

/// Computes the features of a picture of any size: [`REGIONS`] times [`DESCRIPTORS`] numbers. In
/// very small pictures, cells without pixels are zero.
pub fn describe(picture: &RgbImage) -> Vec<f32> {
    let cells: Vec<Cell> =
        (0..CELLS * CELLS).map(|i| Cell::measured(picture, i % CELLS, i / CELLS)).collect();
    let mut regions = Vec::with_capacity(REGIONS * DESCRIPTORS);
    for row in 0..SPAN {
        for column in 0..SPAN {
            let first = row * CELLS + column;
            let quarters = [first, first + 1, first + CELLS, first + CELLS + 1];
            region(quarters.map(|i| &cells[i]), &mut regions);
        }
    }
    regions
}

/// Like [`describe`], for a picture from a file. If its pixels do not match its size, the picture
/// counts as empty.
pub fn describe_picture(picture: &Picture) -> Vec<f32> {
    let Picture { width, height, pixels } = picture.clone();
    describe(&RgbImage::from_raw(width, height, pixels).unwrap_or_default())
}

/// Appends the features of one region.
fn region(quarters: [&Cell; 4], out: &mut Vec<f32>) {
    let mut whole = Cell::default();
    quarters.iter().for_each(|cell| whole.add(cell));
    let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
    let root = |part, all| share(part, all).sqrt();
    let mut push = |value: f64| out.push(value as f32);

    let means = whole.sums.map(|sum| share(sum, whole.pixels) / 255.0);
    means.iter().for_each(|&mean| push(mean));
    for (sum, mean) in whole.squares.iter().zip(means) {
        let variance = share(*sum, whole.pixels) / (255.0 * 255.0) - mean * mean;
        push(2.0 * variance.max(0.0).sqrt());
    }
    let coloured: u64 = whole.colours.iter().sum();
    whole.colours.iter().for_each(|&colour| push(2.0 * root(colour, coloured)));
    whole.orientations.iter().for_each(|&edges| push(root(edges, whole.strength)));
    whole.changes.iter().for_each(|&change| push(8.0 * share(change, 3 * 255 * whole.pixels)));
    for cell in quarters {
        push(root(cell.strength, whole.strength));
    }
    let brightness = |cell: &Cell| share(cell.sums.iter().sum(), 3 * 255 * cell.pixels);
    for cell in quarters {
        let relative = 4.0 * (brightness(cell) - brightness(&whole));
        push(if cell.pixels == 0 { 0.0 } else { relative });
    }
    push(root(whole.edges, whole.pixels));
    push(2.0 * root(whole.strength, 442 * whole.pixels));
    edge_layout(quarters, &whole).into_iter().for_each(push);
}

/// The layout of the edges in a region: centre, spread and slant relative to its size, and how much
/// the edges follow one direction.
fn edge_layout(quarters: [&Cell; 4], whole: &Cell) -> [f64; 6] {
    let [width, height] = [0, 1].map(|axis| {
        let far = quarters[3];
        (far.start[axis] + far.size[axis]).saturating_sub(quarters[0].start[axis]) as f64
    });
    if whole.strength == 0 || width == 0.0 || height == 0.0 {
        return [0.0; 6];
    }
    let strength = whole.strength as f64;
    // Cells keep moments about their own corners; moving them to the region's corner is exact.
    let mut moments = [0.0; 5];
    for cell in quarters {
        let [x, y] = [0, 1].map(|axis| (cell.start[axis] - quarters[0].start[axis]) as f64);
        let [mx, my, mxx, myy, mxy] = cell.moments.map(|moment| moment as f64);
        let m = cell.strength as f64;
        let moved = [
            mx + m * x,
            my + m * y,
            mxx + 2.0 * mx * x + m * x * x,
            myy + 2.0 * my * y + m * y * y,
            mxy + mx * y + my * x + m * x * y,
        ];
        moments.iter_mut().zip(moved).for_each(|(sum, moved)| *sum += moved);
    }
    let [x, y, xx, yy, xy] = moments.map(|moment| moment / strength);
    let (across, along) = (whole.tensor[0] as f64, whole.tensor[1] as f64);
    let straightness = (across * across + along * along).sqrt() / whole.energy.max(1) as f64;
    [
        x / width,
        y / height,
        2.0 * (xx - x * x).max(0.0).sqrt() / width,
        2.0 * (yy - y * y).max(0.0).sqrt() / height,
        16.0 * (xy - x * y) / (width * height),
        straightness,
    ]
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    #[test]
    fn pictures_of_any_size_have_finite_features() {
        for (width, height) in [(0, 0), (1, 1), (1, 40), (3, 2), (7, 7), (13, 200), (128, 128)] {
            let pixel = |x: u32, y: u32| Rgb([(x * 37) as u8, (y * 91) as u8, (x * y) as u8]);
            let features = describe(&RgbImage::from_fn(width, height, pixel));
            assert_eq!(features.len(), REGIONS * DESCRIPTORS);
            assert!(features.iter().all(|value| value.is_finite() && value.abs() <= 8.0));
        }
    }

    #[test]
    fn a_flat_picture_has_its_colour_and_no_edges() {
        let features = describe(&RgbImage::from_pixel(64, 64, Rgb([255, 0, 0])));
        for region in features.chunks_exact(DESCRIPTORS) {
            assert_eq!(region[..6], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
            let colours = &region[6..34];
            assert_eq!(colours.iter().filter(|&&share| share > 0.1).count(), 1, "{colours:?}");
            assert!(region[34..].iter().all(|&value| value == 0.0), "{region:?}");
        }
    }

    #[test]
    fn orientations_tell_bars_from_their_transpose() {
        let bars = RgbImage::from_fn(96, 96, |x, _| Rgb([255 * (x / 8 % 2) as u8; 3]));
        let turned = RgbImage::from_fn(96, 96, |x, y| *bars.get_pixel(y, x));
        let (bars, turned) = (describe(&bars), describe(&turned));
        assert_eq!((bars[34], bars[38]), (1.0, 0.0));
        assert_eq!((turned[34], turned[38]), (0.0, 1.0));
    }
}
