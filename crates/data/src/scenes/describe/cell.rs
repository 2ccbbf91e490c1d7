//! Measurements of a cell: sums over its pixels, in integers, so that adding cells is exact.

use image::RgbImage;

use super::CELLS;
use super::hues::{COLOURS, coarse, shares_of};

/// Squared gradient (over three channels, across two pixels) below which a change is grain.
const EDGE: i32 = 1800;

/// Distances to the right and below at which pixels are compared.
const STEPS: [usize; 3] = [1, 2, 4];

/// Sums over the pixels of one or several cells.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// The first column and row.
    pub start: [usize; 2],
    /// Columns and rows.
    pub size: [usize; 2],
    pub pixels: u64,
    pub sums: [u64; 3],
    pub squares: [u64; 3],
    pub colours: [u64; COLOURS],
    /// Absolute differences: to the right for every distance, then below.
    pub changes: [u64; 6],
    /// Number of pixels on an edge.
    pub edges: u64,
    /// Strength of all edges.
    pub strength: u64,
    /// Strength by orientation: 0 vertical, 4 horizontal.
    pub orientations: [u64; 8],
    /// Strength times x, y, x², y², xy, relative to the cell's own corner.
    pub moments: [u64; 5],
    /// Sums of the doubled orientation as a vector, and of its norm.
    pub tensor: [i64; 2],
    pub energy: u64,
}

impl Cell {
    /// Measures one cell of a picture.
    pub fn measured(picture: &RgbImage, column: usize, row: usize) -> Cell {
        let (width, height) = (picture.width() as usize, picture.height() as usize);
        let bounds = |place: usize, side: usize| (place * side / CELLS, (place + 1) * side / CELLS);
        let (left, right) = bounds(column, width);
        let (top, bottom) = bounds(row, height);
        let mut cell = Cell {
            start: [left, top],
            size: [right - left, bottom - top],
            pixels: ((right - left) * (bottom - top)) as u64,
            ..Cell::default()
        };
        let line = |y: usize| &picture.as_raw()[y * width * 3..(y + 1) * width * 3];
        for y in top..bottom {
            let here = line(y);
            cell.add_colours(&here[left * 3..right * 3]);
            for (i, step) in STEPS.into_iter().enumerate() {
                let end = right.min(width.saturating_sub(step)).max(left);
                let there = &here[((left + step) * 3).min(width * 3)..];
                cell.changes[i] += differences(&here[left * 3..end * 3], there);
                if y + step < height {
                    let there = &line(y + step)[left * 3..];
                    cell.changes[STEPS.len() + i] += differences(&here[left * 3..right * 3], there);
                }
            }
            if y > 0 && y + 1 < height {
                cell.add_edges([line(y - 1), here, line(y + 1)], left.max(1), right, y);
            }
        }
        cell
    }

    pub fn add(&mut self, other: &Cell) {
        fn all<const N: usize>(sums: &mut [u64; N], more: &[u64; N]) {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        self.pixels += other.pixels;
        all(&mut self.sums, &other.sums);
        all(&mut self.squares, &other.squares);
        all(&mut self.colours, &other.colours);
        all(&mut self.changes, &other.changes);
        self.edges += other.edges;
        self.strength += other.strength;
        all(&mut self.orientations, &other.orientations);
        self.tensor[0] += other.tensor[0];
        self.tensor[1] += other.tensor[1];
        self.energy += other.energy;
    }

    fn add_colours(&mut self, pixels: &[u8]) {
        let (mut sums, mut squares) = ([0u32; 3], [0u32; 3]);
        // Neighbours mostly look alike, so the shares of a run are added at once.
        let mut run = (0, 0);
        for pixel in pixels.chunks_exact(3) {
            for c in 0..3 {
                sums[c] += pixel[c] as u32;
                squares[c] += pixel[c] as u32 * pixel[c] as u32;
            }
            let colour = coarse([pixel[0], pixel[1], pixel[2]]);
            if colour != run.0 {
                self.add_run(run);
                run = (colour, 0);
            }
            run.1 += 1;
        }
        self.add_run(run);
        for c in 0..3 {
            self.sums[c] += sums[c] as u64;
            self.squares[c] += squares[c] as u64;
        }
    }

    fn add_run(&mut self, (colour, length): (usize, u64)) {
        for (place, weight) in shares_of(colour) {
            self.colours[place as usize] += weight as u64 * length;
        }
    }

    /// Adds the edges of one row, by the colour gradient of Di Zenzo (1986): the three channels
    /// vote together on one orientation, so that edges between equally bright colours count.
    fn add_edges(&mut self, [above, here, below]: [&[u8]; 3], left: usize, right: usize, y: usize) {
        let end = right.min((here.len() / 3).saturating_sub(1));
        if left >= end {
            return;
        }
        let (west, east) = (&here[(left - 1) * 3..], &here[(left + 1) * 3..]);
        let (north, south) = (&above[left * 3..], &below[left * 3..]);
        let neighbours = (west.chunks_exact(3).zip(east.chunks_exact(3)))
            .zip(north.chunks_exact(3).zip(south.chunks_exact(3)));
        for (x, ((west, east), (north, south))) in (left..end).zip(neighbours) {
            let (mut xx, mut yy, mut xy) = (0, 0, 0);
            for c in 0..3 {
                let dx = east[c] as i32 - west[c] as i32;
                let dy = south[c] as i32 - north[c] as i32;
                xx += dx * dx;
                yy += dy * dy;
                xy += dx * dy;
            }
            if xx + yy < EDGE {
                continue;
            }
            let strength = ((xx + yy) as f32).sqrt() as u64;
            self.edges += 1;
            self.strength += strength;
            // In the doubled angle, opposite gradients have the same orientation.
            let (across, along) = (xx - yy, 2 * xy);
            self.tensor[0] += across as i64;
            self.tensor[1] += along as i64;
            self.energy += (xx + yy) as u64;
            self.add_orientation(across, along, strength);
            let (x, y) = ((x - self.start[0]) as u64, (y - self.start[1]) as u64);
            for (sum, by) in self.moments.iter_mut().zip([x, y, x * x, y * y, x * y]) {
                *sum += strength * by;
            }
        }
    }

    /// Divides the strength between the two nearest of eight orientations.
    fn add_orientation(&mut self, across: i32, along: i32, strength: u64) {
        let axis = match (across.abs() >= along.abs(), across >= 0, along >= 0) {
            (true, true, _) => 0,
            (false, _, true) => 2,
            (true, false, _) => 4,
            (false, _, false) => 6,
        };
        let diagonal = match (across >= 0, along >= 0) {
            (true, true) => 1,
            (false, true) => 3,
            (false, false) => 5,
            (true, false) => 7,
        };
        let (less, more) =
            (across.abs().min(along.abs()) as f32, across.abs().max(along.abs()) as f32);
        let part = if more > 0.0 { (strength as f32 * (less / more)) as u64 } else { 0 };
        self.orientations[diagonal] += part;
        self.orientations[axis] += strength - part;
    }
}

/// The sum of absolute differences of two slices, up to the shorter length.
fn differences(here: &[u8], there: &[u8]) -> u64 {
    // Short enough for 32 bits, which lets the compiler use byte instructions.
    let sum: u32 = here.iter().zip(there).map(|(a, b)| a.abs_diff(*b) as u32).sum();
    sum as u64
}
