//! Scores of all pairs on a GPU.

use super::{MessagePassing, MessageWeights, Weights};
use crate::cuda::{AllMessages, MessageArrays, PoolArrays, Unit};
use crate::device::Cuda;
use crate::ops::{linear, relu, sigmoid};
use crate::{Device, Encoded, Error, Tensor, Values};

impl MessageWeights {
    /// The same with every tensor changed.
    fn each(&self, change: impl Fn(&Tensor) -> Tensor) -> Self {
        MessageWeights {
            key: change(&self.key),
            query: self.query.as_ref().map(&change),
            message: self.message.as_ref().map(|parts| parts.each_ref().map(&change)),
            fuse: self
                .fuse
                .as_ref()
                .map(|(weight, bias)| (change(weight), bias.as_ref().map(&change))),
            pool: self.pool.as_ref().map(|parts| parts.each_ref().map(&change)),
        }
    }

    /// Its weights, which are on a GPU.
    fn gpu(&self) -> Result<MessageArrays<'_>, Error> {
        let pool = self.pool.as_ref().map(|[first, bias, second, _]| {
            Ok::<_, Error>(PoolArrays {
                first: first.array()?,
                bias: bias.array()?,
                second: second.array()?,
            })
        });
        let message = self.message.as_ref();
        let message = message.map(|[query, key]| Ok::<_, Error>([query.array()?, key.array()?]));
        let fuse_bias = self.fuse.as_ref().and_then(|(_, bias)| bias.as_ref());
        Ok(MessageArrays {
            key: self.key.array()?,
            query: self.query.as_ref().map(Tensor::array).transpose()?,
            message: message.transpose()?,
            fuse: self.fuse.as_ref().map(|(weight, _)| weight.array()).transpose()?,
            fuse_bias: fuse_bias.map(Tensor::array).transpose()?,
            pool: pool.transpose()?,
        })
    }
}

impl MessagePassing {
    /// The same with every tensor changed.
    pub(super) fn each(&self, change: impl Fn(&Tensor) -> Tensor) -> Self {
        let &Weights { dim, form, ref image, ref text, ref score, .. } = &*self.0;
        let score = score.as_ref().map(|parts| parts.each_ref().map(&change));
        MessagePassing::of(dim, form, [image.each(&change), text.each(&change)], score)
    }

    /// The same weights, detached from the graph.
    pub fn detached(&self) -> Self {
        self.each(Tensor::detached)
    }

    /// The same weights, compared in the precision of another device. Only GPUs have several.
    pub fn in_precision_of(&self, device: Device) -> Self {
        self.each(|tensor| tensor.in_precision_of(device))
    }

    pub(super) fn gpu_scores(
        &self,
        cuda: Cuda,
        images: &Encoded,
        texts: &Encoded,
    ) -> Result<Vec<f32>, Error> {
        // Without gradients, nothing but results is kept.
        let own = self.detached();
        let &Weights { dim, form, ref image, ref text, ref score, .. } = &*own.0;
        let all = AllMessages {
            unit: &Unit::new(cuda)?,
            dim,
            form,
            images: images.gpu_rows()?,
            texts: texts.gpu_rows()?,
            weights: [image.gpu()?, text.gpu()?],
        };
        let scores = all.scores(|pooled| {
            let [hidden, hidden_bias, last, bias] =
                score.as_ref().expect("forms that fuse have a score");
            let shape = [pooled.len() / (2 * dim), 2 * dim];
            let pooled = Tensor::of_values(Values::Cuda(cuda, pooled), &shape)?;
            let hidden = relu(&linear(&pooled, hidden, hidden_bias)?)?;
            sigmoid(&linear(&hidden, last, bias)?)?.array().cloned()
        })?;
        Ok(scores.to_vec()?)
    }
}
