//! Pictures with their channels side by side.

use crate::packed::Aligned;

/// The size of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub height: usize,
    /// Pixels per line.
    pub width: usize,
    /// Numbers per pixel.
    pub channels: usize,
}

impl Size {
    /// Numbers of the picture.
    pub fn numbers(&self) -> usize {
        self.height * self.width * self.channels
    }
}

/// Lines and columns of zeros around a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Margin {
    pub top: usize,
    pub left: usize,
    pub bottom: usize,
    pub right: usize,
}

impl Margin {
    /// The larger margin on every side.
    pub fn max(self, other: Margin) -> Margin {
        Margin {
            top: self.top.max(other.top),
            left: self.left.max(other.left),
            bottom: self.bottom.max(other.bottom),
            right: self.right.max(other.right),
        }
    }
}

/// A picture with a margin of zeros. It keeps its memory for the next picture.
#[derive(Debug, Default)]
pub struct Frame {
    size: Size,
    margin: Margin,
    numbers: Aligned,
}

impl Frame {
    /// Makes room for a picture. Its margin is zero; the numbers inside are to be written.
    pub fn reshape(&mut self, size: Size, margin: Margin) {
        (self.size, self.margin) = (size, margin);
        let lines = margin.top + size.height + margin.bottom;
        let (pitch, line) = (self.pitch(), size.width * size.channels);
        self.numbers.resize(lines * pitch);
        let mut empty = 0;
        for y in 0..size.height {
            let start = self.at(y, 0);
            self.numbers[empty..start].fill(0.0);
            empty = start + line;
        }
        self.numbers[empty..].fill(0.0);
    }

    /// Takes a picture of one plane per channel.
    ///
    /// # Panics
    /// If there are not `size` numbers.
    pub fn read_planes(&mut self, planes: &[f32], size: Size, margin: Margin) {
        assert_eq!(planes.len(), size.numbers(), "{size:?}");
        self.reshape(size, margin);
        let Size { height, width, channels } = size;
        for y in 0..height {
            let start = self.at(y, 0);
            let line = &mut self.numbers[start..][..width * channels];
            for channel in 0..channels {
                let plane = &planes[(channel * height + y) * width..][..width];
                let to = line[channel..].iter_mut().step_by(channels);
                to.zip(plane).for_each(|(to, from)| *to = *from);
            }
        }
    }

    /// The picture with one plane per channel.
    pub fn to_planes(&self) -> Vec<f32> {
        let Size { height, width, channels } = self.size;
        let mut planes = vec![0.0; self.size.numbers()];
        for y in 0..height {
            let line = &self.numbers[self.at(y, 0)..][..width * channels];
            for channel in 0..channels {
                let to = &mut planes[(channel * height + y) * width..][..width];
                let from = line[channel..].iter().step_by(channels);
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
        }
        planes
    }

    /// The mean of all pixels, one number per channel.
    pub fn mean(&self) -> Vec<f32> {
        let Size { height, width, channels } = self.size;
        let mut sums = vec![0.0; channels];
        for pixel in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            let numbers = &self.numbers[self.at(pixel.0, pixel.1)..][..channels];
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        }
        let count = (height * width) as f32;
        sums.iter_mut().for_each(|sum| *sum /= count);
        sums
    }

    /// The size without the margin.
    pub fn size(&self) -> Size {
        self.size
    }

    pub(super) fn margin(&self) -> Margin {
        self.margin
    }

    pub(super) fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    pub(super) fn numbers_mut(&mut self) -> &mut [f32] {
        &mut self.numbers
    }

    /// Numbers from a line to the next.
    pub(super) fn pitch(&self) -> usize {
        (self.margin.left + self.size.width + self.margin.right) * self.size.channels
    }

    /// The place of a pixel's first number.
    #[inline(always)]
    pub(super) fn at(&self, y: usize, x: usize) -> usize {
        (self.margin.top + y) * self.pitch() + (self.margin.left + x) * self.size.channels
    }
}
