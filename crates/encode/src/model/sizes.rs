//! The sizes of all values of a graph, before it runs.
//!
//! A small file can ask for any amount of memory, in its numbers or by what it computes. So sizes are
//! followed from the inputs through all nodes. Where they are computed, as by `Shape` and arithmetic,
//! the runtime computes the few numbers, one node at a time.

mod rules;

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rten::{ModelOptions, RunOptions, ThreadPool, Value, ValueView};
use rten_onnx::onnx::{
    DataLocation, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto,
};
use rten_tensor::prelude::*;

use super::constants::is_constant;
use super::limits::{NUMBERS, count};
use super::normalise::Shapes;

/// Most numbers that may be in use at once: 4 GB in single precision.
const AT_ONCE: u64 = 4 * NUMBERS;

/// Most numbers of a value that is computed ahead; those that state sizes have a few.
const SMALL: usize = 1 << 12;

/// What sizes depend on: nodes, the sizes of stored values, and the numbers of small ones.
#[derive(Debug)]
pub(super) struct Sizes {
    version: i64,
    opsets: Vec<OperatorSetIdProto>,
    nodes: Vec<NodeProto>,
    stored: HashMap<String, KnownValue>,
    /// The last node that reads a value.
    last: HashMap<String, usize>,
    /// Values that sizes depend on.
    wanted: HashSet<String>,
    /// The nodes that make them, each as a graph of its own, once they are needed.
    ready: RefCell<HashMap<usize, rten::Model>>,
}

/// The shape of a value and, if it is small, its numbers, as far as they are known.
#[derive(Clone, Debug, Default)]
struct KnownValue {
    shape: Option<Vec<usize>>,
    value: Option<Value>,
}

/// The inputs of a node, as far as they are known.
struct NodeInputs<'a> {
    node: &'a NodeProto,
    version: i64,
    inputs: Vec<Option<&'a KnownValue>>,
}

impl Sizes {
    /// Reads a graph, and the numbers of its small stored values.
    pub(super) fn of(
        graph: &GraphProto,
        model: &ModelProto,
        output: &str,
        pool: &Arc<ThreadPool>,
    ) -> Result<Self, String> {
        let dims = |dims: &[i64]| {
            dims.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<Vec<_>>>()
        };
        let mut part = GraphProto::default();
        let mut stored = HashMap::new();
        for weight in &graph.initializer {
            let (Some(name), Some(shape)) = (&weight.name, dims(&weight.dims)) else { continue };
            let is_inside = weight.data_location != Some(DataLocation::EXTERNAL);
            if is_inside && count(&shape).is_some_and(|count| count <= SMALL as u64) {
                part.initializer.push(weight.clone());
            }
            stored.insert(name.clone(), KnownValue { shape: Some(shape), value: None });
        }
        let (constants, nodes): (Vec<_>, Vec<_>) =
            graph.node.iter().cloned().partition(is_constant);
        part.node = constants;
        let names = part.initializer.iter().filter_map(|w| w.name.clone());
        let names: Vec<String> =
            names.chain(part.node.iter().flat_map(|n| n.output.clone())).collect();
        let mut last: HashMap<String, usize> = HashMap::new();
        for (at, name) in
            nodes.iter().enumerate().flat_map(|(at, n)| n.input.iter().map(move |name| (at, name)))
        {
            last.insert(name.clone(), at);
        }
        last.insert(output.to_owned(), nodes.len());
        let (version, opsets) = (super::operators::version(model), model.opset_import.clone());
        let wanted = wanted(&nodes);
        let ready = RefCell::default();
        let mut sizes = Sizes { version, opsets, nodes, stored, last, wanted, ready };
        // Named otherwise: an output cannot be a stored value itself.
        let copy = |name: &String| NodeProto {
            op_type: Some("Identity".to_owned()),
            input: vec![name.clone()],
            output: vec![format!("{name}: read")],
            ..NodeProto::default()
        };
        let copies: Vec<_> = names.iter().map(copy).collect();
        let outputs: Vec<_> = copies.iter().flat_map(|node| node.output.clone()).collect();
        part.node.extend(copies);
        let values = match names.is_empty() {
            true => Vec::new(),
            false => run(&sizes.load(part, &[], &outputs)?, Vec::new(), &outputs, pool)?,
        };
        for (name, value) in names.into_iter().zip(values) {
            let shape = Some(value.shape().to_vec());
            let value = Some(value).filter(|value| value.len() <= SMALL);
            sizes.stored.insert(name, KnownValue { shape, value });
        }
        Ok(sizes)
    }

