//! TypiClust (Hacohen, Dekel and Weinshall, ICML 2022): of each cluster without a pair, largest
//! first, the item in the densest place.

use nextpair_core::draw::draw_of;
use rayon::prelude::*;

use super::{Needs, Sharded, Strategy};
use crate::clusters::{Clusters, members};
use crate::error::unless_stopped;
use crate::parameters::parameters;
use crate::problem::{PAIRED_FEATURES, POOL_FEATURES};
use crate::{Error, ItemFeatures, Pick, Picks, Problem, Progress, Size, Vectors};

parameters! {
    /// The item in the densest place of each cluster without a pair (TypiClust; Hacohen, Dekel and Weinshall, ICML
    /// 2022).
    pub struct Typical {
        /// The vectors that distances are measured by: the mean of an item's own, a bag of 300 visual words, or what a model
        /// makes of the item
        features: ItemFeatures = ItemFeatures::Mean,
    }
}

/// Clusters at most.
const CLUSTERS: usize = 500;
/// Neighbours whose mean distance says how dense a place is.
const NEIGHBOURS: usize = 20;
/// Smaller clusters are left for last.
const SMALLEST: usize = 5;
/// Members of a cluster that are compared with each other.
const COMPARED: usize = 1000;
/// Purpose of the draw of those.
const SAMPLED: u64 = 10;

impl Strategy for Typical {
    fn name(&self) -> &'static str {
        "typical"
    }

    fn needs(&self) -> Needs {
        Needs { features: Some(self.features), ..Needs::default() }
    }

    /// The score is the share of the items that are in the pick's cluster, less the number of
    /// items of that cluster that came before it.
    fn select(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        let features = problem.features()?;
        let pool = Vectors::new(features.pool.clone(), POOL_FEATURES)?.on(problem.device());
        let paired = Vectors::new(features.paired.clone(), PAIRED_FEATURES)?.on(problem.device());
        let count = CLUSTERS.min(paired.len() + budget);
        let clusters = Clusters::new(&[&pool, &paired], count, problem.seed(), progress)?;
        let of_pool = members(&clusters.assign(&pool, progress)?, clusters.len());
        let of_paired = members(&clusters.assign(&paired, progress)?, clusters.len());
        let cells = of_pool.into_iter().zip(of_paired);
        let mut cells: Vec<Cell> = cells
            .map(|(items, paired)| Cell {
                size: items.len() + paired.len(),
                before: paired.len(),
                items,
            })
            .collect();
        progress.start("picks", budget as u64);
        let total = (pool.len() + paired.len() + 1) as f64;
        let mut picks = Vec::with_capacity(budget);
        while picks.len() < budget {
            unless_stopped(progress)?;
            let next = cells.iter_mut().filter(|cell| !cell.items.is_empty());
            // Small clusters last, then those with the fewest pairs and picks, then the largest.
            let Some(cell) = next.min_by_key(|cell| cell.order()) else { break };
            let item = densest(&pool, &cell.items, problem.seed());
            let (small, before, size) = cell.order();
            let late = usize::from(small) * (pool.len() + paired.len());
            let score = (cell.size as f64) / total - (late + before) as f64;
            debug_assert_eq!(size.0, cell.size);
            picks.push(Pick::new(item, score));
            cell.items.retain(|&other| other != item);
            cell.before += 1;
            progress.advance(1);
        }
        Ok(Picks::of(picks, pool.len()))
    }

    fn memory(&self, size: &Size) -> usize {
        size.clusters(CLUSTERS) + 8 * COMPARED * (COMPARED + size.dim)
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Err("clusters are those of the whole pool")
    }
}

/// A cluster.
struct Cell {
    size: usize,
    /// Pairs and picks in it.
    before: usize,
    /// Pool items that are left.
    items: Vec<u32>,
}

impl Cell {
    fn order(&self) -> (bool, usize, std::cmp::Reverse<usize>) {
        (self.size < SMALLEST, self.before, std::cmp::Reverse(self.size))
    }
}

/// The item with the smallest mean distance to its nearest neighbours among `items`, ties to the
/// lower index. Of large clusters, a seeded draw is compared.
fn densest(pool: &Vectors, items: &[u32], seed: u64) -> u32 {
    let mut compared = items.to_vec();
    if compared.len() > COMPARED {
        compared.sort_by_key(|&item| draw_of(seed, SAMPLED, u64::from(item)));
        compared.truncate(COMPARED);
        compared.sort_unstable();
    }
    let neighbours = NEIGHBOURS.min(compared.len() / 2);
    if neighbours == 0 {
        return compared[0];
    }
    let spread = |&item: &u32| {
        let mut x = vec![0.0; pool.dim()];
        pool.matrix().read_f64(item as usize, &mut x);
        let mut squares = vec![0.0; compared.len()];
        pool.squared_distances(&x, &compared, &mut squares);
        squares.sort_by(f64::total_cmp);
        // The first is the item itself.
        let nearest = squares[1..=neighbours].iter().map(|square| square.sqrt());
        (nearest.fold(0.0, |sum, distance| sum + distance), item)
    };
    let spreads: Vec<(f64, u32)> = compared.par_iter().map(spread).collect();
    let densest = spreads.into_iter().min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    densest.map_or(compared[0], |(_, item)| item)
}
