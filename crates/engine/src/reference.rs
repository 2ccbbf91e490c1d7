//! The plain version of everything, slow but obviously right. Tests hold every fast path to it.
//!
//! Similarities come as whole matrices: `own[l][j]` for rival `l` and anchor `j`, `cross[i][j]` for
//! pool item `i` and anchor `j`.

use std::collections::HashMap;

use nextpair_core::draw;

use crate::canonical::{exp, ln};
use crate::points::{
    CLOSEST_QUERIES, NEIGHBOURS, POINTS, QUERY_SLOPE, SAMPLED_ITEMS, SMALLEST_BANDWIDTH,
};
use crate::{Guards, Metric, Weight};

/// The similarity of two vectors: float64, ascending dimension.
pub fn similarity(metric: Metric, x: &[f64], y: &[f64]) -> f64 {
    let dot = |x: &[f64], y: &[f64]| {
        let mut sum = 0.0;
        for k in 0..x.len() {
            sum += x[k] * y[k];
        }
        sum
    };
    match metric {
        Metric::Dot => dot(x, y),
        Metric::Cosine => dot(x, y) / (dot(x, x).sqrt() * dot(y, y).sqrt()),
    }
}

/// The squared distance between two vectors: float64, ascending dimension.
pub fn squared_distance(x: &[f64], y: &[f64]) -> f64 {
    let mut sum = 0.0;
    for k in 0..x.len() {
        sum += (x[k] - y[k]) * (x[k] - y[k]);
    }
    sum
}

/// One group label per pair, the first pair of its group. Pairs that share something are in one
/// group, and so are pairs that other pairs connect.
pub fn groups(pairs: usize, share: impl Fn(usize, usize) -> bool) -> Vec<u32> {
    let mut group: Vec<u32> = (0..pairs as u32).collect();
    loop {
        let before = group.clone();
        for a in 0..pairs {
            for b in 0..pairs {
                if share(a, b) {
                    group[a] = group[a].min(group[b]);
                }
            }
        }
        if group == before {
            return group;
        }
    }
}

/// For each anchor, the k-th largest similarity among rivals of other groups, or `None` if there
/// are fewer than `k`. A group counts once, with its largest similarity.
pub fn thresholds(
    own: &[Vec<f64>],
    anchors: &[usize],
    rivals: &[usize],
    group: &[u32],
    k: usize,
) -> Vec<Option<f64>> {
    anchors
        .iter()
        .map(|&j| {
            let mut largest: HashMap<u32, f64> = HashMap::new();
            for &l in rivals {
                if group[l] != group[j] {
                    let value = largest.entry(group[l]).or_insert(f64::NEG_INFINITY);
                    *value = value.max(own[l][j]);
                }
            }
            let mut values: Vec<f64> = largest.into_values().collect();
            values.sort_by(|a, b| b.total_cmp(a));
            values.get(k - 1).copied()
        })
        .collect()
}

/// Whether a similarity is a hit for an anchor with threshold `xi` and own pair `positive`.
pub fn is_hit(similarity: f64, xi: f64, positive: f64, guards: &Guards) -> bool {
    similarity > xi
        && guards.max_score.is_none_or(|limit| similarity <= limit)
        && guards.absolute_margin.is_none_or(|m| similarity <= positive - m)
        && guards.relative_margin.is_none_or(|m| similarity <= positive - m * positive.abs())
}

/// The hits of each pool item: anchor position and similarity. `positives[p]` is the similarity of
/// anchor `p`'s own pair.
pub fn hits(
    cross: &[Vec<f64>],
    anchors: &[usize],
    xi: &[f64],
    positives: &[f64],
    guards: &Guards,
) -> Vec<Vec<(usize, f64)>> {
    let of_item = |row: &Vec<f64>| {
        (0..anchors.len())
            .map(|p| (p, row[anchors[p]]))
            .filter(|&(p, s)| is_hit(s, xi[p], positives[p], guards))
            .collect()
    };
    cross.iter().map(of_item).collect()
}

/// The score of every item.
pub fn scores(hits: &[Vec<(usize, f64)>], xi: &[f64], weight: Weight) -> Vec<f64> {
    let score = |hits: &Vec<(usize, f64)>| {
        let mut sum = 0.0;
        for &(p, s) in hits {
            sum += match weight {
                Weight::Surplus => s - xi[p],
                Weight::Count => 1.0,
            };
        }
        sum
    };
    hits.iter().map(score).collect()
}

