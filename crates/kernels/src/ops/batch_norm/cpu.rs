//! Batch normalisation on the CPU. Sums run in double precision over bands of rows, and then band by
//! band, so that they do not depend on the number of threads.

use rayon::prelude::*;

use super::{BatchNorm, Layout, Moments};

/// Rows of a band.
const ROWS: usize = 64;

/// Two sums of every group. `add` gets a row with its number and the sums to add to.
fn sums(
    layout: &Layout,
    add: impl Fn(usize, &mut [f64], &mut [f64]) + Sync,
) -> (Vec<f64>, Vec<f64>) {
    let groups = layout.counts.len();
    let bands: Vec<usize> = (0..layout.rows).step_by(ROWS).collect();
    let of_band = |&first: &usize| {
        let (mut one, mut other) = (vec![0.0; groups], vec![0.0; groups]);
        (first..layout.rows.min(first + ROWS)).for_each(|row| add(row, &mut one, &mut other));
        (one, other)
    };
    let bands: Vec<(Vec<f64>, Vec<f64>)> = bands.par_iter().map(of_band).collect();
    let mut all = (vec![0.0; groups], vec![0.0; groups]);
    for (one, other) in bands {
        all.0.iter_mut().zip(one).for_each(|(sum, part)| *sum += part);
        all.1.iter_mut().zip(other).for_each(|(sum, part)| *sum += part);
    }
    all
}

/// Means and variances of the groups of a batch.
pub(super) fn moments(layout: &Layout, values: &[f32]) -> Moments {
    let dim = layout.dim;
    let row = |row: usize| &values[row * dim..][..dim];
    let mean = |sums: Vec<f64>| -> Vec<f64> {
        let counts = layout.counts.iter().map(|&count| count.max(1) as f64);
        sums.into_iter().zip(counts).map(|(sum, count)| sum / count).collect()
    };
    let (totals, _) = sums(layout, |at, totals, _| match layout.of_rows() {
        None => totals.iter_mut().zip(row(at)).for_each(|(sum, &x)| *sum += f64::from(x)),
        Some(groups) => {
            totals[groups[at] as usize] += row(at).iter().map(|&x| f64::from(x)).sum::<f64>();
        }
    });
    let means = mean(totals);
    let square = |x: f32, mean: f64| (f64::from(x) - mean) * (f64::from(x) - mean);
    let (squares, _) = sums(layout, |at, squares, _| match layout.of_rows() {
        None => {
            let numbers = squares.iter_mut().zip(row(at)).zip(&means);
            numbers.for_each(|((sum, &x), &mean)| *sum += square(x, mean));
        }
        Some(groups) => {
            let group = groups[at] as usize;
            squares[group] += row(at).iter().map(|&x| square(x, means[group])).sum::<f64>();
        }
    });
    Moments::Known { means, variances: mean(squares) }
}

/// Mean, inverse deviation and factor of every group in single precision.
fn singles(norm: &BatchNorm, gain: &[f32]) -> [Vec<f32>; 3] {
    let (means, inverses) = norm.known();
    let scale =
        |(group, &inverse): (usize, &f64)| (inverse * f64::from(gain[norm.channel(group)])) as f32;
    let scales = inverses.iter().enumerate().map(scale).collect();
    let single = |numbers: &[f64]| numbers.iter().map(|&x| x as f32).collect();
    [single(means), single(&inverses), scales]
}

pub(super) fn forward(norm: &BatchNorm, values: &[f32], gain: &[f32], shift: &[f32]) -> Vec<f32> {
    let dim = norm.layout.dim.max(1);
    let [means, _, scales] = singles(norm, gain);
    let shifts: Vec<f32> = (0..means.len()).map(|group| shift[norm.channel(group)]).collect();
    let mut out = values.to_vec();
    out.par_chunks_mut(ROWS * dim).enumerate().for_each(|(band, out)| {
        for (row, out) in out.chunks_exact_mut(dim).enumerate() {
            match norm.layout.of_rows() {
                None => {
                    let groups = means.iter().zip(&scales).zip(&shifts);
                    for (x, ((mean, scale), shift)) in out.iter_mut().zip(groups) {
                        *x = (*x - mean) * scale + shift;
                    }
                }
                Some(groups) => {
                    let group = groups[band * ROWS + row] as usize;
                    let (mean, scale, shift) = (means[group], scales[group], shifts[group]);
                    out.iter_mut().for_each(|x| *x = (*x - mean) * scale + shift);
                }
            }
        }
    });
    out
}

/// With `n` the normalised numbers and `m` of them in a group, `dx = gain / sd (dy - mean(dy) - n
/// mean(dy n))`; where mean and variance are constants, `dx = gain / sd dy`.
pub(super) fn backward(
    norm: &BatchNorm,
    values: &[f32],
    gain: &[f32],
    upstream: &[f32],
    wanted: bool,
) -> Vec<Option<Vec<f32>>> {
    let dim = norm.layout.dim.max(1);
    let [means, inverses, scales] = singles(norm, gain);
    let row = |row: usize| row * dim..(row + 1) * dim;
    let (of_shift, of_gain) = sums(&norm.layout, |at, plain, along| {
        let numbers = upstream[row(at)].iter().zip(&values[row(at)]);
        match norm.layout.of_rows() {
            None => {
                let groups = means.iter().zip(&inverses);
                let sums = plain.iter_mut().zip(along);
                for (((g, x), (mean, inverse)), (plain, along)) in numbers.zip(groups).zip(sums) {
                    *plain += f64::from(*g);
                    *along += f64::from(g * ((x - mean) * inverse));
                }
            }
            Some(groups) => {
                let group = groups[at] as usize;
                let (mean, inverse) = (means[group], inverses[group]);
                for (g, x) in numbers {
                    plain[group] += f64::from(*g);
                    along[group] += f64::from(g * ((x - mean) * inverse));
                }
            }
        }
    });
    let of_values = wanted.then(|| {
        let mean = |sums: &[f64]| -> Vec<f32> {
            let counts = norm.layout.counts.iter().map(|&count| count.max(1) as f64);
            let factor = f64::from(u8::from(norm.of_batch));
            sums.iter().zip(counts).map(|(sum, count)| (factor * sum / count) as f32).collect()
        };
        let (plain, along) = (mean(&of_shift), mean(&of_gain));
        let mut out = upstream.to_vec();
        out.par_chunks_mut(ROWS * dim).enumerate().for_each(|(band, out)| {
            for (at, out) in out.chunks_exact_mut(dim).enumerate() {
                let own = &values[row(band * ROWS + at)];
                let slope = |g: f32, x: f32, group: usize| {
                    let normal = (x - means[group]) * inverses[group];
                    scales[group] * (g - plain[group] - normal * along[group])
                };
                match norm.layout.of_rows() {
                    None => {
                        let numbers = out.iter_mut().zip(own).enumerate();
                        numbers.for_each(|(column, (g, &x))| *g = slope(*g, x, column));
                    }
                    Some(groups) => {
                        let group = groups[band * ROWS + at] as usize;
                        out.iter_mut().zip(own).for_each(|(g, &x)| *g = slope(*g, x, group));
                    }
                }
            }
        });
        out
    });
    let channels = |sums: &[f64]| match norm.shared {
        true => vec![sums.iter().sum::<f64>() as f32],
        false => sums.iter().map(|&sum| sum as f32).collect(),
    };
    vec![of_values, Some(channels(&of_gain)), Some(channels(&of_shift))]
}
