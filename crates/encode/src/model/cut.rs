//! Cutting a graph at its depthwise convolutions.

use std::collections::{HashMap, HashSet};

use rten_onnx::onnx::{
    AttributeProto, DataType, GraphProto, NodeProto, TensorProto, ValueInfoProto,
};

use super::depthwise::Depthwise;

/// A part of a graph. Parts run one after another and exchange values by name.
pub(super) enum Segment {
    /// A graph of its own, for the runtime.
    Nodes { graph: GraphProto, inputs: Vec<String>, outputs: Vec<String> },
    /// One convolution, which runs in our own code.
    Depthwise { layer: Depthwise, input: String, output: String },
}

/// Most parts of a cut; a graph with more is left to the runtime. Every part is compared with all
/// later ones.
const MOST_PARTS: usize = 1001;

/// Cuts `graph` into the parts that `output` needs. `None` if there is nothing to cut, or if nodes
/// have subgraphs, which may use any value.
pub(super) fn cut(graph: &GraphProto, output: &str) -> Option<Vec<Segment>> {
    if graph.node.iter().flat_map(|node| &node.attribute).any(|attribute| attribute.g.is_some()) {
        return None;
    }
    let weights: HashMap<&str, &TensorProto> =
        graph.initializer.iter().filter_map(|w| Some((w.name.as_deref()?, w))).collect();
    let mut parts: Vec<Part> = vec![Part::Nodes(Vec::new())];
    for node in needed(graph, output) {
        match (depthwise(node, &weights), parts.last_mut()) {
            (Some(layer), _) => {
                parts.push(Part::Depthwise(layer, node));
                parts.push(Part::Nodes(Vec::new()));
            }
            (None, Some(Part::Nodes(nodes))) => nodes.push(node),
            (None, _) => unreachable!("the last part is always one of nodes"),
        }
    }
    if parts.len() == 1 || parts.len() > MOST_PARTS {
        return None;
    }
    let infos = graph.input.iter().chain(&graph.output).chain(&graph.value_info);
    // The first declaration of a value counts.
    let infos = infos.rev().filter_map(|info| Some((info.name.as_deref()?, info))).collect();
    let source = Source { infos, weights, constants: constants(graph), output };
    let later = |n: usize| -> HashSet<&str> {
        let nodes = parts[n + 1..].iter().flat_map(Part::nodes);
        nodes.flat_map(|node| &node.input).map(String::as_str).collect()
    };
    let segments = parts.iter().enumerate().map(|(n, part)| match part {
        Part::Depthwise(layer, node) => Segment::Depthwise {
            layer: layer.clone(),
            input: node.input[0].clone(),
            output: node.output[0].clone(),
        },
        Part::Nodes(nodes) => source.segment(nodes, &later(n)),
    });
    // There is a part without nodes between two consecutive convolutions.
    Some(
        segments
            .filter(|s| !matches!(s, Segment::Nodes { outputs, .. } if outputs.is_empty()))
            .collect(),
    )
}

enum Part<'a> {
    Nodes(Vec<&'a NodeProto>),
    Depthwise(Depthwise, &'a NodeProto),
}

impl<'a> Part<'a> {
    fn nodes(&self) -> &[&'a NodeProto] {
        match self {
            Part::Nodes(nodes) => nodes,
            Part::Depthwise(_, node) => std::slice::from_ref(node),
        }
    }
}

/// The nodes that `output` depends on, in the order of the file; ONNX requires that they can run in
/// that order. Constants are left out: every part that reads one gets a copy.
fn needed<'a>(graph: &'a GraphProto, output: &'a str) -> Vec<&'a NodeProto> {
    let mut wanted = HashSet::from([output]);
    let mut nodes: Vec<&NodeProto> = Vec::new();
    for node in graph.node.iter().rev() {
        if node.output.iter().any(|name| wanted.contains(name.as_str())) {
            wanted.extend(node.input.iter().map(String::as_str));
            nodes.push(node);
        }
    }
    nodes.retain(|node| !is_constant(node));
    nodes.reverse();
    nodes
}

fn is_constant(node: &NodeProto) -> bool {
    is_standard(node) && node.op_type.as_deref() == Some("Constant")
}

fn is_standard(node: &NodeProto) -> bool {
    matches!(node.domain.as_deref(), None | Some("" | "ai.onnx"))
}

fn constants(graph: &GraphProto) -> HashMap<&str, &NodeProto> {
    let constants = graph.node.iter().filter(|node| is_constant(node));
    constants.filter_map(|node| Some((node.output.first()?.as_str(), node))).collect()
}

struct Source<'a> {
    infos: HashMap<&'a str, &'a ValueInfoProto>,
    weights: HashMap<&'a str, &'a TensorProto>,
    constants: HashMap<&'a str, &'a NodeProto>,
    output: &'a str,
}