/// Indices by falling score, ties to the lower index.
pub fn order(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    order
}

/// Greedy coverage: indices and gains. When no item gains anything, the rest follows by falling
/// `fillers`.
pub fn coverage(
    hits: &[Vec<(usize, f64)>],
    xi: &[f64],
    weight: Weight,
    fillers: &[f64],
    budget: usize,
) -> Vec<(usize, f64)> {
    let mut level = xi.to_vec();
    let mut picks: Vec<(usize, f64)> = Vec::new();
    while picks.len() < budget {
        let mut best: Option<(usize, f64)> = None;
        for (i, hits) in hits.iter().enumerate() {
            if picks.iter().any(|&(picked, _)| picked == i) {
                continue;
            }
            let mut gain = 0.0;
            for &(p, s) in hits {
                gain += match weight {
                    Weight::Surplus => f64::max(s - level[p], 0.0),
                    Weight::Count => f64::from(level[p] == xi[p]),
                };
            }
            if gain > 0.0 && best.is_none_or(|(_, largest)| gain > largest) {
                best = Some((i, gain));
            }
        }
        let Some((i, gain)) = best else { break };
        for &(p, s) in &hits[i] {
            level[p] = level[p].max(s);
        }
        picks.push((i, gain));
    }
    for i in order(fillers) {
        if picks.len() < budget && !picks.iter().any(|&(picked, _)| picked == i) {
            picks.push((i, fillers[i].min(0.0)));
        }
    }
    picks
}

/// Greedy k-center: indices and distances when picked. Without centres, the item nearest to the mean comes
/// first, with the distance of the second.
pub fn k_center(centres: &[Vec<f64>], items: &[Vec<f64>], budget: usize) -> Vec<(usize, f64)> {
    let mut centres: Vec<&Vec<f64>> = centres.iter().collect();
    let mut picks: Vec<(usize, f64)> = Vec::new();
    if centres.is_empty() && budget > 0 && !items.is_empty() {
        let mean: Vec<f64> = (0..items[0].len())
            .map(|k| items.iter().fold(0.0, |sum, item| sum + item[k]) / items.len() as f64)
            .collect();
        let square = |&i: &usize| squared_distance(&mean, &items[i]);
        let nearer = |one: &usize, other: &usize| square(one).total_cmp(&square(other));
        let first = (0..items.len()).min_by(nearer).expect("there is an item");
        picks = k_center(&items[first..=first], items, items.len());
        picks.retain(|&(item, _)| item != first);
        picks.insert(0, (first, picks.first().map_or(0.0, |second| second.1)));
        picks.truncate(budget);
        return picks;
    }
    for _ in 0..budget {
        let mut farthest: Option<(usize, f64)> = None;
        for (i, item) in items.iter().enumerate() {
            if picks.iter().any(|&(picked, _)| picked == i) {
                continue;
            }
            let nearest = centres
                .iter()
                .map(|centre| squared_distance(item, centre))
                .fold(f64::INFINITY, f64::min);
            if farthest.is_none_or(|(_, square)| nearest > square) {
                farthest = Some((i, nearest));
            }
        }
        let Some((i, square)) = farthest else { break };
        centres.push(&items[i]);
        picks.push((i, square.sqrt()));
    }
    picks
}

/// How far each item without a hit is from its nearest one, as a number that is at most 0.
pub fn nearest_miss(row: &[f64], anchors: &[usize], xi: &[f64]) -> f64 {
    let misses = anchors.iter().zip(xi).map(|(&j, xi)| row[j] - xi);
    misses.filter(|&miss| miss <= 0.0).fold(f64::MIN, f64::max)
}

/// The entropy of `softmax(values / temperature)`.
pub fn entropy(values: &[f64], temperature: f64) -> f64 {
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut sum, mut weighted) = (0.0, 0.0);
    for value in values {
        let z = (value - highest) / temperature;
        sum += exp(z);
        weighted += z * exp(z);
    }
    f64::max(ln(sum) - weighted / sum, 0.0)
}

