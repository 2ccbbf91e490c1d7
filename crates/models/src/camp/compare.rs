//! How CAMP compares: messages of regions and words, gates, pools.

use nextpair_data::Side;
use nextpair_kernels::ops::{
    Part, Tables, add, attend, columns, concat_columns, gather, inverse_root, linear, mean_rows,
    mean_spans, relu, row_dots, scale_rows, sigmoid, softmax_spans, unit_rows,
};
use nextpair_kernels::{Encoded, Error, Tensor};

use super::{Camp, Messages, SIDES};
use crate::Weights;
use crate::composed::OfPairs;
use crate::encoder::EPSILON;

/// What belongs to the rows of images, or of captions.
struct Rows<'a> {
    offsets: &'a [usize],
    values: &'a Tensor,
    key: &'a Tensor,
    query: &'a Tensor,
    /// Queries and keys of the messages that these rows are sent as.
    message: Option<[&'a Tensor; 2]>,
    /// Through the fusion as what takes a message in, and as a message.
    fused: Option<[&'a Tensor; 2]>,
}

/// What rows are sent, before and after messages attend to each other.
struct Sent {
    first: Tensor,
    messages: Tensor,
    keys: Option<Tensor>,
    /// The messages through the fusion.
    fused: Option<Tensor>,
    /// The row that each message is sent to, and the first of each pair, then the end of the last.
    to: Vec<u32>,
    lines: Vec<usize>,
}

impl OfPairs for Camp {
    /// Weighted means of projections are projections of weighted means: every row is projected once.
    fn tables(
        &self,
        weights: &Weights,
        side: Side,
        items: &Encoded,
    ) -> Result<Vec<Encoded>, crate::Error> {
        let [own, other] = match side {
            Side::Image => SIDES,
            Side::Text => [SIDES[1], SIDES[0]],
        };
        let (rows, dim) = (&items.rows, self.dim);
        let nothing = Tensor::zeros(&[dim], rows.device())?;
        let through = |weight: &Tensor| linear(rows, weight, &nothing);
        let (mixes, fuses, _) = self.parts();
        let mut tables = vec![rows.clone(), through(weights.get(&format!("{own}_key.weight"))?)?];
        if mixes {
            for name in
                [format!("{own}_query"), format!("msg_{own}_query"), format!("msg_{own}_key")]
            {
                tables.push(through(weights.get(&format!("{name}.weight"))?)?);
            }
        }
        if fuses {
            let own = weights.get(&format!("fuse_{own}.weight"))?;
            let other = weights.get(&format!("fuse_{other}.weight"))?;
            tables.push(through(&columns(own, 0..dim)?)?);
            tables.push(through(&columns(other, dim..2 * dim)?)?);
        }
        let items = |rows| Encoded { rows, offsets: items.offsets.clone() };
        Ok(tables.into_iter().map(items).collect())
    }

    fn scores(&self, part: &Part<'_>) -> Result<Tensor, Error> {
        let (image, text) = (self.rows(part.first), self.rows(part.second));
        let turned: Vec<(u32, u32)> =
            part.pairs.iter().map(|&(image, text)| (text, image)).collect();
        let to_image = self.sent(&image, &text, part.pairs)?;
        let to_text = self.sent(&text, &image, &turned)?;
        match self.messages {
            Messages::CrossAttentionNew => {
                let of_image = mean_spans(&to_image.messages, &to_image.lines)?;
                cosine(&of_image, &self.padded_mean(part, &to_text, (&image, &to_image))?)
            }
            Messages::CrossAttention => {
                let of_image = pooled(part, SIDES[0], &to_image.messages, &to_image.lines)?;
                cosine(&of_image, &pooled(part, SIDES[1], &to_text.messages, &to_text.lines)?)
            }
            Messages::GateFusion | Messages::GateFusionNew => {
                let of_image = self.fused(part, SIDES[0], &image, to_image)?;
                let of_text = self.fused(part, SIDES[1], &text, to_text)?;
                let both = concat_columns(&[&of_image, &of_text])?;
                let layer = |name: &str, rows: &Tensor| {
                    let weight = part.weight(&format!("{name}.weight"))?;
                    linear(rows, weight, part.weight(&format!("{name}.bias"))?)
                };
                sigmoid(&layer("score2", &relu(&layer("score1", &both)?)?)?)
            }
        }
    }
}

impl Camp {
    /// The tables of a side by name.
    fn rows<'a>(&self, tables: &'a [Encoded]) -> Rows<'a> {
        let (mixes, fuses, _) = self.parts();
        let offsets = &tables[0].offsets;
        let mut tables = tables.iter().map(|table| &table.rows);
        let mut next = || tables.next().expect("as many tables as were made");
        let (values, key) = (next(), next());
        let query = if mixes { next() } else { key };
        let message = mixes.then(|| [next(), next()]);
        Rows { offsets, values, key, query, message, fused: fuses.then(|| [next(), next()]) }
    }

    fn sharpness(&self) -> f64 {
        1.0 / (self.dim as f64).sqrt()
    }

    /// What the rows of `to` make of those of `from`, in `(to, from)` pairs.
    fn sent(&self, to: &Rows<'_>, from: &Rows<'_>, pairs: &[(u32, u32)]) -> Result<Sent, Error> {
        let tables = Tables::new(to.offsets, from.offsets, pairs)?;
        let attend = |tables: &Tables, queries: &Tensor, keys: &Tensor| {
            let products = tables.products(queries, keys)?;
            tables.softmax(&nextpair_kernels::ops::scale(&products, self.sharpness())?)
        };
        let seen = attend(&tables, to.query, from.key)?;
        let first = tables.sums(&seen, from.values)?;
        let fused = from.fused.map(|[_, sent]| tables.sums(&seen, sent)).transpose()?;
        let (to, lines) = (tables.first_rows(), tables.lines().to_vec());
        let Some([query, key]) = from.message else {
            return Ok(Sent { messages: first.clone(), first, keys: None, fused, to, lines });
        };
        let (queries, keys) = (tables.sums(&seen, query)?, tables.sums(&seen, key)?);
        let among = Tables::within(&lines)?;
        let mixed = attend(&among, &queries, &keys)?;
        let messages = among.sums(&mixed, &first)?;
        let fused = fused.map(|fused| among.sums(&mixed, &fused)).transpose()?;
        Ok(Sent { first, messages, keys: Some(keys), fused, to, lines })
    }

    /// The mean message of captions that are padded with zeros. A padded word asks nothing, so its message
    /// is the mean of the regions; messages of words are all that it attends to.
    fn padded_mean(
        &self,
        part: &Part<'_>,
        sent: &Sent,
        (image, to_image): (&Rows<'_>, &Sent),
    ) -> Result<Tensor, Error> {
        let means = mean_spans(&sent.messages, &sent.lines)?;
        let (Some(keys), Some([query, _])) = (&sent.keys, image.message) else { return Ok(means) };
        let asked = mean_spans(&gather(query, &to_image.to)?, &to_image.lines)?;
        let ones: Vec<usize> = (0..sent.lines.len()).collect();
        let pairs: Vec<(u32, u32)> = (0..part.pairs.len() as u32).map(|at| (at, at)).collect();
        let tables = Tables::new(&ones, &sent.lines, &pairs)?;
        let products = tables.products(&asked, keys)?;
        let seen = tables.softmax(&nextpair_kernels::ops::scale(&products, self.sharpness())?)?;
        let of_padding = tables.sums(&seen, &sent.first)?;
        let share = |span: &[usize]| {
            let words = span[1] - span[0];
            words as f32 / self.padded.max(words) as f32
        };
        let words: Vec<f32> = sent.lines.windows(2).map(share).collect();
        let padding = words.iter().map(|share| 1.0 - share).collect();
        let factors = |shares: Vec<f32>| Tensor::new(shares, &[part.pairs.len()], means.device());
        add(
            &scale_rows(&means, &factors(words.clone())?)?,
            &scale_rows(&of_padding, &factors(padding)?)?,
        )
    }

    /// Rows fused with their messages through gates, and pooled.
    fn fused(
        &self,
        part: &Part<'_>,
        side: &str,
        rows: &Rows<'_>,
        sent: Sent,
    ) -> Result<Tensor, Error> {
        let Sent { mut messages, fused: Some(mut fused), to, lines, .. } = sent else {
            unreachable!("this form fuses")
        };
        let [own, _] = rows.fused.expect("this form fuses");
        let normalises = self.messages == Messages::GateFusionNew;
        if normalises {
            let norms = inverse_root(&row_dots(&messages, &messages)?)?;
            messages = scale_rows(&messages, &norms)?;
            fused = scale_rows(&fused, &norms)?;
        }
        let values = gather(rows.values, &to)?;
        let gates = sigmoid(&row_dots(&values, &messages)?)?;
        let mut fused = scale_rows(&add(&gather(own, &to)?, &fused)?, &gates)?;
        if self.messages == Messages::GateFusion {
            let bias = part.weight(&format!("fuse_{side}.bias"))?.reshaped(&[1, self.dim])?;
            fused = add(&fused, &gather(&bias, &vec![0; to.len()])?)?;
        }
        let pooled = pooled(part, side, &add(&relu(&fused)?, &values)?, &lines)?;
        if normalises { unit_rows(&pooled, EPSILON) } else { Ok(pooled) }
    }
}

/// The mean of the rows of every pair by several softmaxes.
fn pooled(part: &Part<'_>, side: &str, rows: &Tensor, lines: &[usize]) -> Result<Tensor, Error> {
    let layer = |name: &str, rows: &Tensor| {
        let weight = |of: &str| part.weight(&format!("pool_{side}.{name}.{of}"));
        linear(rows, weight("weight")?, weight("bias")?)
    };
    let shares = softmax_spans(&layer("l2", &relu(&layer("l1", rows)?)?)?, lines)?;
    let heads = shares.matrix_shape()?.1;
    mean_rows(&attend(&shares, rows, lines)?, heads)
}

fn cosine(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    row_dots(&unit_rows(a, EPSILON)?, &unit_rows(b, EPSILON)?)
}
