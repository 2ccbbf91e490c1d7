//! Parts of a graph that consist of convolutions, run in our own code.
//!
//! The runtime computes depthwise convolutions one number at a time, lays pictures out anew for
//! every product, and passes over them again for every bias and limit. Here a part is a list of
//! layers, each of which reads pictures and writes one, finished (see
//! [`nextpair_kernels::convolution`]).

mod build;
mod extent;
mod node;

use std::cell::RefCell;

use nextpair_kernels::convolution::{Activation, Dense, Depthwise, Finish, Frame, Margin, Size};
use rten_tensor::prelude::*;
use rten_tensor::{NdTensor, NdTensorView};

pub(super) use build::Builder;

thread_local! {
    /// Free memory of pictures, the most recently used last: it is still in a cache.
    static FREE: RefCell<Vec<Frame>> = RefCell::default();
}

/// Consecutive nodes of a graph, as layers.
#[derive(Debug)]
pub(super) struct Network {
    inputs: Vec<InputPicture>,
    layers: Vec<Layer>,
    /// The layers that are outputs.
    outputs: Vec<(usize, String)>,
}

/// An input picture.
#[derive(Debug)]
struct InputPicture {
    name: String,
    margin: Margin,
}

/// Where a picture comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Input(usize),
    Layer(usize),
}

#[derive(Debug)]
struct Layer {
    work: Work,
    from: Source,
    /// A second picture: a factor, or what is added before the limits apply.
    other: Option<Source>,
    low: f32,
    high: f32,
    /// Applied after the limits.
    activation: Option<Activation>,
    /// The margin that its readers need.
    margin: Margin,
    /// Pictures to free after this layer.
    last_of: Vec<Source>,
    name: String,
}

#[derive(Debug)]
enum Work {
    Dense(Dense),
    Depthwise(Depthwise),
    /// The mean of all pixels.
    Mean,
    Activation(Activation),
    /// A product with the other picture, which may be of one pixel.
    Times,
}

impl Network {
    pub(super) fn inputs(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|input| input.name.as_str())
    }

    pub(super) fn outputs(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter().map(|(_, name)| name.as_str())
    }

    /// Runs all layers on `[batch, channels, height, width]` tensors, one picture after the other.
    /// Returns the outputs in their order.
    pub(super) fn run(
        &self,
        inputs: &[NdTensorView<f32, 4>],
    ) -> Result<Vec<NdTensor<f32, 4>>, String> {
        let inputs: Vec<_> = inputs.iter().map(|input| input.to_contiguous()).collect();
        let batch = inputs.first().map_or(0, |input| input.size(0));
        if inputs.iter().any(|input| input.size(0) != batch) {
            return Err("pictures of different batches".into());
        }
        let mut outputs: Vec<(Size, Vec<f32>)> = vec![Default::default(); self.outputs.len()];
        for n in 0..batch {
            let pictures = inputs.iter().map(|input| {
                let [_, channels, height, width] = input.shape();
                let size = Size { height, width, channels };
                (size, &input.data()[n * size.numbers()..][..size.numbers()])
            });
            let planes = self.run_one(&pictures.collect::<Vec<_>>())?;
            for (all, (size, planes)) in outputs.iter_mut().zip(planes) {
                (all.0, _) = (size, all.1.extend(planes));
            }
        }
        let tensor = |(size, planes): (Size, Vec<f32>)| {
            NdTensor::from_data([batch, size.channels, size.height, size.width], planes)
        };
        Ok(outputs.into_iter().map(tensor).collect())
    }

    fn run_one(&self, pictures: &[(Size, &[f32])]) -> Result<Vec<(Size, Vec<f32>)>, String> {
        let mut free = FREE.take();
        let mut frames = Frames::default();
        for (input, (size, planes)) in self.inputs.iter().zip(pictures) {
            let mut frame = free.pop().unwrap_or_default();
            frame.read_planes(planes, *size, input.margin);
            frames.inputs.push(frame);
        }
        for layer in &self.layers {
            let mut output = free.pop().unwrap_or_default();
            layer.run(&frames, &mut output).map_err(|what| format!("'{}': {what}", layer.name))?;
            frames.layers.push(output);
            free.extend(layer.last_of.iter().map(|source| std::mem::take(frames.of_mut(*source))));
        }
        let outputs = self.outputs.iter().map(|(layer, _)| {
            let frame = &frames.layers[*layer];
            (frame.size(), frame.to_planes())
        });
        let outputs = outputs.collect();
        free.extend(self.outputs.iter().map(|(at, _)| std::mem::take(&mut frames.layers[*at])));
        FREE.set(free);
        Ok(outputs)
    }
}

/// The pictures of a run so far. Freed ones are empty.
#[derive(Default)]
struct Frames {
    inputs: Vec<Frame>,
    layers: Vec<Frame>,
}

impl Frames {
    fn of(&self, source: Source) -> &Frame {
        match source {
            Source::Input(at) => &self.inputs[at],
            Source::Layer(at) => &self.layers[at],
        }
    }

    fn of_mut(&mut self, source: Source) -> &mut Frame {
        match source {
            Source::Input(at) => &mut self.inputs[at],
            Source::Layer(at) => &mut self.layers[at],
        }
    }
}

impl Layer {
    /// Whether it is a convolution whose sums can still be changed before they are written.
    fn is_open(&self) -> bool {
        let is_convolution = matches!(self.work, Work::Dense(_) | Work::Depthwise(_));
        is_convolution && self.activation.is_none()
    }

    fn run(&self, frames: &Frames, output: &mut Frame) -> Result<(), String> {
        let input = frames.of(self.from);
        let other = self.other.map(|source| frames.of(source));
        let (low, high, activation) = (self.low, self.high, self.activation);
        let finish = Finish { add: other, low, high, activation };
        match &self.work {
            Work::Dense(layer) => layer.run(input, &finish, self.margin, output),
            Work::Depthwise(layer) => layer.run(input, &finish, self.margin, output),
            Work::Activation(activation) => {
                activation.run(input, self.margin, output);
                Ok(())
            }
            Work::Times => input.times(other.ok_or("no factor")?, self.margin, output),
            Work::Mean => {
                let size = Size { height: 1, width: 1, channels: input.size().channels };
                output.read_planes(&input.mean(), size, self.margin);
                Ok(())
            }
        }
    }
}
