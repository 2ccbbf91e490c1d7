//! ONNX graphs, run by `rten` one input at a time on one thread.
//!
//! A graph with depthwise convolutions is cut at them into pieces: the runtime runs the pieces,
//! [`depthwise`] what lies between.

mod cut;
mod depthwise;
mod wire;

use std::collections::HashSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rten::{ModelOptions, NodeId, RunOptions, ThreadPool, Value, ValueOrView};
use rten_onnx::onnx::{DataLocation, DataType, GraphProto, ModelProto, ValueInfoProto};
use rten_tensor::prelude::*;

use crate::Error;
use crate::hash::{sha256, whole_path};
use cut::{Segment, cut};
use depthwise::Depthwise;

/// One thread's place to run models in. Threads that share one wait for each other.
#[derive(Debug)]
pub struct Worker {
    pool: Arc<ThreadPool>,
}

impl Worker {
    /// A new place, with a thread of its own.
    pub fn new() -> Self {
        // One thread, so that no sum depends on how work was divided.
        Worker { pool: Arc::new(ThreadPool::with_num_threads(1)) }
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self::new()
    }
}

/// An input or output of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) name: String,
    /// The shape, where the file states one; sizes that depend on the input are `None`.
    pub(crate) shape: Option<Vec<Option<usize>>>,
    pub(crate) is_float: bool,
}

impl Port {
    pub(crate) fn rank(&self) -> Option<usize> {
        self.shape.as_ref().map(Vec::len)
    }
}

/// A parsed file, to choose an output from.
pub(crate) struct Graph {
    path: PathBuf,
    model: ModelProto,
    graph: GraphProto,
}

impl Graph {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(|e| Error::io(path, e))?;
        let foreign = |what: String| Error::file(path, format!("not an ONNX file: {what}"));
        wire::check(&bytes).map_err(foreign)?;
        let parse = || ModelProto::parse_buf(&bytes).map_err(|e| foreign(e.to_string()));
        let mut model = guard(path, parse)?;
        let graph = model.graph.take().filter(|graph| !graph.node.is_empty());
        let graph = graph.ok_or_else(|| foreign("it has no graph".into()))?;
        Ok(Graph { path: path.to_path_buf(), model, graph })
    }

    pub(crate) fn inputs(&self) -> Vec<Port> {
        // Old files list their weights among the inputs.
        let weights: HashSet<_> = self.graph.initializer.iter().map(|w| &w.name).collect();
        self.graph.input.iter().filter(|input| !weights.contains(&input.name)).map(port).collect()
    }

    pub(crate) fn outputs(&self) -> Vec<Port> {
        self.graph.output.iter().map(port).collect()
    }

    /// A model that computes `output` and nothing else.
    pub(crate) fn compile(self, output: &str) -> Result<Model, Error> {
        let Graph { path, graph, model } = &self;
        let inputs: Vec<_> = self.inputs().into_iter().map(|port| port.name).collect();
        let elsewhere =
            |w: &rten_onnx::onnx::TensorProto| w.data_location == Some(DataLocation::EXTERNAL);
        let segments = match graph.initializer.iter().any(elsewhere) {
            true => None,
            false => cut(graph, output),
        };
        let steps = match segments {
            Some(segments) => segments
                .into_iter()
                .map(|segment| Step::new(path, model, segment))
                .collect::<Result<_, _>>()?,
            None => vec![Step::whole(path, &inputs, output)?],
        };
        Ok(Model { path: path.clone(), inputs, output: output.to_string(), steps })
    }
}

fn port(info: &ValueInfoProto) -> Port {
    let tensor = info.r#type.as_ref().and_then(|of| of.tensor_type.as_ref());
    let shape = tensor.and_then(|tensor| tensor.shape.as_ref());
    let size = |value: Option<i64>| value.and_then(|v| usize::try_from(v).ok());
    Port {
        name: info.name.clone().unwrap_or_default(),
        shape: shape.map(|shape| shape.dim.iter().map(|dim| size(dim.dim_value)).collect()),
        is_float: tensor
            .is_none_or(|tensor| tensor.elem_type.is_none_or(|of| of == DataType::FLOAT)),
    }
}

/// A graph that is ready to run.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) path: PathBuf,
    pub(crate) inputs: Vec<String>,
    pub(crate) output: String,
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Piece { model: Box<rten::Model>, inputs: Vec<(NodeId, String)>, outputs: Vec<(NodeId, String)> },
    Depthwise { layer: Depthwise, input: String, output: String },
}

impl Step {
    fn new(path: &Path, model: &ModelProto, segment: Segment) -> Result<Self, Error> {
        let (graph, inputs, outputs) = match segment {
            Segment::Depthwise { layer, input, output } => {
                return Ok(Step::Depthwise { layer, input, output });
            }
            Segment::Nodes { graph, inputs, outputs } => (graph, inputs, outputs),
        };
        let piece = ModelProto {
            ir_version: model.ir_version,
            opset_import: model.opset_import.clone(),
            graph: Some(graph),
            ..ModelProto::default()
        };
        let bytes = piece.write_buf().map_err(|e| Error::file(path, format!("cannot cut: {e}")))?;
        let load = || options().load(bytes).map_err(|e| e.to_string());
        Self::piece(path, load, &inputs, &outputs)
    }

    fn whole(path: &Path, inputs: &[String], output: &str) -> Result<Self, Error> {
        let load = || options().load_file(path).map_err(|e| e.to_string());
        Self::piece(path, load, inputs, &[output.to_string()])
    }

