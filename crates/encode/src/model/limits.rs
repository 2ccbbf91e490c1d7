//! Limits on graphs. The runtime accepts any graph, so this refuses chains deeper than the stack and
//! declared sizes beyond any memory; [`sizes`](super::sizes) refuses those that are computed.

use std::collections::HashMap;

use rten_onnx::onnx::{GraphProto, ValueInfoProto};

use super::port;

/// Most nodes of a file, including those of subgraphs. Large encoders have some thousands.
pub(super) const NODES: usize = 50_000;
/// Longest chain of dependent nodes: the runtime follows it by recursion. An encoder of 60 layers
/// has some 4,000.
pub(super) const CHAIN: usize = 10_000;
/// Most numbers of a value that is not stored in the file: 1 GB in single precision.
pub(super) const NUMBERS: u64 = 1 << 28;

/// Checks a graph and returns the length of its longest chain of dependent nodes.
pub(super) fn check(graph: &GraphProto) -> Result<usize, String> {
    for info in graph.input.iter().chain(&graph.output).chain(&graph.value_info) {
        check_value(info)?;
    }
    match longest_chain(graph)? {
        chain @ ..=CHAIN => Ok(chain),
        chain => Err(format!("{chain} nodes in a row; {CHAIN} are accepted")),
    }
}

fn check_value(info: &ValueInfoProto) -> Result<(), String> {
    let port = port(info);
    let sizes: Vec<usize> = port.shape.iter().flatten().flatten().copied().collect();
    match count(&sizes) {
        Some(..=NUMBERS) => Ok(()),
        _ => Err(format!("'{}' has more than {NUMBERS} numbers", port.name)),
    }
}

/// Numbers of a shape; a size of zero does not make the others small. `None` if there are too many
/// to count.
pub(super) fn count(shape: &[usize]) -> Option<u64> {
    shape.iter().map(|&size| (size as u64).max(1)).try_fold(1u64, u64::checked_mul)
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
    let waits_for = |at: usize| {
        let names = graph.node[at].input.iter();
        names.filter_map(|name| makers.get(name.as_str()).copied()).collect::<Vec<usize>>()
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

#[cfg(test)]
mod tests {
    use rten_onnx::onnx::NodeProto;

    use super::*;

    fn node(kind: &str, input: &[&str], output: &str) -> NodeProto {
        NodeProto {
            op_type: Some(kind.to_owned()),
            input: input.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.to_owned()],
            ..NodeProto::default()
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
