//! What nodes of a graph say.

use nextpair_kernels::convolution::{Activation, Dense, Depthwise, Geometry, Margin};
use rten_onnx::onnx::{AttributeProto, NodeProto};

use super::Work;
use crate::model::constants::{Constants, attribute, numbers, operator};

/// Most zeros on a side of a picture: they are stored for all channels.
const MOST_PADDING: usize = 64;

/// A convolution of pictures with stored weights.
pub(super) struct Convolution {
    pub(super) geometry: Geometry,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    is_depthwise: bool,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Convolution {
    /// `None` if the node says something that our layers do not know.
    pub(super) fn read(node: &NodeProto, constants: &Constants<'_>) -> Option<Self> {
        let weight = constants.weights.get(node.input.get(1)?.as_str())?;
        let [outputs, inputs, rows, columns] = weight.dims[..] else { return None };
        let kernel = pair(&[rows, columns])?;
        let (outputs, inputs) = (usize::try_from(outputs).ok()?, usize::try_from(inputs).ok()?);
        let attribute = |name: &str| attribute(node, name);
        let padding_is_given = |a: &AttributeProto| a.s.as_deref() == Some("NOTSET");
        let ints = |name: &str, default: &[i64]| -> Vec<i64> {
            attribute(name).map_or(default.to_vec(), |attribute| attribute.ints.clone())
        };
        let groups = attribute("group").map_or(Some(1), |attribute| attribute.i)?;
        let (stride, dilation) =
            (pair(&ints("strides", &[1, 1]))?, pair(&ints("dilations", &[1, 1]))?);
        let is_depthwise = inputs == 1 && i64::try_from(outputs) == Ok(groups);
        if !(is_depthwise || groups == 1)
            || !attribute("auto_pad").is_none_or(padding_is_given)
            || [outputs, inputs, kernel.0, kernel.1].contains(&0)
            || [stride.0, stride.1, dilation.0, dilation.1].contains(&0)
        {
            return None;
        }
        let [top, left, bottom, right] = ints("pads", &[0; 4])[..] else { return None };
        let ((top, left), (bottom, right)) = (pair(&[top, left])?, pair(&[bottom, right])?);
        if [top, left, bottom, right].iter().any(|&zeros| zeros > MOST_PADDING) {
            return None;
        }
        let padding = Margin { top, left, bottom, right };
        let bias = match node.input.get(2).filter(|name| !name.is_empty()) {
            Some(name) => constants.numbers(name)?,
            None => vec![0.0; outputs],
        };
        let each = inputs.checked_mul(kernel.0 * kernel.1)?;
        constants.take_room(outputs, each)?;
        let (weights, count) = (numbers(weight)?, outputs.checked_mul(each)?);
        if bias.len() != outputs || weights.len() != count {
            return None;
        }
        let inputs = if is_depthwise { outputs } else { inputs };
        let geometry = Geometry { kernel, stride, dilation, padding };
        Some(Convolution { geometry, inputs, outputs, is_depthwise, weights, bias })
    }

    /// Lays the weights out.
    pub(super) fn work(&self) -> Work {
        let Convolution { geometry, weights, bias, .. } = self;
        match self.is_depthwise {
            true => Work::Depthwise(Depthwise::new(*geometry, weights, bias)),
            false => Work::Dense(Dense::new(*geometry, weights, bias)),
        }
    }
}

/// The limits that a node of one input keeps its numbers within. `None` if it does something else,
/// or if they are not stored.
pub(super) fn limits(node: &NodeProto, constants: &Constants<'_>) -> Option<(f32, f32)> {
    if operator(node) == Some("Relu") {
        return Some((0.0, f32::INFINITY));
    }
    // Old files have attributes, new ones optional inputs.
    let limit = |at: usize, name: &str, usual: f32| match node.input.get(at) {
        Some(input) if !input.is_empty() => match constants.numbers(input)?[..] {
            [number] => Some(number),
            _ => None,
        },
        _ => Some(number(node, name, usual)),
    };
    let low = limit(1, "min", f32::NEG_INFINITY)?;
    let high = limit(2, "max", f32::INFINITY)?;
    (operator(node) == Some("Clip") && low <= high).then_some((low, high))
}

/// Whether a `ReduceMean` is the mean of all pixels of a picture, as a picture of one pixel.
pub(super) fn is_mean_of_pixels(node: &NodeProto, constants: &Constants<'_>) -> bool {
    // Old files have an attribute, new ones an input.
    let axes = match node.input.get(1).filter(|name| !name.is_empty()) {
        Some(name) => constants.integers(name),
        None => attribute(node, "axes").map(|attribute| attribute.ints.clone()),
    };
    // Files need not store zeros.
    let keeps_them =
        attribute(node, "keepdims").is_none_or(|attribute| attribute.i.unwrap_or(0) == 1);
    keeps_them && matches!(axes.as_deref(), Some([2, 3] | [3, 2] | [-2, -1] | [-1, -2]))
}

/// The activation that a node is, if it is one.
pub(super) fn activation(node: &NodeProto) -> Option<Activation> {
    match operator(node)? {
        "Sigmoid" => Some(Activation::Sigmoid),
        "HardSigmoid" => Some(Activation::HardSigmoid {
            slope: number(node, "alpha", 0.2),
            offset: number(node, "beta", 0.5),
        }),
        "HardSwish" => Some(Activation::HardSwish),
        _ => None,
    }
}

/// The number of an attribute; `usual` if the node does not have it.
fn number(node: &NodeProto, name: &str, usual: f32) -> f32 {
    // Files need not store zeros.
    attribute(node, name).map_or(usual, |attribute| attribute.f.unwrap_or(0.0))
}

/// Two numbers of moderate size.
fn pair(numbers: &[i64]) -> Option<(usize, usize)> {
    let [first, second] = numbers[..] else { return None };
    let moderate = |number: i64| usize::try_from(number).ok().filter(|&n| n < 1 << 12);
    Some((moderate(first)?, moderate(second)?))
}

#[cfg(test)]
mod tests {
    use rten_onnx::onnx::GraphProto;

    use super::*;

    #[test]
    fn a_limit_whose_zero_is_not_stored_is_zero() {
        let limit = |name: &str, f: Option<f32>| AttributeProto {
            name: Some(name.to_owned()),
            f,
            ..AttributeProto::default()
        };
        let clip = NodeProto {
            op_type: Some("Clip".to_owned()),
            input: vec!["x".to_owned()],
            output: vec!["y".to_owned()],
            attribute: vec![limit("min", None), limit("max", Some(6.0))],
            ..NodeProto::default()
        };
        let graph = GraphProto::default();
        assert_eq!(limits(&clip, &Constants::of(&graph)), Some((0.0, 6.0)));
    }
}
