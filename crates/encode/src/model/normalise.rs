//! Rewrites nodes that the runtime refuses or computes as something else, as nodes that it computes as
//! the standard says.

use std::collections::HashMap;

use rten_onnx::onnx::{AttributeProto, DataType, GraphProto, NodeProto, TensorProto};

use super::constants::{Constants, attribute};
use super::operators::UnsupportedNode;

/// Sizes of values, as far as they are known.
pub(super) type Shapes = HashMap<String, Vec<usize>>;

/// Rewrites a graph. `shapes` may know the sizes of its values.
pub(super) fn normalise(
    graph: &mut GraphProto,
    version: i64,
    shapes: &Shapes,
) -> Result<(), UnsupportedNode> {
    let mut nodes = Vec::with_capacity(graph.node.len());
    let mut stored = Vec::new();
    let constants = Constants::of(graph);
    let mut products = graph.node.iter().filter(|n| n.op_type.as_deref() == Some("MatMulInteger"));
    // The runtime packs such weights ahead, without their zero points.
    if let Some(product) = products.find(|product| has_zeros(product, &constants)) {
        let what = "has weights of int8 whose zero point is not 0 (symmetric ones and uint8 run)";
        return Err(UnsupportedNode::new(product, what));
    }
    for mut node in std::mem::take(&mut graph.node) {
        let kind = node.op_type.clone().unwrap_or_default();
        match kind.as_str() {
            // It changes nothing after training.
            "Dropout" => {
                node.op_type = Some("Identity".to_owned());
                node.attribute.clear();
                node.input.truncate(1);
                node.output.truncate(1);
            }
            // The runtime has no type of its own for truth, and keeps the whole part of a number.
            "Cast"
                if attribute(&node, "to").and_then(|to| to.i) == Some(DataType::BOOL.0.into()) =>
            {
                let zero = TensorProto {
                    name: Some(within(&node, "zero")),
                    data_type: Some(DataType::FLOAT),
                    float_data: vec![0.0],
                    ..TensorProto::default()
                };
                let [from] = &node.input[..] else { continue };
                let mut number = step(&node, "Cast", &[from]);
                number.attribute.push(whole("to", DataType::FLOAT.0.into()));
                let is_zero = step(&node, "Equal", &[&number.output[0], &within(&node, "zero")]);
                node.attribute.clear();
                node.op_type = Some("Not".to_owned());
                node.input = is_zero.output.clone();
                nodes.extend([number, is_zero]);
                stored.push(zero);
            }
            // The runtime takes the last of several, the standard the first.
            "ArgMax" | "ArgMin" => {
                let number = |name, usual| {
                    attribute(&node, name).map_or(usual, |attribute| attribute.i.unwrap_or(0))
                };
                let (axis, keeps_it) = (number("axis", 0), number("keepdims", 1) != 0);
                let [from] = &node.input[..] else { continue };
                let (one, axes) = (within(&node, "one"), within(&node, "axes"));
                let mut top = step(&node, "TopK", &[from, &one]);
                top.attribute =
                    vec![whole("axis", axis), whole("largest", (kind == "ArgMax").into())];
                top.output.push(within(&node, "places"));
                stored.extend([integers(&one, &[1]), integers(&axes, &[axis])]);
                node.attribute.clear();
                node.op_type = Some(if keeps_it { "Identity" } else { "Squeeze" }.to_owned());
                node.input = vec![top.output[1].clone()];
                node.input.extend(Some(axes).filter(|_| !keeps_it));
                nodes.push(top);
            }
            // That of zero is one in the runtime.
            "Sign" => {
                let [from] = &node.input[..] else { continue };
                let zero = step(&node, "Sub", &[from, from]);
                let is_zero = step(&node, "Equal", &[from, &zero.output[0]]);
                let sign = step(&node, "Sign", &[from]);
                let from = from.clone();
                node.op_type = Some("Where".to_owned());
                node.input = vec![is_zero.output[0].clone(), from, sign.output[0].clone()];
                nodes.extend([zero, is_zero, sign]);
            }
            "Softmax" | "LogSoftmax" if version < 13 && attribute(&node, "axis").is_none() => {
                node.attribute.push(whole("axis", 1));
            }
            "Conv" | "ConvInteger" | "MaxPool" | "AveragePool" => {
                let has_weights = kind.starts_with("Conv");
                let of_weights = || {
                    let sizes = shapes.get(node.input.get(1)?)?.get(2..)?;
                    sizes.iter().map(|&n| i64::try_from(n).ok()).collect::<Option<Vec<_>>>()
                };
                let kernel = match has_weights {
                    true => of_weights().or_else(|| ints(&node, "kernel_shape")),
                    false => ints(&node, "kernel_shape"),
                };
                let Some(kernel) = kernel.filter(|kernel| !kernel.is_empty()) else {
                    return Err(UnsupportedNode::new(
                        &node,
                        "has neither kernel_shape nor weights of known size",
                    ));
                };
                let sizes = node.input.first().and_then(|name| shapes.get(name)?.get(2..));
                window(&mut node, &kernel, sizes)?;
                if kind == "ConvInteger" {
                    nodes.extend(padded(&mut node, &mut stored));
                }
            }
            _ => {}
        }
        nodes.push(node);
    }
    graph.node = nodes;
    graph.initializer.extend(stored);
    Ok(())
}

