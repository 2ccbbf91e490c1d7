//! Whether picks are right: plain sums in double precision over all pairs, every pick, and a sample of
//! the other items.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nextpair_core::{Matrix, Side, draw};
use nextpair_data::open;
use nextpair_engine::{Weight, reference};
use serde_json::Value;

/// Other items that are scored.
const SAMPLE: usize = 2000;
/// Purpose of their draw.
const SAMPLED: u64 = 5;

/// What a plain computation compares with picks.
pub(super) struct Judge {
    pool: Matrix,
    anchors: Vec<Vector>,
    thresholds: Vec<f64>,
    threads: usize,
}

struct Vector {
    values: Vec<f64>,
    norm: f64,
}

impl Vector {
    fn of(matrix: &Matrix, row: usize) -> Self {
        let mut values = vec![0.0; matrix.dim()];
        matrix.read_f64(row, &mut values);
        let norm = dot(&values, &values).sqrt();
        Vector { values, norm }
    }

    fn cosine(&self, other: &Vector) -> f64 {
        dot(&self.values, &other.values) / (self.norm * other.norm)
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).fold(0.0, |sum, (x, y)| sum + x * y)
}

impl Judge {
    pub(super) fn new(pool: &Path, [images, texts]: &[PathBuf; 2], threads: usize) -> Result<Self> {
        let matrix = |path: &Path| Ok::<_, anyhow::Error>(open(path, Side::Image)?.matrix);
        let all = |matrix: &Matrix| -> Vec<Vector> {
            (0..matrix.rows()).map(|row| Vector::of(matrix, row)).collect()
        };
        let (rivals, anchors) = (all(&matrix(images)?), all(&matrix(texts)?));
        let threshold = |at: usize| {
            let others = rivals.iter().enumerate().filter(|(rival, _)| *rival != at);
            others.map(|(_, rival)| rival.cosine(&anchors[at])).fold(f64::NEG_INFINITY, f64::max)
        };
        let thresholds = in_parallel(anchors.len(), threads, threshold);
        Ok(Judge { pool: matrix(pool)?, anchors, thresholds, threads })
    }

    /// The number of hits and the score of an item.
    fn score(&self, item: usize) -> (u64, f64) {
        let item = Vector::of(&self.pool, item);
        let similarities = self.anchors.iter().map(|anchor| item.cosine(anchor));
        let above = similarities.zip(&self.thresholds).enumerate();
        let hits: Vec<(usize, f64)> = above
            .filter(|(_, (similarity, threshold))| similarity > *threshold)
            .map(|(at, (similarity, _))| (at, similarity))
            .collect();
        let count = hits.len() as u64;
        (count, reference::scores(&[hits], &self.thresholds, Weight::Surplus)[0])
    }

    /// Fails unless every pick has the score and the hits that it says, in falling order, and no
    /// sampled item that was not picked has a higher score than the last pick. Returns how many items
    /// were scored.
    pub(super) fn check(&self, picks: &Path, seed: u64) -> Result<usize> {
        let text = std::fs::read_to_string(picks).with_context(|| picks.display().to_string())?;
        let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
        let lines = lines.with_context(|| picks.display().to_string())?;
        let picked = |line: &Value| line["index"].as_u64().map(|index| index as usize);
        let items: Vec<usize> =
            lines.iter().map(picked).collect::<Option<_>>().context("a pick without an index")?;
        let scores = in_parallel(items.len(), self.threads, |at| self.score(items[at]));
        for ((line, &item), &(hits, score)) in lines.iter().zip(&items).zip(&scores) {
            let (said, of_hits) = (line["score"].as_f64(), line["hits"].as_u64());
            ensure!(
                said == Some(score) && of_hits == Some(hits),
                "item {item} has the score {score} and {hits} hits, not {said:?} and {of_hits:?}"
            );
        }
        let order = |at: usize| (scores[at].1, items[at]);
        let falls = |at: usize| ahead(order(at - 1), order(at));
        ensure!((1..items.len()).all(falls), "the picks are not in the order of their scores");
        let known: HashMap<usize, usize> = items.iter().copied().zip(0..).collect();
        let sampled = draw::sample(seed, SAMPLED, self.pool.rows(), SAMPLE);
        let others: Vec<usize> = sampled.into_iter().map(|item| item as usize).collect();
        let of_others = in_parallel(others.len(), self.threads, |at| self.score(others[at]).1);
        let last = order(items.len() - 1);
        for (&item, &score) in others.iter().zip(&of_others) {
            let missed = !known.contains_key(&item) && ahead((score, item), last);
            ensure!(!missed, "item {item} has the score {score} and was not picked");
        }
        Ok(items.len() + others.len())
    }
}

/// Whether one score and item come before others: ties go to the lower item.
fn ahead(one: (f64, usize), other: (f64, usize)) -> bool {
    one.0 > other.0 || (one.0 == other.0 && one.1 < other.1)
}

/// The results of `work` for `0..count`, in order.
fn in_parallel<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let each = count.div_ceil(threads).max(1);
    let parts: Vec<Vec<T>> = std::thread::scope(|scope| {
        let part = |first: usize| {
            let work = &work;
            scope.spawn(move || (first..count.min(first + each)).map(work).collect())
        };
        let threads: Vec<_> = (0..count).step_by(each).map(part).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<T>>| {
            thread.join().expect("plain sums do not panic")
        };
        threads.into_iter().map(join).collect()
    });
    parts.into_iter().flatten().collect()
}
