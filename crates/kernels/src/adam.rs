//! Adam (Kingma and Ba, ICLR 2015) with clipped gradients, as PyTorch computes it.

mod gpu;

use nextpair_cuda::Array;
use pulp::Arch;
use rayon::prelude::*;

use crate::{Error, Gradients, Tensor, Values};

const FIRST_DECAY: f64 = 0.9;
const SECOND_DECAY: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// The optimizer: the moments of every weight.
///
/// The weights may be those of several members of an ensemble, which have equal shapes: then every
/// weight has a leading axis of members, and each member's gradients have a norm of their own.
pub struct Adam {
    moments: Vec<Moments>,
    members: usize,
}

/// The first and second moments of a weight.
#[derive(Clone, Debug)]
pub struct Moments {
    /// Running mean of the gradients.
    pub first: Tensor,
    /// Running mean of their squares.
    pub second: Tensor,
    /// Steps taken by the weight. A weight without a gradient takes none.
    pub steps: u32,
}

/// The norms of the gradients of every member. On a GPU they are known once the work before them is
/// done.
#[derive(Clone, Debug)]
pub enum Norm {
    /// Numbers.
    Known(Vec<f64>),
    /// Numbers on a GPU.
    Pending(Array<f64>),
}

impl Norm {
    /// The norm of the first member. Waits for it.
    ///
    /// # Errors
    /// If the device, or work on it, failed.
    pub fn value(&self) -> Result<f64, Error> {
        Ok(self.values()?.first().copied().unwrap_or(0.0))
    }

    /// The norms of all members. Waits for them.
    ///
    /// # Errors
    /// If the device, or work on it, failed.
    pub fn values(&self) -> Result<Vec<f64>, Error> {
        match self {
            Norm::Known(norms) => Ok(norms.clone()),
            Norm::Pending(norms) => Ok(norms.to_vec()?),
        }
    }
}

impl Adam {
    /// Starts with zero moments for these weights.
    ///
    /// # Errors
    /// If a device has no memory left.
    pub fn new<'a>(weights: impl IntoIterator<Item = &'a Tensor>) -> Result<Self, Error> {
        let moments = weights.into_iter().map(|weight| {
            let zeros = || Tensor::zeros(weight.shape(), weight.device());
            Ok(Moments { first: zeros()?, second: zeros()?, steps: 0 })
        });
        Ok(Self::of_members(moments.collect::<Result<_, Error>>()?, 1))
    }

    /// Goes on with the moments of the weights of so many members, whose first axis has a part for
    /// each.
    pub fn of_members(moments: Vec<Moments>, members: usize) -> Self {
        Adam { moments, members }
    }

    /// Takes one step with learning rate `rate` along the gradients of a loss, those of each member
    /// clipped to a norm of `clip`. Returns the norms before clipping. The weights are those of
    /// [`Adam::new`], in the same order.
    ///
    /// # Errors
    /// If weights and gradients are on different devices.
    pub fn step<'a>(
        &mut self,
        weights: impl IntoIterator<Item = &'a mut Tensor>,
        gradients: &Gradients,
        rate: f64,
        clip: f64,
    ) -> Result<Norm, Error> {
        let members = self.members;
        let weights: Vec<&mut Tensor> = weights.into_iter().collect();
        Error::check_len("the weights of the optimiser", weights.len(), self.moments.len())?;
        let gradients: Vec<Option<&Values>> = weights.iter().map(|w| gradients.of(w)).collect();
        let mut steps = Vec::new();
        for ((weight, gradient), moments) in
            weights.into_iter().zip(gradients).zip(&mut self.moments)
        {
            let Some(gradient) = gradient else { continue };
            let whole = weight.len() / members * members;
            Error::check_len("a weight of several members", weight.len(), whole)?;
            moments.steps += 1;
            let correction = |decay: f64| 1.0 - decay.powi(moments.steps as i32);
            let size = rate / correction(FIRST_DECAY);
            let root = correction(SECOND_DECAY).sqrt();
            steps.push(Descent { weight, moments, gradient, size, root });
        }
        if let Some(Values::Cuda(cuda, _)) = steps.first().map(|step| step.gradient) {
            return gpu::descend(*cuda, steps, members, clip).map(Norm::Pending);
        }
        let norm = |member: usize| {
            let squares = steps.iter().map(|step| sum_of_squares(step.gradient, member, members));
            Ok(squares.collect::<Result<Vec<f64>, Error>>()?.iter().sum::<f64>().sqrt())
        };
        let norms = (0..members).map(norm).collect::<Result<Vec<f64>, Error>>()?;
        let scales: Vec<f64> = norms.iter().map(|norm| (clip / (norm + 1e-6)).min(1.0)).collect();
        steps.into_iter().try_for_each(|step| step.go(&scales))?;
        Ok(Norm::Known(norms))
    }

    /// The moments of every weight.
    pub fn moments(&self) -> &[Moments] {
        &self.moments
    }

    /// The moments of every weight, to resume from stored ones.
    pub fn moments_mut(&mut self) -> &mut [Moments] {
        &mut self.moments
    }
}