/// The name of a value on the way to that of a node.
fn within(node: &NodeProto, what: &str) -> String {
    format!("{}: {what}", node.output.first().map_or("", String::as_str))
}

/// A step on the way to the value of a node.
fn step(node: &NodeProto, kind: &str, input: &[&str]) -> NodeProto {
    NodeProto {
        op_type: Some(kind.to_owned()),
        input: input.iter().map(|&name| name.to_owned()).collect(),
        output: vec![within(node, kind)],
        ..NodeProto::default()
    }
}

fn integers(name: &str, numbers: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: vec![numbers.len() as i64],
        data_type: Some(DataType::INT64),
        int64_data: numbers.to_vec(),
        ..TensorProto::default()
    }
}

/// Whether a `MatMulInteger` has stored weights of int8, and zero points that may be other than 0.
fn has_zeros(node: &NodeProto, constants: &Constants<'_>) -> bool {
    let stored = |at: usize| constants.stored(node.input.get(at).filter(|name| !name.is_empty())?);
    let is_signed = stored(1).is_some_and(|weights| weights.data_type == Some(DataType::INT8));
    let are_zero = |zeros: &TensorProto| match &zeros.raw_data {
        Some(bytes) => bytes.borrow().iter().all(|&byte| byte == 0),
        None => zeros.int32_data.iter().all(|&number| number == 0),
    };
    let is_given = node.input.get(3).is_some_and(|name| !name.is_empty());
    is_signed && is_given && !stored(3).is_some_and(are_zero)
}

/// Fills in what a convolution or a pool leaves out. Padding becomes explicit.
fn window(
    node: &mut NodeProto,
    kernel: &[i64],
    sizes: Option<&[usize]>,
) -> Result<(), UnsupportedNode> {
    let axes = kernel.len();
    let strides = ints(node, "strides").unwrap_or_else(|| vec![1; axes]);
    let dilations = ints(node, "dilations").unwrap_or_else(|| vec![1; axes]);
    if [&strides, &dilations].iter().any(|list| list.len() != axes || list.iter().any(|&n| n < 1)) {
        return Err(UnsupportedNode::new(
            node,
            format!("needs {axes} strides and dilations above 0"),
        ));
    }
    let auto = attribute(node, "auto_pad").and_then(|a| a.s.clone()).unwrap_or_default();
    let pads = match auto.as_str() {
        "SAME_UPPER" | "SAME_LOWER" => {
            let total = |at: usize| {
                let span = dilations[at].checked_mul(kernel[at] - 1)?.checked_add(1)?;
                // With a stride of 1, as much as the window takes away.
                if strides[at] == 1 {
                    return Some(span - 1);
                }
                let size = i64::try_from(*sizes?.get(at)?).ok()?;
                let steps = size.checked_add(strides[at] - 1)? / strides[at] - 1;
                Some((steps.checked_mul(strides[at])?.checked_add(span)? - size).max(0))
            };
            let totals = (0..axes).map(total).collect::<Option<Vec<_>>>();
            match totals {
                Some(totals) => {
                    let less = totals.iter().map(|total| total / 2);
                    let more = totals.iter().map(|total| total - total / 2);
                    Some(match auto.as_str() {
                        "SAME_UPPER" => less.chain(more).collect(),
                        _ => more.chain(less).collect(),
                    })
                }
                // The runtime knows this one.
                None if auto == "SAME_UPPER" && node.op_type.as_deref() != Some("ConvInteger") => {
                    None
                }
                None => {
                    let what = format!(
                        "has auto_pad = {auto} and strides; its input must be of a fixed size"
                    );
                    return Err(UnsupportedNode::new(node, what));
                }
            }
        }
        "VALID" => Some(vec![0; 2 * axes]),
        _ => Some(ints(node, "pads").unwrap_or_else(|| vec![0; 2 * axes])),
    };
    set(node, "kernel_shape", Some(kernel.to_vec()));
    set(node, "strides", Some(strides));
    if attribute(node, "dilations").is_some()
        || node.op_type.as_deref().is_some_and(|k| k.starts_with("Conv"))
    {
        set(node, "dilations", Some(dilations));
    }
    if let Some(pads) = pads {
        set(node, "auto_pad", None);
        set(node, "pads", Some(pads));
    }
    Ok(())
}

