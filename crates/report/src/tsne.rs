//! Exact t-SNE (van der Maaten and Hinton 2008): maps vectors to points in the plane that keep
//! their neighbours.
//!
//! Every sum runs over a row in order, so the result has the same bits for any number of threads.

use nextpair_data::{Draws, Progress};
use rayon::prelude::*;

/// Effective number of neighbours of a point.
const PERPLEXITY: f64 = 30.0;
const ITERATIONS: usize = 500;
/// Iterations with early exaggeration, in which clusters form.
const EXAGGERATED: usize = 100;
const EXAGGERATION: f64 = 12.0;
/// The iteration from which momentum is higher.
const MOMENTUM_CHANGE: usize = 250;

/// Returns a point in the plane for every vector.
pub(super) fn tsne(vectors: &[Vec<f64>], seed: u64, progress: &dyn Progress) -> Vec<[f64; 2]> {
    let count = vectors.len();
    let mut draws = Draws::new(seed);
    let mut places: Vec<[f64; 2]> =
        (0..count).map(|_| [1e-4 * draws.normal(), 1e-4 * draws.normal()]).collect();
    progress.start("map", ITERATIONS as u64);
    if count < 4 {
        // Too few points for t-SNE.
        return places;
    }
    let joint = joint_probabilities(vectors);
    let rate = (count as f64 / EXAGGERATION / 4.0).max(50.0);
    let mut speed = vec![[0.0; 2]; count];
    let mut gains = vec![[1.0; 2]; count];
    for iteration in 0..ITERATIONS {
        let exaggeration = if iteration < EXAGGERATED { EXAGGERATION } else { 1.0 };
        let momentum = if iteration < MOMENTUM_CHANGE { 0.5 } else { 0.8 };
        let forces: Vec<Force> =
            (0..count).into_par_iter().map(|at| Force::on(at, &places, &joint[at])).collect();
        let normaliser: f64 = forces.iter().map(|force| force.closeness).sum::<f64>().max(1e-300);
        for (at, force) in forces.iter().enumerate() {
            for axis in 0..2 {
                let slope = 4.0 * (exaggeration * force.pull[axis] - force.push[axis] / normaliser);
                let gain: &mut f64 = &mut gains[at][axis];
                *gain = if (slope > 0.0) == (speed[at][axis] > 0.0) {
                    (*gain * 0.8).max(0.01)
                } else {
                    *gain + 0.2
                };
                speed[at][axis] = momentum * speed[at][axis] - rate * *gain * slope;
                places[at][axis] += speed[at][axis];
            }
        }
        centre(&mut places);
        progress.advance(1);
    }
    places
}

/// The force of all other points on one point.
struct Force {
    pull: [f64; 2],
    push: [f64; 2],
    closeness: f64,
}

impl Force {
    fn on(at: usize, places: &[[f64; 2]], joint: &[f64]) -> Self {
        let [x, y] = places[at];
        let mut force = Force { pull: [0.0; 2], push: [0.0; 2], closeness: 0.0 };
        for (&[other_x, other_y], &probability) in places.iter().zip(joint) {
            // The point itself has distance 0: it adds only its own weight of 1.
            let (dx, dy) = (x - other_x, y - other_y);
            let near = 1.0 / (1.0 + dx * dx + dy * dy);
            let (attract, repel) = (probability * near, near * near);
            force.pull[0] += attract * dx;
            force.pull[1] += attract * dy;
            force.push[0] += repel * dx;
            force.push[1] += repel * dy;
            force.closeness += near;
        }
        force.closeness -= 1.0;
        force
    }
}

/// Returns the joint probabilities of neighbours, one row per point.
fn joint_probabilities(vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let count = vectors.len();
    let conditional: Vec<Vec<f64>> = (0..count)
        .into_par_iter()
        .map(|at| {
            let distance = |other: &Vec<f64>| {
                let differences = vectors[at].iter().zip(other).map(|(a, b)| (a - b) * (a - b));
                differences.sum::<f64>()
            };
            neighbours(at, &vectors.iter().map(distance).collect::<Vec<_>>())
        })
        .collect();
    let row = |at: usize| {
        let joint = |other: usize| (conditional[at][other] + conditional[other][at]) / 2.0;
        (0..count).map(|other| joint(other) / count as f64).collect()
    };
    (0..count).into_par_iter().map(row).collect()
}

/// Returns the conditional probabilities of neighbours of a point: Gaussian, with the bandwidth for
/// the perplexity.
fn neighbours(at: usize, distances: &[f64]) -> Vec<f64> {
    let wanted = PERPLEXITY.min(distances.len() as f64 / 4.0).ln();
    let nearest = distances.iter().enumerate().filter(|(other, _)| *other != at);
    let nearest = nearest.map(|(_, &distance)| distance).fold(f64::INFINITY, f64::min);
    let (mut low, mut high, mut precision) = (0.0, f64::INFINITY, 1.0);
    let mut weights = vec![0.0; distances.len()];
    for _ in 0..64 {
        let (mut total, mut weighted) = (0.0, 0.0);
        for (other, (weight, &distance)) in weights.iter_mut().zip(distances).enumerate() {
            let beyond = distance - nearest;
            *weight = if other == at { 0.0 } else { (-precision * beyond).exp() };
            total += *weight;
            weighted += *weight * beyond;
        }
        let entropy = total.ln() + precision * weighted / total;
        weights.iter_mut().for_each(|weight| *weight /= total);
        if (entropy - wanted).abs() < 1e-6 {
            break;
        }
        if entropy > wanted {
            low = precision;
        } else {
            high = precision;
        }
        precision = if high.is_finite() { f64::midpoint(low, high) } else { precision * 2.0 };
    }
    weights
}

fn centre(places: &mut [[f64; 2]]) {
    for axis in 0..2 {
        let mean = places.iter().map(|place| place[axis]).sum::<f64>() / places.len() as f64;
        places.iter_mut().for_each(|place| place[axis] -= mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns three clusters in ten dimensions.
    fn clouds(each: usize) -> Vec<Vec<f64>> {
        let mut draws = Draws::new(4);
        (0..3 * each)
            .map(|at| {
                let far = |axis: usize| if axis == at / each { 8.0 } else { 0.0 };
                (0..10).map(|axis| far(axis) + draws.normal()).collect()
            })
            .collect()
    }

    #[test]
    fn clouds_stay_together() {
        let places = tsne(&clouds(30), 1, &());
        let distance =
            |a: usize, b: usize| (places[a][0] - places[b][0]).hypot(places[a][1] - places[b][1]);
        for at in 0..places.len() {
            let others = (0..places.len()).filter(|&other| other != at);
            let nearest = others.min_by(|&a, &b| distance(at, a).total_cmp(&distance(at, b)));
            assert_eq!(nearest.unwrap() / 30, at / 30);
        }
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let vectors = clouds(15);
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| tsne(&vectors, 1, &()))
        };
        assert_eq!(with(1), with(3));
    }

    #[test]
    fn few_or_equal_vectors_are_no_reason_to_panic() {
        for count in 0..6 {
            let places = tsne(&vec![vec![1.0, 2.0]; count], 1, &());
            assert!(places.iter().flatten().all(|value| value.is_finite()));
        }
    }
}