/// Numbers per thread at a time. Sums run over these chunks and then in order, so that they do not
/// depend on the number of threads.
const CHUNK: usize = 1 << 15;

/// The squares of the gradient of a member.
fn sum_of_squares(gradient: &Values, member: usize, members: usize) -> Result<f64, Error> {
    let gradient = match gradient {
        Values::Cpu(gradient) => part(gradient, member, members),
        Values::Reference(gradient) => {
            return Ok(part(gradient, member, members).iter().map(|g| g * g).sum());
        }
        Values::Cuda(..) => return Err(Error::Devices),
    };
    let of_chunk = |chunk: &[f32]| {
        let mut lanes = [0.0f64; 16];
        let whole = chunk.chunks_exact(16);
        let rest: f64 = whole.remainder().iter().map(|&g| f64::from(g) * f64::from(g)).sum();
        for numbers in whole {
            for (lane, &g) in lanes.iter_mut().zip(numbers) {
                *lane += f64::from(g) * f64::from(g);
            }
        }
        lanes.iter().sum::<f64>() + rest
    };
    let vector = Arch::new();
    let sums: Vec<f64> =
        gradient.par_chunks(CHUNK).map(|chunk| vector.dispatch(|| of_chunk(chunk))).collect();
    Ok(sums.iter().sum())
}

/// The numbers of a member.
fn part<N>(numbers: &[N], member: usize, members: usize) -> &[N] {
    let each = numbers.len() / members;
    &numbers[member * each..][..each]
}

/// One step of one weight.
struct Descent<'a> {
    weight: &'a mut Tensor,
    moments: &'a mut Moments,
    gradient: &'a Values,
    size: f64,
    root: f64,
}

impl Descent<'_> {
    /// Updates the weight and its moments in one pass, with the gradients of each member times its
    /// scale.
    fn go(self, scales: &[f64]) -> Result<(), Error> {
        let Descent { weight, moments, gradient, size, root } = self;
        let each = weight.len() / scales.len();
        if each == 0 {
            return Ok(());
        }
        let (first, second) = (moments.first.values_mut(), moments.second.values_mut());
        match (weight.values_mut(), first, second, gradient) {
            (Values::Cpu(p), Values::Cpu(m), Values::Cpu(v), Values::Cpu(g)) => {
                let moments = m.chunks_exact_mut(each).zip(v.chunks_exact_mut(each));
                let numbers = p.chunks_exact_mut(each).zip(g.chunks_exact(each)).zip(moments);
                for (((p, g), (m, v)), &scale) in numbers.zip(scales) {
                    cpu([scale as f32, size as f32, (1.0 / root) as f32], p, m, v, g);
                }
            }
            (
                Values::Reference(p),
                Values::Reference(m),
                Values::Reference(v),
                Values::Reference(g),
            ) => {
                let moments = m.chunks_exact_mut(each).zip(v.chunks_exact_mut(each));
                let numbers = p.chunks_exact_mut(each).zip(g.chunks_exact(each)).zip(moments);
                for (((p, g), (m, v)), &scale) in numbers.zip(scales) {
                    plain([scale, size, root], p, m, v, g);
                }
            }
            _ => return Err(Error::Devices),
        }
        Ok(())
    }
}

fn plain(
    [scale, size, root]: [f64; 3],
    weight: &mut [f64],
    first: &mut [f64],
    second: &mut [f64],
    gradient: &[f64],
) {
    let moments = first.iter_mut().zip(second);
    for ((p, g), (m, v)) in weight.iter_mut().zip(gradient).zip(moments) {
        let g = scale * g;
        *m = FIRST_DECAY * *m + (1.0 - FIRST_DECAY) * g;
        *v = SECOND_DECAY * *v + (1.0 - SECOND_DECAY) * g * g;
        *p -= size * *m / (v.sqrt() / root + EPSILON);
    }
}

