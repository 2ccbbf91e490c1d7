//! The files of a large selection: generated in a stream, reproducible from a seed, and read cold.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use half::f16;
use half::slice::HalfFloatSliceExt;
use nextpair_core::{Draws, Dtype, draw};
use nextpair_data::npy;

/// Rows that are made at once, by all threads.
const ROWS: usize = 1 << 14;
/// Clusters of the pool and the pairs.
const CLUSTERS: u64 = 4096;
/// Share of a vector that is its cluster's.
const SHARED: f32 = 0.3;
/// Correlation between an image and its text.
const RHO: f32 = 0.7;
/// Bytes of one plain read.
const READ: usize = 8 << 20;

/// Purposes of the draws.
const POOL: u64 = 1;
const IMAGE: u64 = 2;
const TEXT: u64 = 3;
const CLUSTER: u64 = 4;

/// How a pool and its pairs are made.
///
/// Variances of the coordinates fall like `1 / i`, the power law of most embeddings; clusters share a
/// part of their vectors, and their sizes fall off too. Vectors have length one. Coordinates are not
/// rotated: the search mixes them itself.
#[derive(Clone, Copy)]
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) dim: usize,
    pub(super) threads: usize,
}

impl World {
    /// Returns the file of the pool's first `items`, made if it is not there yet.
    pub(super) fn pool(&self, folder: &Path, items: usize) -> Result<PathBuf> {
        self.file(folder, &format!("pool-{items}"), items, |row| self.vector(POOL, row))
    }

    /// Returns the files of the first `pairs` images and texts.
    pub(super) fn pairs(&self, folder: &Path, pairs: usize) -> Result<[PathBuf; 2]> {
        let image = |row| self.vector(IMAGE, row);
        let text = |row| {
            let others = (1.0 - RHO * RHO).sqrt();
            let own = self.vector(TEXT, row);
            unit(image(row).iter().zip(own).map(|(i, o)| RHO * i + others * o).collect())
        };
        Ok([
            self.file(folder, &format!("images-{pairs}"), pairs, image)?,
            self.file(folder, &format!("texts-{pairs}"), pairs, text)?,
        ])
    }

    fn vector(&self, kind: u64, row: usize) -> Vec<f32> {
        let mut draws = Draws::new(draw::draw_of(self.seed, kind, row as u64));
        let cluster = (draws.unit() * draws.unit() * CLUSTERS as f64) as u64;
        let mut shared = Draws::new(draw::draw_of(self.seed, CLUSTER, cluster));
        let (of_cluster, own) = (SHARED.sqrt(), (1.0 - SHARED).sqrt());
        let number = |at: usize| {
            let value = of_cluster * normal(&mut shared) + own * normal(&mut draws);
            value / ((at + 1) as f32).sqrt()
        };
        unit((0..self.dim).map(number).collect())
    }

    fn file(
        &self,
        folder: &Path,
        name: &str,
        rows: usize,
        vector: impl Fn(usize) -> Vec<f32> + Sync,
    ) -> Result<PathBuf> {
        let path = folder.join(format!("{name}-x{}-seed{}.npy", self.dim, self.seed));
        if path.is_file() {
            return Ok(path);
        }
        eprintln!("generating  {}", path.display());
        let half = path.with_extension("half");
        let mut file = File::create(&half).with_context(|| half.display().to_string())?;
        file.write_all(&npy::header_of(rows, 1, self.dim, Dtype::F16))?;
        let mut bytes = vec![0; ROWS * self.dim * 2];
        for first in (0..rows).step_by(ROWS) {
            let count = ROWS.min(rows - first);
            let bytes = &mut bytes[..count * self.dim * 2];
            let each = count.div_ceil(self.threads);
            std::thread::scope(|scope| {
                for (part, bytes) in bytes.chunks_mut(each * self.dim * 2).enumerate() {
                    let vector = &vector;
                    scope.spawn(move || {
                        let mut halves = vec![f16::ZERO; self.dim];
                        for (at, out) in bytes.chunks_exact_mut(self.dim * 2).enumerate() {
                            halves.convert_from_f32_slice(&vector(first + part * each + at));
                            for (out, half) in out.chunks_exact_mut(2).zip(&halves) {
                                out.copy_from_slice(&half.to_le_bytes());
                            }
                        }
                    });
                }
            });
            file.write_all(bytes)?;
        }
        // Pages that are not written yet cannot be dropped from the cache.
        file.sync_all()?;
        std::fs::rename(&half, &path).with_context(|| path.display().to_string())?;
        Ok(path)
    }
}

