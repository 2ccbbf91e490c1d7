//! Adam (Kingma and Ba, ICLR 2015) with clipped gradients, as PyTorch computes it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, InplaceOp2, Layout, Tensor, Var};
use pulp::Arch;
use rayon::prelude::*;

use crate::Error;
use crate::numbers::{copied, lend, storage};
use crate::parameters::Parameters;

const FIRST_DECAY: f64 = 0.9;
const SECOND_DECAY: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// The moments of every weight.
pub struct Adam {
    moments: Vec<Moments>,
    /// Steps that each weight has taken. A weight without a gradient takes none.
    steps: Vec<u32>,
}

/// The first and second moment of a weight.
enum Moments {
    /// On the processor, where one pass changes them together with the weight.
    Here(Vec<f32>, Vec<f32>),
    /// On another device.
    There(Var, Var),
}

impl Adam {
    /// Before the first step.
    pub fn new(weights: &Parameters) -> Result<Self, Error> {
        let moments = weights.iter().map(|(_, var)| match var.device().is_cpu() {
            true => Ok(Moments::Here(vec![0.0; var.elem_count()], vec![0.0; var.elem_count()])),
            false => Ok(Moments::There(
                var.zeros_like().and_then(|zeros| Var::from_tensor(&zeros))?,
                var.zeros_like().and_then(|zeros| Var::from_tensor(&zeros))?,
            )),
        });
        let moments = moments.collect::<Result<Vec<_>, Error>>()?;
        Ok(Adam { steps: vec![0; moments.len()], moments })
    }

    /// One step along the gradients of a loss, scaled down to a total length of `clip`. Returns
    /// the length they had.
    pub fn step(
        &mut self,
        weights: &Parameters,
        gradients: &GradStore,
        rate: f64,
        clip: f64,
    ) -> Result<f64, Error> {
        let gradients: Vec<Option<&Tensor>> =
            weights.iter().map(|(_, var)| gradients.get(var.as_tensor())).collect();
        let mut squares = 0.0;
        for gradient in gradients.iter().flatten() {
            squares += sum_of_squares(gradient)?;
        }
        let norm = squares.sqrt();
        let scale = (clip / (norm + 1e-6)).min(1.0);
        let state = self.moments.iter_mut().zip(&mut self.steps);
        for (((_, var), gradient), (moments, steps)) in weights.iter().zip(&gradients).zip(state) {
            let Some(gradient) = gradient else { continue };
            *steps += 1;
            let step = Step { rate, scale, steps: *steps };
            step.take(var, moments, &gradient.contiguous()?)?;
        }
        Ok(norm)
    }

    /// The state under names, to be stored beside the weights.
    pub(crate) fn named(&self, weights: &Parameters) -> Result<Vec<(String, Tensor)>, Error> {
        let mut all = Vec::new();
        for ((name, var), moments) in weights.iter().zip(&self.moments) {
            let [first, second] = moments.tensors(var)?;
            all.push((format!("{FIRST}{name}"), first));
            all.push((format!("{SECOND}{name}"), second));
        }
        Ok(all)
    }

    /// Continues from stored moments, which have the names and shapes of [`named`](Self::named).
    pub(crate) fn set(
        &mut self,
        weights: &Parameters,
        stored: &BTreeMap<String, Tensor>,
        steps: Vec<u32>,
    ) -> Result<(), Error> {
        for ((name, _), moments) in weights.iter().zip(&mut self.moments) {
            let first = stored.get(&format!("{FIRST}{name}"));
            let second = stored.get(&format!("{SECOND}{name}"));
            let (Some(first), Some(second)) = (first, second) else { continue };
            match moments {
                Moments::Here(m, v) => (*m, *v) = (copied(first)?, copied(second)?),
                Moments::There(m, v) => {
                    m.set(&first.to_device(m.device())?)?;
                    v.set(&second.to_device(v.device())?)?;
                }
            }
        }
        self.steps = steps;
        Ok(())
    }

