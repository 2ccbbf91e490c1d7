//! Networks of a folder, compared with what ONNX Runtime makes of them: `cargo xtask soak networks`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use safetensors::SafeTensors;

use super::*;

/// The variable that names the folder.
const FOLDER: &str = "NEXTPAIR_NETWORKS";

/// Numbers may differ from those of ONNX Runtime by this share of the largest one.
///
/// Sums of single precision in another order differ by some 1e-6. The runtime computes half precision
/// in single precision, where ONNX Runtime rounds to 11 bits. And a number that is between two codes
/// may get the other one, a step of 1/255 of the range, which the next layers spread.
fn tolerance(graph: &GraphProto) -> f32 {
    let is_half = |node: &rten_onnx::onnx::NodeProto| {
        let to = constants::attribute(node, "to").and_then(|to| to.i);
        to == Some(DataType::FLOAT16.0.into())
    };
    let is_quantised = |kind: &str| kind.contains("QuantizeLinear") && kind != "DequantizeLinear";
    let kinds = || graph.node.iter().filter_map(|node| node.op_type.as_deref());
    match () {
        _ if kinds().any(is_quantised) => 2e-2,
        _ if graph.node.iter().any(is_half) => 1e-3,
        _ => 2e-5,
    }
}

fn floats(tensors: &SafeTensors<'_>, name: &str) -> (Vec<usize>, Vec<f32>) {
    let tensor = tensors.tensor(name).unwrap();
    let numbers = tensor.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    (tensor.shape().to_vec(), numbers.collect())
}

#[test]
#[ignore = "needs a folder of networks: cargo xtask soak networks"]
fn networks_give_what_onnx_runtime_gives() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let paths = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let paths: BTreeSet<_> = paths.filter(|path| path.extension().unwrap() == "onnx").collect();
    let (mut bad, mut worst, mut used) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    for path in &paths {
        let bytes = fs::read(path.with_extension("safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let ((shape, x), expected) = (floats(&tensors, "x"), floats(&tensors, "y"));
        let x = Value::from_shape(&shape[..], x).unwrap();
        let graph = Graph::open(path).unwrap();
        let cases: Vec<_> = graph.graph.node.iter().flat_map(operators::cases_of).collect();
        let most = tolerance(&graph.graph);
        let model = graph.compile("y", Some(&[shape]), TIME_LIMIT);
        let (shape, made) = match model.and_then(|model| model.run(&Worker::new(), vec![x])) {
            Ok(made) => made,
            Err(Error::Operator { operator, what, .. }) => {
                *refused.entry(format!("{operator} {what}")).or_default() += 1;
                continue;
            }
            Err(error) => {
                bad.push(error.to_string());
                continue;
            }
        };
        used.extend(cases);
        let largest = expected.1.iter().fold(0.0f32, |most, number| most.max(number.abs()));
        let far = made.iter().zip(&expected.1).map(|(a, b)| (a - b).abs());
        let far = far.fold(0.0, |most: f32, far| if far.is_nan() { far } else { most.max(far) });
        let share = far / largest;
        if shape != expected.0 || share.is_nan() || share > most {
            let path = path.display();
            bad.push(format!("{path}: {shape:?} for {:?}, off by {share}", expected.0));
        } else {
            let worst = worst.entry(format!("at most {most}")).or_insert(share);
            *worst = share.max(*worst);
        }
    }
    println!("{} networks; the largest difference where it may be", paths.len());
    worst.iter().for_each(|(most, share)| println!("  {most}: {share}"));
    println!("refused");
    refused.iter().for_each(|(what, count)| println!("  {count}: {what}"));
    assert!(bad.is_empty(), "{} differ:\n{}", bad.len(), bad.join("\n"));
    let mut unused = operators::cases();
    unused.retain(|case| !used.contains(case));
    assert!(unused.is_empty(), "never used: {}", unused.join(", "));
    assert!(refused.values().sum::<usize>() * 10 < paths.len(), "too many are refused");
}