/// Nearly normal, from one draw: the sum of four uniform numbers.
fn normal(draws: &mut Draws) -> f32 {
    let bits = draws.bits();
    let sum: u64 = (0..4).map(|part| bits >> (16 * part) & 0xffff).sum();
    // Four uniform numbers below 2^16 have the mean 2 * 2^16 and the deviation 2^16 / sqrt(3).
    (sum as f32 - 131_070.0) * (3f32.sqrt() / 65_536.0)
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|value| *value /= norm);
    vector
}

/// Drops a file from the page cache.
pub(super) fn chill(path: &Path) -> Result<()> {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", path.display())).args(["iflag=nocache", "count=0"]);
    let status = dd.stdout(Stdio::null()).stderr(Stdio::null()).status().context("dd")?;
    ensure!(status.success(), "dd cannot drop {} from the cache", path.display());
    Ok(())
}

/// Bytes per second of plain reads of a whole file, which is dropped from the cache before: on one
/// thread from start to end, and on several, each in a part of its own. Returns the faster.
pub(super) fn rate(path: &Path, threads: usize) -> Result<f64> {
    let alone = read(path, 1)?;
    Ok(if threads > 1 { alone.max(read(path, threads)?) } else { alone })
}

fn read(path: &Path, threads: usize) -> Result<f64> {
    chill(path)?;
    let bytes = path.metadata()?.len();
    let began = Instant::now();
    let each = bytes.div_ceil(threads as u64);
    let parts: Vec<Result<u64>> = std::thread::scope(|scope| {
        let part = |part: u64| move || read_part(path, part * each, each);
        let threads: Vec<_> = (0..threads as u64).map(|at| scope.spawn(part(at))).collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Ok(0))).collect()
    });
    let read = parts.into_iter().sum::<Result<u64>>()?;
    ensure!(read == bytes, "{}: {read} of {bytes} bytes were read", path.display());
    Ok(bytes as f64 / began.elapsed().as_secs_f64())
}

fn read_part(path: &Path, first: u64, length: u64) -> Result<u64> {
    use std::io::{Seek, SeekFrom};
    let mut file = File::open(path).with_context(|| path.display().to_string())?;
    file.seek(SeekFrom::Start(first))?;
    let mut part = file.take(length);
    let (mut buffer, mut all) = (vec![0; READ], 0);
    loop {
        match part.read(&mut buffer)? {
            0 => return Ok(all),
            read => all += read as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_of_length_one_and_reproducible() {
        let world = World { seed: 3, dim: 64, threads: 1 };
        let (one, other) = (world.vector(POOL, 5), world.vector(POOL, 6));
        let length: f32 = one.iter().map(|value| value * value).sum();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
        assert!(one == world.vector(POOL, 5) && one != other);
    }

    #[test]
    fn draws_are_nearly_normal() {
        let mut draws = Draws::new(1);
        let values: Vec<f32> = (0..10_000).map(|_| normal(&mut draws)).collect();
        let mean = |values: &[f32]| values.iter().sum::<f32>() / values.len() as f32;
        let squares: Vec<f32> = values.iter().map(|value| value * value).collect();
        assert!(mean(&values).abs() < 0.05 && (mean(&squares) - 1.0).abs() < 0.05);
    }
}