    /// Follows the sizes of `inputs` through the graph. The error names the value that is too large,
    /// or whose size is not known if `is_strict`. Returns the sizes that are known.
    pub(super) fn follow(
        &self,
        inputs: &[(&str, Option<&[usize]>)],
        is_strict: bool,
        pool: &Arc<ThreadPool>,
    ) -> Result<Shapes, String> {
        let given = |shape: &[usize]| KnownValue { shape: Some(shape.to_vec()), value: None };
        let input = |(name, shape): &(_, Option<&[usize]>)| {
            (*name, shape.map_or_else(KnownValue::default, given))
        };
        let mut made: HashMap<&str, KnownValue> = inputs.iter().map(input).collect();
        let mut live = 0u64;
        let absent = |name: &str| name.is_empty();
        for (at, node) in self.nodes.iter().enumerate() {
            let to = node.output.first().map_or("", String::as_str);
            let kind = super::operators::full_name(node);
            let known = |name: &str| made.get(name).or_else(|| self.stored.get(name));
            let read = node.input.iter().map(|name| match known(name) {
                None if absent(name) => Ok(None),
                None => Err(format!(
                    "the {kind} that makes '{to}' reads '{name}', which no node before it makes"
                )),
                known => Ok(known),
            });
            let given =
                NodeInputs { node, version: self.version, inputs: read.collect::<Result<_, _>>()? };
            if given.is_flattened() {
                return Err(format!(
                    "the {kind} that makes '{to}' is over several axes, as before opset 13; \
                                    convert the model to a newer one"
                ));
            }
            let shapes = given.shapes();
            if shapes.is_none() && is_strict {
                return Err(format!(
                    "the size of '{to}', which a {kind} makes, does not follow from the sizes of the inputs; \
                     only such graphs are run"
                ));
            }
            for shape in shapes.iter().flatten() {
                live = live.saturating_add(match count(shape) {
                    Some(count @ ..=NUMBERS) => count,
                    _ => {
                        return Err(format!(
                            "the {kind} that makes '{to}' makes more than {NUMBERS} numbers"
                        ));
                    }
                });
            }
            if live > AT_ONCE {
                return Err(format!(
                    "at the {kind} that makes '{to}', more than {AT_ONCE} numbers are in use at once"
                ));
            }
            let values = self.values(at, &given, shapes.as_deref(), pool);
            let read: HashSet<&str> = node.input.iter().map(String::as_str).collect();
            let done = read.into_iter().filter(|name| {
                !self.stored.contains_key(*name) && self.last.get(*name) == Some(&at)
            });
            let done = done.filter_map(|name| count(made.get(name)?.shape.as_ref()?));
            live = live.saturating_sub(done.sum());
            for (nth, name) in node.output.iter().enumerate().filter(|(_, name)| !absent(name)) {
                let shape = shapes.as_ref().and_then(|shapes| shapes.get(nth).cloned());
                let value = values.as_ref().and_then(|values| values.get(nth).cloned());
                made.insert(name, KnownValue { shape, value });
            }
        }
        let shapes =
            made.into_iter().filter_map(|(name, known)| Some((name.to_owned(), known.shape?)));
        Ok(shapes.collect())
    }

    /// The sizes of stored values.
    pub(super) fn stored(&self) -> impl Iterator<Item = (String, Vec<usize>)> {
        self.stored.iter().filter_map(|(name, known)| Some((name.clone(), known.shape.clone()?)))
    }

