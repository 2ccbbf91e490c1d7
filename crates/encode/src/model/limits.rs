//! Limits on graphs. The runtime accepts any graph, so this refuses what no encoder needs: loops,
//! chains deeper than the stack, sizes beyond any memory.

use std::collections::HashMap;

use rten_onnx::onnx::{GraphProto, NodeProto, TensorProto, ValueInfoProto};

use super::port;

/// Most nodes of a file, including those of subgraphs. Large encoders have some thousands.
pub(super) const NODES: usize = 50_000;
/// Longest chain of dependent nodes: the runtime follows it by recursion. An encoder of 60 layers
/// has some 4,000.
pub(super) const CHAIN: usize = 10_000;
/// Most numbers of a value that is not stored in the file: 1 GB in single precision.
pub(super) const NUMBERS: u64 = 1 << 28;

/// Operators that repeat a graph as often as the file says.
const LOOPS: [&str; 3] = ["Loop", "Scan", "SequenceMap"];

/// Checks a graph and returns the length of its longest chain of dependent nodes.
pub(super) fn check(graph: &GraphProto) -> Result<usize, String> {
    for info in graph.input.iter().chain(&graph.output).chain(&graph.value_info) {
        check_value(info)?;
    }
    let (constants, mut inside) = (constants(graph), 0);
    for node in &graph.node {
        check_node(node, &constants)?;
        for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
            inside = check(graph)?.max(inside);
        }
    }
    // The subgraphs of a node run within it.
    match longest_chain(graph)? + inside {
        chain @ ..=CHAIN => Ok(chain),
        chain => Err(format!("{chain} nodes in a row; {CHAIN} are accepted")),
    }
}

fn check_value(info: &ValueInfoProto) -> Result<(), String> {
    let port = port(info);
    let sizes = port.shape.iter().flatten().flatten().map(|&size| size as u64);
    match product(sizes) {
        Some(..=NUMBERS) => Ok(()),
        _ => Err(format!("'{}' has more than {NUMBERS} numbers", port.name)),
    }
}

/// `None` if the product overflows.
fn product(sizes: impl Iterator<Item = u64>) -> Option<u64> {
    // A size of zero makes the product small, but not the other sizes.
    sizes.map(|size| size.max(1)).try_fold(1u64, u64::checked_mul)
}

fn check_node(node: &NodeProto, constants: &HashMap<&str, &TensorProto>) -> Result<(), String> {
    let kind = node.op_type.as_deref().unwrap_or_default();
    let name = || match node.output.first() {
        Some(output) => format!("the {kind} that makes '{output}'"),
        None => format!("a {kind}"),
    };
    if LOOPS.contains(&kind) {
        return Err(format!("{}: loops are not run; encoders have none", name()));
    }
    let whole = |at: usize| {
        let tensor = constants.get(node.input.get(at)?.as_str())?;
        whole_numbers(tensor)
    };
    // The declared size of the result: as a factor of its inputs, or absolute.
    let size = match kind {
        "ConstantOfShape" => whole(0).map(|sizes| product(sizes.into_iter())),
        "Expand" | "Tile" => whole(1).map(|sizes| product(sizes.into_iter())),
        "Resize" => whole(3).map(|sizes| product(sizes.into_iter())),
        "Pad" => whole(1).map(|sizes| sizes.into_iter().try_fold(0, u64::checked_add)),
        "OneHot" => whole(1).map(|sizes| product(sizes.into_iter())),
        "Range" => whole(0).zip(whole(1)).zip(whole(2)).map(|((start, end), step)| {
            let one = |numbers: Vec<u64>| numbers.first().copied().unwrap_or(0);
            one(end).abs_diff(one(start)).checked_div(one(step).max(1))
        }),
        _ => None,
    };
    match size {
        None | Some(Some(..=NUMBERS)) => Ok(()),
        Some(_) => Err(format!("{} makes more than {NUMBERS} numbers", name())),
    }
}

/// The small integers of a tensor that states a size. Negative ones have a special meaning and
/// count as zero.
fn whole_numbers(tensor: &TensorProto) -> Option<Vec<u64>> {
    let numbers: Vec<i64> = match (&tensor.raw_data, tensor.int64_data.is_empty()) {
        (Some(bytes), _) => {
            bytes.borrow().as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()
        }
        (None, false) => tensor.int64_data.clone(),
        (None, true) => tensor.int32_data.iter().map(|&number| number.into()).collect(),
    };
    let is_size = tensor.data_type == Some(rten_onnx::onnx::DataType::INT64);
    is_size.then(|| numbers.into_iter().map(|number| number.max(0) as u64).collect())
}

