//! The plain version of everything, slow but obviously right. Tests hold every fast path to it.
//!
//! Similarities come as whole matrices: `own[l][j]` for rival `l` and anchor `j`, `cross[i][j]` for
//! pool item `i` and anchor `j`.

use std::collections::HashMap;

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

/// Greedy coverage: indices and gains.
pub fn coverage(
    hits: &[Vec<(usize, f64)>],
    xi: &[f64],
    weight: Weight,
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
    for i in order(&scores(hits, xi, Weight::Surplus)) {
        if picks.len() < budget && !picks.iter().any(|&(picked, _)| picked == i) {
            picks.push((i, 0.0));
        }
    }
    picks
}

/// Greedy k-center: indices and distances when picked.
pub fn k_center(centres: &[Vec<f64>], items: &[Vec<f64>], budget: usize) -> Vec<(usize, f64)> {
    let mut centres: Vec<&Vec<f64>> = centres.iter().collect();
    let mut picks: Vec<(usize, f64)> = Vec::new();
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

/// Answers to one query, best first: falling value, ties to the higher index.
pub fn ranking(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    // Zeros of either sign are equal, and there is no NaN.
    let falling = |a: usize, b: usize| values[b].partial_cmp(&values[a]).expect("no NaN");
    order.sort_by(|&a, &b| falling(a, b).then(b.cmp(&a)));
    order
}
