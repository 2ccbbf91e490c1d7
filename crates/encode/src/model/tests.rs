//! What runs in our own code, against the runtime.

use rten_onnx::onnx::{AttributeProto, NodeProto, TensorProto};

use super::constants::Constants;

use super::*;

fn node(kind: &str, input: &[&str], output: &[&str]) -> NodeProto {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    NodeProto {
        op_type: Some(kind.to_owned()),
        input: names(input),
        output: names(output),
        ..NodeProto::default()
    }
}

fn with(mut node: NodeProto, name: &str, ints: &[i64]) -> NodeProto {
    let name = Some(name.to_owned());
    node.attribute.push(match ints {
        [one] => AttributeProto { name, i: Some(*one), ..AttributeProto::default() },
        all => AttributeProto { name, ints: all.to_vec(), ..AttributeProto::default() },
    });
    node
}

fn conv(input: &[&str], output: &str, pads: i64, stride: i64, group: i64) -> NodeProto {
    let node = with(node("Conv", input, &[output]), "pads", &[pads; 4]);
    let node = with(with(node, "strides", &[stride; 2]), "group", &[group]);
    with(node, "dilations", &[1, 1])
}

/// Irregular numbers.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 504.5 - 1.0).collect()
}

fn floats(name: &str, dims: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: dims.to_vec(),
        data_type: Some(DataType::FLOAT),
        float_data: numbers(dims.iter().product::<i64>() as usize, name.len()),
        ..TensorProto::default()
    }
}

fn bytes(name: &str, dims: &[i64], of: impl Fn(usize) -> u8) -> TensorProto {
    let bytes: Vec<u8> = (0..dims.iter().product::<i64>() as usize).map(of).collect();
    TensorProto {
        name: Some(name.to_owned()),
        dims: dims.to_vec(),
        data_type: Some(DataType::INT8),
        raw_data: Some(bytes.into()),
        ..TensorProto::default()
    }
}

fn value(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.to_owned()), r#type: None }
}

/// The steps to `y`, and what they make of `x`.
fn run(steps: Vec<Step>, x: &Value) -> (Vec<usize>, Vec<f32>) {
    let plan = Plan::new(steps, &["x".to_owned()], "y");
    let y = plan.run(&Arc::new(ThreadPool::with_num_threads(1)), vec![x.clone()]).unwrap();
    let y = y.into_tensor::<f32>().unwrap();
    (y.shape().to_vec(), y.into_data())
}

/// Runs a graph in parts and as a whole; returns both results and the kinds of the parts.
#[allow(clippy::type_complexity)]
fn both(
    node: Vec<NodeProto>,
    initializer: Vec<TensorProto>,
    x: &Value,
) -> ((Vec<usize>, Vec<f32>), (Vec<usize>, Vec<f32>), Vec<&'static str>) {
    let (input, output) = (vec![value("x")], vec![value("y")]);
    let graph = GraphProto { node, initializer, input, output, ..GraphProto::default() };
    let mut model = ModelProto { ir_version: Some(8), ..ModelProto::default() };
    let opset = rten_onnx::onnx::OperatorSetIdProto { version: Some(17), ..Default::default() };
    model.opset_import.push(opset);
    let (bench, path) = (Bench::new(), Path::new("m.onnx"));
    let on = (&bench, TIME_LIMIT);
    let parts = cut(&graph, "y").unwrap_or_default();
    let kinds = parts.iter().map(|part| match part {
        cut::Segment::Nodes { .. } => "nodes",
        cut::Segment::Network(_) => "network",
        cut::Segment::Products(_) => "products",
    });
    let kinds = kinds.collect();
    let step = |segment| Step::new(path, &model, segment, Vec::new(), on).unwrap();
    let cut = run(parts.into_iter().map(step).collect(), x);
    let (inputs, outputs) = (vec!["x".to_owned()], vec!["y".to_owned()]);
    let whole = cut::Segment::Nodes { graph, inputs, outputs };
    (cut, run(vec![step(whole)], x), kinds)
}

