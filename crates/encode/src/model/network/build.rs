//! From nodes of a graph to layers.

use std::collections::{HashMap, HashSet};

use nextpair_kernels::convolution::Margin;
use rten_onnx::onnx::NodeProto;

use super::extent::Extent;
use super::node::{Convolution, limits};
use super::{Given, Layer, Network, Source, Work};
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
            "Add" => self.sum(node),
            "Clip" | "Relu" => self.limit(node),
            _ => None,
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
            let sources = [Some(layer.from), layer.add].into_iter().flatten();
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
        self.push(node, Work::Mean, Source::Layer(from), None);
        Some(())
    }

    /// An addition is the end of the later of the two layers that make its sides.
    fn sum(&mut self, node: &'a NodeProto) -> Option<()> {
        let [one, other] = &node.input[..] else { return None };
        let (one, other) = (self.layer_of(one)?, self.layer_of(other)?);
        let (early, late) = (one.min(other), one.max(other));
        let are_alike = self.extents[one].is_some() && self.extents[one] == self.extents[other];
        let layer = &self.network.layers[late];
        let is_open = layer.add.is_none() && layer.low == f32::NEG_INFINITY;
        if early == late || !are_alike || !is_open || layer.high != f32::INFINITY {
            return None;
        }
        self.extend(late, node)?;
        self.network.layers[late].add = Some(Source::Layer(early));
        Some(())
    }

    fn limit(&mut self, node: &'a NodeProto) -> Option<()> {
        let (low, high) = limits(node, self.constants)?;
        let at = self.layer_of(node.input.first()?)?;
        if matches!(self.network.layers[at].work, Work::Mean) {
            return None;
        }
        self.extend(at, node)?;
        let layer = &mut self.network.layers[at];
        (layer.low, layer.high) = (layer.low.clamp(low, high), layer.high.clamp(low, high));
        Some(())
    }

    /// Lets a layer make the value of `node`, if nobody else reads what it makes now.
    fn extend(&mut self, at: usize, node: &'a NodeProto) -> Option<()> {
        let name = &mut self.network.layers[at].name;
        if self.readers.get(name.as_str()) != Some(&1) {
            return None;
        }
        *name = node.output[0].clone();
        self.made.insert(&node.output[0], at);
        Some(())
    }

    fn push(&mut self, node: &'a NodeProto, work: Work, from: Source, extent: Option<Extent>) {
        self.made.insert(&node.output[0], self.network.layers.len());
        self.extents.push(extent);
        self.network.layers.push(Layer {
            work,
            from,
            add: None,
            low: f32::NEG_INFINITY,
            high: f32::INFINITY,
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
            inputs.push(Given { name: name.to_string(), margin: Margin::default() });
            inputs.len() - 1
        })))
    }
}
