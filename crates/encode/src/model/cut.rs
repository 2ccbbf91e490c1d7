//! Cutting a graph into what runs in our own code and the rest.

use std::collections::{HashMap, HashSet};

use rten_onnx::onnx::{GraphProto, NodeProto, ValueInfoProto};

use super::constants::{Constants, is_constant};
use super::network::{Builder, Network};
use super::products::{Producers, Products};

/// A part of a graph. Parts run one after another and exchange values by name.
pub(super) enum Segment {
    /// A graph of its own, for the runtime.
    Nodes { graph: GraphProto, inputs: Vec<String>, outputs: Vec<String> },
    /// Convolutions, which run in our own code.
    Network(Network),
    /// Quantised products, which do so as well.
    Products(Products),
}

/// Most parts of a cut; a graph with more is left to the runtime. Every part is compared with all
/// later ones.
const MOST_PARTS: usize = 1001;

/// Cuts `graph` into parts. All its nodes are needed for `output`. `None` if there is nothing to cut.
pub(super) fn cut(graph: &GraphProto, output: &str) -> Option<Vec<Segment>> {
    let constants = Constants::of(graph);
    // In the order of the file, in which they can run. Every part that reads a constant gets a copy.
    let nodes: Vec<_> = graph.node.iter().filter(|node| !is_constant(node)).collect();
    let mut readers: HashMap<&str, usize> = HashMap::from([(output, 1)]);
    for name in nodes.iter().flat_map(|node| &node.input) {
        *readers.entry(name).or_default() += 1;
    }
    let makers: Producers =
        nodes.iter().flat_map(|&n| n.output.iter().map(move |name| (name.as_str(), n))).collect();
    let parts =
        Partitioner { constants: &constants, readers: &readers, makers: &makers }.of(&nodes);
    let is_whole = parts.iter().all(|part| matches!(part, NodeGroup::Nodes(_)));
    if is_whole || parts.len() > MOST_PARTS {
        return None;
    }
    let infos = graph.input.iter().chain(&graph.output).chain(&graph.value_info);
    // The first declaration of a value counts.
    let infos = infos.rev().filter_map(|info| Some((info.name.as_deref()?, info))).collect();
    let source = Source { infos, constants: &constants, output };
    let mut segments = Vec::new();
    // What later parts read, from the last part back.
    let mut later = HashSet::from([output.to_owned()]);
    for part in parts.into_iter().rev() {
        let segment = match part {
            NodeGroup::Nodes(nodes) => source.segment(&nodes, &later),
            NodeGroup::Network(network, _) => {
                Segment::Network(network.finish(|name| later.contains(name)))
            }
            NodeGroup::Products(products, _) => Segment::Products(products),
        };
        // Products compute their scales themselves, so those of the graph must have no other reader.
        if !matches!(&segment, Segment::Nodes { outputs, .. } if outputs.is_empty()) {
            later.extend(segment.inputs().map(str::to_owned));
            segments.push(segment);
        }
    }
    segments.reverse();
    Some(segments)
}

impl Segment {
    /// The names of what it reads.
    fn inputs(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Segment::Nodes { inputs, .. } => Box::new(inputs.iter().map(String::as_str)),
            Segment::Network(network) => Box::new(network.inputs()),
            Segment::Products(products) => Box::new(products.inputs()),
        }
    }
}

/// Consecutive nodes.
enum NodeGroup<'a> {
    Nodes(Vec<&'a NodeProto>),
    /// With the nodes, in case that the runtime gets them after all.
    Network(Builder<'a>, Vec<&'a NodeProto>),
    Products(Products, Vec<&'a NodeProto>),
}

/// Divides nodes into groups.
#[derive(Clone, Copy)]
struct Partitioner<'a> {
    constants: &'a Constants<'a>,
    readers: &'a HashMap<&'a str, usize>,
    makers: &'a Producers<'a>,
}