    /// The numbers that a node makes, if they are few and follow from known ones.
    fn values(
        &self,
        at: usize,
        given: &NodeInputs<'_>,
        shapes: Option<&[Vec<usize>]>,
        pool: &Arc<ThreadPool>,
    ) -> Option<Vec<Value>> {
        let is_small = |shape: &Vec<usize>| count(shape).is_some_and(|count| count <= SMALL as u64);
        let is_wanted = given.node.output.iter().any(|name| self.wanted.contains(name));
        if !is_wanted || !shapes?.iter().all(is_small) {
            return None;
        }
        if let "Shape" | "Size" = given.node.op_type.as_deref()? {
            return Some(vec![given.own_sizes()?]);
        }
        let (mut inputs, mut seen) = (Vec::new(), HashSet::new());
        for (name, known) in given.node.input.iter().zip(&given.inputs) {
            let Some(known) = known else { continue };
            if seen.insert(name) {
                inputs.push((name, known.value.clone()?));
            }
        }
        let mut ready = self.ready.borrow_mut();
        let model = match ready.entry(at) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let graph = GraphProto { node: vec![given.node.clone()], ..GraphProto::default() };
                let names: Vec<_> = inputs.iter().map(|(name, _)| (*name).clone()).collect();
                entry.insert(self.load(graph, &names, &given.node.output).ok()?)
            }
        };
        run(model, inputs, &given.node.output, pool).ok()
    }

    /// Makes a small graph ready to run.
    fn load(
        &self,
        mut graph: GraphProto,
        inputs: &[String],
        outputs: &[String],
    ) -> Result<rten::Model, String> {
        let value = |name: &String| ValueInfoProto { name: Some(name.clone()), r#type: None };
        graph.input = inputs.iter().map(value).collect();
        graph.output = outputs.iter().map(value).collect();
        let model = ModelProto {
            ir_version: Some(8),
            opset_import: self.opsets.clone(),
            graph: Some(graph),
            ..ModelProto::default()
        };
        let bytes = model.write_buf().map_err(|e| e.to_string())?;
        let mut options = ModelOptions::with_all_ops();
        options.enable_optimization(false);
        options.load(bytes).map_err(|e| e.to_string())
    }
}

fn run(
    model: &rten::Model,
    inputs: Vec<(&String, Value)>,
    outputs: &[String],
    pool: &Arc<ThreadPool>,
) -> Result<Vec<Value>, String> {
    let id = |name: &String| model.node_id(name).map_err(|e| e.to_string());
    let inputs = inputs.into_iter().map(|(name, value)| Ok((id(name)?, value.into())));
    let outputs = outputs.iter().map(id).collect::<Result<Vec<_>, String>>()?;
    let options = RunOptions::default().with_thread_pool(Some(pool.clone()));
    let inputs = inputs.collect::<Result<Vec<_>, String>>()?;
    model.run(inputs, &outputs, Some(options)).map_err(|e| e.to_string())
}

/// The values that sizes depend on: those that state one, and what they are computed from.
fn wanted(nodes: &[NodeProto]) -> HashSet<String> {
    let mut wanted: HashSet<String> = HashSet::new();
    for node in nodes.iter().rev() {
        let of_size = match node.op_type.as_deref().unwrap_or_default() {
            "Shape" | "Size" => continue,
            "ConstantOfShape" | "Range" => 0..3,
            "Expand" | "OneHot" | "Reshape" | "Split" | "Squeeze" | "Tile" | "TopK"
            | "Unsqueeze" => 1..2,
            "Pad" | "Resize" | "Slice" => 1..5,
            kind if kind.starts_with("Reduce") => 1..2,
            _ => 0..0,
        };
        let is_wanted = node.output.iter().any(|name| wanted.contains(name));
        let names = node.input.iter().enumerate();
        let names = names.filter(|(at, _)| is_wanted || of_size.contains(at));
        wanted.extend(names.map(|(_, name)| name.clone()));
    }
    wanted
}

/// The whole numbers of a value.
fn whole(value: &Value) -> Option<Vec<i64>> {
    match value.as_view() {
        ValueView::Int32Tensor(tensor) => Some(tensor.iter().map(|&n| n.into()).collect()),
        _ => None,
    }
}