fn cpu(
    [scale, size, unroot]: [f32; 3],
    weight: &mut [f32],
    first: &mut [f32],
    second: &mut [f32],
    gradient: &[f32],
) {
    let epsilon = EPSILON as f32;
    let (keep_first, take_first) = (FIRST_DECAY as f32, (1.0 - FIRST_DECAY) as f32);
    let (keep_second, take_second) = (SECOND_DECAY as f32, (1.0 - SECOND_DECAY) as f32);
    let vector = Arch::new();
    let moments = first.par_chunks_mut(CHUNK).zip(second.par_chunks_mut(CHUNK));
    let numbers = weight.par_chunks_mut(CHUNK).zip(gradient.par_chunks(CHUNK));
    numbers.zip(moments).for_each(|((weight, gradient), (first, second))| {
        vector.dispatch(|| {
            let moments = first.iter_mut().zip(second.iter_mut());
            for ((p, g), (m, v)) in weight.iter_mut().zip(gradient).zip(moments) {
                let g = scale * g;
                *m = keep_first * *m + take_first * g;
                *v = keep_second * *v + take_second * g * g;
                *p -= size * *m / (v.sqrt() * unroot + epsilon);
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::ops::judge::tensor;
    use crate::ops::linear;

    #[test]
    fn every_device_takes_the_steps_of_the_reference() {
        let trained = |device: Device| {
            let weights = [tensor(1, &[3, 5]), tensor(2, &[3])];
            let mut weights = weights.map(|weight| weight.to_device(device).unwrap().into_weight());
            // Has no part in the loss, so it must not change.
            let mut unused = tensor(3, &[2]).to_device(device).unwrap().into_weight();
            let rows = tensor(4, &[7, 5]).to_device(device).unwrap();
            let mut adam = Adam::new(weights.iter().chain([&unused])).unwrap();
            let mut norms = Vec::new();
            for step in 0..5 {
                let out = linear(&rows, &weights[0], &weights[1]).unwrap();
                let gradients = out.backward(&tensor(10 + step, &[21]).to_f32s().unwrap()).unwrap();
                let all = weights.iter_mut().chain([&mut unused]);
                let norm = adam.step(all, &gradients, 0.1, 2.0).unwrap();
                norms.push(norm.value().unwrap());
            }
            let steps: Vec<u32> = adam.moments().iter().map(|m| m.steps).collect();
            assert_eq!(steps, [5, 5, 0]);
            assert_eq!(unused.to_f32s().unwrap(), tensor(3, &[2]).to_f32s().unwrap());
            (weights.map(|weight| weight.to_f64s().unwrap()), norms)
        };
        let (expected, expected_norms) = trained(Device::Reference);
        for device in Device::available() {
            let (found, norms) = trained(device);
            let numbers = found.iter().flatten().chain(&norms);
            for (found, expected) in numbers.zip(expected.iter().flatten().chain(&expected_norms)) {
                assert!((found - expected).abs() < 1e-4, "{device}: {found} {expected}");
            }
        }
    }

    /// Members of an ensemble take the steps that they take alone.
    #[test]
    fn members_take_their_own_steps() {
        let (seeds, steps) = ([1, 5, 9], 4);
        let weights = |seed: u64| [tensor(seed, &[3, 5]), tensor(seed + 1, &[3])];
        let rows = |seed: u64, step: u64| tensor(100 * seed + step, &[7, 5]);
        // Members with large gradients are clipped, others are not.
        let slopes = |seed: u64, step: u64| {
            let all = tensor(1000 * seed + step, &[21]).to_f32s().unwrap();
            all.iter().map(|x| x * seed as f32 * 0.05).collect::<Vec<f32>>()
        };
        for device in Device::available() {
            let on = |t: &Tensor| t.to_device(device).unwrap();
            let alone = seeds.map(|seed| {
                let mut own = weights(seed).map(|w| on(&w).into_weight());
                let mut adam = Adam::new(own.iter()).unwrap();
                let mut norms = Vec::new();
                for step in 0..steps {
                    let out = linear(&on(&rows(seed, step)), &own[0], &own[1]).unwrap();
                    let gradients = out.backward(&slopes(seed, step)).unwrap();
                    let norm = adam.step(own.iter_mut(), &gradients, 0.1, 2.0).unwrap();
                    norms.push(norm.value().unwrap());
                }
                (own.map(|w| w.to_f32s().unwrap()), norms)
            });
            let stacked = |of: &dyn Fn(u64) -> Tensor, shape: &[usize]| {
                let all: Vec<f32> = seeds.iter().flat_map(|&s| of(s).to_f32s().unwrap()).collect();
                Tensor::new(all, shape, device).unwrap()
            };
            let mut all = [
                stacked(&|seed| weights(seed)[0].clone(), &[3, 3, 5]).into_weight(),
                stacked(&|seed| weights(seed)[1].clone(), &[3, 3]).into_weight(),
            ];
            let moments = Adam::new(all.iter()).unwrap().moments().to_vec();
            let mut adam = Adam::of_members(moments, seeds.len());
            for step in 0..steps {
                let rows = stacked(&|seed| rows(seed, step), &[21, 5]);
                let out = linear(&rows, &all[0], &all[1]).unwrap();
                let slopes: Vec<f32> = seeds.iter().flat_map(|&s| slopes(s, step)).collect();
                let norms = adam.step(all.iter_mut(), &out.backward(&slopes).unwrap(), 0.1, 2.0);
                for (member, norm) in norms.unwrap().values().unwrap().iter().enumerate() {
                    assert!((norm - alone[member].1[step as usize]).abs() < 1e-5 * norm);
                }
            }
            for (weight, all) in all.iter().enumerate() {
                let all = all.to_f32s().unwrap();
                for (member, (own, _)) in alone.iter().enumerate() {
                    let found = part(&all, member, 3);
                    if device == Device::Cpu {
                        assert_eq!(found, own[weight], "the same bits");
                    }
                    for (found, own) in found.iter().zip(&own[weight]) {
                        assert!((found - own).abs() < 1e-4, "{device}: {found} {own}");
                    }
                }
            }
        }
    }
}
