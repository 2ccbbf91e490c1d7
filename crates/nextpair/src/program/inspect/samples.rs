//! The samples of a contact sheet.

use crate::data::Draws;
use crate::data::dataset::Dataset;
use anyhow::{Result, ensure};
use rayon::prelude::*;

use crate::report::card::Card;

/// Draws samples from a split, or from all items, in the order of the dataset.
pub(super) fn choose(
    dataset: &Dataset,
    split: Option<&str>,
    samples: usize,
    seed: u64,
) -> Result<Vec<Card>> {
    let items = dataset.items();
    let mut indices: Vec<usize> = match split {
        Some(_) => items.in_split(split),
        None => (0..items.len()).collect(),
    };
    ensure!(!indices.is_empty(), "there is no item in the split {}", split.unwrap_or_default());
    let mut draws = Draws::new(seed);
    let samples = samples.min(indices.len());
    for at in 0..samples {
        let other = at + (draws.bits() % (indices.len() - at) as u64) as usize;
        indices.swap(at, other);
    }
    indices.truncate(samples);
    indices.sort_unstable();
    Ok(indices.into_par_iter().map(|index| Card::of(dataset, index)).collect())
}