/// Initializers, and the tensors of Constant nodes.
fn constants(graph: &GraphProto) -> HashMap<&str, &TensorProto> {
    let stored =
        graph.initializer.iter().filter_map(|tensor| Some((tensor.name.as_deref()?, tensor)));
    let nodes = graph.node.iter().filter(|node| node.op_type.as_deref() == Some("Constant"));
    let made = nodes.filter_map(|node| {
        let tensor = node.attribute.iter().find_map(|attribute| attribute.t.as_ref())?;
        Some((node.output.first()?.as_str(), tensor))
    });
    stored.chain(made).collect()
}

/// The length of the longest chain of dependent nodes. Files may have nodes in any order.
fn longest_chain(graph: &GraphProto) -> Result<usize, String> {
    let makers: HashMap<&str, usize> = graph
        .node
        .iter()
        .enumerate()
        .flat_map(|(at, node)| node.output.iter().map(move |name| (name.as_str(), at)))
        .filter(|(name, _)| !name.is_empty())
        .collect();
    // A node depends on its inputs, and on the outer values that its subgraphs read.
    let waits_for = |at: usize| {
        let mut names = Vec::new();
        read_by(&graph.node[at], &mut names);
        let makers = names.into_iter().filter_map(|name| makers.get(name).copied());
        makers.collect::<Vec<usize>>()
    };
    let mut chains: Vec<Option<usize>> = vec![None; graph.node.len()];
    let mut is_open = vec![false; graph.node.len()];
    // The nodes on the current path, each with its dependencies still to visit.
    let mut way: Vec<(usize, Vec<usize>, usize)> = Vec::new();
    for start in 0..graph.node.len() {
        if chains[start].is_none() {
            is_open[start] = true;
            way.push((start, waits_for(start), 0));
        }
        while let Some((at, waiting, longest)) = way.last_mut() {
            let Some(next) = waiting.pop() else {
                let (at, chain) = (*at, *longest + 1);
                (chains[at], is_open[at]) = (Some(chain), false);
                way.pop();
                if let Some((_, _, longest)) = way.last_mut() {
                    *longest = chain.max(*longest);
                }
                continue;
            };
            match chains[next] {
                Some(chain) => *longest = chain.max(*longest),
                None if is_open[next] => {
                    let name = graph.node[next].output.first().cloned().unwrap_or_default();
                    return Err(format!("the node that makes '{name}' waits for itself"));
                }
                None => {
                    is_open[next] = true;
                    way.push((next, waits_for(next), 0));
                }
            }
        }
    }
    Ok(chains.into_iter().flatten().max().unwrap_or(0))
}

fn read_by<'a>(node: &'a NodeProto, names: &mut Vec<&'a str>) {
    names.extend(node.input.iter().map(String::as_str));
    for inner in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
        inner.node.iter().for_each(|node| read_by(node, names));
    }
}

#[cfg(test)]
mod tests {
    use rten_onnx::onnx::{AttributeProto, DataType};

    use super::*;

