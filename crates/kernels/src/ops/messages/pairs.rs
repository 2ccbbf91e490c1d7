//! The scores of some pairs, written in operations.

use super::{MessagePassing, MessageWeights};
use crate::cross::MessageForm;
use crate::ops::{
    add, attend, attend_spans, columns, concat_columns, gather, linear, mean_rows, mean_spans,
    relu, row_dots, scale_rows, sigmoid, softmax_spans, unit_rows,
};
use crate::{Encoded, Error, Tensor};

/// Added to norms.
const EPSILON: f32 = 1e-8;

/// One side of all pairs: which of its rows each pair has, and where these begin.
struct Side<'a> {
    items: &'a Encoded,
    weights: &'a MessageWeights,
    order: Vec<u32>,
    offsets: Vec<usize>,
    nothing: Tensor,
}

impl<'a> Side<'a> {
    fn new(
        items: &'a Encoded,
        weights: &'a MessageWeights,
        of_pairs: impl Iterator<Item = u32>,
    ) -> Result<Self, Error> {
        let (mut order, mut offsets) = (Vec::new(), vec![0]);
        for item in of_pairs {
            let (start, end) = (items.offsets[item as usize], items.offsets[item as usize + 1]);
            order.extend((start..end).map(|row| row as u32));
            offsets.push(order.len());
        }
        let nothing = Tensor::zeros(&[items.dim()?], items.rows.device())?;
        Ok(Side { items, weights, order, offsets, nothing })
    }

    /// The rows of the pairs.
    fn rows(&self) -> Result<Tensor, Error> {
        gather(&self.items.rows, &self.order)
    }

    /// The same through a layer, which every item goes through once.
    fn through(&self, weight: &Tensor) -> Result<Tensor, Error> {
        gather(&linear(&self.items.rows, weight, &self.nothing)?, &self.order)
    }

    fn keys(&self) -> Result<Tensor, Error> {
        self.through(&self.weights.key)
    }

    fn queries(&self) -> Result<Tensor, Error> {
        self.through(self.weights.query.as_ref().unwrap_or(&self.weights.key))
    }
}

/// What the rows of one side are sent, before and after messages attend to each other, and the keys of
/// the messages.
struct Sent {
    messages: Tensor,
    mixed: Tensor,
    keys: Option<Tensor>,
}

