//! Ranking of the candidates.

use crate::data::Progress;
use crate::engine::Error;
use crate::models::{Encodings, Model};
use anyhow::{Result, bail};
use rayon::prelude::*;

use super::query::Query;

/// Columns per task of a thread.
const TILE: usize = 256;

/// Returns the indices and scores of the `top` best candidates, best first. Ties go to the lower
/// index.
pub(super) fn best(
    model: &Model,
    query: &Query,
    encoded: &Encodings,
    top: usize,
    progress: &dyn Progress,
) -> Result<Vec<(u32, f64)>> {
    let places: Vec<u32> = (0..encoded.len() as u32).collect();
    let similarity = model.similarity(query.rows, &query.encoded, encoded)?;
    progress.start("scores", places.len() as u64);
    let score = |places: &[u32]| {
        let mut scores = vec![0.0; places.len()];
        similarity.exact(0, places, &mut scores)?;
        progress.advance(places.len() as u64);
        Ok(scores)
    };
    let scores = places.par_chunks(TILE).map(score).collect::<Result<Vec<_>, Error>>()?.concat();
    if let Some(at) = scores.iter().position(|score| !score.is_finite()) {
        bail!("the model gives {} for candidate {at}", scores[at]);
    }
    let mut ranked: Vec<(u32, f64)> = places.into_iter().zip(scores).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.truncate(top);
    Ok(ranked)
}