/// The items and settings of a greedy cover.
pub struct CoverProblem<'a> {
    /// Features of the pool.
    pub pool: &'a [Vec<f64>],
    /// Features of the paired set.
    pub paired: &'a [Vec<f64>],
    /// Number of points.
    pub points: usize,
    /// Width of the kernel; the median rule without one.
    pub bandwidth: Option<f64>,
    /// Seed of the draws.
    pub seed: u64,
    /// Weights of the pool items.
    pub weights: &'a [f64],
    /// The weight of everything paired.
    pub paired_weight: f64,
    /// Similarities of every item, of the pool and then of the paired set, to queries.
    pub queries: Option<&'a [Vec<f64>]>,
}

impl CoverProblem<'_> {
    /// Greedy cover: indices, gains, and the number of points that each pick covers better.
    pub fn cover(&self, budget: usize) -> Vec<(usize, f64, usize)> {
        let all: Vec<&Vec<f64>> = self.pool.iter().chain(self.paired).collect();
        let dim = all[0].len();
        let points = draw::sample(self.seed, POINTS, all.len(), self.points);
        let mut mean = vec![0.0; dim];
        for &v in &points {
            mean.iter_mut().zip(all[v as usize]).for_each(|(mean, x)| *mean += x);
        }
        mean.iter_mut().for_each(|mean| *mean /= points.len() as f64);
        let centred: Vec<Vec<f64>> =
            all.iter().map(|x| x.iter().zip(&mean).map(|(x, mean)| x - mean).collect()).collect();
        let length = |x: &Vec<f64>| x.iter().map(|x| x * x).sum::<f64>().sqrt();
        let cosine = |a: usize, b: usize| {
            let (x, y) = (&centred[a], &centred[b]);
            let product = x.iter().zip(y).fold(0.0, |sum, (x, y)| sum + x * y);
            let lengths = length(x) * length(y);
            if lengths > 0.0 { product / lengths } else { 0.0 }
        };
        let square = |a: usize, b: usize| f64::max(2.0 - 2.0 * cosine(a, b), 0.0);
        let bandwidth = self.bandwidth.unwrap_or_else(|| {
            let sample = draw::sample(self.seed, SAMPLED_ITEMS, all.len(), NEIGHBOURS);
            let nearest = |&a: &u32| {
                let others = (0..all.len()).filter(|&b| b != a as usize);
                others.map(|b| square(a as usize, b)).fold(f64::INFINITY, f64::min)
            };
            let mut squares: Vec<f64> = sample.iter().map(nearest).collect();
            squares.retain(|square| square.is_finite());
            squares.sort_by(f64::total_cmp);
            squares.get(squares.len() / 2).map_or(0.0, |&median| median).max(SMALLEST_BANDWIDTH)
        });
        let kernel = |a: usize, b: usize| exp(-square(a, b) / bandwidth);
        let asked = self.asked_for(&points);
        let mut levels: Vec<f64> = points
            .iter()
            .map(|&v| {
                let paired = self.pool.len()..all.len();
                paired.map(|p| self.paired_weight * kernel(p, v as usize)).fold(0.0, f64::max)
            })
            .collect();
        let mut picks: Vec<(usize, f64, usize)> = Vec::new();
        while picks.len() < budget.min(self.pool.len()) {
            let mut best: Option<(usize, f64)> = None;
            for i in (0..self.pool.len()).filter(|i| picks.iter().all(|pick| pick.0 != *i)) {
                let mut gain = 0.0;
                for (at, &v) in points.iter().enumerate() {
                    let value = self.weights[i] * kernel(i, v as usize);
                    if value > levels[at] {
                        gain += asked[at] * (value - levels[at]);
                    }
                }
                if best.is_none_or(|(_, highest)| gain > highest) {
                    best = Some((i, gain));
                }
            }
            let Some((i, gain)) = best else { break };
            let mut covered = 0;
            for (at, &v) in points.iter().enumerate() {
                let value = self.weights[i] * kernel(i, v as usize);
                if value > levels[at] {
                    levels[at] = value;
                    covered += 1;
                }
            }
            picks.push((i, gain, covered));
        }
        picks
    }

    /// Weights of points by their similarity to the queries.
    fn asked_for(&self, points: &[u32]) -> Vec<f64> {
        let Some(queries) = self.queries else { return vec![1.0; points.len()] };
        let mean = |&v: &u32| {
            let mut values = queries[v as usize].clone();
            values.sort_by(|a, b| b.total_cmp(a));
            values.truncate(CLOSEST_QUERIES);
            values.iter().fold(0.0, |sum, value| sum + value) / values.len() as f64
        };
        let means: Vec<f64> = points.iter().map(mean).collect();
        let count = means.len() as f64;
        let mean = means.iter().fold(0.0, |sum, value| sum + value) / count;
        let square = means.iter().fold(0.0, |sum, v| sum + (v - mean) * (v - mean)) / count;
        let deviation = square.sqrt();
        let weight = |value: &f64| match deviation {
            0.0 => 1.0,
            _ => exp(QUERY_SLOPE * ((value - mean) / deviation)),
        };
        means.iter().map(weight).collect()
    }
}

