//! The optimisers that published models are trained with, with clipped gradients, as PyTorch computes
//! them: Adam (Kingma and Ba, ICLR 2015), AdamW (Loshchilov and Hutter, ICLR 2019), AMSGrad (Reddi,
//! Kale and Kumar, ICLR 2018) and gradient descent with Nesterov's momentum.

mod gpu;
mod update;

use nextpair_cuda::Array;
use rayon::prelude::*;

use crate::unit::arch;
use crate::{Error, Gradients, Tensor, Values};

const FIRST_DECAY: f64 = 0.9;
const SECOND_DECAY: f64 = 0.999;
const EPSILON: f64 = 1e-8;
/// Momentum of gradient descent.
const MOMENTUM: f64 = 0.9;

/// How weights follow their gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Method {
    /// Adam.
    #[default]
    Adam,
    /// Adam, after every weight has shrunk by `rate * decay`.
    AdamW {
        /// Decay of weights.
        decay: f64,
    },
    /// Adam with the largest second moment so far.
    AmsGrad,
    /// Gradient descent with Nesterov's momentum of 0.9.
    Sgd {
        /// Decay of weights, added to the clipped gradients.
        decay: f64,
    },
}

impl Method {
    /// The names of the moments it keeps of every weight.
    pub fn moments(self) -> &'static [&'static str] {
        match self {
            Method::Adam | Method::AdamW { .. } => &["adam.first", "adam.second"],
            Method::AmsGrad => &["adam.first", "adam.second", "adam.largest"],
            Method::Sgd { .. } => &["sgd.momentum"],
        }
    }

    /// What a weight is multiplied by before a step.
    fn kept_share(self, rate: f64) -> f64 {
        match self {
            Method::AdamW { decay } => 1.0 - rate * decay,
            _ => 1.0,
        }
    }
}

/// The optimiser: a method, and its moments of every weight.
///
/// The weights are those of the members of an ensemble, which have equal shapes: the weights of several
/// have a leading axis of members. Each member's gradients have a norm of their own.
pub struct Optimiser {
    method: Method,
    moments: Vec<Moments>,
    /// Factors of the rate, one for each weight.
    factors: Vec<f64>,
    members: usize,
}

/// The moments of a weight.
#[derive(Clone, Debug)]
pub struct Moments {
    /// As many as the method has, in the order of [`Method::moments`].
    pub kept: Vec<Tensor>,
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

impl Optimiser {
    /// Starts with zero moments for the weights of so many members.
    ///
    /// # Errors
    /// If a device has no memory left.
    pub fn new<'a>(
        method: Method,
        weights: impl IntoIterator<Item = &'a Tensor>,
        members: usize,
    ) -> Result<Self, Error> {
        let moments = weights.into_iter().map(|weight| {
            let zeros = |_: &&str| Tensor::zeros(weight.shape(), weight.device());
            let kept = method.moments().iter().map(zeros).collect::<Result<_, Error>>()?;
            Ok(Moments { kept, steps: 0 })
        });
        let moments = moments.collect::<Result<Vec<Moments>, Error>>()?;
        let factors = vec![1.0; moments.len()];
        Ok(Optimiser { method, moments, factors, members })
    }

    /// The same with a factor of the rate for each weight.
    ///
    /// # Errors
    /// If there are more or fewer.
    pub fn with_factors(self, factors: Vec<f64>) -> Result<Self, Error> {
        Error::check_len("the factors of the rate", factors.len(), self.moments.len())?;
        Ok(Optimiser { factors, ..self })
    }