fn quantised(order: &[usize]) -> (Vec<NodeProto>, Vec<TensorProto>) {
    let nodes = [
        node("DynamicQuantizeLinear", &["x"], &["q", "scale", "zero"]),
        node("Mul", &["scale", "w_scale"], &["scales"]),
        node("MatMulInteger", &["q", "w", "zero", "w_zero"], &["sums"]),
        with(node("Cast", &["sums"], &["cast"]), "to", &[1]),
        node("Mul", &["cast", "scales"], &["product"]),
        node("Add", &["bias", "product"], &["biased"]),
        node("Relu", &["biased"], &["y"]),
    ];
    let weights = vec![
        bytes("w", &[10, 21], |n| (n * 7919 % 253) as u8),
        bytes("w_zero", &[21], |_| 0),
        floats("w_scale", &[21]),
        floats("bias", &[21]),
    ];
    (order.iter().map(|&at| nodes[at].clone()).collect(), weights)
}

#[test]
fn quantised_products_have_the_bits_of_the_runtime() {
    let x = Value::from_shape([1, 9, 10], numbers(90, 3)).unwrap();
    let has_bytes = nextpair_kernels::ByteWeights::new(1, 1, &[1]).is_some();
    // Files may compute the scales before or after the product.
    for order in [[0, 1, 2, 3, 4, 5, 6], [0, 2, 3, 1, 4, 5, 6]] {
        let (nodes, weights) = quantised(&order);
        let (cut, whole, kinds) = match has_bytes {
            true => both(nodes, weights, &x),
            false => continue,
        };
        assert_eq!(kinds, ["nodes", "products", "nodes"]);
        assert_eq!(cut, whole);
    }
}

#[test]
fn unusual_products_are_left_to_the_runtime() {
    let graph = |node, initializer| GraphProto { node, initializer, ..GraphProto::default() };
    let stays_whole = |node, weights| cut(&graph(node, weights), "y").is_none();
    let order = [0, 1, 2, 3, 4, 5, 6];
    let (nodes, mut weights) = quantised(&order);
    weights[1] = bytes("w_zero", &[21], |n| n as u8);
    assert!(stays_whole(nodes, weights), "asymmetric weights");
    let (mut nodes, weights) = quantised(&order);
    nodes[6] = node("Add", &["biased", "cast"], &["y"]);
    assert!(stays_whole(nodes, weights), "sums that others read");
    let (mut nodes, weights) = quantised(&order);
    nodes[4] = node("Mul", &["cast", "scale"], &["product"]);
    assert!(stays_whole(nodes, weights), "scales of another kind");
}

#[test]
fn networks_compute_what_the_runtime_does() {
    let clip = |input: &str, output: &str| node("Clip", &[input, "low", "high"], &[output]);
    let one =
        |name: &str, number: f32| TensorProto { float_data: vec![number], ..floats(name, &[]) };
    let weights = vec![
        floats("w1", &[24, 3, 3, 3]),
        floats("b1", &[24]),
        floats("deep", &[24, 1, 5, 5]),
        floats("w2", &[40, 24, 1, 1]),
        floats("wide", &[40, 24, 3, 3]),
        one("low", -0.5),
        one("high", 0.75),
    ];
    let nodes = vec![
        conv(&["x", "w1", "b1"], "a", 1, 2, 1),
        clip("a", "b"),
        conv(&["b", "deep"], "c", 2, 1, 24),
        node("Add", &["b", "c"], &["d"]),
        node("Relu", &["d"], &["e"]),
        conv(&["e", "w2"], "f", 0, 2, 1),
        conv(&["e", "wide"], "g", 1, 2, 1),
        // Both branches have the same size, which only their steps tell.
        node("Add", &["f", "g"], &["h"]),
        // Swish as the end of a layer.
        node("Sigmoid", &["h"], &["i"]),
        node("Mul", &["h", "i"], &["j"]),
        // Channels are weighed by what all pixels say.
        with(node("ReduceMean", &["j"], &["mean"]), "axes", &[2, 3]),
        conv(&["mean", "fewer"], "few", 0, 1, 1),
        node("HardSwish", &["few"], &["swished"]),
        conv(&["swished", "more"], "many", 0, 1, 1),
        node("HardSigmoid", &["many"], &["weight"]),
        node("Mul", &["weight", "j"], &["weighed"]),
        // Swish as a layer of its own, and a product of two pictures.
        node("Sigmoid", &["weighed"], &["m"]),
        node("Mul", &["m", "weighed"], &["n"]),
        node("Mul", &["n", "j"], &["o"]),
        // Not ours, and read twice: a part of the runtime between two networks.
        node("Tanh", &["o"], &["p"]),
        node("Mul", &["o", "p"], &["q"]),
        conv(&["q", "turn"], "k", 0, 1, 1),
        node("Sigmoid", &["k"], &["r"]),
        node("GlobalAveragePool", &["r"], &["l"]),
        node("Flatten", &["l"], &["y"]),
    ];
    let more = vec![
        floats("turn", &[7, 40, 1, 1]),
        floats("fewer", &[10, 40, 1, 1]),
        floats("more", &[40, 10, 1, 1]),
    ];
    let weights = [weights, more].concat();
    for shape in [[1, 3, 17, 22], [2, 3, 8, 9]] {
        let x = Value::from_shape(shape, numbers(shape.iter().product(), 1)).unwrap();
        let (cut, whole, kinds) = both(nodes.clone(), weights.clone(), &x);
        assert_eq!(kinds, ["network", "nodes", "network", "nodes"]);
        assert_eq!(cut.0, whole.0);
        let far = cut.1.iter().zip(&whole.1).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 2e-4, "{far}");
    }
}

