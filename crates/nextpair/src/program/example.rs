//! `nextpair example DIR`: made-up embeddings, to try `select` on.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::data::{AtomicFile, Matrix, npy};
use crate::engine::Draws;
use anyhow::{Context, Result};

use crate::program::next::{Next, fresh};
use crate::program::numbers::grouped;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder to write to
    dir: PathBuf,
    /// Another world
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
}

const PAIRS: usize = 2_000;
const POOL: usize = 20_000;
const DIM: usize = 128;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    World::new(args.seed).save(&args.dir)?;
    say!(
        "{} image-text pairs and {} images without a caption, embedded in {DIM} dimensions",
        grouped(PAIRS),
        grouped(POOL)
    );
    let file = |name: &str| args.dir.join(name);
    Next::new("select --paired-images")
        .path(&file("paired_images.npy"))
        .words("--paired-texts")
        .path(&file("paired_texts.npy"))
        .words("--pool")
        .path(&file("pool.npy"))
        .words("--pool-side image --budget 500 --out")
        .path(&fresh(Path::new("picks.jsonl")))
        .say();
    Ok(ExitCode::SUCCESS)
}

/// Images and texts around shared topics, some of them much more common than others.
struct World {
    images: Matrix,
    texts: Matrix,
    pool: Matrix,
}

impl World {
    fn new(seed: u64) -> Self {
        const TOPICS: usize = 400;
        let mut draws = Draws::new(seed);
        let normal = |draws: &mut Draws, spread: f64| -> Vec<f64> {
            (0..DIM).map(|k| spread * draws.normal() / (1.0 + k as f64).sqrt()).collect()
        };
        let topics: Vec<Vec<f64>> = (0..TOPICS).map(|_| normal(&mut draws, 1.0)).collect();
        let item = |draws: &mut Draws| {
            // Squaring makes the first topics common and the last ones rare.
            let topic = &topics[(draws.unit().powi(2) * TOPICS as f64) as usize];
            let own = normal(draws, 0.7);
            topic.iter().zip(own).map(|(t, o)| t + o).collect::<Vec<f64>>()
        };
        let (mut images, mut texts) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            let image = item(&mut draws);
            let words = normal(&mut draws, 0.5);
            texts.extend(image.iter().zip(words).map(|(i, w)| (i + w) as f32));
            images.extend(image.iter().map(|&v| v as f32));
        }
        let pool: Vec<f32> = (0..POOL).flat_map(|_| item(&mut draws)).map(|v| v as f32).collect();
        World {
            images: Matrix::from_f32(DIM, &images),
            texts: Matrix::from_f32(DIM, &texts),
            pool: Matrix::from_f32(DIM, &pool),
        }
    }

    /// Writes the three files that `select` reads.
    fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for (name, matrix) in [
            ("paired_images.npy", &self.images),
            ("paired_texts.npy", &self.texts),
            ("pool.npy", &self.pool),
        ] {
            let mut file = AtomicFile::create(&folder.join(name))?;
            let values = (0..matrix.rows()).flat_map(|row| {
                let mut values = vec![0.0; DIM];
                matrix.read_f64(row, &mut values);
                values.into_iter().map(|value| value as f32)
            });
            npy::write_f32(&mut file, matrix.rows(), DIM, values)?;
            file.commit()?;
        }
        Ok(())
    }
}