    /// Steps taken by each weight.
    pub(crate) fn steps(&self) -> &[u32] {
        &self.steps
    }
}

/// What the names of stored moments begin with.
const FIRST: &str = "adam.first.";
const SECOND: &str = "adam.second.";

impl Moments {
    fn tensors(&self, like: &Var) -> Result<[Tensor; 2], Error> {
        Ok(match self {
            Moments::Here(first, second) => [
                Tensor::from_slice(first, like.shape(), like.device())?,
                Tensor::from_slice(second, like.shape(), like.device())?,
            ],
            Moments::There(first, second) => {
                [first.as_tensor().clone(), second.as_tensor().clone()]
            }
        })
    }
}

/// Numbers that one thread takes at once. Sums are taken over these chunks and then in order, so
/// that they do not depend on the number of threads.
const CHUNK: usize = 1 << 15;

fn sum_of_squares(gradient: &Tensor) -> Result<f64, Error> {
    if !gradient.device().is_cpu() {
        return Ok(f64::from(gradient.sqr()?.sum_all()?.to_scalar::<f32>()?));
    }
    let sums: Vec<f64> = lend(gradient, |gradient| {
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
        Ok(gradient.par_chunks(CHUNK).map(|chunk| vector.dispatch(|| of_chunk(chunk))).collect())
    })?;
    Ok(sums.iter().sum())
}

/// One step of one weight.
struct Step {
    rate: f64,
    scale: f64,
    steps: u32,
}

impl Step {
    fn take(&self, var: &Var, moments: &mut Moments, gradient: &Tensor) -> Result<(), Error> {
        let correction = |decay: f64| 1.0 - decay.powi(self.steps as i32);
        let size = self.rate / correction(FIRST_DECAY);
        let root = correction(SECOND_DECAY).sqrt();
        match moments {
            Moments::Here(first, second) => {
                let first = Mutex::new(first);
                let second = Mutex::new(second);
                let descend = Descend { first, second, scale: self.scale, size, root };
                Ok(var.inplace_op2(gradient, &descend)?)
            }
            Moments::There(first, second) => {
                let gradient = (gradient * self.scale)?;
                let taken = (&gradient * (1.0 - FIRST_DECAY))?;
                first.set(&((first.as_tensor() * FIRST_DECAY)? + taken)?)?;
                let taken = (gradient.sqr()? * (1.0 - SECOND_DECAY))?;
                second.set(&((second.as_tensor() * SECOND_DECAY)? + taken)?)?;
                let below = ((second.sqrt()? / root)? + EPSILON)?;
                Ok(var.set(&(var.as_tensor() - ((first.as_tensor() / below)? * size)?)?)?)
            }
        }
    }
}

/// Moves a weight and its moments in one pass. Operations are shared, hence the locks.
struct Descend<'a> {
    first: Mutex<&'a mut Vec<f32>>,
    second: Mutex<&'a mut Vec<f32>>,
    scale: f64,
    size: f64,
    root: f64,
}

impl InplaceOp2 for Descend<'_> {
    fn name(&self) -> &'static str {
        "adam"
    }

    fn cpu_fwd(
        &self,
        weight: &mut CpuStorage,
        layout: &Layout,
        gradient: &CpuStorage,
        gradient_layout: &Layout,
    ) -> candle_core::Result<()> {
        let gradient = storage(gradient, gradient_layout)?;
        let weight = match (weight, layout.contiguous_offsets()) {
            (CpuStorage::F32(values), Some((start, end))) => &mut values[start..end],
            _ => candle_core::bail!("weights are contiguous and in single precision"),
        };
        let mut first = self.first.lock().expect("nothing panics while it is held");
        let mut second = self.second.lock().expect("nothing panics while it is held");
        let (scale, size) = (self.scale as f32, self.size as f32);
        let (unroot, epsilon) = ((1.0 / self.root) as f32, EPSILON as f32);
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
        Ok(())
    }
}