impl MessagePassing {
    /// The scores of some `(image, caption)` pairs, with gradients.
    ///
    /// # Errors
    /// If there is no such pair, an item has no rows, or rows of other dimensions.
    pub fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
    ) -> Result<Tensor, Error> {
        self.check(images, texts)?;
        let (of_images, of_captions): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        Error::check_indices("images of the pairs", &of_images, images.len())?;
        Error::check_indices("captions of the pairs", &of_captions, texts.len())?;
        let image = Side::new(images, &self.0.image, of_images.into_iter())?;
        let text = Side::new(texts, &self.0.text, of_captions.into_iter())?;
        let (to_image, to_text) = (self.sent(&image, &text)?, self.sent(&text, &image)?);
        let scores = match self.0.form {
            MessageForm::CrossAttentionNew { padded } => {
                let of_image = mean_spans(&to_image.mixed, &image.offsets)?;
                let of_text = self.padded_mean(&to_text, (&image, &text), padded)?;
                row_dots(&unit_rows(&of_image, EPSILON)?, &unit_rows(&of_text, EPSILON)?)?
            }
            MessageForm::CrossAttention => {
                let of_image = pooled(&to_image.mixed, &image)?;
                let of_text = pooled(&to_text.mixed, &text)?;
                row_dots(&unit_rows(&of_image, EPSILON)?, &unit_rows(&of_text, EPSILON)?)?
            }
            MessageForm::GateFusion | MessageForm::GateFusionNew => {
                let of_image = self.fused(&to_image.mixed, &image)?;
                let of_text = self.fused(&to_text.mixed, &text)?;
                let [hidden, hidden_bias, score, bias] =
                    self.0.score.as_ref().expect("forms that fuse have a score");
                let both = concat_columns(&[&of_image, &of_text])?;
                let hidden = relu(&linear(&both, hidden, hidden_bias)?)?;
                sigmoid(&linear(&hidden, score, bias)?)?
            }
        };
        scores.reshaped(&[pairs.len()])
    }

    fn scale(&self) -> f32 {
        1.0 / (self.0.dim as f32).sqrt()
    }

    /// What the rows of `to` make of those of `from`.
    fn sent(&self, to: &Side<'_>, from: &Side<'_>) -> Result<Sent, Error> {
        let (queries, keys, scale) = (to.queries()?, from.keys()?, self.scale());
        let attend = |values: &Tensor| {
            attend_spans((&queries, &to.offsets), (&keys, values, &from.offsets), scale)
        };
        let messages = attend(&from.rows()?)?;
        let Some([query, key]) = &from.weights.message else {
            return Ok(Sent { mixed: messages.clone(), messages, keys: None });
        };
        // Weighted means of projections are projections of weighted means.
        let (queries, keys) = (attend(&from.through(query)?)?, attend(&from.through(key)?)?);
        let among = (&keys, &messages, &to.offsets[..]);
        let mixed = attend_spans((&queries, &to.offsets), among, scale)?;
        Ok(Sent { messages, mixed, keys: Some(keys) })
    }

    /// The mean message of captions that are padded with zeros. A padded word asks nothing, so its message
    /// is the mean of the regions; messages of words are all that it attends to.
    fn padded_mean(
        &self,
        sent: &Sent,
        (image, text): (&Side<'_>, &Side<'_>),
        padded: usize,
    ) -> Result<Tensor, Error> {
        let means = mean_spans(&sent.mixed, &text.offsets)?;
        let (Some(keys), Some([query, _])) = (&sent.keys, &image.weights.message) else {
            return Ok(means);
        };
        let regions = mean_spans(&image.rows()?, &image.offsets)?;
        let asked = linear(&regions, query, &image.nothing)?;
        let ones: Vec<usize> = (0..text.offsets.len()).collect();
        let among = (keys, &sent.messages, &text.offsets[..]);
        let of_padding = attend_spans((&asked, &ones), among, self.scale())?;
        let words: Vec<f32> = text
            .offsets
            .windows(2)
            .map(|span| (span[1] - span[0]) as f32 / padded.max(span[1] - span[0]) as f32)
            .collect();
        let padding = words.iter().map(|share| 1.0 - share).collect();
        let factors = |shares: Vec<f32>| Tensor::new(shares, &[words.len()], means.device());
        let of_words = scale_rows(&means, &factors(words.clone())?)?;
        add(&of_words, &scale_rows(&of_padding, &factors(padding)?)?)
    }

    /// Rows fused with their messages through gates, and pooled.
    fn fused(&self, messages: &Tensor, side: &Side<'_>) -> Result<Tensor, Error> {
        let dim = self.0.dim;
        let (weight, bias) = side.weights.fuse.as_ref().expect("this form fuses");
        let normalises = self.0.form == MessageForm::GateFusionNew;
        let messages = if normalises { unit_rows(messages, EPSILON)? } else { messages.clone() };
        let rows = side.rows()?;
        let gates = sigmoid(&row_dots(&rows, &messages)?)?;
        let own = side.through(&columns(weight, 0..dim)?)?;
        let sent = linear(&messages, &columns(weight, dim..2 * dim)?, &side.nothing)?;
        let mut fused = scale_rows(&add(&own, &sent)?, &gates)?;
        if let Some(bias) = bias {
            let bias = bias.reshaped(&[1, dim])?;
            fused = add(&fused, &gather(&bias, &vec![0; side.order.len()])?)?;
        }
        let pooled = pooled(&add(&relu(&fused)?, &rows)?, side)?;
        if normalises { unit_rows(&pooled, EPSILON) } else { Ok(pooled) }
    }
}

/// The mean of rows by several softmaxes.
fn pooled(rows: &Tensor, side: &Side<'_>) -> Result<Tensor, Error> {
    let [first, first_bias, second, second_bias] =
        side.weights.pool.as_ref().expect("this form pools");
    let hidden = relu(&linear(rows, first, first_bias)?)?;
    let shares = softmax_spans(&linear(&hidden, second, second_bias)?, &side.offsets)?;
    let heads = shares.matrix_shape()?.1;
    mean_rows(&attend(&shares, rows, &side.offsets)?, heads)
}
