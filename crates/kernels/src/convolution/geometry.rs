//! Where a convolution reads.

use super::{Finish, Frame, Margin, Size};

/// The kernel of a convolution and its steps. Pairs are vertical, horizontal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Rows and columns of the kernel.
    pub kernel: (usize, usize),
    /// Pixels between the places of the kernel.
    pub stride: (usize, usize),
    /// Pixels between the numbers of the kernel.
    pub dilation: (usize, usize),
    /// Zeros around the picture.
    pub padding: Margin,
}

impl Geometry {
    /// The height and width of the result. An error names sizes that do not fit.
    pub fn output(&self, input: Size) -> Result<(usize, usize), String> {
        let Margin { top, left, bottom, right } = self.padding;
        let axis = |padded: usize, kernel: usize, stride: usize, dilation: usize| {
            let reach = (kernel - 1) * dilation + 1;
            match padded.checked_sub(reach) {
                Some(rest) => Ok(rest / stride + 1),
                None => Err(format!("{padded} pixels with padding for a kernel over {reach}")),
            }
        };
        Ok((
            axis(top + input.height + bottom, self.kernel.0, self.stride.0, self.dilation.0)?,
            axis(left + input.width + right, self.kernel.1, self.stride.1, self.dilation.1)?,
        ))
    }

    /// The place of the first number that the output at `(y, x)` reads.
    #[inline(always)]
    pub(super) fn first(&self, input: &Frame, y: usize, x: usize) -> usize {
        let (margin, Margin { top, left, .. }) = (input.margin(), self.padding);
        let (row, column) = (y * self.stride.0, x * self.stride.1);
        (margin.top - top + row) * input.pitch()
            + (margin.left - left + column) * input.size().channels
    }

    /// # Panics
    /// If the margin of the input is smaller than the padding, or a picture to add is not of the
    /// size of the output.
    pub(super) fn check(&self, input: &Frame, finish: &Finish<'_>, output: Size) {
        let margin = input.margin();
        assert_eq!(margin.max(self.padding), margin, "the padding lies within the margin");
        if let Some(add) = finish.add {
            assert_eq!(add.size(), output, "the picture to add");
        }
    }
}
