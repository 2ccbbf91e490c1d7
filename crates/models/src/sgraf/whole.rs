//! Images and captions as a whole: attention of their rows to their mean.

use nextpair_data::Side;
use nextpair_kernels::ops::{
    Groups, attend, gather, linear, mean_spans, multiply, softmax_spans, tanh, unit_rows,
};
use nextpair_kernels::{Encoded, Tensor};

use crate::encoder::EPSILON;
use crate::{Error, Layer, Pass};

/// A vector of every image. The batch norm of the regions has a mean and a variance for each place of
/// a region in an image, over the images and all numbers.
pub(super) fn of_images(pass: &Pass<'_>, regions: &Encoded) -> Result<Tensor, Error> {
    let each = regions.offsets.get(1).copied().unwrap_or(1);
    let (local, global) = projected(pass, "v_sa", regions)?;
    let local = pass.batch_norm("v_sa.local_bn", &local, &Groups::Slots(each))?;
    let global = pass.batch_norm("v_sa.global_bn", &global, &Groups::Columns)?;
    pooled(pass, ("v_sa", Side::Image), regions, &local, &global)
}

/// A vector of every caption.
pub(super) fn of_texts(pass: &Pass<'_>, words: &Encoded) -> Result<Tensor, Error> {
    let (local, global) = projected(pass, "t_sa", words)?;
    pooled(pass, ("t_sa", Side::Text), words, &local, &global)
}

/// A layer of the rows, and one of their mean.
fn projected(pass: &Pass<'_>, name: &str, items: &Encoded) -> Result<(Tensor, Tensor), Error> {
    let mean = mean_spans(&items.rows, &items.offsets)?;
    Ok((through(pass, name, "local", &items.rows)?, through(pass, name, "global", &mean)?))
}

fn through(pass: &Pass<'_>, name: &str, part: &str, rows: &Tensor) -> Result<Tensor, Error> {
    let weight = |of: &str| pass.weight(&format!("{name}.{part}.{of}"));
    Ok(linear(rows, weight("weight")?, weight("bias")?)?)
}

/// The mean of the rows by how they agree with what became of the whole, at unit norm.
fn pooled(
    pass: &Pass<'_>,
    (name, side): (&str, Side),
    items: &Encoded,
    local: &Tensor,
    global: &Tensor,
) -> Result<Tensor, Error> {
    let local = tanh(local)?;
    let local = match side {
        Side::Image => pass.dropout(Layer::Hidden, side, &local)?,
        Side::Text => pass.dropout_of_words(Layer::Hidden, &local, &items.offsets)?,
    };
    let global = pass.dropout(Layer::States, side, &tanh(global)?)?;
    let spans = items.offsets.windows(2).enumerate();
    let owners = spans.flat_map(|(item, span)| std::iter::repeat_n(item as u32, span[1] - span[0]));
    let product = multiply(&local, &gather(&global, &owners.collect::<Vec<_>>())?)?;
    let shares = softmax_spans(&through(pass, name, "common", &product)?, &items.offsets)?;
    Ok(unit_rows(&attend(&shares, &items.rows, &items.offsets)?, EPSILON)?)
}