    fn piece(
        path: &Path,
        load: impl FnOnce() -> Result<rten::Model, String>,
        inputs: &[String],
        outputs: &[String],
    ) -> Result<Self, Error> {
        let refused = |what: String| Error::file(path, format!("the runtime refuses it: {what}"));
        let model = guard(path, || load().map_err(refused))?;
        let ids = |names: &[String]| -> Result<Vec<_>, Error> {
            let id = |name: &String| model.node_id(name).map(|id| (id, name.clone()));
            names.iter().map(|name| id(name).map_err(|e| refused(e.to_string()))).collect()
        };
        Ok(Step::Piece { inputs: ids(inputs)?, outputs: ids(outputs)?, model: Box::new(model) })
    }

    fn reads(&self, name: &str) -> bool {
        match self {
            Step::Piece { inputs, .. } => inputs.iter().any(|(_, input)| input == name),
            Step::Depthwise { input, .. } => input == name,
        }
    }
}

fn options() -> ModelOptions {
    let mut options = ModelOptions::with_all_ops();
    // Weights in the order that products want them, once and not at every run.
    options.prepack_weights(true);
    options
}

/// A tensor by its name.
type Named = (String, Value);

impl Model {
    /// Which file this is, and what of it is used.
    pub(crate) fn describe(&self) -> Result<toml::Table, Error> {
        let mut table = toml::Table::new();
        table.insert("encoder".into(), whole_path(&self.path)?.into());
        table.insert("sha256".into(), sha256(&self.path)?.into());
        table.insert("output".into(), self.output.clone().into());
        Ok(table)
    }

    /// The shape and the numbers of the output for the values of all inputs, in their order.
    pub(crate) fn run(
        &self,
        worker: &Worker,
        inputs: Vec<Value>,
    ) -> Result<(Vec<usize>, Vec<f32>), Error> {
        let values = self.inputs.iter().cloned().zip(inputs).collect();
        // The whole run moves to the worker's thread: going there for every step costs more.
        let run = || worker.pool.run(|| self.steps_from(&worker.pool, values));
        let output = guard(&self.path, || run().map_err(|what| self.failed(&what)))?;
        let tensor = output.into_tensor::<f32>().ok_or_else(|| {
            Error::file(&self.path, format!("output '{}' is not of float32", self.output))
        })?;
        Ok((tensor.shape().to_vec(), tensor.into_data()))
    }

    fn failed(&self, what: &str) -> Error {
        Error::file(&self.path, format!("the runtime failed on '{}': {what}", self.output))
    }

    fn steps_from(&self, pool: &Arc<ThreadPool>, mut values: Vec<Named>) -> Result<Value, String> {
        for (n, step) in self.steps.iter().enumerate() {
            let later = &self.steps[n + 1..];
            // What nobody reads later is given away, so that it can be overwritten in place.
            let used = |(name, _): &Named| step.reads(name);
            let (taken, rest): (Vec<_>, Vec<_>) = values.into_iter().partition(used);
            let needed = |(name, _): &Named| {
                *name == self.output || later.iter().any(|step| step.reads(name))
            };
            let (lent, given): (Vec<_>, Vec<_>) = taken.into_iter().partition(needed);
            values = rest;
            values.extend(step.run(pool, given, &lent)?);
            values.extend(lent);
        }
        let output = values.into_iter().find(|(name, _)| *name == self.output);
        output.map(|(_, value)| value).ok_or_else(|| "no step computes it".into())
    }
}

impl Step {
    fn run(
        &self,
        pool: &Arc<ThreadPool>,
        given: Vec<Named>,
        lent: &[Named],
    ) -> Result<Vec<Named>, String> {
        match self {
            Step::Piece { model, inputs, outputs } => {
                let id =
                    |name: &str| inputs.iter().find(|(_, input)| input == name).map(|(id, _)| *id);
                let lent =
                    lent.iter().map(|(name, v)| Some((id(name)?, ValueOrView::View(v.as_view()))));
                let given =
                    given.into_iter().map(|(name, v)| Some((id(&name)?, ValueOrView::Value(v))));
                let ids: Vec<_> = outputs.iter().map(|(id, _)| *id).collect();
                let options = RunOptions::default().with_thread_pool(Some(pool.clone()));
                let inputs = lent.chain(given).flatten().collect();
                let values = model.run(inputs, &ids, Some(options)).map_err(|e| e.to_string())?;
                Ok(outputs.iter().map(|(_, name)| name.clone()).zip(values).collect())
            }
            Step::Depthwise { layer, input, output } => {
                let value = given.iter().chain(lent).find(|(name, _)| name == input);
                let tensor = value.and_then(|(_, value)| value.as_tensor_view::<f32>());
                let tensor = tensor.filter(|tensor| tensor.ndim() == 4);
                let tensor = tensor.ok_or_else(|| format!("'{input}' is not a float32 picture"))?;
                let result =
                    layer.run(tensor.nd_view()).map_err(|what| format!("'{output}': {what}"))?;
                Ok(vec![(output.clone(), result.into())])
            }
        }
    }
}

/// Runs `work`, and reports a panic in it as an error about the model.
///
/// The runtime states some expectations about a graph with `expect` or slicing, so a malformed one
/// can end in a panic. It must not end the process, and nothing that `work` touched is seen again.
fn guard<T>(path: &Path, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let said = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Error::file(path, format!("malformed: the runtime failed ({said})")))
    })
}