/// The node that pads the input of a `ConvInteger` by its zero point: the runtime pads by another
/// number. `None` if nothing is padded.
fn padded(node: &mut NodeProto, stored: &mut Vec<TensorProto>) -> Option<NodeProto> {
    let pads = ints(node, "pads")?;
    if pads.iter().all(|&count| count == 0) {
        return None;
    }
    let (before, after) = pads.split_at(pads.len() / 2);
    // Neither batches nor channels.
    let counts = [&[0, 0], before, &[0, 0], after].concat();
    let mut pad = step(node, "Pad", &[node.input.first()?, &within(node, "pads")]);
    pad.input.extend(node.input.get(2).cloned());
    stored.push(integers(&within(node, "pads"), &counts));
    set(node, "pads", Some(vec![0; pads.len()]));
    node.input[0] = pad.output[0].clone();
    Some(pad)
}

fn ints(node: &NodeProto, name: &str) -> Option<Vec<i64>> {
    attribute(node, name).map(|attribute| attribute.ints.clone())
}

fn whole(name: &str, number: i64) -> AttributeProto {
    AttributeProto { name: Some(name.to_owned()), i: Some(number), ..AttributeProto::default() }
}

/// Sets a list, or removes it.
fn set(node: &mut NodeProto, name: &str, list: Option<Vec<i64>>) {
    node.attribute.retain(|attribute| attribute.name.as_deref() != Some(name));
    node.attribute.extend(list.map(|ints| AttributeProto {
        name: Some(name.to_owned()),
        ints,
        ..AttributeProto::default()
    }));
}

#[cfg(test)]
mod tests {
    use rten::Value;
    use rten_onnx::onnx::{ModelProto, OperatorSetIdProto, ValueInfoProto};
    use rten_tensor::Tensor;
    use rten_tensor::prelude::*;

    use super::*;
    use crate::Error;
    use crate::model::{Graph, TIME_LIMIT, Worker};