#[test]
fn activations_and_products_stay_with_their_pictures() {
    let nodes = vec![
        conv(&["x", "w1"], "a", 1, 1, 1),
        conv(&["x", "w2"], "b", 1, 1, 1),
        // Two that are interleaved, of which one has a third reader.
        node("Sigmoid", &["a"], &["c"]),
        node("Sigmoid", &["b"], &["d"]),
        node("Mul", &["a", "c"], &["e"]),
        node("Mul", &["d", "b"], &["f"]),
        node("Mul", &["b", "b"], &["g"]),
        // A sigmoid that is read twice, after a depthwise convolution.
        conv(&["e", "deep"], "h", 1, 1, 8),
        node("Sigmoid", &["h"], &["i"]),
        node("Mul", &["h", "i"], &["j"]),
        node("Mul", &["i", "g"], &["k"]),
        conv(&["f", "deep"], "l", 1, 1, 8),
        node("HardSwish", &["l"], &["m"]),
        // A convolution with Swish that others read without.
        conv(&["m", "wide"], "n", 1, 1, 1),
        node("Sigmoid", &["n"], &["o"]),
        node("Mul", &["n", "o"], &["p"]),
        node("Mul", &["n", "p"], &["q"]),
        // One line for all: only the runtime knows that they fit.
        with(conv(&["j", "flat"], "r", 0, 1, 1), "kernel_shape", &[6, 1]),
        node("Mul", &["r", "k"], &["s"]),
        node("Mul", &["s", "q"], &["y"]),
    ];
    let weights = vec![
        floats("w1", &[8, 3, 3, 3]),
        floats("w2", &[8, 3, 3, 3]),
        floats("deep", &[8, 1, 3, 3]),
        floats("wide", &[8, 8, 3, 3]),
        floats("flat", &[8, 8, 6, 1]),
    ];
    let x = Value::from_shape([2, 3, 6, 7], numbers(252, 1)).unwrap();
    let (cut, whole, kinds) = both(nodes, weights, &x);
    assert_eq!(kinds, ["network", "nodes"]);
    assert_eq!(cut.0, whole.0);
    let largest = whole.1.iter().fold(0.0f32, |most, number| most.max(number.abs()));
    let far = cut.1.iter().zip(&whole.1).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(far < 1e-5 * largest, "{far} of {largest}");
}

#[test]
fn additions_of_other_shapes_are_left_to_the_runtime() {
    let nodes = vec![
        conv(&["x", "w"], "a", 0, 1, 1),
        node("GlobalAveragePool", &["a"], &["b"]),
        node("Add", &["a", "b"], &["y"]),
    ];
    let x = Value::from_shape([1, 3, 4, 5], numbers(60, 1)).unwrap();
    let (cut, whole, kinds) = both(nodes, vec![floats("w", &[6, 3, 1, 1])], &x);
    assert_eq!(kinds, ["network", "nodes"]);
    assert_eq!(cut.0, whole.0);
}

#[test]
fn layers_take_no_more_room_than_there_is() {
    let graph = GraphProto::default();
    let constants = Constants::of(&graph);
    // An output is filled up to a vector of 16.
    assert_eq!(constants.take_room(1, 1 << 23), Some(()));
    assert_eq!(constants.take_room(usize::MAX, 2), None);
    assert_eq!(constants.take_room(16, 1 << 23), Some(()));
    assert_eq!(constants.take_room(1, 1), None);
}
