//! Comparison of images and captions by CAMP: all pairs without gradients, or some with.

mod gpu;
mod pack;
mod pairs;

use std::sync::{Arc, OnceLock};

use crate::cross::{MessageForm, Messages};
use crate::{Encoded, Error, Tensor, Values};

/// Weights for the vectors of one side, as far as a form of CAMP has them.
#[derive(Clone, Debug)]
pub struct MessageWeights {
    /// Of keys. Where there are no queries, keys are queries too.
    pub key: Tensor,
    /// Of queries.
    pub query: Option<Tensor>,
    /// Of the queries and keys of messages that are means of these vectors.
    pub message: Option<[Tensor; 2]>,
    /// Of the fusion of these vectors and their messages, and biases.
    pub fuse: Option<(Tensor, Option<Tensor>)>,
    /// Of both layers of the pool, each with its biases.
    pub pool: Option<[Tensor; 4]>,
}

/// Compares images and captions by messages that their vectors send each other.
#[derive(Clone)]
pub struct MessagePassing(Arc<Weights>);

struct Weights {
    dim: usize,
    form: MessageForm,
    image: MessageWeights,
    text: MessageWeights,
    /// Of both layers of the score, each with its biases.
    score: Option<[Tensor; 4]>,
    /// Packed for the CPU on first use.
    packed: OnceLock<Messages>,
}

impl MessagePassing {
    /// Compares in a form with the weights of images, of captions and of the score, which have those that
    /// the form needs.
    ///
    /// # Errors
    /// If weights are missing, or do not fit together.
    pub fn new(
        form: MessageForm,
        image: MessageWeights,
        text: MessageWeights,
        score: Option<[Tensor; 4]>,
    ) -> Result<Self, Error> {
        let (dim, _) = image.key.matrix_shape()?;
        let pools = form.fuses() || form == MessageForm::CrossAttention;
        let mut missing = score.is_some() != form.fuses();
        for side in [&image, &text] {
            missing |= side.query.is_some() != form.is_new()
                || side.message.is_some() != form.is_new()
                || side.fuse.is_some() != form.fuses()
                || side.pool.is_some() != pools;
            let message = side.message.iter().flatten();
            for square in [&side.key].into_iter().chain(&side.query).chain(message) {
                Error::check_len("the weights of messages", square.len(), dim * dim)?;
            }
            if let Some((weight, bias)) = &side.fuse {
                Error::check_len("the weights of a fusion", weight.len(), 2 * dim * dim)?;
                let bias = bias.as_ref().map_or(dim, Tensor::len);
                Error::check_len("the biases of a fusion", bias, dim)?;
            }
            if let Some([first, bias, second, _]) = &side.pool {
                Error::check_len("the weights of a pool", first.len(), dim * dim)?;
                Error::check_len("the biases of a pool", bias.len(), dim)?;
                Error::check_dims("a pool", second.matrix_shape()?.1, "messages", dim)?;
            }
        }
        if let Some([hidden, bias, last, _]) = &score {
            Error::check_len("the weights of the score", hidden.len(), 2 * dim * dim)?;
            Error::check_len("the biases of the score", bias.len(), dim)?;
            Error::check_len("the weights of the score", last.len(), dim)?;
        }
        if missing {
            return Err(Error::NoDirection);
        }
        Ok(MessagePassing::of(dim, form, [image, text], score))
    }

    fn of(
        dim: usize,
        form: MessageForm,
        [image, text]: [MessageWeights; 2],
        score: Option<[Tensor; 4]>,
    ) -> Self {
        let packed = OnceLock::new();
        MessagePassing(Arc::new(Weights { dim, form, image, text, score, packed }))
    }