/// The weights of a design.
pub struct DesignWeights<'a> {
    /// The probability that each pool item can be paired.
    pub usable: &'a [f64],
    /// The cost of each pool item.
    pub costs: &'a [f64],
    /// The most that all picks may cost.
    pub money: f64,
}

/// Greedy V-optimal design in all dimensions, after some picks: indices and gains, with the engine's rounding.
pub fn design(
    pool: &[Vec<f64>],
    paired: &[Vec<f64>],
    weighed: Option<&DesignWeights<'_>>,
    prior: f64,
    (before, budget): (&[usize], usize),
) -> Vec<(usize, f64)> {
    let weight = |i: usize| weighed.map_or(1.0, |weighed| *weighed.usable.get(i).unwrap_or(&1.0));
    let cost = |i: usize| weighed.map_or(1.0, |weighed| weighed.costs[i]);
    let mut money = weighed.map_or(f64::INFINITY, |weighed| weighed.money * (1.0 + 1e-9));
    let above = |most: f64| {
        let exponent = (-900..=1000).find(|&power| f64::powi(2.0, power) > most).unwrap_or(1000);
        if most > 0.0 { f64::powi(2.0, exponent) } else { 1.0 }
    };
    let largest = |x: &[f64]| x.iter().fold(0.0, |most, x| f64::max(most, x.abs()));
    let all: Vec<&Vec<f64>> = pool.iter().chain(paired).collect();
    let dim = pool[0].len();
    let grid = above(all.iter().map(|x| largest(x)).fold(0.0, f64::max)) / f64::powi(2.0, 40);
    let mean = |k: usize| {
        let sum: i128 = all.iter().map(|x| (x[k] / grid).round() as i128).sum();
        sum as f64 / all.len() as f64 * grid
    };
    let mean: Vec<f64> = (0..dim).map(mean).collect();
    let step = f64::powi(2.0, -20);
    let direction = |x: &&Vec<f64>| -> Vec<f64> {
        let centred: Vec<f64> = x.iter().zip(&mean).map(|(x, mean)| x - mean).collect();
        let scale = above(largest(&centred));
        let scaled: Vec<f64> = centred.iter().map(|x| x / scale).collect();
        let length = scaled.iter().fold(0.0, |sum, x| sum + x * x).sqrt();
        let rounded = |x: &f64| (x / length / step).round() * step;
        scaled.iter().map(|x| if length > 0.0 { rounded(x) } else { 0.0 }).collect()
    };
    let x: Vec<Vec<f64>> = all.iter().map(direction).collect();
    let sum = |of: &[Vec<f64>], i: usize, j: usize| of.iter().map(|x| x[i] * x[j]).sum::<f64>();
    let square = |entry: &dyn Fn(usize, usize) -> f64| -> Vec<Vec<f64>> {
        (0..dim).map(|i| (0..dim).map(|j| entry(i, j)).collect()).collect()
    };
    let rooted = |(i, x): (usize, &Vec<f64>)| -> Vec<f64> {
        let root = weight(i).sqrt();
        x.iter().map(|x| if root == 1.0 { *x } else { (x * root / step).round() * step }).collect()
    };
    let targeted: Vec<Vec<f64>> = x.iter().enumerate().map(rooted).collect();
    let count = (0..all.len()).map(weight).fold(0.0, |sum, weight| sum + weight);
    let targets = square(&|i, j| sum(&targeted, i, j) / count);
    let observed = |i: usize, j: usize| {
        before.iter().fold(0.0, |sum, &item| sum + weight(item) * x[item][i] * x[item][j])
    };
    let own = square(&|i, j| {
        sum(&x[pool.len()..], i, j) + observed(i, j) + if i == j { prior } else { 0.0 }
    });
    let mut inverse = inverse(own);
    let times = |matrix: &[Vec<f64>], x: &[f64]| -> Vec<f64> {
        let entry = |i: usize| (0..dim).fold(0.0, |sum, k| sum + x[k] * matrix[k][i]);
        (0..dim).map(entry).collect()
    };
    let product = |one: &[Vec<f64>], other: &[Vec<f64>]| -> Vec<Vec<f64>> {
        one.iter().map(|row| times(other, row)).collect()
    };
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).fold(0.0, |sum, (x, y)| sum + x * y);
    let twice = product(&product(&inverse, &targets), &inverse);
    // Rows, as the images of items are computed.
    let form = |matrix: &[Vec<f64>], x: &[f64]| {
        let image: Vec<f64> = matrix.iter().map(|row| dot(x, row)).collect();
        dot(x, &image)
    };
    let mut a: Vec<f64> = x[..pool.len()].iter().map(|x| form(&inverse, x)).collect();
    let mut b: Vec<f64> = x[..pool.len()].iter().map(|x| form(&twice, x)).collect();
    let mut picks: Vec<(usize, f64)> = Vec::new();
    while picks.len() < budget {
        let (mut best, mut most) = ((usize::MAX, 0.0), f64::NEG_INFINITY);
        let taken = |i: &usize| before.contains(i) || picks.iter().any(|pick| pick.0 == *i);
        for i in (0..pool.len()).filter(|i| !taken(i)) {
            let gain = weight(i) * b[i].max(0.0) / (1.0 + weight(i) * a[i]);
            if cost(i) <= money && gain / cost(i) > most {
                (best, most) = ((i, gain), gain / cost(i));
            }
        }
        if best.0 == usize::MAX {
            break;
        }
        picks.push(best);
        money -= cost(best.0);
        let u = times(&inverse, &x[best.0]);
        let weighted = times(&targets, &u);
        let h = times(&inverse, &weighted);
        let (s, k) = (1.0 / (1.0 / weight(best.0) + dot(&x[best.0], &u)), dot(&u, &weighted));
        for (row, factor) in inverse.iter_mut().zip(&u) {
            row.iter_mut().zip(&u).for_each(|(entry, u)| *entry += -(s * factor) * u);
        }
        for (i, x) in x[..pool.len()].iter().enumerate() {
            let (c, e) = (dot(&u, x), dot(&h, x));
            a[i] -= s * (c * c);
            b[i] += -2.0 * s * c * e + s * s * k * (c * c);
        }
    }
    picks
}

