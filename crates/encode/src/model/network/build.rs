//! From nodes of a graph to layers.

use std::collections::{HashMap, HashSet};

use nextpair_kernels::convolution::{Activation, Margin};
use rten_onnx::onnx::NodeProto;

use super::extent::Extent;
use super::node::{Convolution, activation, is_mean_of_pixels, limits};
use super::{InputPicture, Layer, Network, Source, Work};
use crate::model::constants::{Constants, operator};

/// Most pictures that a network reads; encoders have one. Every name is compared with all.
const MOST_INPUTS: usize = 64;

/// A network that takes one node after the other.
pub(in crate::model) struct Builder<'a> {
    constants: &'a Constants<'a>,
    /// How many nodes read a value; an output of the graph counts as read.
    readers: &'a HashMap<&'a str, usize>,
    network: Network,
    /// The layers by the values that they make.
    made: HashMap<&'a str, usize>,
    /// The size of every layer's picture, as far as it is known.
    extents: Vec<Option<Extent>>,
}

impl<'a> Builder<'a> {
    pub(in crate::model) fn new(
        constants: &'a Constants<'a>,
        readers: &'a HashMap<&'a str, usize>,
    ) -> Self {
        let network = Network { inputs: Vec::new(), layers: Vec::new(), outputs: Vec::new() };
        Builder { constants, readers, network, made: HashMap::new(), extents: Vec::new() }
    }

    /// Takes a node as a layer, or as the end of one. `None` if it is no work for a network.
    pub(in crate::model) fn take(&mut self, node: &'a NodeProto) -> Option<()> {
        match operator(node)? {
            "Conv" => self.convolution(node),
            "GlobalAveragePool" => self.mean(node),
            "ReduceMean" if is_mean_of_pixels(node, self.constants) => self.mean(node),
            "Add" => self.sum(node),
            "Clip" | "Relu" => self.limit(node),
            "Mul" => self.product(node),
            _ => self.activation(node, activation(node)?),
        }
    }

    /// Whether it saves more than it costs to turn pictures around at both ends: the runtime is slow
    /// at depthwise convolutions, and a chain of others need not be turned in between.
    pub(in crate::model) fn is_worth_it(&self) -> bool {
        let layers = &self.network.layers;
        layers.len() > 1 || layers.iter().any(|layer| matches!(layer.work, Work::Depthwise(_)))
    }

    /// Ends the network. `is_wanted` says whether others read a value.
    pub(in crate::model) fn finish(mut self, is_wanted: impl Fn(&str) -> bool) -> Network {
        let Network { layers, outputs, .. } = &mut self.network;
        let wanted = layers.iter().enumerate().filter(|(_, layer)| is_wanted(&layer.name));
        outputs.extend(wanted.map(|(at, layer)| (at, layer.name.clone())));
        // Read by others, or by a later layer.
        let mut read: HashSet<_> = outputs.iter().map(|(at, _)| Source::Layer(*at)).collect();
        for layer in layers.iter_mut().rev() {
            let sources = [Some(layer.from), layer.other].into_iter().flatten();
            layer.last_of = sources.filter(|source| read.insert(*source)).collect();
        }
        self.network
    }

    fn convolution(&mut self, node: &'a NodeProto) -> Option<()> {
        let convolution = Convolution::read(node, self.constants)?;
        let (from, extent) = match self.layer_of(&node.input[0]) {
            Some(at) => (Source::Layer(at), self.extents[at].clone()),
            None => {
                let from = self.input(&node.input[0])?;
                (from, Some(Extent::given(from, convolution.inputs)))
            }
        };
        let margin = match from {
            Source::Input(at) => &mut self.network.inputs[at].margin,
            Source::Layer(at) => &mut self.network.layers[at].margin,
        };
        *margin = margin.max(convolution.geometry.padding);
        let after = |extent: Extent| extent.after(&convolution.geometry, convolution.outputs);
        self.push(node, convolution.work(), from, extent.and_then(after));
        Some(())
    }

    fn mean(&mut self, node: &'a NodeProto) -> Option<()> {
        let from = self.layer_of(node.input.first()?)?;
        let pixel = self.extents[from].as_ref().map(Extent::pixel);
        self.push(node, Work::Mean, Source::Layer(from), pixel);
        Some(())
    }

    /// An addition is the end of the later of the two layers that make its sides.
    fn sum(&mut self, node: &'a NodeProto) -> Option<()> {
        let [one, other] = &node.input[..] else { return None };
        let (one, other) = (self.layer_of(one)?, self.layer_of(other)?);
        let (early, late) = (one.min(other), one.max(other));
        let are_alike = self.extents[one].is_some() && self.extents[one] == self.extents[other];
        let layer = &self.network.layers[late];
        let has_no_limits = layer.low == f32::NEG_INFINITY && layer.high == f32::INFINITY;
        let is_open = layer.is_open() && layer.other.is_none() && has_no_limits;
        if early == late || !are_alike || !is_open {
            return None;
        }
        self.extend(late, node)?;
        self.network.layers[late].other = Some(Source::Layer(early));
        Some(())
    }

