//! The mean of a model over its last epochs (Izmailov, Podoprikhin, Garipov, Vetrov and Wilson,
//! UAI 2018, <https://arxiv.org/abs/1803.05407>).

use nextpair_kernels::Tensor;

use crate::{Error, Model};

/// The sum of a model's weights and buffers after some epochs.
pub(crate) struct WeightSum {
    /// In the order of the weights.
    sums: Vec<Tensor>,
}

impl WeightSum {
    /// A sum of nothing.
    pub(crate) fn new(model: &Model) -> Result<Self, Error> {
        let zeros = |weight: &Tensor| Tensor::zeros(weight.shape(), weight.device());
        let sums = model.weights().iter().map(|(_, weight)| Ok(zeros(weight)?));
        Ok(WeightSum { sums: sums.collect::<Result<_, Error>>()? })
    }

    pub(crate) fn add(&mut self, model: &Model) -> Result<(), Error> {
        let weights = model.weights().iter();
        self.sums.iter_mut().zip(weights).try_for_each(|(sum, (_, weight))| {
            sum.accumulate(weight)?;
            Ok(())
        })
    }

    /// The model with the mean of the weights of so many epochs.
    pub(crate) fn mean(&self, model: &Model, epochs: usize) -> Result<Model, Error> {
        let mut mean = model.clone();
        for ((_, weight), sum) in mean.weights_mut().iter_mut().zip(&self.sums) {
            let divided = sum.divided(epochs as f64)?;
            *weight = if weight.is_tracked() { divided.into_weight() } else { divided };
        }
        Ok(mean)
    }

    pub(crate) fn tensors(&self) -> &[Tensor] {
        &self.sums
    }

    pub(crate) fn tensors_mut(&mut self) -> &mut [Tensor] {
        &mut self.sums
    }
}
