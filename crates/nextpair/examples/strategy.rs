//! A custom strategy: `cargo run --release -p nextpair --example strategy`.
//!
//! Hard negatives are items that the model confuses with the paired set. This strategy does the
//! opposite: it picks the items least similar to anything paired, because the model has learned
//! nothing about them.

use std::error::Error;

use nextpair::{Hits, Matrix, Needs, Pick, Picks, Problem, Progress, Side, Strategy, engine};

/// The items whose best similarity to any anchor is lowest.
struct LeastSimilar;

impl Strategy for LeastSimilar {
    fn name(&self) -> &'static str {
        "least-similar"
    }

    fn needs(&self) -> Needs {
        Needs { matching: Some(Hits::default()), ..Needs::default() }
    }

    fn select(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, engine::Error> {
        let matching = problem.matching()?;
        let anchors = matching.rule.anchors();
        progress.start("similarities", problem.pool() as u64);
        let mut picks = Vec::with_capacity(problem.pool());
        let mut similarities = vec![0.0; anchors.len()];
        for index in problem.items() {
            if progress.stopped() {
                return Err(engine::Error::Stopped);
            }
            matching.pool.exact(problem.row(index), anchors, &mut similarities)?;
            let best = similarities.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            picks.push(Pick::new(index, -best));
            progress.advance(1);
        }
        // Most wanted first; the sort is stable, so ties go to the lower index.
        picks.sort_by(|a, b| b.score.total_cmp(&a.score));
        picks.truncate(budget);
        Ok(Picks::of(picks, problem.pool()))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // Pairs that point to the right and upwards, and a pool around the circle.
    let images = Matrix::from_vec(2, vec![1.0f32, 0.0, 0.0, 1.0]);
    let texts = Matrix::from_vec(2, vec![0.9f32, 0.1, 0.2, 0.8]);
    let circle = |at: u32| (f64::from(at) * std::f64::consts::TAU / 8.0).sin_cos();
    let pool = (0..8).map(circle).flat_map(|(sin, cos)| [cos as f32, sin as f32]).collect();
    let pool = Matrix::from_vec(2, pool);
    let problem = Problem::of_embeddings(images, texts, pool, Side::Image).build()?;
    let picks = problem.select(&LeastSimilar, 3, &())?;
    // Down and to the left comes first, then its neighbours.
    assert_eq!(picks.indices(), [5, 4, 6]);
    Ok(())
}

#[test]
fn picks_what_is_least_like_the_pairs() -> Result<(), Box<dyn Error>> {
    main()
}
