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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    fs::write(&path, bytes).unwrap();
    let preprocess = Preprocess::parse("size = 8\nresize = \"squash\"").unwrap();
    ImageEncoder::open_within(&path, preprocess, Pooling::Pooled, None, limit)
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
    refused(&model(vec![endless], Vec::new()), "the Loop that makes 'out': loops are not run");
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
fn sizes_without_end_are_refused() {
    let shape = sizes("shape", &[1 << 20, 1 << 20]);
    let nodes =
        vec![node("ConstantOfShape", &["shape"], "big"), node("Add", &["pixels", "big"], "out")];
    let says = "the ConstantOfShape that makes 'big' makes more than 268435456 numbers";
    refused(&model(nodes, vec![shape]), says);
    // A row of features that is too large.
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
fn what_takes_too_long_is_left_behind() {
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