impl Source<'_> {
    fn segment(&self, nodes: &[&NodeProto], later: &HashSet<&str>) -> Segment {
        let made: HashSet<&str> =
            nodes.iter().flat_map(|n| &n.output).map(String::as_str).collect();
        let mut part = GraphProto::default();
        let (mut inputs, mut seen) = (Vec::new(), HashSet::new());
        for name in nodes.iter().flat_map(|node| &node.input).map(String::as_str) {
            // An empty name stands for an omitted optional input.
            if name.is_empty() || made.contains(name) || !seen.insert(name) {
                continue;
            }
            if let Some(&weight) = self.weights.get(name) {
                part.initializer.push(weight.clone());
            } else if let Some(&constant) = self.constants.get(name) {
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

/// The layer, if `node` is a depthwise convolution of pictures with stored weights.
fn depthwise(node: &NodeProto, weights: &HashMap<&str, &TensorProto>) -> Option<Depthwise> {
    if !is_standard(node) || node.op_type.as_deref() != Some("Conv") || node.output.len() != 1 {
        return None;
    }
    let weight = weights.get(node.input.get(1)?.as_str())?;
    let [channels, 1, rows, columns] = weight.dims[..] else { return None };
    let (channels, kernel) = (usize::try_from(channels).ok()?, pair(&[rows, columns])?);
    let attribute = |name: &str| node.attribute.iter().find(|a| a.name.as_deref() == Some(name));
    let padding_is_given = |a: &AttributeProto| a.s.as_deref() == Some("NOTSET");
    if attribute("group")?.i != i64::try_from(channels).ok()
        || !attribute("auto_pad").is_none_or(padding_is_given)
        || kernel.0 == 0
        || kernel.1 == 0
    {
        return None;
    }
    let ints = |name: &str, default: &[i64]| -> Vec<i64> {
        attribute(name).map_or(default.to_vec(), |attribute| attribute.ints.clone())
    };
    let (stride, dilation) = (pair(&ints("strides", &[1, 1]))?, pair(&ints("dilations", &[1, 1]))?);
    let [top, left, bottom, right] = ints("pads", &[0; 4])[..] else { return None };
    if [stride.0, stride.1, dilation.0, dilation.1].contains(&0) {
        return None;
    }
    let bias = match node.input.get(2).filter(|name| !name.is_empty()) {
        Some(name) => numbers(weights.get(name.as_str())?)?,
        None => vec![0.0; channels],
    };
    let weights = numbers(weight)?;
    let whole =
        bias.len() == channels && weights.len() == channels.checked_mul(kernel.0 * kernel.1)?;
    let (before, after) = (pair(&[top, left])?, pair(&[bottom, right])?);
    whole.then_some(Depthwise { weights, bias, kernel, stride, dilation, before, after })
}

/// Two numbers of moderate size.
fn pair(numbers: &[i64]) -> Option<(usize, usize)> {
    let [first, second] = numbers[..] else { return None };
    let moderate = |number: i64| usize::try_from(number).ok().filter(|&n| n < 1 << 12);
    Some((moderate(first)?, moderate(second)?))
}

fn numbers(tensor: &TensorProto) -> Option<Vec<f32>> {
    if tensor.data_type != Some(DataType::FLOAT) {
        return None;
    }
    Some(match &tensor.raw_data {
        Some(bytes) => {
            bytes.borrow().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
        }
        None => tensor.float_data.clone(),
    })
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
        let graph = graph(include_bytes!("../../tests/fixtures/image.onnx"));
        let parts: Vec<String> = cut(&graph, "grid")
            .unwrap()
            .into_iter()
            .map(|segment| match segment {
                Segment::Nodes { inputs, outputs, .. } => format!("{inputs:?} -> {outputs:?}"),
                Segment::Depthwise { layer, input, output } => {
                    format!("{input} -> {output} by {:?} / {:?}", layer.kernel, layer.stride)
                }
            })
            .collect();
        assert_eq!(
            parts,
            [
                r#"["pixels"] -> ["v2"]"#,
                "v2 -> v3 by (3, 3) / (2, 2)",
                r#"["v3"] -> ["v4"]"#,
                "v4 -> v5 by (5, 5) / (1, 1)",
                // The residual branch joins in.
                r#"["v4", "v5"] -> ["grid"]"#,
            ]
        );
    }

    #[test]
    fn graphs_without_depthwise_convolutions_stay_whole() {
        let graph = graph(include_bytes!("../../tests/fixtures/text.onnx"));
        assert!(cut(&graph, "last_hidden_state").is_none());
    }
}
