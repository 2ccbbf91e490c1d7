//! The stored values of a graph, and what is common to all nodes.

use std::cell::Cell;
use std::collections::HashMap;

use rten_onnx::onnx::{AttributeProto, DataType, GraphProto, NodeProto, TensorProto};

/// Most numbers that layers of our own may hold, filled up to whole vectors: a gigabyte. Many nodes of a small file may
/// share one weight, and every one of them has its own layout of it.
const MOST_PACKED: usize = 1 << 28;

/// Most numbers of a vector.
const VECTOR: usize = 16;

/// The stored values of a graph.
pub(super) struct Constants<'a> {
    /// Numbers that layers may still hold.
    room: Cell<usize>,
    pub(super) weights: HashMap<&'a str, &'a TensorProto>,
    pub(super) nodes: HashMap<&'a str, &'a NodeProto>,
}

impl<'a> Constants<'a> {
    pub(super) fn of(graph: &'a GraphProto) -> Self {
        let weights = graph.initializer.iter().filter_map(|w| Some((w.name.as_deref()?, w)));
        let nodes = graph.node.iter().filter(|node| is_constant(node));
        let nodes = nodes.filter_map(|node| Some((node.output.first()?.as_str(), node)));
        let room = Cell::new(MOST_PACKED);
        Constants { room, weights: weights.collect(), nodes: nodes.collect() }
    }

    /// Takes the room of a layer with so many outputs of so many numbers each. `None` if there is none left.
    pub(super) fn take_room(&self, outputs: usize, each: usize) -> Option<()> {
        let packed = outputs.checked_next_multiple_of(VECTOR)?.checked_mul(each)?;
        self.room.set(self.room.get().checked_sub(packed)?);
        Some(())
    }

    /// The numbers of a stored value of single precision.
    pub(super) fn numbers(&self, name: &str) -> Option<Vec<f32>> {
        numbers(self.stored(name)?)
    }

    /// The numbers of a stored value of whole numbers.
    pub(super) fn integers(&self, name: &str) -> Option<Vec<i64>> {
        let tensor = self.stored(name).filter(|t| t.data_type == Some(DataType::INT64))?;
        Some(match &tensor.raw_data {
            Some(bytes) => {
                bytes.borrow().as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()
            }
            None => tensor.int64_data.clone(),
        })
    }

    pub(super) fn stored(&self, name: &str) -> Option<&'a TensorProto> {
        let made = || self.nodes.get(name)?.attribute.iter().find_map(|a| a.t.as_ref());
        self.weights.get(name).copied().or_else(made)
    }
}

pub(super) fn is_constant(node: &NodeProto) -> bool {
    operator(node) == Some("Constant")
}

pub(super) fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name))
}

/// The name of a standard operator.
pub(super) fn operator(node: &NodeProto) -> Option<&str> {
    let is_standard = matches!(node.domain.as_deref(), None | Some("" | "ai.onnx"));
    node.op_type.as_deref().filter(|_| is_standard && node.output.len() == 1)
}

/// The numbers of a tensor of single precision.
pub(super) fn numbers(tensor: &TensorProto) -> Option<Vec<f32>> {
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
