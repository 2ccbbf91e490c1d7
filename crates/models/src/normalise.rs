//! Batch norm as layers of models: weights, buffers and modes.

use nextpair_kernels::Tensor;
use nextpair_kernels::ops::{Groups, batch_norm, normalise};

use crate::{Declared, Error, Mode, Pass, Start};

/// The weights and buffers of a batch norm with so many channels, whose gains are `gain` at first:
/// `NAME.weight`, `NAME.bias`, `NAME.running_mean` and `NAME.running_var`.
pub fn batch_norm_layer(name: &str, channels: usize, gain: f64) -> [Declared; 4] {
    let of = |part: &str| format!("{name}.{part}");
    [
        Declared::new(of("weight"), &[channels], Start::Constant(gain)),
        Declared::new(of("bias"), &[channels], Start::Constant(0.0)),
        Declared::buffer(of("running_mean"), &[channels], 0.0),
        Declared::buffer(of("running_var"), &[channels], 1.0),
    ]
}

impl Pass<'_> {
    /// Normalises rows with the layer of [`batch_norm_layer`] called `name`: by the statistics of the
    /// batch in training, which moves the running values, and by these in evaluation. A single row has
    /// no statistics of its columns, and takes the running values in training too.
    ///
    /// # Errors
    /// If the layer was not declared, or does not fit the groups.
    pub fn batch_norm(&self, name: &str, rows: &Tensor, groups: &Groups) -> Result<Tensor, Error> {
        let part = |part: &str| self.weight(&format!("{name}.{part}"));
        let (gain, shift) = (part("weight")?, part("bias")?);
        let (means, variances) = (part("running_mean")?, part("running_var")?);
        let alone = *groups == Groups::Columns && rows.matrix_shape()?.0 == 1;
        if self.mode() == Mode::Evaluate || alone {
            return Ok(normalise(rows, gain, shift, groups, (means, variances))?);
        }
        let (out, statistics) = batch_norm(rows, gain, shift, groups)?;
        let (means, variances) = statistics.running(means, variances)?;
        self.observe(format!("{name}.running_mean"), means);
        self.observe(format!("{name}.running_var"), variances);
        Ok(out)
    }
}
