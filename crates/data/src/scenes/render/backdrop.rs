//! Backdrops: a shaded plane, or sky above ground.

use super::{Canvas, SIDE};
use crate::Draws;
use crate::scenes::Backdrop;

/// Colours from top to bottom.
struct Shades {
    sky: [[f32; 3]; 2],
    /// Colours from the horizon to the lower edge, if there is any ground.
    ground: Option<[[f32; 3]; 2]>,
}

fn shades(backdrop: Backdrop) -> Shades {
    let plane = |top, bottom| Shades { sky: [top, bottom], ground: None };
    let land = |top, low, far, near| Shades { sky: [top, low], ground: Some([far, near]) };
    match backdrop {
        Backdrop::Paper => plane([238.0, 230.0, 208.0], [232.0, 222.0, 198.0]),
        Backdrop::Slate => plane([86.0, 92.0, 104.0], [70.0, 75.0, 86.0]),
        Backdrop::Mist => plane([176.0, 198.0, 218.0], [226.0, 232.0, 236.0]),
        Backdrop::Night => plane([14.0, 18.0, 46.0], [38.0, 46.0, 92.0]),
        Backdrop::Dusk => plane([94.0, 74.0, 128.0], [244.0, 164.0, 122.0]),
        Backdrop::Meadow => land(
            [128.0, 180.0, 232.0],
            [196.0, 220.0, 240.0],
            [132.0, 182.0, 104.0],
            [96.0, 152.0, 72.0],
        ),
        Backdrop::Beach => land(
            [120.0, 184.0, 226.0],
            [190.0, 222.0, 234.0],
            [236.0, 214.0, 160.0],
            [220.0, 190.0, 132.0],
        ),
        Backdrop::Sea => land(
            [168.0, 200.0, 226.0],
            [222.0, 230.0, 234.0],
            [58.0, 122.0, 162.0],
            [30.0, 80.0, 122.0],
        ),
        Backdrop::Snow => land(
            [150.0, 162.0, 178.0],
            [186.0, 194.0, 204.0],
            [228.0, 234.0, 242.0],
            [240.0, 244.0, 250.0],
        ),
        Backdrop::Desert => land(
            [240.0, 216.0, 168.0],
            [250.0, 234.0, 200.0],
            [208.0, 138.0, 84.0],
            [182.0, 108.0, 64.0],
        ),
        Backdrop::Room => land(
            [206.0, 196.0, 214.0],
            [194.0, 184.0, 202.0],
            [150.0, 104.0, 72.0],
            [172.0, 122.0, 86.0],
        ),
    }
}

/// Fills the canvas. The ground rises or falls a little, except under a sea or in a room.
pub(super) fn paint(canvas: &mut Canvas, backdrop: Backdrop, horizon: f32, draws: &mut Draws) {
    let Shades { sky, ground } = shades(backdrop);
    let level = matches!(backdrop, Backdrop::Sea | Backdrop::Room);
    let slope = if level { 0.0 } else { 0.16 * (draws.unit() as f32 - 0.5) };
    let warmth = 8.0 * (draws.unit() as f32 - 0.5);
    let warm = |colour: [f32; 3]| [colour[0] + warmth, colour[1], colour[2] - warmth];
    let between = |ends: [[f32; 3]; 2], part: f32| -> [f32; 3] {
        warm(std::array::from_fn(|c| ends[0][c] + (ends[1][c] - ends[0][c]) * part))
    };

    let side = SIDE as f32;
    let meets = horizon * side;
    let rise = (slope * side / 2.0).abs() + 1.0;
    for (row, y) in canvas.chunks_exact_mut(SIDE * 3).zip(0..SIDE) {
        let y = y as f32 + 0.5;
        let Some(ground) = ground else {
            fill(row, between(sky, y / side));
            continue;
        };
        let above = between(sky, (y / meets).min(1.0));
        let below = between(ground, ((y - meets) / (side - meets)).max(0.0));
        if y < meets - rise {
            fill(row, above);
        } else if y > meets + rise {
            fill(row, below);
        } else {
            for (x, pixel) in row.chunks_exact_mut(3).enumerate() {
                let edge = meets + slope * (x as f32 + 0.5 - side / 2.0);
                let share = (0.5 + y - edge).clamp(0.0, 1.0);
                fill(pixel, std::array::from_fn(|c| above[c] + (below[c] - above[c]) * share));
            }
        }
    }
}

/// Fills pixels with one colour.
fn fill(pixels: &mut [u8], colour: [f32; 3]) {
    let colour = colour.map(|c| (c + 0.5) as u8);
    for pixel in pixels.chunks_exact_mut(3) {
        pixel.copy_from_slice(&colour);
    }
}
