//! ONNX graphs, run by `rten` one input at a time on one thread.
//!
//! The runtime executes any graph for as long as it takes. Graphs that no encoder needs are refused
//! beforehand ([`limits`], [`wire`], [`sizes`]), and the runtime works on threads that can be abandoned
//! ([`within`]). So are operators that were never compared with ONNX Runtime ([`operators`]); what the
//! runtime computes otherwise than the standard says is rewritten ([`normalise`]).
//!
//! A graph with convolutions or quantised products is cut into parts: those that consist of them
//! run in our own code ([`network`], [`products`]), the others in the runtime.

mod constants;
mod cut;
mod limits;
mod network;
mod normalise;
mod operators;
mod plan;
mod products;
mod sizes;
mod wire;
mod within;

use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nextpair_data::ordinary;
use rten::{ThreadPool, Value};
use rten_onnx::onnx::{
    DataLocation, DataType, GraphProto, ModelProto, TensorProto, ValueInfoProto,
};
use rten_tensor::prelude::*;

use crate::Error;
use crate::hash::{sha256, whole_path};
use cut::{Segment, cut, prune};
use normalise::normalise;
use operators::UnsupportedNode;
use plan::{Plan, Step};
use sizes::Sizes;
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

    /// Compiles a model that computes only `output`, within the time `limit`. `shapes` are those of the
    /// inputs, if they are always the same.
    pub(crate) fn compile(
        self,
        output: &str,
        shapes: Option<&[Vec<usize>]>,
        limit: Duration,
    ) -> Result<Model, Error> {
        let (bench, began) = (Bench::new(), Instant::now());
        let left = || limit.saturating_sub(began.elapsed());
        let inputs: Vec<_> = self.inputs().into_iter().map(|port| port.name).collect();
        let Graph { path, graph, model, is_deep } = self;
        let (output, seen) = (output.to_owned(), shapes.map(<[_]>::to_vec));
        let (name, names, given, file) =
            (output.clone(), inputs.clone(), seen.clone(), path.clone());
        let prepare = move || prepare(&file, graph, model, &names, &name, given.as_deref());
        let (graph, model, sizes) = bench.work((&path, "opening it"), left(), prepare)?;
        let files = files_of(&graph, &path)?;
        let segments = if files.is_empty() { cut(&graph, &output) } else { None };
        let segments = segments.unwrap_or_else(|| {
            let (inputs, outputs) = (inputs.clone(), vec![output.clone()]);
            vec![Segment::Nodes { graph, inputs, outputs }]
        });
        let mut files = Some(files);
        let step = |segment| {
            Step::new(&path, &model, segment, files.take().unwrap_or_default(), (&bench, left()))
        };
        let steps = segments.into_iter().map(step).collect::<Result<Vec<_>, _>>();
        let steps = steps.map_err(|error| match error {
            Error::Slow { path, what, .. } => {
                Error::Slow { path, what, seconds: limit.as_secs_f64() }
            }
            other => other,
        })?;
        let plan = Arc::new(Plan::new(steps, &inputs, &output));
        let checked = CheckedSizes { inputs, sizes, seen: seen.into_iter().collect() };
        let sizes = Arc::new(Mutex::new(checked));
        Ok(Model { path, output, plan, sizes, is_deep, limit })
    }
}

/// Leaves what `output` needs of a graph, as nodes that are computed as the standard says, within the
/// limits on memory.
fn prepare(
    path: &Path,
    mut graph: GraphProto,
    model: ModelProto,
    inputs: &[String],
    output: &str,
    shapes: Option<&[Vec<usize>]>,
) -> Result<(GraphProto, ModelProto, Sizes), Error> {
    let refused = |UnsupportedNode { operator, output, what }| Error::Operator {
        path: path.to_path_buf(),
        operator,
        output,
        what,
    };
    let large = |what| Error::Memory { path: path.to_path_buf(), what };
    prune(&mut graph, output);
    let version = operators::version(&model);
    operators::check(&graph, version).map_err(refused)?;
    let pool = Arc::new(ThreadPool::with_num_threads(1));
    let shape = |at: usize| shapes.map(|shapes| shapes[at].as_slice());
    let given: Vec<_> =
        inputs.iter().enumerate().map(|(at, name)| (name.as_str(), shape(at))).collect();
    let sizes = Sizes::of(&graph, &model, output, &pool).map_err(large)?;
    let mut known = sizes.follow(&given, false, &pool).map_err(large)?;
    known.extend(sizes.stored());
    normalise(&mut graph, version, &known).map_err(refused)?;
    let sizes = Sizes::of(&graph, &model, output, &pool).map_err(large)?;
    sizes.follow(&given, shapes.is_some(), &pool).map_err(large)?;
    Ok((graph, model, sizes))
}

/// Sizes of values, with the sizes of inputs that are within the limits.
#[derive(Debug)]
struct CheckedSizes {
    inputs: Vec<String>,
    sizes: Sizes,
    seen: HashSet<Vec<Vec<usize>>>,
}

impl CheckedSizes {
    fn check(&mut self, inputs: &[Value], pool: &Arc<ThreadPool>) -> Result<(), String> {
        let shapes: Vec<_> = inputs.iter().map(|input| input.shape().to_vec()).collect();
        if self.seen.contains(&shapes) {
            return Ok(());
        }
        let given = self.inputs.iter().zip(&shapes);
        let given: Vec<_> =
            given.map(|(name, shape)| (name.as_str(), Some(shape.as_slice()))).collect();
        self.sizes.follow(&given, true, pool)?;
        self.seen.insert(shapes);
        Ok(())
    }
}

/// The files with external weights, beside the model.
fn files_of(graph: &GraphProto, path: &Path) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let attributes = graph.node.iter().flat_map(|node| &node.attribute);
    let tensors = attributes.filter_map(|attribute| attribute.t.as_ref()).chain(&graph.initializer);
    let elsewhere = |tensor: &&TensorProto| tensor.data_location == Some(DataLocation::EXTERNAL);
    let entries = tensors.filter(elsewhere).flat_map(|tensor| &tensor.external_data);
    let names = entries.filter(|entry| entry.key.as_deref() == Some("location"));
    let names: BTreeSet<_> = names.filter_map(|entry| entry.value.as_deref()).collect();
    let read = |name: &str| {
        if Path::new(name).file_name() != Some(name.as_ref()) {
            return Err(Error::file(path, format!("weights in '{name}'; they must lie beside it")));
        }
        Ok((name.to_owned(), ordinary::read(&path.with_file_name(name))?))
    };
    names.into_iter().map(read).collect()
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
    sizes: Arc<Mutex<CheckedSizes>>,
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
        let (sizes, path) = (self.sizes.clone(), self.path.clone());
        let run = move || {
            let check = || {
                let mut sizes = sizes.lock().unwrap_or_else(PoisonError::into_inner);
                sizes.check(&inputs, &pool)
            };
            let checked = if is_deep { check() } else { pool.run(check) };
            checked.map_err(|what| Error::Memory { path, what })?;
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
mod networks;
#[cfg(test)]
mod tests;