    /// The scores of all pairs, images by captions, without gradients. On the CPU a score has the same bits
    /// whatever else is scored with it.
    ///
    /// # Errors
    /// If an item has no rows, or rows of other dimensions.
    pub fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        if matches!(images.rows.values(), Values::Reference(_)) {
            let pairs = Encoded::all_pairs(images, texts);
            return self.pair_scores(&images.detached(), &texts.detached(), &pairs)?.to_f32s();
        }
        self.check(images, texts)?;
        let mut out = vec![0.0; images.len() * texts.len()];
        match images.rows.values() {
            _ if out.is_empty() => {}
            Values::Cuda(cuda, _) => out = self.gpu_scores(*cuda, images, texts)?,
            _ => self.packed()?.scores(images.ragged()?, texts.ragged()?, &mut out),
        }
        Ok(out)
    }

    fn check(&self, images: &Encoded, texts: &Encoded) -> Result<(), Error> {
        for (what, items) in [("the images", images), ("the captions", texts)] {
            Error::check_dims(what, items.dim()?, "the messages", self.0.dim)?;
            if let Some(item) = items.offsets.windows(2).position(|pair| pair[0] >= pair[1]) {
                return Err(Error::EmptyItem { what, item });
            }
        }
        Ok(())
    }

    fn packed(&self) -> Result<&Messages, Error> {
        if let Some(packed) = self.0.packed.get() {
            return Ok(packed);
        }
        let packed = pack::pack(&self.0)?;
        Ok(self.0.packed.get_or_init(|| packed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::ops::judge::{judge, judge_fast, tensor};

    const DIM: usize = 20;

    fn weights(
        seed: u64,
        form: MessageForm,
    ) -> (MessageWeights, MessageWeights, Option<[Tensor; 4]>) {
        let matrix = |seed: u64, rows: usize, columns: usize| {
            tensor(seed, &[rows, columns]).divided((columns as f64).sqrt()).unwrap()
        };
        let pools = form.fuses() || form == MessageForm::CrossAttention;
        let side = |seed: u64| MessageWeights {
            key: matrix(seed, DIM, DIM),
            query: form.is_new().then(|| matrix(seed + 1, DIM, DIM)),
            message: form.is_new().then(|| [2, 3].map(|at| matrix(seed + at, DIM, DIM))),
            fuse: form.fuses().then(|| {
                let bias = (form == MessageForm::GateFusion).then(|| tensor(seed + 5, &[DIM]));
                (matrix(seed + 4, DIM, 2 * DIM), bias)
            }),
            pool: pools.then(|| {
                [
                    matrix(seed + 6, DIM, DIM),
                    tensor(seed + 7, &[DIM]),
                    matrix(seed + 8, 4, DIM),
                    tensor(seed + 9, &[4]),
                ]
            }),
        };
        let score = form.fuses().then(|| {
            let (first, last) = (matrix(seed + 30, DIM, 2 * DIM), matrix(seed + 32, 1, DIM));
            [first, tensor(seed + 31, &[DIM]), last, tensor(seed + 33, &[1])]
        });
        (side(seed + 10), side(seed + 20), score)
    }

    fn items(seed: u64, offsets: Vec<usize>) -> Encoded {
        Encoded { rows: tensor(seed, &[offsets[offsets.len() - 1], DIM]), offsets }
    }

    const FORMS: [MessageForm; 4] = [
        MessageForm::CrossAttention,
        MessageForm::CrossAttentionNew { padded: 12 },
        MessageForm::GateFusion,
        MessageForm::GateFusionNew,
    ];

    #[test]
    fn all_scores_are_those_of_pairs_in_any_company() {
        let images = items(1, vec![0, 5, 9, 20]);
        let texts = items(2, vec![0, 3, 5, 20, 29, 61, 300]);
        let pairs = Encoded::all_pairs(&images, &texts);
        for (device, form) in Device::available()
            .into_iter()
            .flat_map(|device| FORMS.into_iter().map(move |form| (device, form)))
        {
            let (image, text, score) = weights(50, form);
            let passing = MessagePassing::new(form, image, text, score).unwrap();
            let exact = passing.pair_scores(&images, &texts, &pairs).unwrap().to_f32s().unwrap();
            let passing = passing.each(|weight| weight.to_device(device).unwrap());
            let [images, texts] = [&images, &texts].map(|items| Encoded {
                rows: items.rows.to_device(device).unwrap(),
                offsets: items.offsets.clone(),
            });
            let all = passing.scores(&images, &texts).unwrap();
            let some = passing.pair_scores(&images, &texts, &pairs).unwrap().to_f32s().unwrap();
            for ((all, some), exact) in all.iter().zip(some).zip(exact) {
                assert!((all - some).abs() < 2e-6, "{form:?} on {device}: {all} {some}");
                assert!((all - exact).abs() < 3e-6, "{form:?} on {device}: {all} {exact}");
            }
            for (at, &(image, text)) in pairs.iter().enumerate() {
                let one = |items: &Encoded, item: u32| {
                    let span = items.offsets[item as usize]..items.offsets[item as usize + 1];
                    let offsets = vec![0, span.len()];
                    Encoded { rows: items.rows.some_rows(span).unwrap(), offsets }
                };
                let alone = passing.scores(&one(&images, image), &one(&texts, text)).unwrap();
                let same = match device {
                    Device::Cpu => alone[0].to_bits() == all[at].to_bits(),
                    _ => (alone[0] - all[at]).abs() < 2e-6,
                };
                assert!(same, "{form:?} {at} on {device}: {} {}", alone[0], all[at]);
            }
        }
    }

    #[test]
    fn every_device_follows_the_formula() {
        let inputs = [tensor(1, &[9, DIM]), tensor(2, &[8, DIM])];
        let pairs = [(1, 0), (0, 2), (0, 0), (1, 2), (0, 1), (1, 2)];
        for form in FORMS {
            let compare = |inputs: &[Tensor]| {
                let (image, text, score) = weights(70, form);
                let passing = MessagePassing::new(form, image, text, score)?;
                let device = inputs[0].device();
                let passing = passing.each(|weight| weight.to_device(device).unwrap());
                let images = Encoded { rows: inputs[0].clone(), offsets: vec![0, 4, 9] };
                let texts = Encoded { rows: inputs[1].clone(), offsets: vec![0, 3, 4, 8] };
                passing.pair_scores(&images, &texts, &pairs)
            };
            judge(&inputs, 3e-5, compare);
            judge_fast(&inputs, 2e-2, compare);
        }
    }

    #[test]
    fn weights_must_be_those_of_the_form() {
        let (image, text, score) = weights(1, MessageForm::GateFusion);
        let form = MessageForm::GateFusionNew;
        assert!(MessagePassing::new(form, image, text, score).is_err());
    }
}
