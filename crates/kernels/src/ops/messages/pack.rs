//! Weights of CAMP for the CPU.

use super::{MessageWeights, Weights};
use crate::cross::{Messages, Pool, ScoreWeights, SideWeights};
use crate::{Error, Packed, Tensor};

pub(super) fn pack(weights: &Weights) -> Result<Messages, Error> {
    let &Weights { dim, form, ref image, ref text, ref score, .. } = weights;
    let score = match score {
        None => None,
        Some([hidden, hidden_bias, score, bias]) => Some(ScoreWeights {
            hidden: Packed::transposed(dim, 2 * dim, &hidden.to_f32s()?),
            hidden_bias: hidden_bias.to_f32s()?,
            score: score.to_f32s()?,
            bias: bias.to_f32s()?[0],
        }),
    };
    let (image, text) = (side(dim, image, text)?, side(dim, text, image)?);
    Ok(Messages { dim, form, image, text, score })
}

/// The weights of a side; as messages, its vectors go through those of the other.
fn side(dim: usize, own: &MessageWeights, other: &MessageWeights) -> Result<SideWeights, Error> {
    let square = |weight: &Tensor| Ok::<_, Error>(Packed::transposed(dim, dim, &weight.to_f32s()?));
    let half = |weight: &Tensor, first: usize| {
        let numbers = weight.to_f32s()?;
        let rows = numbers.chunks_exact(2 * dim).flat_map(|row| &row[first..first + dim]);
        Ok::<_, Error>(Packed::transposed(dim, dim, &rows.copied().collect::<Vec<_>>()))
    };
    let message = own.message.as_ref();
    let message = message.map(|[query, key]| Ok::<_, Error>([square(query)?, square(key)?]));
    let fuse = match (&own.fuse, &other.fuse) {
        (Some((weight, bias)), Some((of_other, _))) => {
            let bias = bias.as_ref().map(Tensor::to_f32s).transpose()?;
            Some((half(weight, 0)?, bias, half(of_other, dim)?))
        }
        _ => None,
    };
    let pool = own.pool.as_ref().map(|[first, bias, second, _]| {
        let (heads, _) = second.matrix_shape()?;
        Ok::<_, Error>(Pool {
            first: square(first)?,
            bias: bias.to_f32s()?,
            second: Packed::transposed(heads, dim, &second.to_f32s()?),
            heads,
        })
    });
    let sent = other.pool.as_ref().filter(|_| fuse.is_none());
    Ok(SideWeights {
        key: Some(square(&own.key)?),
        query: own.query.as_ref().map(square).transpose()?,
        message: message.transpose()?,
        fuse,
        pool: pool.transpose()?,
        sent: sent.map(|[first, ..]| square(first)).transpose()?,
    })
}