/// The inverse of a matrix, by Gauss and Jordan without pivots.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let dim = matrix.len();
    let one = |i: usize| (0..dim).map(|j| f64::from(u8::from(i == j))).collect();
    let mut inverse: Vec<Vec<f64>> = (0..dim).map(one).collect();
    for pivot in 0..dim {
        let factor = matrix[pivot][pivot];
        for side in [&mut matrix, &mut inverse] {
            side[pivot].iter_mut().for_each(|x| *x /= factor);
        }
        for row in (0..dim).filter(|&row| row != pivot) {
            let factor = -matrix[row][pivot];
            for side in [&mut matrix, &mut inverse] {
                let own = side[pivot].clone();
                side[row].iter_mut().zip(own).for_each(|(x, own)| *x += factor * own);
            }
        }
    }
    inverse
}

/// Answers to one query, best first: falling value, ties to the higher index.
pub fn ranking(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    // Zeros of either sign are equal, and there is no NaN.
    let falling = |a: usize, b: usize| values[b].partial_cmp(&values[a]).expect("no NaN");
    order.sort_by(|&a, &b| falling(a, b).then(b.cmp(&a)));
    order
}

/// The items of a pool that are like nothing paired and like no earlier item that is kept. Alike are
/// equal items and, if a cosine is given, those whose cosine is not below it.
pub fn distinct(pool: &[Vec<f64>], paired: &[Vec<f64>], cosine: Option<f64>) -> Vec<usize> {
    let alike = |x: &Vec<f64>, y: &Vec<f64>| {
        x == y || cosine.is_some_and(|cosine| similarity(Metric::Cosine, x, y) >= cosine)
    };
    let mut kept: Vec<usize> = Vec::new();
    for (i, item) in pool.iter().enumerate() {
        let known = paired.iter().chain(kept.iter().map(|&k| &pool[k])).any(|x| alike(item, x));
        if !known {
            kept.push(i);
        }
    }
    kept
}
