//! The loop of a greedy V-optimal design, by a GPU.
//!
//! Nothing waits between two picks: what is best, `M^-1` and the numbers of all items stay there. It computes what the CPU
//! computes in the same order, so that picks and gains have the same bits.

use nextpair_cuda::{Argument, Array, Grid};

use super::card::{Card, KERNELS};
use crate::design::{Best, Design, DesignPick, Group};
use crate::directions::LANES;
use crate::error::unless_stopped;
use crate::{Error, Progress};

/// Threads of a block, an item each.
const THREADS: usize = 256;
/// Picks between two reports of progress and checks for a stop.
const AT_ONCE: usize = 16;
/// Numbers of a found item: its rank value, its gain or share, and its index.
const FOUND: usize = 3;
/// Stands for no item.
const NOBODY: u64 = u32::MAX as u64;

impl Design {
    /// Picks the best items, at most so many. Also returns the mean variance that they leave.
    pub(super) fn take_on(
        &self,
        card: &Card,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<(Vec<DesignPick>, f64), Error> {
        let (dim, items, most) = (self.moments.dim, self.groups.len() * LANES, self.learners);
        let blocks = items.div_ceil(THREADS);
        let lane = card.lane()?;
        let gpu = &lane.gpu;
        let numbers = |of: fn(&Group) -> &[f64; LANES]| {
            let all: Vec<f64> = self.groups.iter().flat_map(|group| *of(group)).collect();
            Array::of(gpu, &all)
        };
        let directions = Array::of(gpu, self.directions.groups.as_flattened())?;
        let (a, b) = (numbers(|group| &group.a)?, numbers(|group| &group.b)?);
        let (weights, costs) = (numbers(|group| &group.weight)?, numbers(|group| &group.cost)?);
        let gone: Vec<u8> = self.groups.iter().flat_map(|group| group.gone.map(u8::from)).collect();
        let gone = Array::of(gpu, &gone)?;
        let money = Array::of(gpu, &[self.money])?;
        let targets = Array::of(gpu, &self.moments.targets)?;
        let inverse = Array::of(gpu, &self.moments.inverse)?;
        let vector = || Array::<f64>::zeros(gpu, dim);
        let (x, u, weighted, h) = (vector()?, vector()?, vector()?, vector()?);
        let factors = Array::<f64>::empty(gpu, 2)?;
        let Best { item, gain, worth } = self.best;
        let bests = Array::<u64>::empty(gpu, blocks * FOUND)?;
        bests.write(0, &[worth.to_bits(), gain.to_bits(), u64::from(item)])?;
        let of_blocks = Array::<u64>::empty(gpu, blocks * most * FOUND)?;
        let (mut all_picks, mut all_learners) = (Vec::new(), Vec::new());
        gpu.wait()?;
        progress.start("design", budget as u64);
        for first in (0..budget).step_by(AT_ONCE) {
            unless_stopped(progress)?;
            let count = AT_ONCE.min(budget - first);
            let picks = Array::<u64>::empty(gpu, count * FOUND)?;
            let learners = Array::<u64>::empty(gpu, count * most * FOUND)?;
            for at in 0..count {
                let pick = picks.at(at * FOUND);
                let known = if first + at == 0 { 1 } else { blocks };
                let launch = |name, grid, arguments: &[Argument]| {
                    // SAFETY: the kernels take these; there are numbers of all items, all dimensions and all blocks.
                    unsafe { gpu.launch(&KERNELS, name, grid, arguments) }
                };
                let block = Grid::blocks(1, THREADS as u32);
                let arguments: [Argument; 9] = [
                    (&bests).into(),
                    known.into(),
                    (&directions).into(),
                    dim.into(),
                    (&costs).into(),
                    (&gone).into(),
                    (&money).into(),
                    (&x).into(),
                    pick.into(),
                ];
                launch("take", block, &arguments)?;
                for (matrix, vector, product) in
                    [(&inverse, &x, &u), (&targets, &u, &weighted), (&inverse, &weighted, &h)]
                {
                    let arguments: [Argument; 4] =
                        [matrix.into(), vector.into(), dim.into(), product.into()];
                    launch("times", Grid::blocks(dim.div_ceil(32), 32), &arguments)?;
                }
                let arguments: [Argument; 7] = [
                    pick.into(),
                    (&weights).into(),
                    (&x).into(),
                    (&u).into(),
                    (&weighted).into(),
                    dim.into(),
                    (&factors).into(),
                ];
                launch("factor", Grid::blocks(1, 2), &arguments)?;
                let arguments: [Argument; 4] =
                    [(&inverse).into(), (&u).into(), (&factors).into(), dim.into()];
                launch("observe", Grid::each(dim * dim), &arguments)?;
                let arguments: [Argument; 15] = [
                    (&directions).into(),
                    items.into(),
                    dim.into(),
                    (&u).into(),
                    (&h).into(),
                    (&factors).into(),
                    (&a).into(),
                    (&b).into(),
                    (&weights).into(),
                    (&costs).into(),
                    (&gone).into(),
                    (&money).into(),
                    most.into(),
                    (&bests).into(),
                    (&of_blocks).into(),
                ];
                launch("lower", Grid::blocks(blocks, THREADS as u32), &arguments)?;
                if most > 0 {
                    let learners = learners.at(at * most * FOUND);
                    let arguments: [Argument; 4] =
                        [(&of_blocks).into(), blocks.into(), most.into(), learners.into()];
                    launch("learn", block, &arguments)?;
                }
            }
            let found = picks.to_vec()?;
            let taken = found.chunks_exact(FOUND).take_while(|found| found[2] != NOBODY).count();
            all_picks.extend_from_slice(&found[..taken * FOUND]);
            all_learners.extend_from_slice(&learners.to_vec()?[..taken * most * FOUND]);
            progress.advance(taken as u64);
            if taken < count {
                break;
            }
        }
        let found = |found: &[u64]| (found[2] as u32, f64::from_bits(found[1]));
        let of_pick = |(at, pick): (usize, &[u64])| {
            let (item, gain) = found(pick);
            let learners = all_learners[at * most * FOUND..][..most * FOUND].chunks_exact(FOUND);
            let learners = learners.filter(|learner| learner[2] != NOBODY).map(found).collect();
            DesignPick { item, gain, learners }
        };
        let taken = all_picks.chunks_exact(FOUND).enumerate().map(of_pick).collect();
        Ok((taken, self.moments.variance_of(&inverse.to_vec()?)))
    }
}
