//! Rendering of a scene: a backdrop, objects with soft edges, then light and grain.
//!
//! It uses only additions, multiplications, divisions and square roots in single precision and in a
//! fixed order, so it makes the same bytes on every machine.

mod backdrop;
mod fill;

use image::RgbImage;

use super::attributes::Texture;
use super::compose::{Object, Scene};
use super::outline::{Point, REACH, outline};
use crate::Draws;
use fill::Coverage;

/// Width and height of a picture in pixels.
pub const SIDE: usize = 128;

/// A picture that is being painted: rows of red, green and blue.
type Canvas = [u8];

impl Scene {
    /// Renders the picture: [`SIDE`] by [`SIDE`] pixels.
    pub fn render(&self) -> RgbImage {
        let mut canvas = vec![0; SIDE * SIDE * 3];
        let mut draws = Draws::new(self.appearance);
        backdrop::paint(&mut canvas, self.backdrop, self.horizon, &mut draws);
        let mut coverage = Coverage::new();
        for object in &self.objects {
            paint(&mut canvas, &mut coverage, object);
        }
        expose(&mut canvas, &mut draws);
        RgbImage::from_raw(SIDE as u32, SIDE as u32, canvas)
            .expect("the canvas has three bytes for every pixel")
    }
}

/// Paints an object and the faint dark rim that sets it off from the background.
fn paint(canvas: &mut Canvas, coverage: &mut Coverage, object: &Object) {
    let (centre, radius) = (object.centre(), object.radius());
    let contours = outline(object.shape);
    let turn = rotation(0.09 * object.variation.tilt);

    let rim = radius + 1.2;
    coverage.trace(contours, [centre[0] + 0.6, centre[1] + 0.8], turn, rim);
    coverage.blend(canvas, |_, _| ([18.0, 18.0, 24.0], 0.5));

    let tint = object.variation.tint;
    let base = object.colour.rgb();
    let main: [f32; 3] = std::array::from_fn(|c| base[c] * (1.0 + 0.04 * tint[0]) + 9.0 * tint[c]);
    // The pattern is a lighter or darker shade: it must stand out without obscuring the colour.
    let light = main[0] * 0.3 + main[1] * 0.59 + main[2] * 0.11;
    let second = main.map(|c| if light < 135.0 { c * 0.38 + 255.0 * 0.62 } else { c * 0.52 });
    let across = pattern_turn(turn, object.variation.direction);
    let period = 4.6 + 0.16 * radius;
    coverage.trace(contours, centre, turn, radius);
    coverage.blend(canvas, |x, y| {
        let (dx, dy) = (x - centre[0], y - centre[1]);
        let shade = 1.0 - 0.1 * (dx + dy) / (radius * REACH);
        let u = dx * across[0] + dy * across[1];
        let v = dy * across[0] - dx * across[1];
        let mix = pattern(object.texture, u / period, v / period, period);
        (std::array::from_fn(|c| (main[c] + (second[c] - main[c]) * mix) * shade), 1.0)
    });
}

/// Cosine and sine of the angle whose half has this tangent.
fn rotation(half: f32) -> Point {
    let square = half * half;
    [(1.0 - square) / (1.0 + square), 2.0 * half / (1.0 + square)]
}

/// Combines the object's rotation with one of four directions of its pattern.
fn pattern_turn(turn: Point, direction: usize) -> Point {
    const DIAGONAL: f32 = std::f32::consts::FRAC_1_SQRT_2;
    let by = [[1.0, 0.0], [0.0, 1.0], [DIAGONAL, DIAGONAL], [DIAGONAL, -DIAGONAL]][direction % 4];
    [turn[0] * by[0] - turn[1] * by[1], turn[0] * by[1] + turn[1] * by[0]]
}

/// The share of the second colour at a point, in periods of the pattern.
fn pattern(texture: Texture, u: f32, v: f32, period: f32) -> f32 {
    // The distance from the nearest repetition, from 0 to 0.5; the offset keeps it positive.
    let fold = |x: f32| {
        let x = x + 64.0;
        (x - (x as i32) as f32 - 0.5).abs()
    };
    // An edge at distance 0, softened over one pixel.
    let soft = |distance: f32| (0.5 + distance * period).clamp(0.0, 1.0);
    match texture {
        Texture::Plain => 0.0,
        Texture::Striped => soft(fold(u) - 0.25),
        Texture::Zigzag => soft(fold(u + 0.9 * fold(v * 0.6)) - 0.25),
        Texture::Dotted => {
            let (u, v) = (fold(u), fold(v));
            soft(0.29 - (u * u + v * v).sqrt())
        }
        Texture::Checked => {
            let (u, v) = (soft(fold(u * 0.7) - 0.25), soft(fold(v * 0.7) - 0.25));
            u + v - 2.0 * u * v
        }
        Texture::Gridded => soft(fold(u) - 0.36).max(soft(fold(v) - 0.36)),
    }
}

/// Adds uneven light and grain to the whole picture.
fn expose(canvas: &mut Canvas, draws: &mut Draws) {
    let mut signed = |range: f64| ((2.0 * draws.unit() - 1.0) * range) as i32;
    // In 65536ths: the light in the middle, and its change per pixel to the right and downwards.
    let (middle, right, down) = (signed(4000.0), signed(70.0), signed(70.0));
    let grain = 1 + 2 * draws.below(3) as i32;
    for (y, row) in canvas.chunks_exact_mut(SIDE * 3).enumerate() {
        let half = SIDE as i32 / 2;
        let mut light = 65536 + middle + down * (y as i32 - half) - right * half;
        for eight in row.chunks_exact_mut(8 * 3) {
            let random = draws.bits().to_le_bytes();
            for (pixel, byte) in eight.chunks_exact_mut(3).zip(random) {
                // Uniform over `grain` values, and zero on average.
                let noise = ((byte as i32 * grain) >> 8) - grain / 2;
                for value in pixel {
                    *value = (((*value as i32 * light) >> 16) + noise).clamp(0, 255) as u8;
                }
                light += right;
            }
        }
    }
}
