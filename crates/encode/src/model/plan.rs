//! The steps to an output, and the values that they hand on.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rten::{ModelOptions, NodeId, RunOptions, ThreadPool, Value, ValueOrView, ValueView};
use rten_onnx::onnx::ModelProto;
use rten_tensor::TensorView;
use rten_tensor::prelude::*;

use super::cut::Segment;
use super::network::Network;
use super::products::Products;
use super::within::Bench;
use crate::Error;

/// Steps in their order. Values have places, numbered through.
#[derive(Debug)]
pub(super) struct Plan {
    steps: Vec<PlannedStep>,
    places: usize,
    /// The place of the output, unless no step makes it.
    output: Option<usize>,
}

/// A step, with the places of what it reads and makes.
#[derive(Debug)]
struct PlannedStep {
    step: Step,
    /// Whether no later step reads a value: then it is handed over, to be overwritten.
    reads: Vec<(usize, bool)>,
    makes: Vec<usize>,
}

impl Plan {
    /// Plans steps to `output`. Values of `inputs` have the first places.
    pub(super) fn new(steps: Vec<Step>, inputs: &[String], output: &str) -> Self {
        let mut places = HashMap::new();
        let mut place = |name: &str| {
            let next = places.len();
            *places.entry(name.to_owned()).or_insert(next)
        };
        inputs.iter().for_each(|name| _ = place(name));
        let plan = |step: Step| {
            let reads = step.inputs().map(|name| (place(name), false)).collect();
            let makes = step.outputs().map(&mut place).collect();
            PlannedStep { step, reads, makes }
        };
        let mut steps: Vec<_> = steps.into_iter().map(plan).collect();
        let output = places.get(output).copied();
        let mut is_read = vec![false; places.len()];
        output.into_iter().for_each(|place| is_read[place] = true);
        for (place, is_last) in steps.iter_mut().rev().flat_map(|planned| &mut planned.reads) {
            *is_last = !std::mem::replace(&mut is_read[*place], true);
        }
        Plan { steps, places: places.len(), output }
    }

    /// Runs all steps on the values of the inputs.
    pub(super) fn run(&self, pool: &Arc<ThreadPool>, inputs: Vec<Value>) -> Result<Value, String> {
        let mut values: Vec<Option<Value>> = inputs.into_iter().map(Some).collect();
        values.resize_with(self.places, || None);
        for PlannedStep { step, reads, makes } in &self.steps {
            let given = reads.iter().map(|&(at, is_last)| values[at].take_if(|_| is_last));
            let given: Vec<_> = given.collect();
            let read = reads.iter().zip(given).map(|(&(at, _), given)| match given {
                Some(value) => Some(ValueOrView::Value(value)),
                None => Some(ValueOrView::View(values[at].as_ref()?.as_view())),
            });
            let read = read.collect::<Option<Vec<_>>>().ok_or("a value that nobody makes")?;
            let made = step.run(pool, read)?;
            makes.iter().zip(made).for_each(|(&at, value)| values[at] = Some(value));
        }
        self.output.and_then(|at| values[at].take()).ok_or_else(|| "no step computes it".into())
    }
}

#[derive(Debug)]
pub(super) enum Step {
    /// A graph of the runtime.
    Piece {
        model: Box<rten::Model>,
        inputs: Vec<(NodeId, String)>,
        outputs: Vec<(NodeId, String)>,
    },
    Network(Network),
    Products(Products),
}

impl Step {
    pub(super) fn new(
        path: &Path,
        model: &ModelProto,
        segment: Segment,
        files: Vec<(String, Vec<u8>)>,
        on: (&Bench, Duration),
    ) -> Result<Self, Error> {
        let (graph, inputs, outputs) = match segment {
            Segment::Network(network) => return Ok(Step::Network(network)),
            Segment::Products(products) => return Ok(Step::Products(products)),
            Segment::Nodes { graph, inputs, outputs } => (graph, inputs, outputs),
        };
        let piece = ModelProto {
            ir_version: model.ir_version,
            opset_import: model.opset_import.clone(),
            graph: Some(graph),
            ..ModelProto::default()
        };
        let bytes = piece.write_buf().map_err(|e| Error::file(path, format!("cannot cut: {e}")))?;
        let load = move || {
            let mut options = ModelOptions::with_all_ops();
            // Pack weights for matrix products once, not at every run.
            options.prepack_weights(true);
            for (name, bytes) in files {
                options.external_data(&name, bytes);
            }
            Ok(options.load(bytes).map_err(|e| e.to_string()))
        };
        let refused = |what: String| Error::file(path, format!("the runtime refuses it: {what}"));
        let (bench, limit) = on;
        let model = bench.work((path, "opening it"), limit, load)?.map_err(refused)?;
        let ids = |names: Vec<String>| -> Result<Vec<_>, Error> {
            let id = |name: String| model.node_id(&name).map(|id| (id, name));
            names.into_iter().map(|name| id(name).map_err(|e| refused(e.to_string()))).collect()
        };
        Ok(Step::Piece { inputs: ids(inputs)?, outputs: ids(outputs)?, model: Box::new(model) })
    }

    /// The names of what it reads, each once.
    fn inputs(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Step::Piece { inputs, .. } => Box::new(inputs.iter().map(|(_, name)| name.as_str())),
            Step::Network(network) => Box::new(network.inputs()),
            Step::Products(products) => Box::new(products.inputs()),
        }
    }

    /// The names of what it makes.
    fn outputs(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Step::Piece { outputs, .. } => Box::new(outputs.iter().map(|(_, name)| name.as_str())),
            Step::Network(network) => Box::new(network.outputs()),
            Step::Products(products) => Box::new(products.outputs()),
        }
    }

    /// Runs on the values of all inputs, in their order. Returns those of the outputs.
    fn run(
        &self,
        pool: &Arc<ThreadPool>,
        read: Vec<ValueOrView<'_>>,
    ) -> Result<Vec<Value>, String> {
        match self {
            Step::Piece { model, inputs, outputs } => {
                let ids: Vec<_> = outputs.iter().map(|(id, _)| *id).collect();
                let options = RunOptions::default().with_thread_pool(Some(pool.clone()));
                let read = inputs.iter().map(|(id, _)| *id).zip(read).collect();
                model.run(read, &ids, Some(options)).map_err(|e| e.to_string())
            }
            Step::Products(products) => {
                let views: Vec<_> = read.iter().map(ValueOrView::as_view).collect();
                let tensors = products.run(&views)?;
                Ok(tensors.into_iter().map(Value::from).collect())
            }
            Step::Network(network) => {
                let views: Vec<_> = read.iter().map(ValueOrView::as_view).collect();
                let picture = |(name, view)| match view {
                    ValueView::FloatTensor(tensor) if tensor.ndim() == 4 => Ok(tensor),
                    _ => Err(format!("'{name}' is not a float32 picture")),
                };
                let pictures = network.inputs().zip(views).map(picture);
                let pictures = pictures.collect::<Result<Vec<TensorView<f32>>, _>>()?;
                let views: Vec<_> = pictures.iter().map(|picture| picture.nd_view()).collect();
                Ok(network.run(&views)?.into_iter().map(Value::from).collect())
            }
        }
    }
}
