//! Adam (Kingma and Ba, ICLR 2015) with clipped gradients, as PyTorch computes it.

use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, DType, InplaceOp2, InplaceOp3, Layout, Tensor, Var};
use rayon::prelude::*;

use crate::Error;
use crate::numbers::storage;
use crate::parameters::Parameters;

const FIRST_DECAY: f64 = 0.9;
const SECOND_DECAY: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// The moments of every weight.
pub struct Adam {
    /// The first and second moment of each weight. A weight without a gradient keeps its zeros.
    moments: Vec<[Var; 2]>,
    /// Steps that each weight has taken.
    steps: Vec<u32>,
}

impl Adam {
    /// Before the first step.
    pub fn new(weights: &Parameters) -> Result<Self, Error> {
        let zeros = |var: &Var| Var::zeros(var.shape(), DType::F32, var.device());
        let moments = weights.iter().map(|(_, var)| Ok([zeros(var)?, zeros(var)?]));
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
        let state = self.moments.iter().zip(&mut self.steps);
        for (((_, var), gradient), ([first, second], steps)) in
            weights.iter().zip(&gradients).zip(state)
        {
            let Some(gradient) = gradient else { continue };
            *steps += 1;
            let step = Step { rate, scale, steps: *steps };
            step.take(var, first, second, &gradient.contiguous()?)?;
        }
        Ok(norm)
    }

    /// The state under names, to be stored beside the weights.
    pub(crate) fn named<'a>(
        &'a self,
        weights: &'a Parameters,
    ) -> impl Iterator<Item = (String, &'a Var)> + 'a {
        weights.iter().zip(&self.moments).flat_map(|((name, _), [first, second])| {
            [(format!("adam.first.{name}"), first), (format!("adam.second.{name}"), second)]
        })
    }

    /// Steps taken by each weight.
    pub(crate) fn steps(&self) -> &[u32] {
        &self.steps
    }

    pub(crate) fn set_steps(&mut self, steps: Vec<u32>) {
        self.steps = steps;
    }
}

/// Numbers that one thread takes at once. Sums are taken over these chunks and then in order, so
/// that they do not depend on the number of threads.
const CHUNK: usize = 1 << 15;

fn sum_of_squares(gradient: &Tensor) -> Result<f64, Error> {
    if !gradient.device().is_cpu() {
        return Ok(f64::from(gradient.sqr()?.sum_all()?.to_scalar::<f32>()?));
    }
    let gradient = gradient.contiguous()?;
    let (held, layout) = gradient.storage_and_layout();
    let candle_core::Storage::Cpu(held) = &*held else { return Ok(0.0) };
    let sums: Vec<f64> = storage(held, layout)?
        .par_chunks(CHUNK)
        .map(|chunk| {
            let mut lanes = [0.0f64; 8];
            for (at, &value) in chunk.iter().enumerate() {
                lanes[at % 8] += f64::from(value) * f64::from(value);
            }
            lanes.iter().sum()
        })
        .collect();
    Ok(sums.iter().sum())
}

/// One step of one weight.
struct Step {
    rate: f64,
    scale: f64,
    steps: u32,
}

impl Step {
    fn take(&self, var: &Var, first: &Var, second: &Var, gradient: &Tensor) -> Result<(), Error> {
        let correction = |decay: f64| 1.0 - decay.powi(self.steps as i32);
        let size = self.rate / correction(FIRST_DECAY);
        let root = correction(SECOND_DECAY).sqrt();
        if !var.device().is_cpu() {
            let gradient = (gradient * self.scale)?;
            first
                .set(&((first.as_tensor() * FIRST_DECAY)? + (&gradient * (1.0 - FIRST_DECAY))?)?)?;
            let squared = (gradient.sqr()? * (1.0 - SECOND_DECAY))?;
            second.set(&((second.as_tensor() * SECOND_DECAY)? + squared)?)?;
            let below = ((second.sqrt()? / root)? + EPSILON)?;
            return Ok(var.set(&(var.as_tensor() - ((first.as_tensor() / below)? * size)?)?)?);
        }
        let scale = self.scale as f32;
        let (keep, take) = (FIRST_DECAY as f32, (1.0 - FIRST_DECAY) as f32);
        first.inplace_op2(gradient, &Blend(move |m, g| keep * m + take * (scale * g)))?;
        let (keep, take) = (SECOND_DECAY as f32, (1.0 - SECOND_DECAY) as f32);
        let square = move |v, g: f32| keep * v + take * (scale * g) * (scale * g);
        second.inplace_op2(gradient, &Blend(square))?;
        let (size, unroot, epsilon) = (size as f32, (1.0 / root) as f32, EPSILON as f32);
        let descend = move |p, m: f32, v: f32| p - size * m / (v.sqrt() * unroot + epsilon);
        Ok(var.inplace_op3(first, second, &Descend(descend))?)
    }
}

/// Changes every number by one other.
struct Blend<F>(F);

impl<F: Fn(f32, f32) -> f32 + Sync> InplaceOp2 for Blend<F> {
    fn name(&self) -> &'static str {
        "blend"
    }

    fn cpu_fwd(
        &self,
        out: &mut CpuStorage,
        layout: &Layout,
        other: &CpuStorage,
        other_layout: &Layout,
    ) -> candle_core::Result<()> {
        let other = storage(other, other_layout)?;
        let parts = whole(out, layout)?.par_chunks_mut(CHUNK).zip(other.par_chunks(CHUNK));
        parts.for_each(|(out, other)| {
            out.iter_mut().zip(other).for_each(|(out, &other)| *out = (self.0)(*out, other));
        });
        Ok(())
    }
}

/// Changes every number by two others.
struct Descend<F>(F);

impl<F: Fn(f32, f32, f32) -> f32 + Sync> InplaceOp3 for Descend<F> {
    fn name(&self) -> &'static str {
        "descend"
    }

    fn cpu_fwd(
        &self,
        out: &mut CpuStorage,
        layout: &Layout,
        one: &CpuStorage,
        one_layout: &Layout,
        two: &CpuStorage,
        two_layout: &Layout,
    ) -> candle_core::Result<()> {
        let (one, two) = (storage(one, one_layout)?, storage(two, two_layout)?);
        let others = one.par_chunks(CHUNK).zip(two.par_chunks(CHUNK));
        whole(out, layout)?.par_chunks_mut(CHUNK).zip(others).for_each(|(out, (one, two))| {
            for ((out, &one), &two) in out.iter_mut().zip(one).zip(two) {
                *out = (self.0)(*out, one, two);
            }
        });
        Ok(())
    }
}

/// The numbers of a storage, to be changed.
fn whole<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> candle_core::Result<&'a mut [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((start, end))) => Ok(&mut values[start..end]),
        _ => candle_core::bail!("weights are contiguous and in single precision"),
    }
}
