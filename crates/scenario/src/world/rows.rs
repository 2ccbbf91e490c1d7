//! Image features of near-copies and of items that nobody can caption.

use nextpair_data::dataset::Features;
use nextpair_data::{Draws, Matrix, draw};

use super::layout::SEED;
use super::{JunkKind, World};

/// Purposes of draws.
const NOISE: u64 = 4;
const PARTS: u64 = 5;
const SAMPLED: u64 = 6;
const PLACES: u64 = 8;

/// Items that deviations and shuffled junk are made of: at most so many, and so many numbers.
const ITEMS: usize = 2000;
const NUMBERS: usize = 1 << 25;
/// Parts of a vector that diverse junk exchanges.
const BLOCKS: usize = 8;

/// Makes the rows of copies and junk.
pub(super) struct Rows<'a> {
    matrix: &'a Matrix,
    /// The row of the source of every copy.
    sources: Vec<usize>,
    /// Jitter times the standard deviation of every dimension.
    noise: Vec<f64>,
    /// Rows of a sample of the items.
    sample: Vec<usize>,
    /// Their numbers, and their mean by place.
    numbers: Vec<f32>,
    mean: Vec<f64>,
    /// The place that each dimension of permuted junk comes from.
    places: Vec<usize>,
    kind: &'a JunkKind,
    /// Rows of another dataset, in the order of the junk.
    others: Option<(Matrix, Vec<usize>)>,
}

impl<'a> Rows<'a> {
    /// Prepares rows like those of `items`.
    pub(super) fn new(
        world: &'a World,
        features: &'a Features,
        items: &[usize],
        sources: &[usize],
        others: Option<(Matrix, Vec<usize>)>,
    ) -> Self {
        let matrix = features.matrix();
        let rows: Vec<usize> = items.iter().filter_map(|&item| features.row(item)).collect();
        let width = matrix.locals() * matrix.dim();
        let most = ITEMS.min(NUMBERS / width.max(1)).max(2);
        let sample = draw::sample(SEED, SAMPLED, rows.len(), most);
        let sample: Vec<usize> = sample.into_iter().map(|at| rows[at as usize]).collect();
        let mut numbers = vec![0.0; sample.len() * width];
        for (values, &row) in numbers.chunks_exact_mut(width).zip(&sample) {
            matrix.read_f32(row, values);
        }
        let deviation = deviation(&numbers, matrix.dim());
        let mut mean = vec![0.0; width];
        for values in numbers.chunks_exact(width) {
            mean.iter_mut().zip(values).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        mean.iter_mut().for_each(|sum| *sum /= sample.len().max(1) as f64);
        let row_of = |&item: &usize| features.row(item);
        Rows {
            matrix,
            sources: sources.iter().filter_map(row_of).collect(),
            noise: deviation.iter().map(|deviation| world.jitter * deviation).collect(),
            sample,
            numbers,
            mean,
            places: shuffled_places(matrix.dim()),
            kind: &world.junk_kind,
            others,
        }
    }

    /// Writes the row of an added item: copies first, then junk.
    pub(super) fn write(&self, at: usize, out: &mut [f64]) {
        match at.checked_sub(self.sources.len()) {
            None => {
                self.matrix.read_f64(self.sources[at], out);
                let mut draws = Draws::new(draw::draw_of(SEED, NOISE, at as u64));
                let noise = self.noise.iter().cycle();
                out.iter_mut()
                    .zip(noise)
                    .for_each(|(value, noise)| *value += noise * draws.normal());
            }
            Some(junk) => {
                let mut draws = Draws::new(draw::draw_of(SEED, PARTS, junk as u64));
                match (self.kind, &self.others) {
                    (JunkKind::Dataset(_), Some((matrix, rows))) => {
                        matrix.read_f64(rows[junk], out)
                    }
                    (JunkKind::Diverse, _) => self.diverse(&mut draws, out),
                    (JunkKind::Shuffled, _) => self.shuffled(&mut draws, out),
                    _ => self.permuted(&mut draws, out),
                }
            }
        }
    }

    fn permuted(&self, draws: &mut Draws, out: &mut [f64]) {
        let item = draws.below(self.sample.len()) * out.len();
        let (values, dim) = (&self.numbers[item..item + out.len()], self.places.len());
        for (place, value) in out.iter_mut().enumerate() {
            *value = f64::from(values[place / dim * dim + self.places[place % dim]]);
        }
    }

    fn shuffled(&self, draws: &mut Draws, out: &mut [f64]) {
        let width = out.len();
        for (place, value) in out.iter_mut().enumerate() {
            *value = f64::from(self.numbers[draws.below(self.sample.len()) * width + place]);
        }
    }

    fn diverse(&self, draws: &mut Draws, out: &mut [f64]) {
        let (dim, parts) = (self.matrix.dim(), 2 + draws.below(2));
        let mut sum = vec![0.0; out.len()];
        for _ in 0..parts {
            let item = draws.below(self.sample.len()) * out.len();
            let sign = if draws.bits() & 1 == 0 { 1.0 } else { -1.0 };
            let scale = sign / (parts as f64).sqrt();
            let values = &self.numbers[item..item + out.len()];
            for ((sum, &value), mean) in sum.iter_mut().zip(values).zip(&self.mean) {
                *sum += scale * (f64::from(value) - mean);
            }
        }
        let mut order: Vec<usize> = (0..BLOCKS).collect();
        for last in (1..BLOCKS).rev() {
            order.swap(last, draws.below(last + 1));
        }
        // What does not divide into blocks stays where it is.
        let block = dim / BLOCKS;
        for (place, value) in out.iter_mut().enumerate() {
            let (region, within) = (place / dim * dim, place % dim);
            let from = match within.checked_div(block) {
                Some(at) if at < BLOCKS => order[at] * block + within % block,
                _ => within,
            };
            *value = self.mean[place] + sum[region + from];
        }
    }
}

/// Returns the places of permuted junk, the same ones for all of it.
fn shuffled_places(dim: usize) -> Vec<usize> {
    let mut order: Vec<(u64, usize)> =
        (0..dim).map(|place| (draw::draw_of(SEED, PLACES, place as u64), place)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, place)| place).collect()
}

/// Returns the standard deviation of every dimension.
fn deviation(numbers: &[f32], dim: usize) -> Vec<f64> {
    let count = (numbers.len() / dim.max(1)).max(1) as f64;
    let mut means = vec![0.0; dim];
    for vector in numbers.chunks_exact(dim) {
        means.iter_mut().zip(vector).for_each(|(sum, &value)| *sum += f64::from(value));
    }
    means.iter_mut().for_each(|sum| *sum /= count);
    let mut squares = vec![0.0; dim];
    for vector in numbers.chunks_exact(dim) {
        for ((sum, &value), mean) in squares.iter_mut().zip(vector).zip(&means) {
            *sum += (f64::from(value) - mean).powi(2);
        }
    }
    squares.into_iter().map(|sum: f64| (sum / count).sqrt()).collect()
}
