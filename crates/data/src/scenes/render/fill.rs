//! Antialiased filling: how much of each pixel an outline covers, and painting by it.

use super::{Canvas, SIDE};
use crate::scenes::outline::{Outline, Point, REACH};

/// Scan lines per row of pixels; coverage is exact along each line.
const LINES: usize = 4;

/// The covered share of every pixel in the bounding box of an outline, stored as differences along
/// rows.
///
/// An edge that crosses a scan line at some x changes the coverage of everything to its right. The
/// change has opposite signs for edges that go down and up. So each crossing is written at one
/// place, and summing a row from the left gives the coverage of any shape.
pub(super) struct Coverage {
    steps: Vec<f32>,
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Coverage {
    pub fn new() -> Self {
        Coverage { steps: Vec::new(), left: 0, top: 0, width: 0, height: 0 }
    }

    /// Traces an outline, rotated, scaled to a radius and moved to a centre.
    pub fn trace(&mut self, contours: &Outline, centre: Point, turn: Point, radius: f32) {
        let reach = radius * REACH;
        let bounds = |along: f32| {
            let low = (along - reach).max(0.0) as usize;
            (low, ((along + reach) as usize + 1).min(SIDE).saturating_sub(low))
        };
        (self.left, self.width) = bounds(centre[0]);
        (self.top, self.height) = bounds(centre[1]);
        self.steps.clear();
        // Two more than the width: a crossing writes to its pixel and the next.
        self.steps.resize((self.width + 2) * self.height, 0.0);

        let origin = [centre[0] - self.left as f32, centre[1] - self.top as f32];
        let placed = |p: &Point| {
            let (x, y) = (p[0] * radius, p[1] * radius);
            [origin[0] + x * turn[0] - y * turn[1], origin[1] + x * turn[1] + y * turn[0]]
        };
        for contour in contours {
            let Some(last) = contour.last() else { continue };
            let mut from = placed(last);
            for corner in contour {
                let to = placed(corner);
                self.edge(from, to);
                from = to;
            }
        }
    }

    fn edge(&mut self, from: Point, to: Point) {
        let (upper, lower, share) = if from[1] < to[1] {
            (from, to, -1.0 / LINES as f32)
        } else {
            (to, from, 1.0 / LINES as f32)
        };
        // Scan lines lie in the middle of their strips: line `i` at `(i + 0.5) / LINES`.
        let first_below = |y: f32| (y * LINES as f32 + 0.5).max(0.0) as usize;
        let lines = first_below(upper[1])..first_below(lower[1]).min(self.height * LINES);
        if lines.is_empty() {
            return;
        }
        let slope = (lower[0] - upper[0]) / (lower[1] - upper[1]);
        for line in lines {
            let y = (line as f32 + 0.5) / LINES as f32;
            let x = (upper[0] + (y - upper[1]) * slope).clamp(0.0, self.width as f32);
            let pixel = x as usize;
            let part = x - pixel as f32;
            let place = line / LINES * (self.width + 2) + pixel;
            self.steps[place] += share * (1.0 - part);
            self.steps[place + 1] += share * part;
        }
    }

    /// Paints the covered pixels with the colour and opacity at their middles.
    pub fn blend(&self, canvas: &mut Canvas, paint: impl Fn(f32, f32) -> ([f32; 3], f32)) {
        let rows = canvas.chunks_exact_mut(SIDE * 3).skip(self.top);
        for ((row, steps), y) in rows.zip(self.steps.chunks_exact(self.width + 2)).zip(self.top..) {
            let mut covered = 0.0;
            let pixels = row.chunks_exact_mut(3).skip(self.left).take(self.width);
            for ((pixel, step), x) in pixels.zip(steps).zip(self.left..) {
                covered += step;
                // Less than half a level is invisible.
                if covered < 0.002 {
                    continue;
                }
                let (colour, opacity) = paint(x as f32 + 0.5, y as f32 + 0.5);
                let share = covered.min(1.0) * opacity;
                for (value, colour) in pixel.iter_mut().zip(colour) {
                    let under = *value as f32;
                    *value = (under + (colour - under) * share + 0.5) as u8;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes::{Shape, outline::outline};

    #[test]
    fn coverage_adds_up_to_the_area() {
        let (centre, radius) = ([60.3, 51.8], 20.0);
        let mut coverage = Coverage::new();
        for (shape, area) in
            [(Shape::Square, 4.0 * 0.83 * 0.83), (Shape::Ring, std::f32::consts::PI * 0.7296)]
        {
            coverage.trace(outline(shape), centre, [0.8, 0.6], radius);
            let mut sum = 0.0;
            for row in coverage.steps.chunks_exact(coverage.width + 2) {
                let mut covered = 0.0;
                for step in row {
                    covered += step;
                    assert!((-0.001..1.001).contains(&covered), "{shape:?} {covered}");
                    sum += covered;
                }
                assert!(covered.abs() < 0.001, "{shape:?} is not closed");
            }
            let area = area * radius * radius;
            assert!((sum - area).abs() < 0.01 * area, "{shape:?}: {sum} for {area}");
        }
    }

    #[test]
    fn what_reaches_past_the_border_is_cut_off() {
        let mut canvas = vec![0; SIDE * SIDE * 3];
        let mut coverage = Coverage::new();
        for centre in [[0.0, 0.0], [128.0, 128.0], [-90.0, 60.0], [60.0, 400.0]] {
            coverage.trace(outline(Shape::Star), centre, [1.0, 0.0], 20.0);
            coverage.blend(&mut canvas, |_, _| ([255.0; 3], 1.0));
        }
        assert_eq!((canvas[0], canvas[canvas.len() - 1]), (255, 255));
    }
}
