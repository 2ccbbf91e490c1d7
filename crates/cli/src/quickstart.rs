//! `nextpair quickstart`: a first selection, on embeddings made up on the spot.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use nextpair_data::{AtomicFile, Matrix, npy};
use nextpair_engine::{
    Draws, Embeddings, Features, Matching, Metric, Picks, Question, Rule, Settings, StrategyName,
    Vectors,
};

use crate::progress::Bar;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seed of the made-up world
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Also write the world as .npy files, to try `select` on
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

const PAIRS: usize = 2_000;
const POOL: usize = 20_000;
const BUDGET: usize = 500;
const DIM: usize = 128;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let world = World::new(args.seed);
    if let Some(folder) = &args.save {
        world.save(folder)?;
    }
    println!("A made-up world: {PAIRS} image-text pairs, {POOL} images without a caption,");
    println!("{DIM}-dimensional embeddings, money for {BUDGET} captions. Which images?\n");
    let images = Vectors::new(&world.images, "the paired images")?;
    let texts = Vectors::new(&world.texts, "the paired texts")?;
    let pool = Vectors::new(&world.pool, "the pool")?;
    let rule = Rule::new(&Settings { seed: args.seed, ..Settings::default() }, PAIRS)?;
    let columns = (&texts, "the paired texts");
    let bar = Bar::new();
    let matching = Matching {
        pool: &Embeddings::new((&pool, "the pool"), columns, Metric::Cosine)?,
        paired: &Embeddings::new((&images, "the paired images"), columns, Metric::Cosine)?,
        rule: &rule,
    };
    let question = Question {
        pool: POOL,
        matching: Some(matching),
        features: Some(Features { pool: &world.pool, paired: &world.images }),
        seed: args.seed,
        progress: &bar,
    };
    // How good any set of picks is, measured the same way for every strategy.
    let every = StrategyName::HardNegative.select(&question, POOL)?;
    let mut score = vec![0.0; POOL];
    every.picks.iter().for_each(|pick| score[pick.index as usize] = pick.score);
    let hits = |index: u32| score[index as usize] > 0.0;

    println!("strategy        hard negatives   total surplus   texts confused      time");
    let mut paper = None;
    for &strategy in StrategyName::ALL {
        let start = Instant::now();
        let picks = strategy.select(&question, BUDGET)?;
        let time = start.elapsed();
        let hard = picks.indices().iter().filter(|&&i| hits(i)).count();
        let surplus: f64 = picks.indices().iter().map(|&i| score[i as usize]).sum();
        let texts = world.confused(&picks, &every, &texts);
        bar.finish();
        println!(
            "{:<14} {:>8} of {BUDGET} {:>15.1} {:>9} of {PAIRS} {:>7.0} ms",
            strategy.as_str(),
            hard,
            surplus,
            texts,
            time.as_secs_f64() * 1e3
        );
        if strategy == StrategyName::HardNegative {
            paper = Some(picks);
        }
    }
    if let Some(share) = every.hard_negative_share() {
        println!("\n{share:.1} % of the pool would be a hard negative for some paired text.");
    }
    if let Some(pick) = paper.as_ref().and_then(|picks| picks.picks.first()) {
        println!(
            "\nWhy image {}? Its score is {:.3}, from {} texts it would be confused with;",
            pick.index,
            pick.score,
            pick.hits.unwrap_or(0)
        );
        println!("the strongest:\n");
        println!("   text   similarity   hardest paired image so far   surplus");
        for reason in &pick.why {
            println!(
                "  {:>5}   {:>10.4}   {:>27.4}   {:>7.4}",
                reason.anchor, reason.similarity, reason.threshold, reason.surplus
            );
        }
    }
    println!("\nNow with your own embeddings:\n");
    println!("  nextpair select --paired-images A.npy --paired-texts B.npy --pool X.npy \\");
    println!("                  --pool-side image --budget {BUDGET} --out picks.jsonl");
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

    /// Three files as a user would bring them.
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

    /// Texts for which some pick would be a harder negative than any paired image.
    fn confused(&self, picks: &Picks, every: &Picks, texts: &Vectors<'_>) -> usize {
        let mut confused = vec![false; PAIRS];
        let mut dots = vec![0.0; PAIRS];
        let all: Vec<u32> = (0..PAIRS as u32).collect();
        for index in picks.indices() {
            let mut image = vec![0.0; DIM];
            self.pool.read_f64(index as usize, &mut image);
            let norm = image.iter().map(|v| v * v).sum::<f64>().sqrt();
            texts.dots(&image, &all, &mut dots);
            for (j, dot) in dots.iter().enumerate() {
                confused[j] |= dot / (norm * texts.norm(j)) > every.thresholds[j];
            }
        }
        confused.iter().filter(|&&c| c).count()
    }
}
