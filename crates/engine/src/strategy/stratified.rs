//! One item at random of each cluster: as many clusters as the budget has picks.

use nextpair_core::draw::draw_of;

use super::{Needs, Sharded, Strategy};
use crate::clusters::{Clusters, members};
use crate::parameters::parameters;
use crate::picks::keep_best;
use crate::problem::POOL_FEATURES;
use crate::{Error, ItemFeatures, Pick, Picks, Problem, Progress, Size, Vectors};

parameters! {
    /// One item at random of each cluster (ours).
    pub struct Stratified {
        /// The vectors that distances are measured by: the mean of an item's own, a bag of 300 visual words, or what a model
        /// makes of the item
        features: ItemFeatures = ItemFeatures::Mean,
    }
}

/// Purpose of the draws within clusters.
const MEMBERS: u64 = 9;

impl Strategy for Stratified {
    fn name(&self) -> &'static str {
        "stratified"
    }

    fn needs(&self) -> Needs {
        Needs { features: Some(self.features), ..Needs::default() }
    }

    /// The score is the share of the pool that a pick stands for.
    fn select(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        let pool = Vectors::new(problem.features()?.pool.clone(), POOL_FEATURES)?;
        let clusters = Clusters::new(&[&pool], budget, problem.seed(), progress)?;
        let of_item = clusters.assign(&pool, progress)?;
        let draw = |item: u32| draw_of(problem.seed(), MEMBERS, u64::from(item));
        let first = |items: Vec<u32>| {
            let share = items.len() as f64 / pool.len() as f64;
            items.into_iter().min_by_key(|&item| draw(item)).map(|item| Pick::new(item, share))
        };
        let firsts: Vec<Pick> =
            members(&of_item, clusters.len()).into_iter().filter_map(first).collect();
        let mut taken = vec![false; pool.len()];
        firsts.iter().for_each(|pick| taken[pick.index as usize] = true);
        // Clusters of copies can be empty: the rest is drawn from everything.
        let rest = (0..pool.len() as u32).filter(|&item| !taken[item as usize]);
        let mut rest: Vec<u32> = rest.collect();
        rest.sort_by_key(|&item| draw(item));
        let mut picks = keep_best(firsts.into_iter(), budget);
        let fillers = rest.into_iter().take(budget - picks.len());
        picks.extend(fillers.map(|item| Pick::new(item, 0.0)));
        Ok(Picks::of(picks, pool.len()))
    }

    fn memory(&self, size: &Size) -> usize {
        size.clusters(size.budget)
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Err("clusters are those of the whole pool")
    }
}
