//! Graphs that demand more time, memory or stack than any encoder needs.

use std::fs;
use std::time::Duration;

use nextpair_encode::{
    Error, ImageEncoder, Pooling, Preprocess, TIME_LIMIT, TextEncoder, TextPooling,
};
use rten_onnx::onnx::{
    AttributeProto, DataType, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    ValueInfoProto,
};

use super::fixture;

fn node(kind: &str, input: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: Some(kind.to_owned()),
        input: input.iter().map(|&name| name.to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

fn sizes(name: &str, numbers: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: vec![numbers.len() as i64],
        data_type: Some(DataType::INT64),
        int64_data: numbers.to_vec(),
        ..TensorProto::default()
    }
}

/// The bytes of a model from `pixels` to `out`.
fn model(node: Vec<NodeProto>, initializer: Vec<TensorProto>) -> Vec<u8> {
    let value = |name: &str| ValueInfoProto { name: Some(name.to_owned()), r#type: None };
    let (input, output) = (vec![value("pixels")], vec![value("out")]);
    let graph = GraphProto { node, initializer, input, output, ..GraphProto::default() };
    let opset = OperatorSetIdProto { version: Some(17), ..OperatorSetIdProto::default() };
    let model = ModelProto {
        ir_version: Some(8),
        opset_import: vec![opset],
        graph: Some(graph),
        ..ModelProto::default()
    };
    model.write_buf().unwrap()
}

fn open(bytes: &[u8], limit: Duration) -> Result<ImageEncoder, Error> {
    open_output(bytes, None, limit)
}

fn open_output(bytes: &[u8], output: Option<&str>, limit: Duration) -> Result<ImageEncoder, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    fs::write(&path, bytes).unwrap();
    let preprocess = Preprocess::parse("size = 8\nresize = \"squash\"").unwrap();
    ImageEncoder::open_within(&path, preprocess, Pooling::Pooled, output, limit)
}

fn refused(bytes: &[u8], says: &str) {
    let what = open(bytes, TIME_LIMIT).unwrap_err().to_string();
    assert!(what.contains("model.onnx: ") && what.contains(says), "no '{says}' in {what}");
}

/// A model of `length` nodes, each depending on the one before.
fn chain(length: usize) -> Vec<u8> {
    let name = |at: usize| match at {
        0 => "pixels".to_owned(),
        at if at == length => "out".to_owned(),
        at => format!("v{at}"),
    };
    let link = |at: usize| node("Relu", &[&name(at)], &name(at + 1));
    model((0..length).map(link).collect(), Vec::new())
}

#[test]
fn loops_without_end_are_refused() {
    // While true: nothing.
    let mut body =
        GraphProto { node: vec![node("Identity", &["going"], "on")], ..Default::default() };
    let value = |name: &str| ValueInfoProto { name: Some(name.to_owned()), r#type: None };
    body.input = ["at", "going", "x"].map(value).into();
    body.output = ["on", "x"].map(value).into();
    let mut endless = node("Loop", &["", "", "pixels"], "out");
    endless.attribute.push(AttributeProto {
        name: Some("body".to_owned()),
        g: Some(body),
        ..AttributeProto::default()
    });
    refused(&model(vec![endless], Vec::new()), "the Loop that makes 'out' is an operator");
}

#[test]
fn chains_are_as_long_as_the_stack_allows() {
    refused(&chain(100_000), "more than 50,000 nodes");
    refused(&chain(10_001), "10001 nodes in a row; 10000 are accepted");
    for length in [1, 1000, 1001, 10_000] {
        let encoder = open(&chain(length), TIME_LIMIT).unwrap();
        assert_eq!(encoder.dim(), 3, "{length}");
    }
}

#[test]
fn messages_name_a_few_inputs_and_outputs() {
    let mut many = ModelProto::parse_buf(&chain(1)).unwrap();
    let graph = many.graph.as_mut().unwrap();
    let more = (0..5000)
        .map(|at| ValueInfoProto { name: Some(format!("more {at}")), ..ValueInfoProto::default() });
    graph.output.extend(more.clone());
    let what = open_output(&many.write_buf().unwrap(), Some("none"), TIME_LIMIT).unwrap_err();
    let what = what.to_string();
    assert!(what.contains("'none'; there are out, more 0, more 1, "), "{what}");
    assert!(what.ends_with(", more 18 and 4981 more"), "{what}");
    many.graph.as_mut().unwrap().input.extend(more);
    refused(&many.write_buf().unwrap(), "more 18 and 4981 more); an image encoder has one");
}

/// A list of an attribute, or a number.
fn with(mut node: NodeProto, name: &str, ints: &[i64]) -> NodeProto {
    let (name, i) = (Some(name.to_owned()), ints.first().copied().filter(|_| ints.len() == 1));
    let ints = if i.is_some() { Vec::new() } else { ints.to_vec() };
    node.attribute.push(AttributeProto { name, i, ints, ..AttributeProto::default() });
    node
}

fn floats(name: &str, dims: &[i64], numbers: &[f32]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: dims.to_vec(),
        data_type: Some(DataType::FLOAT),
        float_data: numbers.to_vec(),
        ..TensorProto::default()
    }
}

/// Sizes of hundreds of gigabytes, in the file or computed from the size of the picture: the runtime
/// would end the process.
#[test]
fn sizes_without_end_are_refused() {
    // Twelve numbers: the sizes of the picture, all times a million.
    let computed =
        || vec![node("Shape", &["pixels"], "shape"), node("Mul", &["shape", "million"], "large")];
    let einsum = |input: &[&str], equation: &str, output: &str| {
        let mut node = node("Einsum", input, output);
        let (name, s) = (Some("equation".to_owned()), Some(equation.to_owned()));
        node.attribute.push(AttributeProto { name, s, ..AttributeProto::default() });
        node
    };
    let doubling: Vec<_> = (0..40)
        .map(|at| {
            let from = if at == 0 { "pixels".to_owned() } else { format!("c{at}") };
            let to = if at == 39 { "out".to_owned() } else { format!("c{}", at + 1) };
            with(node("Concat", &[&from, &from], &to), "axis", &[1])
        })
        .collect();
    let scalar =
        |name: &str, number: i64| TensorProto { dims: Vec::new(), ..sizes(name, &[number]) };
    let conv = |pads: i64| with(node("Conv", &["pixels", "w"], "out"), "pads", &[pads; 4]);
    let depthwise =
        with(with(node("Conv", &["pixels", "deep"], "out"), "group", &[3]), "pads", &[20_000; 4]);
    let stored = || {
        vec![
            sizes("million", &[1 << 20]),
            sizes("huge", &[1 << 20, 1 << 20]),
            sizes("repeats", &[1, 1, 1 << 20, 1 << 20]),
            sizes("pads", &[0, 0, 1 << 20, 1 << 20, 0, 0, 0, 0]),
            floats("scales", &[4], &[1.0, 1.0, 1e5, 1e5]),
            floats("w", &[1, 3, 1, 1], &[1.0; 3]),
            floats("deep", &[3, 1, 1, 1], &[1.0; 3]),
            floats("column", &[1 << 10, 1], &[1.0; 1 << 10]),
            scalar("zero", 0),
            scalar("one", 1),
            scalar("limit", 1 << 30),
            floats("off_on", &[2], &[0.0, 1.0]),
            sizes("line", &[-1, 1]),
            sizes("row", &[1, -1]),
        ]
    };
    let flat = || {
        vec![node("Reshape", &["pixels", "line"], "v"), node("Reshape", &["pixels", "row"], "h")]
    };
    let last = |mut nodes: Vec<NodeProto>, node: NodeProto| {
        nodes.push(node);
        nodes
    };
    let crafted = [
        vec![conv(20_000)],
        vec![depthwise],
        vec![node("Pad", &["pixels", "pads"], "out")],
        vec![node("Tile", &["pixels", "repeats"], "out")],
        last(computed(), node("Tile", &["pixels", "large"], "out")),
        vec![node("Resize", &["pixels", "", "scales"], "out")],
        last(computed(), node("Resize", &["pixels", "", "", "large"], "out")),
        vec![node("Range", &["zero", "limit", "one"], "out")],
        vec![node("Expand", &["w", "huge"], "out")],
        last(computed(), node("Expand", &["one", "large"], "out")),
        vec![node("ConstantOfShape", &["huge"], "out")],
        last(computed(), node("ConstantOfShape", &["large"], "out")),
        vec![
            einsum(&["pixels", "pixels"], "abcd,efgh->abcdefgh", "e"),
            einsum(&["e", "e"], "abcdefgh,ijklmnop->abcdefghijklmnop", "out"),
        ],
        vec![node("TopK", &["pixels", "million2"], "out")],
        vec![node("OneHot", &["shape", "limit", "off_on"], "out")],
        doubling,
        // Products of sizes, one after the other.
        last(last(flat(), node("Add", &["v", "h"], "s")), node("Reshape", &["s", "line"], "l"))
            .into_iter()
            .chain([node("Reshape", &["s", "row"], "m"), node("MatMul", &["l", "m"], "out")])
            .collect(),
    ];
    for (at, mut nodes) in crafted.into_iter().enumerate() {
        if nodes.iter().any(|node| node.op_type.as_deref() == Some("OneHot")) {
            nodes.insert(0, node("Shape", &["pixels"], "shape"));
        }
        let stored = last_of(stored(), sizes("million2", &[1 << 30]));
        let error = open(&model(nodes, stored), TIME_LIMIT).unwrap_err();
        let what = error.to_string();
        assert!(matches!(error, Error::Memory { .. }), "{at}: {what}");
        assert!(what.contains("makes more than 268435456 numbers"), "{at}: {what}");
    }
}

fn last_of<T>(mut list: Vec<T>, last: T) -> Vec<T> {
    list.push(last);
    list
}

/// Values that are moderate, but many; and sizes that only the numbers of a picture tell.
#[test]
fn memory_is_counted_for_all_values_at_once() {
    let names: Vec<String> = (0..40).map(|at| format!("m{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut nodes =
        vec![node("ReduceMean", &["pixels"], "mean"), node("Reshape", &["mean", "one"], "number")];
    nodes.extend(names.iter().map(|name| node("Expand", &["number", "shape"], name)));
    nodes.push(node("Sum", &names, "sum"));
    nodes.push(node("ReduceMean", &["sum"], "out"));
    let stored = vec![sizes("one", &[1]), sizes("shape", &[1 << 27])];
    let what = open(&model(nodes, stored), TIME_LIMIT).unwrap_err().to_string();
    assert!(what.contains("more than 1073741824 numbers are in use at once"), "{what}");
    let mut cast = node("Cast", &["number"], "count");
    cast.attribute.push(AttributeProto {
        name: Some("to".to_owned()),
        i: Some(7),
        ..AttributeProto::default()
    });
    let nodes = vec![
        node("ReduceMax", &["pixels"], "most"),
        node("Reshape", &["most", "one"], "number"),
        cast,
        node("ConstantOfShape", &["count"], "out"),
    ];
    let error = open(&model(nodes, vec![sizes("one", &[1])]), TIME_LIMIT).unwrap_err();
    let says = "the size of 'out', which a ConstantOfShape makes, does not follow from the sizes";
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn rows_of_features_have_a_limit() {
    let shape = sizes("shape", &[1, 3, 1 << 12, 1 << 11]);
    let nodes = vec![
        node("ReduceMean", &["pixels"], "mean"),
        node("Expand", &["mean", "shape"], "large"),
        node("Flatten", &["large"], "out"),
    ];
    refused(&model(nodes, vec![shape]), "a row has at most 4194304 numbers");
}

/// The fixed number of tokens of a text encoder is limited like any other size.
#[test]
fn texts_without_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.onnx");
    let mut model = ModelProto::parse_buf(&fs::read(fixture("text-of-8.onnx")).unwrap()).unwrap();
    for input in &mut model.graph.as_mut().unwrap().input {
        let tensor = input.r#type.as_mut().unwrap().tensor_type.as_mut().unwrap();
        tensor.shape.as_mut().unwrap().dim[1].dim_value = Some(1 << 20);
    }
    fs::write(&path, model.write_buf().unwrap()).unwrap();
    let tokenizer = fixture("tokenizer.json");
    let opened = TextEncoder::open(&path, &tokenizer, TextPooling::Mean, true, None);
    let what = opened.unwrap_err().to_string();
    assert!(what.contains("text.onnx: input 'input_ids' has shape [1, 1048576]"), "{what}");
}

/// Matrix products, one after the other, that take minutes.
fn slow() -> Vec<u8> {
    let mut nodes = vec![
        node("ReduceMean", &["pixels"], "mean"),
        node("Reshape", &["mean", "one"], "number"),
        node("Expand", &["number", "square"], "m0"),
    ];
    for at in 0..400 {
        let (from, to) = (format!("m{at}"), format!("m{}", at + 1));
        nodes.push(node("MatMul", &[&from, &from], &to));
    }
    nodes.push(node("Identity", &["m400"], "out"));
    model(nodes, vec![sizes("one", &[1, 1]), sizes("square", &[4096, 4096])])
}

#[test]
fn slow_models_time_out() {
    let error = open(&slow(), Duration::from_secs(1)).unwrap_err();
    assert!(matches!(error, Error::Slow { .. }), "{error}");
    let what = error.to_string();
    let says = "model.onnx: encoding one item takes more than 1 s";
    assert!(what.ends_with(says), "{what}");
}

/// A graph whose number of paths doubles at every node returns, with or without an error.
#[test]
fn ways_that_double_at_every_node_come_back() {
    let mut nodes = vec![node("Relu", &["pixels"], "s0")];
    for at in 0..64 {
        let (from, to) = (format!("s{at}"), format!("s{}", at + 1));
        nodes.push(node("Add", &[&from, &from], &to));
    }
    nodes.push(node("Identity", &["s64"], "out"));
    match open(&model(nodes, Vec::new()), Duration::from_secs(5)) {
        Ok(encoder) => assert_eq!(encoder.dim(), 3),
        Err(error) => assert!(matches!(error, Error::Slow { what: "opening it", .. }), "{error}"),
    }
}