impl<'a> Partitioner<'a> {
    fn of(self, nodes: &[&'a NodeProto]) -> Vec<NodeGroup<'a>> {
        let mut parts: Vec<NodeGroup> = Vec::new();
        for &node in nodes {
            if !parts.last_mut().is_some_and(|part| self.goes_on(part, node)) {
                parts.push(self.begun_by(node));
            }
        }
        let whole = |part| match part {
            NodeGroup::Network(network, nodes) if !network.is_worth_it() => NodeGroup::Nodes(nodes),
            NodeGroup::Products(products, nodes) if !products.are_complete() => {
                NodeGroup::Nodes(nodes)
            }
            part => part,
        };
        let mut joined: Vec<NodeGroup> = Vec::new();
        for part in parts.into_iter().map(whole) {
            match (part, joined.last_mut()) {
                (NodeGroup::Nodes(more), Some(NodeGroup::Nodes(nodes))) => nodes.extend(more),
                (part, _) => joined.push(part),
            }
        }
        joined
    }

    /// Lets a part of our own take a node that belongs to it.
    fn goes_on(self, part: &mut NodeGroup<'a>, node: &'a NodeProto) -> bool {
        let (taken, nodes) = match part {
            NodeGroup::Network(network, nodes) => (network.take(node), nodes),
            NodeGroup::Products(products, nodes) => {
                (products.take(node, self.constants, self.readers, self.makers), nodes)
            }
            NodeGroup::Nodes(_) => return false,
        };
        nodes.extend(taken.map(|()| node));
        taken.is_some()
    }

    fn begun_by(self, node: &'a NodeProto) -> NodeGroup<'a> {
        let mut network = Builder::new(self.constants, self.readers);
        if network.take(node).is_some() {
            return NodeGroup::Network(network, vec![node]);
        }
        let mut products = Products::default();
        match products.take(node, self.constants, self.readers, self.makers) {
            Some(()) => NodeGroup::Products(products, vec![node]),
            None => NodeGroup::Nodes(vec![node]),
        }
    }
}

/// Leaves `output`, and the nodes that it depends on.
pub(super) fn prune(graph: &mut GraphProto, output: &str) {
    let mut wanted = HashSet::from([output.to_owned()]);
    let mut nodes = std::mem::take(&mut graph.node);
    nodes.reverse();
    nodes.retain(|node| {
        let is_needed = node.output.iter().any(|name| wanted.contains(name));
        wanted.extend(node.input.iter().filter(|_| is_needed).cloned());
        is_needed
    });
    nodes.reverse();
    graph.node = nodes;
    graph.output.retain(|info| info.name.as_deref() == Some(output));
}

struct Source<'a> {
    infos: HashMap<&'a str, &'a ValueInfoProto>,
    constants: &'a Constants<'a>,
    output: &'a str,
}

impl Source<'_> {
    fn segment(&self, nodes: &[&NodeProto], later: &HashSet<String>) -> Segment {
        let made: HashSet<&str> =
            nodes.iter().flat_map(|n| &n.output).map(String::as_str).collect();
        let mut part = GraphProto::default();
        let (mut inputs, mut seen) = (Vec::new(), HashSet::new());
        for name in nodes.iter().flat_map(|node| &node.input).map(String::as_str) {
            // An empty name stands for an omitted optional input.
            if name.is_empty() || made.contains(name) || !seen.insert(name) {
                continue;
            }
            if let Some(&weight) = self.constants.weights.get(name) {
                part.initializer.push(weight.clone());
            } else if let Some(&constant) = self.constants.nodes.get(name) {
                part.node.push(constant.clone());
            } else {
                inputs.push(name.to_string());
            }
        }
        part.node.extend(nodes.iter().map(|&node| node.clone()));
        let is_wanted = |name: &&String| later.contains(name.as_str()) || *name == self.output;
        let outputs: Vec<_> =
            nodes.iter().flat_map(|n| &n.output).filter(is_wanted).cloned().collect();
        part.input = inputs.iter().map(|name| self.info(name)).collect();
        part.output = outputs.iter().map(|name| self.info(name)).collect();
        Segment::Nodes { graph: part, inputs, outputs }
    }

    /// The declaration of a value in the file.
    fn info(&self, name: &str) -> ValueInfoProto {
        let unknown = || ValueInfoProto { name: Some(name.into()), r#type: None };
        self.infos.get(name).map_or_else(unknown, |&info| info.clone())
    }
}

#[cfg(test)]
mod tests {
    use rten_onnx::onnx::ModelProto;

    use super::*;

    fn graph(bytes: &[u8]) -> GraphProto {
        ModelProto::parse_buf(bytes).unwrap().graph.unwrap()
    }

    #[test]
    fn parts_hand_over_what_later_ones_read() {
        let mut graph = graph(include_bytes!("../../tests/fixtures/image.onnx"));
        prune(&mut graph, "pooled");
        let parts: Vec<String> = cut(&graph, "pooled")
            .unwrap()
            .into_iter()
            .map(|segment| match segment {
                Segment::Nodes { inputs, outputs, .. } => format!("{inputs:?} -> {outputs:?}"),
                Segment::Network(network) => {
                    let inputs: Vec<_> = network.inputs().collect();
                    let outputs: Vec<_> = network.outputs().collect();
                    format!("{inputs:?} -> {outputs:?} by a network")
                }
                Segment::Products(_) => "products".to_owned(),
            })
            .collect();
        assert_eq!(parts, [r#"["pixels"] -> ["mean"] by a network"#, r#"["mean"] -> ["pooled"]"#]);
    }

    #[test]
    fn graphs_without_convolutions_stay_whole() {
        let mut graph = graph(include_bytes!("../../tests/fixtures/text.onnx"));
        prune(&mut graph, "last_hidden_state");
        assert!(cut(&graph, "last_hidden_state").is_none());
    }
}
