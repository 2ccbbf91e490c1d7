//! Sizes of pictures that are known only when they come, compared before.

use nextpair_kernels::convolution::Geometry;

use super::Source;

/// Most steps that are remembered; networks have some five.
const MOST_STEPS: usize = 100;

/// The size of a picture, by the steps from the one that it was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// `None`: a single pixel.
    from: Option<Source>,
    channels: usize,
    rows: Vec<Step>,
    columns: Vec<Step>,
}

/// `n` pixels become `(n + growth) / stride + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    growth: isize,
    stride: usize,
}

impl Extent {
    /// The size of a picture from outside.
    pub(super) fn given(from: Source, channels: usize) -> Self {
        Extent { from: Some(from), channels, rows: Vec::new(), columns: Vec::new() }
    }

    /// The size of a single pixel with the channels of this picture.
    pub(super) fn pixel(&self) -> Self {
        Extent { from: None, channels: self.channels, rows: Vec::new(), columns: Vec::new() }
    }

    /// The size after a convolution; `None` if it becomes too long to tell.
    pub(super) fn after(mut self, geometry: &Geometry, channels: usize) -> Option<Self> {
        let Geometry { kernel, stride, dilation, padding } = *geometry;
        let step = |around: usize, kernel: usize, dilation: usize, stride: usize| Step {
            growth: around as isize - ((kernel - 1) * dilation + 1) as isize,
            stride,
        };
        let rows = step(padding.top + padding.bottom, kernel.0, dilation.0, stride.0);
        let columns = step(padding.left + padding.right, kernel.1, dilation.1, stride.1);
        // What changes nothing need not be remembered.
        let changes = |step: &Step| *step != Step { growth: -1, stride: 1 };
        self.rows.extend(Some(rows).filter(changes));
        self.columns.extend(Some(columns).filter(changes));
        let is_short = self.rows.len().max(self.columns.len()) <= MOST_STEPS;
        is_short.then_some(Extent { channels, ..self })
    }
}