    fn node(kind: &str, input: &[&str], output: &str) -> NodeProto {
        NodeProto {
            op_type: Some(kind.to_owned()),
            input: input.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.to_owned()],
            ..NodeProto::default()
        }
    }

    fn stored(name: &str, numbers: &[i64]) -> TensorProto {
        TensorProto {
            name: Some(name.to_owned()),
            dims: vec![numbers.len() as i64],
            data_type: Some(DataType::INT64),
            int64_data: numbers.to_vec(),
            ..TensorProto::default()
        }
    }

    fn chain(length: usize) -> GraphProto {
        let name = |at: usize| format!("v{at}");
        let link = |at: usize| node("Relu", &[&name(at)], &name(at + 1));
        GraphProto { node: (0..length).rev().map(link).collect(), ..GraphProto::default() }
    }

    #[test]
    fn chains_are_measured_in_any_order() {
        assert_eq!(longest_chain(&chain(1)), Ok(1));
        let mut graph = chain(NODES);
        assert_eq!(longest_chain(&graph), Ok(NODES));
        graph.node.reverse();
        assert_eq!(longest_chain(&graph), Ok(NODES));
        assert!(check(&chain(CHAIN)).is_ok());
        let what = check(&chain(CHAIN + 1)).unwrap_err();
        assert_eq!(what, "10001 nodes in a row; 10000 are accepted");
        // Two paths of different lengths, and many that join again and again.
        let mut nodes = vec![node("Relu", &["x"], "a"), node("Relu", &["a"], "b")];
        nodes.push(node("Add", &["x", "b"], "c"));
        for at in 0..200 {
            let (from, to) = (format!("s{at}"), format!("s{}", at + 1));
            nodes.push(node("Add", &[&from, &from], &to));
        }
        assert_eq!(longest_chain(&GraphProto { node: nodes, ..GraphProto::default() }), Ok(200));
    }

    #[test]
    fn circles_are_refused() {
        let mut graph = chain(5);
        graph.node.push(node("Relu", &["v5"], "v0"));
        assert!(check(&graph).unwrap_err().contains("waits for itself"));
        // Through a value that a subgraph reads.
        let inner = GraphProto { node: vec![node("Relu", &["y"], "z")], ..GraphProto::default() };
        let mut outer = node("If", &["x"], "y");
        outer.attribute.push(AttributeProto { g: Some(inner), ..AttributeProto::default() });
        let graph = GraphProto { node: vec![outer], ..GraphProto::default() };
        assert_eq!(check(&graph).unwrap_err(), "the node that makes 'y' waits for itself");
    }

    #[test]
    fn loops_are_refused_wherever_they_are() {
        for kind in LOOPS {
            let inner = GraphProto { node: vec![node(kind, &["x"], "y")], ..GraphProto::default() };
            let what = check(&inner).unwrap_err();
            assert!(what.starts_with(&format!("the {kind} that makes 'y': loops")), "{what}");
            let mut outer = node("If", &["x"], "z");
            outer.attribute.push(AttributeProto { g: Some(inner), ..AttributeProto::default() });
            let graph = GraphProto { node: vec![outer], ..GraphProto::default() };
            assert_eq!(check(&graph).unwrap_err(), what);
        }
    }

    #[test]
    fn sizes_that_no_memory_has_are_refused() {
        let huge: [(&str, &[&[i64]]); 6] = [
            ("ConstantOfShape", &[&[1 << 20, 1 << 20]]),
            ("Expand", &[&[], &[i64::MAX, i64::MAX]]),
            ("Tile", &[&[], &[1, 1 << 40]]),
            ("Pad", &[&[], &[0, 1 << 40, 0, 0]]),
            ("Range", &[&[0], &[1 << 40], &[1]]),
            ("Resize", &[&[], &[], &[], &[1, 3, 1 << 20, 1 << 20]]),
        ];
        for (kind, inputs) in huge {
            let names: Vec<String> = (0..inputs.len()).map(|at| format!("c{at}")).collect();
            let graph = |numbers: &dyn Fn(i64) -> i64| GraphProto {
                node: vec![node(kind, &names.iter().map(String::as_str).collect::<Vec<_>>(), "y")],
                initializer: std::iter::zip(&names, inputs)
                    .map(|(name, sizes)| {
                        stored(name, &sizes.iter().map(|&n| numbers(n)).collect::<Vec<_>>())
                    })
                    .collect(),
                ..GraphProto::default()
            };
            let what = check(&graph(&|n| n)).unwrap_err();
            let says = format!("the {kind} that makes 'y' makes more than 268435456 numbers");
            assert_eq!(what, says);
            check(&graph(&|n| n.min(2))).unwrap();
        }
        // As raw bytes, and made by a node.
        let bytes: Vec<u8> = (1i64 << 40).to_le_bytes().to_vec();
        let raw = TensorProto {
            data_type: Some(DataType::INT64),
            raw_data: Some(bytes.into()),
            ..TensorProto::default()
        };
        let mut constant = node("Constant", &[], "size");
        constant.attribute.push(AttributeProto { t: Some(raw), ..AttributeProto::default() });
        let node = vec![constant, node("ConstantOfShape", &["size"], "y")];
        let graph = GraphProto { node, ..GraphProto::default() };
        assert!(check(&graph).unwrap_err().contains("makes more than"));
    }

    #[test]
    fn the_encoders_of_the_tests_are_within_the_limits() {
        for bytes in [
            &include_bytes!("../../tests/fixtures/image.onnx")[..],
            include_bytes!("../../tests/fixtures/text.onnx"),
        ] {
            check(&rten_onnx::onnx::ModelProto::parse_buf(bytes).unwrap().graph.unwrap()).unwrap();
        }
    }
}
