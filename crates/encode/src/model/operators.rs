//! The operators that the differential test holds to ONNX Runtime, each with the attributes that it
//! tries. Everything else is refused: the runtime computes some of it, silently, as something else.
//!
//! A new line needs a case in `xtask/networks.py`; `cargo xtask soak networks` fails for an operator, an
//! attribute or a word for one that no network uses.

use std::ops::RangeInclusive;

use rten_onnx::onnx::{AttributeProto, GraphProto, ModelProto, NodeProto};

use super::constants::attribute;

/// Versions of the standard that the test tries.
const VERSIONS: RangeInclusive<i64> = 7..=24;

const NEVER: &str = "which was never compared with ONNX Runtime";

/// The values of an attribute that are accepted.
#[derive(Clone, Copy, Debug)]
enum Values {
    Any,
    /// A whole number, or a list of nothing else.
    Only(i64),
    Words(&'static [&'static str]),
}

use Values::{Any, Only, Words};

type Attributes = &'static [(&'static str, Values)];

/// `pads` count only without `auto_pad`.
const PADDING: (&str, Values) =
    ("auto_pad", Words(&["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]));
const CONVOLUTION: Attributes = &[
    PADDING,
    ("pads", Any),
    ("kernel_shape", Any),
    ("strides", Any),
    ("dilations", Any),
    ("group", Any),
];
/// Of an opset before 18, axes are an attribute.
const REDUCTION: Attributes =
    &[("axes", Any), ("keepdims", Any), ("noop_with_empty_axes", Only(0))];
const ARG: Attributes = &[("axis", Any), ("keepdims", Any), ("select_last_index", Only(0))];
const AXIS: Attributes = &[("axis", Any)];

/// The operators, with most outputs. Those of other domains have them before their names.
const OPERATORS: &[(&str, usize, Attributes)] = &[
    ("Abs", 1, &[]),
    ("Add", 1, &[]),
    ("And", 1, &[]),
    ("ArgMax", 1, ARG),
    ("ArgMin", 1, ARG),
    ("Atan", 1, &[]),
    (
        "AveragePool",
        1,
        &[
            PADDING,
            ("pads", Any),
            ("kernel_shape", Any),
            ("strides", Any),
            ("dilations", Only(1)),
            ("ceil_mode", Any),
            ("count_include_pad", Any),
        ],
    ),
    (
        "BatchNormalization",
        1,
        &[("epsilon", Any), ("momentum", Any), ("spatial", Only(1)), ("training_mode", Only(0))],
    ),
    ("Cast", 1, &[("to", Any), ("saturate", Only(1))]),
    ("Ceil", 1, &[]),
    ("Clip", 1, &[("min", Any), ("max", Any)]),
    ("Concat", 1, AXIS),
    (
        "Constant",
        1,
        &[
            ("value", Any),
            ("value_float", Any),
            ("value_floats", Any),
            ("value_int", Any),
            ("value_ints", Any),
        ],
    ),
    ("ConstantOfShape", 1, &[("value", Any)]),
    ("Conv", 1, CONVOLUTION),
    ("ConvInteger", 1, CONVOLUTION),
    ("Cos", 1, &[]),
    ("CumSum", 1, &[("exclusive", Any), ("reverse", Any)]),
    ("DepthToSpace", 1, &[("blocksize", Any), ("mode", Words(&["DCR", "CRD"]))]),
    ("DequantizeLinear", 1, &[("axis", Any), ("block_size", Only(0)), ("output_dtype", Only(0))]),
    ("Div", 1, &[]),
    ("Dropout", 1, &[("ratio", Any), ("seed", Any)]),
    ("DynamicQuantizeLinear", 3, &[]),
    ("Einsum", 1, &[("equation", Any)]),
    ("Elu", 1, &[("alpha", Any)]),
    ("Equal", 1, &[]),
    ("Erf", 1, &[]),
    ("Exp", 1, &[]),
    ("Expand", 1, &[]),
    ("Flatten", 1, AXIS),
    ("Floor", 1, &[]),
    ("Gather", 1, AXIS),
    ("GatherElements", 1, AXIS),
    ("GatherND", 1, &[("batch_dims", Any)]),
    ("Gelu", 1, &[("approximate", Words(&["none", "tanh"]))]),
    ("Gemm", 1, &[("alpha", Any), ("beta", Any), ("transA", Any), ("transB", Any)]),
    ("GlobalAveragePool", 1, &[]),
    ("GlobalMaxPool", 1, &[]),
    ("Greater", 1, &[]),
    ("GreaterOrEqual", 1, &[]),
    ("HardSigmoid", 1, &[("alpha", Any), ("beta", Any)]),
    ("HardSwish", 1, &[]),
    ("Identity", 1, &[]),
    ("InstanceNormalization", 1, &[("epsilon", Any)]),
    ("IsInf", 1, &[("detect_positive", Only(1)), ("detect_negative", Only(1))]),
    ("IsNaN", 1, &[]),
    ("LayerNormalization", 1, &[("axis", Any), ("epsilon", Any), ("stash_type", Only(1))]),
    ("LeakyRelu", 1, &[("alpha", Any)]),
    ("Less", 1, &[]),
    ("LessOrEqual", 1, &[]),
    ("Log", 1, &[]),
    ("LogSoftmax", 1, AXIS),
    ("LpNormalization", 1, &[("axis", Any), ("p", Any)]),
    ("MatMul", 1, &[]),
    ("MatMulInteger", 1, &[]),
    ("Max", 1, &[]),
    (
        "MaxPool",
        1,
        &[
            PADDING,
            ("pads", Any),
            ("kernel_shape", Any),
            ("strides", Any),
            ("dilations", Only(1)),
            ("ceil_mode", Any),
            ("storage_order", Only(0)),
        ],
    ),
    ("Mean", 1, &[]),
    ("Min", 1, &[]),
    ("Mod", 1, &[("fmod", Any)]),
    ("Mul", 1, &[]),
    ("Neg", 1, &[]),
    ("Not", 1, &[]),
    ("OneHot", 1, AXIS),
    ("Or", 1, &[]),
    ("PRelu", 1, &[]),
    ("Pad", 1, &[("mode", Words(&["constant", "reflect", "edge"])), ("pads", Any), ("value", Any)]),
    ("Pow", 1, &[]),
    (
        "QuantizeLinear",
        1,
        &[
            ("axis", Any),
            ("block_size", Only(0)),
            ("output_dtype", Only(0)),
            ("precision", Only(0)),
            ("saturate", Only(1)),
        ],
    ),
    ("Range", 1, &[]),
    ("Reciprocal", 1, &[]),
    ("ReduceL1", 1, REDUCTION),
    ("ReduceL2", 1, REDUCTION),
    ("ReduceLogSumExp", 1, REDUCTION),
    ("ReduceMax", 1, REDUCTION),
    ("ReduceMean", 1, REDUCTION),
    ("ReduceMin", 1, REDUCTION),
    ("ReduceProd", 1, REDUCTION),
    ("ReduceSum", 1, REDUCTION),
    ("ReduceSumSquare", 1, REDUCTION),
    ("Relu", 1, &[]),
    ("Reshape", 1, &[("allowzero", Any)]),
    (
        "Resize",
        1,
        &[
            ("antialias", Only(0)),
            (
                "coordinate_transformation_mode",
                Words(&["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]),
            ),
            ("cubic_coeff_a", Any),
            ("exclude_outside", Only(0)),
            ("keep_aspect_ratio_policy", Words(&["stretch"])),
            ("mode", Words(&["nearest", "linear"])),
            ("nearest_mode", Words(&["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])),
        ],
    ),
    ("Round", 1, &[]),
    ("ScatterElements", 1, &[("axis", Any), ("reduction", Words(&["none", "add"]))]),
    ("ScatterND", 1, &[("reduction", Words(&["none", "add"]))]),
    ("Shape", 1, &[("start", Any), ("end", Any)]),
    ("Sigmoid", 1, &[]),
    ("Sign", 1, &[]),
    ("Sin", 1, &[]),
    ("Size", 1, &[]),
    ("Slice", 1, &[("axes", Any), ("starts", Any), ("ends", Any)]),
    ("Softmax", 1, AXIS),
    ("Softplus", 1, &[]),
    ("Softsign", 1, &[]),
    ("Split", usize::MAX, &[("axis", Any), ("split", Any), ("num_outputs", Any)]),
    ("Sqrt", 1, &[]),
    ("Squeeze", 1, &[("axes", Any)]),
    ("Sub", 1, &[]),
    ("Sum", 1, &[]),
    ("Tanh", 1, &[]),
    ("Tile", 1, &[]),
    ("TopK", 2, &[("axis", Any), ("largest", Any), ("sorted", Only(1))]),
    ("Transpose", 1, &[("perm", Any)]),
    ("Trilu", 1, &[("upper", Any)]),
    ("Unsqueeze", 1, &[("axes", Any)]),
    ("Where", 1, &[]),
    ("Xor", 1, &[]),
    ("com.microsoft.BiasGelu", 1, &[]),
    ("com.microsoft.FastGelu", 1, &[]),
    ("com.microsoft.Gelu", 1, &[]),
    ("com.microsoft.QuickGelu", 1, &[("alpha", Any)]),
];

/// An unsupported node, and why.
#[derive(Debug, PartialEq)]
pub(super) struct UnsupportedNode {
    pub(super) operator: String,
    pub(super) output: String,
    pub(super) what: String,
}

impl UnsupportedNode {
    pub(super) fn new(node: &NodeProto, what: impl Into<String>) -> Self {
        let output = node.output.first().cloned().unwrap_or_default();
        UnsupportedNode { operator: full_name(node), output, what: what.into() }
    }
}

/// The name of a node's operator, after its domain unless that is the standard's.
pub(super) fn full_name(node: &NodeProto) -> String {
    let name = node.op_type.as_deref().unwrap_or_default();
    match node.domain.as_deref() {
        None | Some("" | "ai.onnx") => name.to_owned(),
        Some(domain) => format!("{domain}.{name}"),
    }
}

/// The version of the standard that a model is written in.
pub(super) fn version(model: &ModelProto) -> i64 {
    let standard =
        |domain: &Option<String>| matches!(domain.as_deref(), None | Some("" | "ai.onnx"));
    let mut imports = model.opset_import.iter();
    imports.find(|import| standard(&import.domain)).and_then(|import| import.version).unwrap_or(1)
}

/// Checks that a model uses nothing that was never compared.
pub(super) fn check(graph: &GraphProto, version: i64) -> Result<(), UnsupportedNode> {
    for node in &graph.node {
        let refused = |what: String| Err(UnsupportedNode::new(node, what));
        if !VERSIONS.contains(&version) {
            let (first, last) = VERSIONS.into_inner();
            return refused(format!("is of opset {version}, {NEVER}; {first} to {last} were"));
        }
        let name = full_name(node);
        let known = OPERATORS.iter().find(|(known, _, _)| *known == name);
        let Some((_, outputs, attributes)) = known else {
            return refused(format!("is an operator {NEVER}"));
        };
        for attribute in &node.attribute {
            let name = attribute.name.as_deref().unwrap_or_default();
            match attributes.iter().find(|(known, _)| *known == name) {
                None => return refused(format!("has the attribute {name}, {NEVER}")),
                Some((_, values)) if !accepts(*values, attribute) => {
                    let found = text(attribute);
                    return refused(format!("has {name} = {found}, {NEVER}"));
                }
                Some(_) => {}
            }
        }
        if let Some(what) = uncompared_rounding(node, version) {
            return refused(what);
        }
        if name == "Pad" && node.input.get(3).is_some_and(|name| !name.is_empty()) {
            return refused(format!("has the input axes, {NEVER}"));
        }
        if node.output.iter().skip(*outputs).any(|name| !name.is_empty()) {
            return refused(format!("has more than {outputs} outputs, {NEVER}"));
        }
    }
    Ok(())
}

/// What is never tried of a pool that rounds its size up: an average before opset 19, where ONNX Runtime
/// divides otherwise than the standard says, and padding that is not given.
fn uncompared_rounding(node: &NodeProto, version: i64) -> Option<String> {
    if attribute(node, "ceil_mode")?.i.unwrap_or(0) == 0 {
        return None;
    }
    let auto = attribute(node, "auto_pad").and_then(|a| a.s.as_deref()).unwrap_or("NOTSET");
    match node.op_type.as_deref() {
        _ if auto != "NOTSET" => Some(format!("has ceil_mode with auto_pad = {auto}, {NEVER}")),
        Some("AveragePool") if version < 19 => {
            Some(format!("has ceil_mode in opset {version}, {NEVER}; from 19 on it was"))
        }
        _ => None,
    }
}

fn accepts(values: Values, attribute: &AttributeProto) -> bool {
    match values {
        Any => true,
        Only(number) => match attribute.ints.is_empty() {
            true => attribute.i.unwrap_or(0) == number,
            false => attribute.ints.iter().all(|&found| found == number),
        },
        Words(words) => words.contains(&attribute.s.as_deref().unwrap_or_default()),
    }
}

fn text(attribute: &AttributeProto) -> String {
    match (&attribute.s, attribute.ints.is_empty()) {
        (Some(word), _) => word.clone(),
        (None, true) => attribute.i.unwrap_or(0).to_string(),
        (None, false) => format!("{:?}", attribute.ints),
    }
}

/// What networks of the differential test must use: every operator, and every attribute that admits
/// several values, with every word that is accepted.
#[cfg(test)]
pub(super) fn cases() -> Vec<String> {
    let mut cases = Vec::new();
    for (name, _, attributes) in OPERATORS {
        cases.push((*name).to_owned());
        for (attribute, values) in *attributes {
            match values {
                Any => cases.push(format!("{name}.{attribute}")),
                Words(words) if words.len() > 1 => {
                    cases.extend(words.iter().map(|word| format!("{name}.{attribute} = {word}")));
                }
                Only(_) | Words(_) => {}
            }
        }
    }
    cases
}

/// The cases that a node uses.
#[cfg(test)]
pub(super) fn cases_of(node: &NodeProto) -> Vec<String> {
    let name = full_name(node);
    let of = |attribute: &AttributeProto| {
        let case = format!("{name}.{}", attribute.name.as_deref().unwrap_or_default());
        match &attribute.s {
            Some(word) => [case.clone(), format!("{case} = {word}")].to_vec(),
            None => vec![case],
        }
    };
    node.attribute.iter().flat_map(of).chain([name.clone()]).collect()
}
