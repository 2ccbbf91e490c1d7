//! Factors of the large products that make gradients of layers.

use half::bf16;
use nextpair_cuda::{Array, Grid, Operand};

use super::Unit;
use crate::{Error, Precision};

/// Rounded factors have a multiple of so many rows: the last are zeros, which add nothing. So sizes that
/// change from step to step are few, and cuBLAS has its kernels for them soon.
const ROWS: usize = 128;

/// Numbers of a row that lie as the matrix units read them.
const ALIGNED: usize = 8;

/// A matrix that is a factor of such products: rounded to bf16, whose range is that of single
/// precision, where scores are in half precision, and itself elsewhere.
pub(crate) struct Factor {
    /// Rows, with those that are zeros.
    pub(crate) rows: usize,
    numbers: Numbers,
}

enum Numbers {
    Single(Array<f32>),
    Half(Array<bf16>),
}

impl Factor {
    /// The matrix that begins with the number `first`, whose rows are `stride` numbers apart.
    pub(crate) fn operand(&self, first: usize, stride: usize) -> Operand {
        match &self.numbers {
            Numbers::Single(values) => Operand::new(values, first, stride),
            Numbers::Half(values) => Operand::new(values, first, stride),
        }
    }
}

impl Unit {
    /// Rows of `width` numbers as a factor of products with rows of `other` numbers.
    pub(crate) fn factor(
        &self,
        values: &Array<f32>,
        width: usize,
        other: usize,
    ) -> Result<Factor, Error> {
        let (count, rows) = (values.len(), values.len() / width.max(1));
        let aligned = width.is_multiple_of(ALIGNED) && other.is_multiple_of(ALIGNED);
        if self.precision != Precision::Fp16 || !aligned {
            return Ok(Factor { rows, numbers: Numbers::Single(values.clone()) });
        }
        let rows = rows.next_multiple_of(ROWS);
        let (out, all) = (self.empty::<bf16>(rows * width)?, rows * width);
        let arguments = [(&out).into(), values.into(), (count as u64).into(), (all as u64).into()];
        self.run("round_to_bf16", Grid::each(all / ALIGNED), &arguments)?;
        Ok(Factor { rows, numbers: Numbers::Half(out) })
    }
}
