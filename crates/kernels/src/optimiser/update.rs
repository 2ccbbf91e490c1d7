//! One step of one weight: weight and moments in one pass.

use rayon::prelude::*;

use super::{CHUNK, Descent, EPSILON, FIRST_DECAY, MOMENTUM, Method, SECOND_DECAY};
use crate::unit::arch;
use crate::{Error, Tensor, Values};

/// The constants of a step.
#[derive(Clone, Copy)]
struct Rule {
    method: Method,
    /// Of the gradient.
    scale: f64,
    rate: f64,
    size: f64,
    root: f64,
}

impl Descent<'_> {
    /// Updates the weight and its moments in one pass, with the gradients of each member times its
    /// scale.
    pub(super) fn go(self, method: Method, scales: &[f64]) -> Result<(), Error> {
        let Descent { weight, moments, gradient, rate, size, root } = self;
        let each = weight.len() / scales.len();
        if each == 0 {
            return Ok(());
        }
        for (member, &scale) in scales.iter().enumerate() {
            let own = member * each..(member + 1) * each;
            let rule = Rule { method, scale, rate, size, root };
            let kept = moments.kept.iter_mut().map(Tensor::values_mut);
            match (weight.values_mut(), gradient) {
                (Values::Cpu(weight), Values::Cpu(gradient)) => {
                    let kept = kept.map(|kept| match kept {
                        Values::Cpu(kept) => Ok(&mut kept[own.clone()]),
                        _ => Err(Error::Devices),
                    });
                    let kept = kept.collect::<Result<Vec<_>, _>>()?;
                    cpu(rule, &mut weight[own.clone()], kept, &gradient[own.clone()]);
                }
                (Values::Reference(weight), Values::Reference(gradient)) => {
                    let kept = kept.map(|kept| match kept {
                        Values::Reference(kept) => Ok(&mut kept[own.clone()]),
                        _ => Err(Error::Devices),
                    });
                    let kept = kept.collect::<Result<Vec<_>, _>>()?;
                    plain(rule, &mut weight[own.clone()], kept, &gradient[own.clone()]);
                }
                _ => return Err(Error::Devices),
            }
        }
        Ok(())
    }
}

fn plain(rule: Rule, weight: &mut [f64], mut kept: Vec<&mut [f64]>, gradient: &[f64]) {
    let Rule { scale, size, root, .. } = rule;
    let share = rule.method.kept_share(rule.rate);
    for (at, (p, g)) in weight.iter_mut().zip(gradient).enumerate() {
        let g = scale * g;
        if let Method::Sgd { decay } = rule.method {
            let g = g + decay * *p;
            let buffer = &mut kept[0][at];
            *buffer = MOMENTUM * *buffer + g;
            *p -= rule.rate * (g + MOMENTUM * *buffer);
            continue;
        }
        let m = FIRST_DECAY * kept[0][at] + (1.0 - FIRST_DECAY) * g;
        let v = SECOND_DECAY * kept[1][at] + (1.0 - SECOND_DECAY) * g * g;
        (kept[0][at], kept[1][at]) = (m, v);
        let v = match kept.get_mut(2) {
            Some(largest) => {
                largest[at] = largest[at].max(v);
                largest[at]
            }
            None => v,
        };
        *p = *p * share - size * m / (v.sqrt() / root + EPSILON);
    }
}

fn cpu(rule: Rule, weight: &mut [f32], kept: Vec<&mut [f32]>, gradient: &[f32]) {
    let mut kept = kept.into_iter();
    let mut next = || kept.next().expect("as many as the method has");
    match rule.method {
        Method::Sgd { decay } => sgd(rule, decay as f32, weight, next(), gradient),
        Method::AmsGrad => {
            let (first, second, largest) = (next(), next(), next());
            amsgrad(rule, weight, [first, second, largest], gradient);
        }
        Method::Adam | Method::AdamW { .. } => adam(rule, weight, [next(), next()], gradient),
    }
}

/// New moments from a scaled gradient.
#[inline(always)]
fn moved(g: f32, m: &mut f32, v: &mut f32) {
    *m = FIRST_DECAY as f32 * *m + (1.0 - FIRST_DECAY) as f32 * g;
    *v = SECOND_DECAY as f32 * *v + (1.0 - SECOND_DECAY) as f32 * g * g;
}

fn adam(rule: Rule, weight: &mut [f32], [first, second]: [&mut [f32]; 2], gradient: &[f32]) {
    let [scale, size, unroot] = [rule.scale, rule.size, 1.0 / rule.root].map(|x| x as f32);
    let (share, epsilon, vector) =
        (rule.method.kept_share(rule.rate) as f32, EPSILON as f32, arch());
    let moments = first.par_chunks_mut(CHUNK).zip(second.par_chunks_mut(CHUNK));
    let numbers = weight.par_chunks_mut(CHUNK).zip(gradient.par_chunks(CHUNK));
    numbers.zip(moments).for_each(|((weight, gradient), (first, second))| {
        vector.dispatch(|| {
            let moments = first.iter_mut().zip(second.iter_mut());
            for ((p, g), (m, v)) in weight.iter_mut().zip(gradient).zip(moments) {
                moved(scale * g, m, v);
                *p = *p * share - size * *m / (v.sqrt() * unroot + epsilon);
            }
        });
    });
}

fn amsgrad(
    rule: Rule,
    weight: &mut [f32],
    [first, second, largest]: [&mut [f32]; 3],
    gradient: &[f32],
) {
    let [scale, size, unroot] = [rule.scale, rule.size, 1.0 / rule.root].map(|x| x as f32);
    let (epsilon, vector) = (EPSILON as f32, arch());
    let moments = first.par_chunks_mut(CHUNK).zip(second.par_chunks_mut(CHUNK));
    let moments = moments.zip(largest.par_chunks_mut(CHUNK));
    let numbers = weight.par_chunks_mut(CHUNK).zip(gradient.par_chunks(CHUNK));
    numbers.zip(moments).for_each(|((weight, gradient), ((first, second), largest))| {
        vector.dispatch(|| {
            let moments = first.iter_mut().zip(second.iter_mut()).zip(largest.iter_mut());
            for ((p, g), ((m, v), most)) in weight.iter_mut().zip(gradient).zip(moments) {
                moved(scale * g, m, v);
                *most = most.max(*v);
                *p -= size * *m / (most.sqrt() * unroot + epsilon);
            }
        });
    });
}

fn sgd(rule: Rule, decay: f32, weight: &mut [f32], buffer: &mut [f32], gradient: &[f32]) {
    let [scale, rate, momentum] = [rule.scale, rule.rate, MOMENTUM].map(|x| x as f32);
    // Buffers begin with zeros, so the first one is the gradient.
    let vector = arch();
    let buffers = buffer.par_chunks_mut(CHUNK);
    let numbers = weight.par_chunks_mut(CHUNK).zip(gradient.par_chunks(CHUNK));
    numbers.zip(buffers).for_each(|((weight, gradient), buffer)| {
        vector.dispatch(|| {
            for ((p, g), buffer) in weight.iter_mut().zip(gradient).zip(buffer.iter_mut()) {
                let g = scale * g + decay * *p;
                *buffer = momentum * *buffer + g;
                *p -= rate * (g + momentum * *buffer);
            }
        });
    });
}