    /// Takes one step with learning rate `rate` along the gradients of a loss, those of each member
    /// clipped to a norm of `clip`. Returns the norms before clipping. The weights are those of
    /// [`Optimiser::new`], in the same order.
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
        let (method, members) = (self.method, self.members);
        let weights: Vec<&mut Tensor> = weights.into_iter().collect();
        Error::check_len("the weights of the optimiser", weights.len(), self.moments.len())?;
        let gradients: Vec<Option<&Values>> = weights.iter().map(|w| gradients.of(w)).collect();
        let mut steps = Vec::new();
        let own = self.moments.iter_mut().zip(&self.factors);
        for ((weight, gradient), (moments, factor)) in weights.into_iter().zip(gradients).zip(own) {
            let Some(gradient) = gradient else { continue };
            let whole = weight.len() / members * members;
            Error::check_len("a weight of several members", weight.len(), whole)?;
            moments.steps += 1;
            let correction = |decay: f64| 1.0 - decay.powi(moments.steps as i32);
            let rate = rate * factor;
            let size = rate / correction(FIRST_DECAY);
            let root = correction(SECOND_DECAY).sqrt();
            steps.push(Descent { weight, moments, gradient, rate, size, root });
        }
        if let Some(Values::Cuda(cuda, _)) = steps.first().map(|step| step.gradient) {
            return gpu::descend(*cuda, method, steps, members, clip).map(Norm::Pending);
        }
        let norm = |member: usize| {
            let squares = steps.iter().map(|step| sum_of_squares(step.gradient, member, members));
            Ok(squares.collect::<Result<Vec<f64>, Error>>()?.iter().sum::<f64>().sqrt())
        };
        let norms = (0..members).map(norm).collect::<Result<Vec<f64>, Error>>()?;
        let scales: Vec<f64> = norms.iter().map(|norm| (clip / (norm + 1e-6)).min(1.0)).collect();
        steps.into_iter().try_for_each(|step| step.go(method, &scales))?;
        Ok(Norm::Known(norms))
    }

    /// Its method.
    pub fn method(&self) -> Method {
        self.method
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
    let vector = arch();
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
    rate: f64,
    /// The rate over the bias of the first moment.
    size: f64,
    /// The root of the bias of the second.
    root: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::ops::judge::tensor;
    use crate::ops::linear;

    #[test]
    fn every_device_takes_the_steps_of_the_reference() {
        let trained = |method: Method, device: Device| {
            let weights = [tensor(1, &[3, 5]), tensor(2, &[3])];
            let mut weights = weights.map(|weight| weight.to_device(device).unwrap().into_weight());
            // Has no part in the loss, so it must not change.
            let mut unused = tensor(3, &[2]).to_device(device).unwrap().into_weight();
            let rows = tensor(4, &[7, 5]).to_device(device).unwrap();
            let all = weights.iter().chain([&unused]);
            let mut adam = Optimiser::new(method, all, 1).unwrap();
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
        let (amsgrad, adamw) = (Method::AmsGrad, Method::AdamW { decay: 0.3 });
        for method in [Method::Adam, adamw, amsgrad, Method::Sgd { decay: 0.01 }] {
            let (expected, expected_norms) = trained(method, Device::Reference);
            for device in Device::available() {
                let (found, norms) = trained(method, device);
                let numbers = found.iter().flatten().chain(&norms);
                let truth = expected.iter().flatten().chain(&expected_norms);
                for (found, expected) in numbers.zip(truth) {
                    assert!((found - expected).abs() < 1e-4, "{device}: {found} {expected}");
                }
            }
        }
    }

    /// One number with the gradients 8, 0.1 and 0.1, by hand.
    #[test]
    fn methods_are_those_of_their_papers() {
        let path = |method: Method, factor: f64| {
            let device = Device::Reference;
            let mut weight = Tensor::new(vec![1.0], &[1, 1], device).unwrap().into_weight();
            let (one, nothing) = (
                Tensor::new(vec![1.0], &[1, 1], device).unwrap(),
                Tensor::new(vec![0.0], &[1], device).unwrap(),
            );
            let optimiser = Optimiser::new(method, [&weight], 1).unwrap();
            let mut optimiser = optimiser.with_factors(vec![factor]).unwrap();
            [8.0f32, 0.1, 0.1].map(|slope| {
                let out = linear(&one, &weight, &nothing).unwrap();
                let gradients = out.backward(&[slope]).unwrap();
                optimiser.step([&mut weight], &gradients, 0.1, 100.0).unwrap();
                weight.to_f64s().unwrap()[0]
            })
        };
        let adam = path(Method::Adam, 1.0);
        assert!((adam[0] - 0.9).abs() < 1e-8, "the first step has the size of the rate");
        assert!((path(Method::Adam, 0.5)[0] - 0.95).abs() < 1e-8, "or of its part");
        let adamw = path(Method::AdamW { decay: 0.5 }, 1.0);
        assert!((adamw[0] - (0.95 - 0.1)).abs() < 1e-8, "a weight shrinks by rate times decay");
        // The second moments are 0.064, 0.063946 and 0.063892: their largest is the first.
        let slope = f64::from(0.1f32);
        let first: f64 = 0.9 * (0.9 * 0.8 + 0.1 * slope) + 0.1 * slope;
        let size = 0.1 / (1.0 - 0.9f64.powi(3));
        let step = size * first / (0.064f64.sqrt() / (1.0 - 0.999f64.powi(3)).sqrt() + 1e-8);
        let amsgrad = path(Method::AmsGrad, 1.0);
        assert!((amsgrad[1] - amsgrad[2] - step).abs() < 1e-9, "{amsgrad:?} {step}");
        // g = 8 + 0.01, buffer g, w = 1 - 0.1 (g + 0.9 g).
        let sgd = path(Method::Sgd { decay: 0.01 }, 1.0);
        assert!((sgd[0] - (1.0 - 0.1 * 1.9 * 8.01)).abs() < 1e-9);
        let (g, before) = (slope + 0.01 * sgd[0], 8.01);
        let buffer = 0.9 * before + g;
        assert!((sgd[1] - (sgd[0] - 0.1 * (g + 0.9 * buffer))).abs() < 1e-9);
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
                let mut adam = Optimiser::new(Method::Adam, own.iter(), 1).unwrap();
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
            let mut adam = Optimiser::new(Method::Adam, all.iter(), seeds.len()).unwrap();
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