    /// Fuses an activation into a convolution with no other reader; otherwise it is a layer of its own.
    fn activation(&mut self, node: &'a NodeProto, activation: Activation) -> Option<()> {
        let at = self.layer_of(node.input.first()?)?;
        if self.network.layers[at].is_open() && self.extend(at, node).is_some() {
            self.network.layers[at].activation = Some(activation);
        } else {
            let extent = self.extents[at].clone();
            self.push(node, Work::Activation(activation), Source::Layer(at), extent);
        }
        Some(())
    }

    /// A product of two pictures, or of one and a pixel. `x` times its sigmoid is an activation.
    fn product(&mut self, node: &'a NodeProto) -> Option<()> {
        let [one, other] = &node.input[..] else { return None };
        let (one, other) = (self.layer_of(one)?, self.layer_of(other)?);
        if let Some(()) = self.swish(node, one.min(other), one.max(other)) {
            return Some(());
        }
        let (Some(size), Some(factor)) = (&self.extents[one], &self.extents[other]) else {
            return None;
        };
        let (from, by) = match () {
            _ if size == factor || *factor == size.pixel() => (one, other),
            _ if *size == factor.pixel() => (other, one),
            _ => return None,
        };
        let extent = self.extents[from].clone();
        self.push(node, Work::Times, Source::Layer(from), extent);
        self.network.layers.last_mut()?.other = Some(Source::Layer(by));
        Some(())
    }

    /// Makes one activation of a layer and its sigmoid, if these are the last two and nothing else reads the sigmoid.
    fn swish(&mut self, node: &'a NodeProto, layer: usize, sigmoid: usize) -> Option<()> {
        let last = self.network.layers.last()?;
        let is_it = matches!(last.work, Work::Activation(Activation::Sigmoid))
            && sigmoid + 1 == self.network.layers.len()
            && last.from == Source::Layer(layer)
            && self.readers.get(last.name.as_str()) == Some(&1);
        if !is_it {
            return None;
        }
        let source = &self.network.layers[layer];
        if source.is_open() && self.readers.get(source.name.as_str()) == Some(&2) {
            self.network.layers.pop();
            self.extents.pop();
            self.network.layers[layer].activation = Some(Activation::Swish);
            self.rename(layer, node);
        } else {
            self.network.layers[sigmoid].work = Work::Activation(Activation::Swish);
            self.rename(sigmoid, node);
        }
        Some(())
    }

    fn limit(&mut self, node: &'a NodeProto) -> Option<()> {
        let (low, high) = limits(node, self.constants)?;
        let at = self.layer_of(node.input.first()?)?;
        if !self.network.layers[at].is_open() {
            return None;
        }
        self.extend(at, node)?;
        let layer = &mut self.network.layers[at];
        (layer.low, layer.high) = (layer.low.clamp(low, high), layer.high.clamp(low, high));
        Some(())
    }

    /// Lets a layer make the value of `node`, if its current value has no other reader.
    fn extend(&mut self, at: usize, node: &'a NodeProto) -> Option<()> {
        if self.readers.get(self.network.layers[at].name.as_str()) != Some(&1) {
            return None;
        }
        self.rename(at, node);
        Some(())
    }

    /// Lets a layer make the value of `node`.
    fn rename(&mut self, at: usize, node: &'a NodeProto) {
        self.network.layers[at].name = node.output[0].clone();
        self.made.insert(&node.output[0], at);
    }

    fn push(&mut self, node: &'a NodeProto, work: Work, from: Source, extent: Option<Extent>) {
        self.made.insert(&node.output[0], self.network.layers.len());
        self.extents.push(extent);
        self.network.layers.push(Layer {
            work,
            from,
            other: None,
            low: f32::NEG_INFINITY,
            high: f32::INFINITY,
            activation: None,
            margin: Margin::default(),
            last_of: Vec::new(),
            name: node.output[0].clone(),
        });
    }

    fn layer_of(&self, name: &str) -> Option<usize> {
        self.made.get(name).copied()
    }

    /// The input of a name; `None` if it is stored in the file, or one too many.
    fn input(&mut self, name: &str) -> Option<Source> {
        if self.constants.weights.contains_key(name) || self.constants.nodes.contains_key(name) {
            return None;
        }
        let inputs = &mut self.network.inputs;
        let known = inputs.iter().position(|input| input.name == name);
        if known.is_none() && inputs.len() == MOST_INPUTS {
            return None;
        }
        Some(Source::Input(known.unwrap_or_else(|| {
            inputs.push(InputPicture { name: name.to_string(), margin: Margin::default() });
            inputs.len() - 1
        })))
    }
}
