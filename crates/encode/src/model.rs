//! ONNX graphs, run by `rten` one input at a time on one thread.
//!
//! The runtime executes any graph for as long as it takes. Operations that no encoder needs are
//! refused beforehand ([`limits`], [`wire`]), and the runtime works on threads that can be
//! abandoned ([`within`]).
//!
//! A graph with convolutions or quantised products is cut into parts: those that consist of them
//! run in our own code ([`network`], [`products`]), the others in the runtime.

mod constants;
mod cut;
mod limits;
mod network;
mod plan;
mod products;
mod wire;
mod within;

use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nextpair_data::ordinary;
use rten::{ThreadPool, Value};
use rten_onnx::onnx::{DataLocation, DataType, GraphProto, ModelProto, ValueInfoProto};
use rten_tensor::prelude::*;

use crate::Error;
use crate::hash::{sha256, whole_path};
use cut::cut;
use plan::{Plan, Step};
use within::Bench;

/// Time limit for opening a model, and for encoding one picture or text.
pub const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Longest chain of nodes that fits on the stack of the runtime's own threads.
const SHALLOW: usize = 1000;

/// Longest row of features: pictures of hundreds of regions have fewer numbers.
const LONGEST_ROW: usize = 1 << 22;

/// A thread to run models on. Threads that share one wait for each other.
#[derive(Debug)]
pub struct Worker {
    pool: Arc<ThreadPool>,
    bench: Bench,
}

impl Worker {
    /// Starts a worker with a thread of its own.
    pub fn new() -> Self {
        // One thread, so that no sum depends on how work was divided.
        Worker { pool: Arc::new(ThreadPool::with_num_threads(1)), bench: Bench::new() }
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
    /// The shape, if the file states one; sizes that depend on the input are `None`.
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
    is_deep: bool,
}

impl Graph {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let bytes = ordinary::read(path)?;
        let foreign = |what: String| Error::file(path, format!("not an ONNX file: {what}"));
        wire::check(&bytes).map_err(foreign)?;
        let parse = || ModelProto::parse_buf(&bytes).map_err(|e| foreign(e.to_string()));
        let mut model = guard(path, parse)?;
        let graph = model.graph.take().filter(|graph| !graph.node.is_empty());
        let graph = graph.ok_or_else(|| foreign("it has no graph".into()))?;
        let chain = limits::check(&graph).map_err(|what| Error::file(path, what))?;
        check_files_of(&graph, path)?;
        Ok(Graph { path: path.to_path_buf(), model, graph, is_deep: chain > SHALLOW })
    }

    pub(crate) fn inputs(&self) -> Vec<Port> {
        // Old files list their weights among the inputs.
        let weights: HashSet<_> = self.graph.initializer.iter().map(|w| &w.name).collect();
        self.graph.input.iter().filter(|input| !weights.contains(&input.name)).map(port).collect()
    }

    pub(crate) fn outputs(&self) -> Vec<Port> {
        self.graph.output.iter().map(port).collect()
    }

    /// Compiles a model that computes only `output`, within the time `limit`.
    pub(crate) fn compile(self, output: &str, limit: Duration) -> Result<Model, Error> {
        let Graph { path, graph, model, is_deep } = &self;
        let (bench, began) = (Bench::new(), Instant::now());
        let left = || limit.saturating_sub(began.elapsed());
        let inputs: Vec<_> = self.inputs().into_iter().map(|port| port.name).collect();
        let elsewhere =
            |w: &rten_onnx::onnx::TensorProto| w.data_location == Some(DataLocation::EXTERNAL);
        let segments =
            if graph.initializer.iter().any(elsewhere) { None } else { cut(graph, output) };
        let steps = match segments {
            Some(segments) => segments
                .into_iter()
                .map(|segment| Step::new(path, model, segment, (&bench, left())))
                .collect::<Result<Vec<_>, _>>(),
            None => Step::whole(path, &inputs, output, (&bench, left())).map(|step| vec![step]),
        };
        let steps = steps.map_err(|error| match error {
            Error::Slow { path, what, .. } => {
                Error::Slow { path, what, seconds: limit.as_secs_f64() }
            }
            other => other,
        })?;
        let (output, is_deep) = (output.to_string(), *is_deep);
        let plan = Arc::new(Plan::new(steps, &inputs, &output));
        Ok(Model { path: path.clone(), output, plan, is_deep, limit })
    }
}

/// Checks that files with external weights of the graph are regular files.
fn check_files_of(graph: &GraphProto, path: &Path) -> Result<(), Error> {
    let mut files = BTreeSet::new();
    let mut graphs = vec![graph];
    while let Some(graph) = graphs.pop() {
        let attributes = || graph.node.iter().flat_map(|node| &node.attribute);
        graphs.extend(attributes().filter_map(|attribute| attribute.g.as_ref()));
        let tensors = attributes().filter_map(|attribute| attribute.t.as_ref());
        let entries = tensors.chain(&graph.initializer).flat_map(|tensor| &tensor.external_data);
        let files_of = entries.filter(|entry| entry.key.as_deref() == Some("location"));
        files.extend(files_of.filter_map(|entry| entry.value.as_deref()));
    }
    for file in files {
        ordinary::open(&path.with_file_name(file))?;
    }
    Ok(())
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
    pub(crate) output: String,
    plan: Arc<Plan>,
    is_deep: bool,
    limit: Duration,
}

impl Model {
    /// Identifies the file, and the output in use.
    pub(crate) fn describe(&self) -> Result<toml::Table, Error> {
        let mut table = toml::Table::new();
        table.insert("encoder".into(), whole_path(&self.path)?.into());
        table.insert("sha256".into(), sha256(&self.path)?.into());
        table.insert("output".into(), self.output.clone().into());
        Ok(table)
    }

    /// Runs the model on the values of all inputs, in their order. Returns the shape and the
    /// numbers of the output.
    pub(crate) fn run(
        &self,
        worker: &Worker,
        inputs: Vec<Value>,
    ) -> Result<(Vec<usize>, Vec<f32>), Error> {
        let (plan, pool, is_deep) = (self.plan.clone(), worker.pool.clone(), self.is_deep);
        let run = move || {
            let steps = || plan.run(&pool, inputs);
            // The whole run moves to the runtime's thread: switching threads at every step costs
            // more.
            Ok(if is_deep { steps() } else { pool.run(steps) })
        };
        let output = worker.bench.work((&self.path, "encoding one item"), self.limit, run)?;
        let output = output.map_err(|what| {
            let what = format!("the runtime failed on '{}': {what}", self.output);
            Error::file(&self.path, what)
        })?;
        let tensor = output.into_tensor::<f32>().ok_or_else(|| {
            Error::file(&self.path, format!("output '{}' is not of float32", self.output))
        })?;
        Ok((tensor.shape().to_vec(), tensor.into_data()))
    }

    /// Returns an error if a row of features would be unreasonably long.
    pub(crate) fn check_row(&self, length: usize) -> Result<(), Error> {
        match length {
            ..=LONGEST_ROW => Ok(()),
            _ => {
                let expected = format!("a row has at most {LONGEST_ROW} numbers");
                Err(Error::shape(
                    &self.path,
                    format!("output '{}'", self.output),
                    &[length],
                    expected,
                ))
            }
        }
    }
}

/// Runs `work` and reports a panic in it as an error about the model.
fn guard<T>(path: &Path, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let said = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Error::file(path, format!("malformed: the runtime failed ({said})")))
    })
}

#[cfg(test)]
mod tests;