    fn node(kind: &str, input: &[&str], output: &str) -> NodeProto {
        NodeProto {
            op_type: Some(kind.to_owned()),
            input: input.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.to_owned()],
            ..NodeProto::default()
        }
    }

    fn with(mut node: NodeProto, name: &str, list: &[i64]) -> NodeProto {
        set(&mut node, name, Some(list.to_vec()));
        node
    }

    fn word(mut node: NodeProto, name: &str, word: &str) -> NodeProto {
        let (name, s) = (Some(name.to_owned()), Some(word.to_owned()));
        node.attribute.push(AttributeProto { name, s, ..AttributeProto::default() });
        node
    }

    fn floats(name: &str, dims: &[i64]) -> TensorProto {
        let count = dims.iter().product::<i64>() as usize;
        TensorProto {
            name: Some(name.to_owned()),
            dims: dims.to_vec(),
            data_type: Some(DataType::FLOAT),
            float_data: (0..count).map(|n| (n * 7919 % 101) as f32 / 50.0 - 1.0).collect(),
            ..TensorProto::default()
        }
    }

    fn bytes(name: &str, dims: &[i64], data_type: DataType, bytes: &[u8]) -> TensorProto {
        TensorProto {
            name: Some(name.to_owned()),
            dims: dims.to_vec(),
            data_type: Some(data_type),
            raw_data: Some(bytes.to_vec().into()),
            ..TensorProto::default()
        }
    }

    /// The numbers of `y` for an `x`, by the way that encoders go.
    fn run(
        nodes: Vec<NodeProto>,
        weights: Vec<TensorProto>,
        version: i64,
        x: Value,
    ) -> Result<Vec<f32>, Error> {
        let value = |name: &str| ValueInfoProto { name: Some(name.to_owned()), r#type: None };
        let graph = GraphProto {
            node: nodes,
            initializer: weights,
            input: vec![value("x")],
            output: vec![value("y")],
            ..GraphProto::default()
        };
        let opset = OperatorSetIdProto { version: Some(version), ..OperatorSetIdProto::default() };
        let model = ModelProto {
            ir_version: Some(8),
            opset_import: vec![opset],
            graph: Some(graph),
            ..ModelProto::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, model.write_buf().unwrap()).unwrap();
        let shape = x.shape().to_vec();
        let model = Graph::open(&path)?.compile("y", Some(&[shape]), TIME_LIMIT)?;
        Ok(model.run(&Worker::new(), vec![x])?.1)
    }

    fn picture(height: usize, width: usize) -> Value {
        let numbers = (0..height * width).map(|n| (n * 31 % 17) as f32).collect::<Vec<_>>();
        Value::from_shape([1, 1, height, width], numbers).unwrap()
    }

    #[test]
    fn whole_number_convolutions_are_padded_by_the_zero_point() {
        let codes = [0u8, 50, 100, 150, 200, 250, 30, 60, 90];
        let weights = [1i8, 2, 3, 4, -5, 6, 7, 8, 9];
        let x = Value::from(Tensor::from_data(&[1, 1, 3, 3], codes.to_vec()));
        let stored = vec![
            bytes("w", &[1, 1, 3, 3], DataType::INT8, &weights.map(|w| w as u8)),
            bytes("zero", &[], DataType::UINT8, &[120]),
        ];
        let cast = {
            let mut cast = node("Cast", &["sums"], "y");
            cast.attribute.push(whole("to", DataType::FLOAT.0.into()));
            cast
        };
        // Beyond the edge there are zeros, whose code is the zero point.
        let at = |row: i32, column: i32| match (0..3).contains(&row) && (0..3).contains(&column) {
            true => i32::from(codes[(row * 3 + column) as usize]) - 120,
            false => 0,
        };
        let sum = |row: i32, column: i32| -> i32 {
            let window = (0..9).map(|n| at(row + n / 3 - 1, column + n % 3 - 1));
            window.zip(weights).map(|(code, weight)| code * i32::from(weight)).sum()
        };
        let expected: Vec<f32> = (0..9).map(|n| sum(n / 3, n % 3) as f32).collect();
        let conv = node("ConvInteger", &["x", "w", "zero"], "sums");
        for conv in [
            with(conv.clone(), "pads", &[1; 4]),
            word(conv.clone(), "auto_pad", "SAME_LOWER"),
            word(conv, "auto_pad", "SAME_UPPER"),
        ] {
            let made = run(vec![conv, cast.clone()], stored.clone(), 17, x.clone()).unwrap();
            assert_eq!(made, expected);
        }
    }

    #[test]
    fn same_lower_pads_more_in_front() {
        let stored = || vec![floats("w", &[1, 1, 2, 3])];
        for (kind, inputs) in
            [("Conv", &["x", "w"][..]), ("MaxPool", &["x"]), ("AveragePool", &["x"])]
        {
            for (stride, pads) in [(1, [1, 1, 0, 1]), (2, [1, 1, 0, 0])] {
                let plain = with(node(kind, inputs, "y"), "kernel_shape", &[2, 3]);
                let plain = with(plain, "strides", &[stride; 2]);
                let given = |node| run(vec![node], stored(), 17, picture(5, 4)).unwrap();
                let lower = given(word(plain.clone(), "auto_pad", "SAME_LOWER"));
                assert_eq!(lower, given(with(plain.clone(), "pads", &pads)), "{kind} {stride}");
                assert_ne!(lower, given(word(plain, "auto_pad", "SAME_UPPER")), "{kind} {stride}");
            }
        }
    }

    #[test]
    fn convolutions_without_attributes_run_in_the_runtime() {
        let stored = || vec![floats("w", &[2, 1, 2, 3])];
        // Computed weights are none for our own layers.
        let computed = node("Neg", &["w"], "computed");
        let bare = node("Conv", &["x", "computed"], "y");
        let full = with(with(bare.clone(), "pads", &[0; 4]), "kernel_shape", &[2, 3]);
        let full = with(with(full, "strides", &[1, 1]), "dilations", &[1, 1]);
        let given = |node| run(vec![computed.clone(), node], stored(), 17, picture(4, 5)).unwrap();
        assert_eq!(given(bare), given(full));
    }

    #[test]
    fn zeros_are_false_and_have_no_sign() {
        let cast = |from: &str, to: &str, kind: DataType| {
            let mut cast = node("Cast", &[from], to);
            cast.attribute.push(whole("to", kind.0.into()));
            cast
        };
        let nodes = vec![cast("x", "truth", DataType::BOOL), cast("truth", "y", DataType::FLOAT)];
        let x = Value::from_shape([5], vec![0.0f32, 0.25, -0.5, 3.0, -0.0]).unwrap();
        assert_eq!(run(nodes, Vec::new(), 17, x.clone()).unwrap(), [0.0, 1.0, 1.0, 1.0, 0.0]);
        let signs = run(vec![node("Sign", &["x"], "y")], Vec::new(), 17, x).unwrap();
        assert_eq!(signs, [0.0, 1.0, -1.0, 1.0, 0.0]);
    }

    #[test]
    fn the_first_of_equal_numbers_is_the_largest() {
        let x = Value::from_shape([2, 4], vec![1.0f32, 7.0, 7.0, 0.0, 5.0, 5.0, 5.0, 5.0]).unwrap();
        for keeps_it in [0, 1] {
            let mut largest = node("ArgMax", &["x"], "at");
            largest.attribute = vec![whole("axis", 1), whole("keepdims", keeps_it)];
            let mut cast = node("Cast", &["at"], "y");
            cast.attribute.push(whole("to", DataType::FLOAT.0.into()));
            assert_eq!(run(vec![largest, cast], Vec::new(), 17, x.clone()).unwrap(), [1.0, 0.0]);
        }
    }

    #[test]
    fn zero_points_of_packed_weights_are_refused() {
        let stored = |zero: u8| {
            let weights = bytes("w", &[2, 2], DataType::INT8, &[1, 2, 3, 4]);
            let zeros = bytes("zeros", &[], DataType::INT8, &[zero]);
            vec![weights, zeros, bytes("zero", &[], DataType::UINT8, &[3])]
        };
        let nodes = || {
            let mut cast = node("Cast", &["sums"], "y");
            cast.attribute.push(whole("to", DataType::FLOAT.0.into()));
            vec![node("MatMulInteger", &["x", "w", "zero", "zeros"], "sums"), cast]
        };
        let x = || Value::from(Tensor::from_data(&[1, 2], vec![4u8, 5]));
        assert_eq!(run(nodes(), stored(0), 17, x()).unwrap(), [7.0, 10.0]);
        let error = run(nodes(), stored(1), 17, x()).unwrap_err();
        assert!(matches!(&error, Error::Operator { output, .. } if output == "sums"), "{error}");
    }

    #[test]
    fn what_was_never_compared_is_refused_by_name() {
        let sizes = TensorProto {
            name: Some("sizes".to_owned()),
            dims: vec![4],
            data_type: Some(DataType::INT64),
            int64_data: vec![1, 1, 8, 8],
            ..TensorProto::default()
        };
        let resize = node("Resize", &["x", "", "", "sizes"], "y");
        let pool = |kind: &str, up: i64| {
            let mut node = with(node(kind, &["x"], "y"), "kernel_shape", &[2, 2]);
            node.attribute.push(whole("ceil_mode", up));
            node
        };
        assert!(run(vec![pool("AveragePool", 0)], Vec::new(), 17, picture(4, 4)).is_ok());
        assert!(run(vec![pool("AveragePool", 1)], Vec::new(), 19, picture(4, 4)).is_ok());
        let mut wide = node("HardSwish", &["x"], "y");
        wide.attribute.push(whole("wide", 1));
        let mut foreign = node("Relu", &["x"], "y");
        foreign.domain = Some("org.example".to_owned());
        for (node, version, says) in [
            (
                node("Celu", &["x"], "y"),
                17,
                "the Celu that makes 'y' is an operator which was never compared",
            ),
            (foreign, 17, "the org.example.Relu that makes 'y' is an operator which was never"),
            (
                word(resize, "mode", "cubic"),
                17,
                "the Resize that makes 'y' has mode = cubic, which",
            ),
            (wide, 17, "the HardSwish that makes 'y' has the attribute wide, which was never"),
            (
                pool("AveragePool", 1),
                18,
                "the AveragePool that makes 'y' has ceil_mode in opset 18, which was never",
            ),
            (
                word(pool("MaxPool", 1), "auto_pad", "VALID"),
                19,
                "the MaxPool that makes 'y' has ceil_mode with auto_pad = VALID, which",
            ),
            (node("Relu", &["x"], "y"), 99, "the Relu that makes 'y' is of opset 99, which"),
        ] {
            let error = run(vec![node], vec![sizes.clone()], version, picture(4, 4)).unwrap_err();
            assert!(matches!(error, Error::Operator { .. }), "{error}");
            assert!(error.to_string().contains(says), "no '{says}' in {error}");
        }
        // Before opset 13, the axis begins a row.
        let softmax = node("Softmax", &["x"], "y");
        let error = run(vec![softmax], Vec::new(), 11, picture(4, 4)).unwrap_err().to_string();
        assert!(error.contains("the Softmax that makes 'y' is over several axes"), "{error}");
    }
}
