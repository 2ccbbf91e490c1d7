//! The outlines of the shapes: polygons around the origin, about one unit in radius.
//!
//! Curves are polygons of [`STEPS`] corners, so that one rasteriser draws everything. The
//! arithmetic rounds the same on every machine: the points of the circle come from square roots and
//! products, not from the system's sine.

use std::sync::LazyLock;

use super::Shape;

/// A corner: x to the right, y downwards.
pub(super) type Point = [f32; 2];

/// Corners of a circle. At a radius of 20 pixels, 48 corners stay within a twentieth of a pixel.
const STEPS: usize = 48;

/// Largest distance of a corner from the origin.
pub(super) const REACH: f32 = 1.2;

/// Closed contours. Inner ones run the other way round, which makes them holes.
pub(super) type Outline = Vec<Vec<Point>>;

static OUTLINES: LazyLock<Vec<Outline>> =
    LazyLock::new(|| Shape::ALL.iter().map(|&shape| trace(shape)).collect());

/// The outline of a shape.
pub(super) fn outline(shape: Shape) -> &'static Outline {
    &OUTLINES[shape as usize]
}

fn trace(shape: Shape) -> Outline {
    let circle = circle();
    let scaled = |points: &[Point], x: f32, y: f32| -> Vec<Point> {
        points.iter().map(|p| [p[0] * x, p[1] * y]).collect()
    };
    match shape {
        Shape::Circle => vec![scaled(&circle, 0.95, 0.95)],
        Shape::Oval => vec![scaled(&circle, 1.05, 0.66)],
        Shape::Ring => {
            let mut hole = scaled(&circle, 0.52, 0.52);
            hole.reverse();
            vec![circle, hole]
        }
        Shape::Square => vec![mirrored(&[[0.83, -0.83], [0.83, 0.83]])],
        Shape::Triangle => vec![vec![[0.0, -1.02], [0.94, 0.73], [-0.94, 0.73]]],
        Shape::Diamond => vec![vec![[0.0, -1.1], [0.76, 0.0], [0.0, 1.1], [-0.76, 0.0]]],
        Shape::Hexagon => vec![circle.iter().step_by(STEPS / 6).copied().collect()],
        Shape::Cross => vec![mirrored(&[
            [0.33, -1.0],
            [0.33, -0.33],
            [1.0, -0.33],
            [1.0, 0.33],
            [0.33, 0.33],
            [0.33, 1.0],
        ])],
        Shape::House => vec![mirrored(&[[0.0, -1.0], [1.0, -0.15], [0.74, -0.15], [0.74, 0.85]])],
        Shape::Arrow => vec![vec![
            [1.05, 0.0],
            [0.2, 0.82],
            [0.2, 0.32],
            [-1.0, 0.32],
            [-1.0, -0.32],
            [0.2, -0.32],
            [0.2, -0.82],
        ]],
        Shape::Star => {
            // A fifth of a turn, from its exact cosine and sine.
            let root = 5.0f64.sqrt();
            let turn = [(root - 1.0) / 4.0, (10.0 + 2.0 * root).sqrt() / 4.0];
            let mut tip = [0.0, -1.08];
            let mut points = Vec::new();
            for _ in 0..5 {
                let next = rotate(tip, turn);
                let between = [(tip[0] + next[0]) * 0.29, (tip[1] + next[1]) * 0.29];
                points.extend([narrow(tip), narrow(between)]);
                tip = next;
            }
            vec![points]
        }
        Shape::Crescent => {
            // The outer arc from tip to tip, and back along a flatter one.
            let outer = &circle[STEPS / 8..=STEPS * 7 / 8];
            let tip = outer[0];
            let inner = outer.iter().rev().map(|p| {
                let bulge = (p[0] - tip[0]) * 0.42;
                [tip[0] + bulge, p[1] * 0.86]
            });
            let points: Vec<Point> = outer.iter().copied().chain(inner.skip(1)).collect();
            vec![points.iter().map(|p| [p[0] + 0.2, p[1]]).collect()]
        }
        Shape::Heart => {
            let bend = |p: &Point| {
                let (c, s) = (-p[1], p[0]);
                let twice = 2.0 * c * c - 1.0;
                let thrice = c * (2.0 * twice - 1.0);
                let fourfold = 2.0 * twice * twice - 1.0;
                let height = 13.0 * c - 5.0 * twice - 2.0 * thrice - fourfold;
                [s * s * s * 1.06, -height / 15.5 - 0.08]
            };
            vec![circle.iter().map(bend).collect()]
        }
        Shape::Flower => {
            // Six petals: the radius follows the cosine of six times the angle.
            let petal = |p: &Point| {
                let twice = 2.0 * p[0] * p[0] - 1.0;
                let sixfold = twice * (4.0 * twice * twice - 3.0);
                let radius = 0.8 + 0.22 * sixfold;
                [p[0] * radius, p[1] * radius]
            };
            vec![circle.iter().map(petal).collect()]
        }
    }
}

/// The unit circle from its rightmost point, clockwise as seen.
fn circle() -> Vec<Point> {
    // A 48th of a turn is an eighth of 60 degrees: halve the angle three times.
    let mut cosine = 0.5f64;
    for _ in 0..3 {
        cosine = ((1.0 + cosine) / 2.0).sqrt();
    }
    let turn = [cosine, (1.0 - cosine * cosine).sqrt()];
    let mut point = [1.0, 0.0];
    let mut points = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        points.push(narrow(point));
        point = rotate(point, turn);
    }
    points
}

fn rotate(p: [f64; 2], turn: [f64; 2]) -> [f64; 2] {
    [p[0] * turn[0] - p[1] * turn[1], p[0] * turn[1] + p[1] * turn[0]]
}

fn narrow(p: [f64; 2]) -> Point {
    [p[0] as f32, p[1] as f32]
}

/// Completes the right half of an outline, from top to bottom, with its mirror image.
fn mirrored(right: &[Point]) -> Vec<Point> {
    let left = right.iter().rev().filter(|p| p[0] > 0.0).map(|p| [-p[0], p[1]]);
    right.iter().copied().chain(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlines_are_closed_near_the_unit_circle_and_run_one_way() {
        for &shape in Shape::ALL {
            let contours = outline(shape);
            let area = |points: &[Point]| -> f32 {
                (0..points.len())
                    .map(|i| {
                        let (p, q) = (points[i], points[(i + 1) % points.len()]);
                        p[0] * q[1] - p[1] * q[0]
                    })
                    .sum()
            };
            assert!(area(&contours[0]) > 1.0, "{shape:?}");
            assert!(contours[1..].iter().all(|hole| area(hole) < 0.0), "{shape:?}");
            for p in contours.iter().flatten() {
                assert!(p[0] * p[0] + p[1] * p[1] < REACH * REACH, "{shape:?} {p:?}");
            }
        }
    }
}
