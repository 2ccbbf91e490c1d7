//! Image encoders: from a picture to one vector, or to one per region.

mod pooling;

use std::path::Path;
use std::time::Duration;

use nextpair_data::listed;
use nextpair_data::picture::Picture;
use rten::Value;

use crate::model::{Graph, Model, Port, TIME_LIMIT};
use crate::preprocess::{Layout, Preprocess};
use crate::{Error, Worker};
use pooling::Grid;

/// Pooling of the encoder's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// One vector per picture: the output itself if it is one vector, else the mean of the grid.
    Pooled,
    /// This many vectors per picture: means over as many overlapping windows of the grid, in the
    /// most square arrangement, row by row from the top.
    Regions(usize),
}

/// An ONNX image encoder and the preprocessing it was trained with.
#[derive(Debug)]
pub struct ImageEncoder {
    model: Model,
    preprocess: Preprocess,
    pooling: Pooling,
    locals: usize,
    dim: usize,
}

impl ImageEncoder {
    /// Opens a model and encodes a blank picture, so that a mismatch shows at once.
    ///
    /// Without the name of an output, [`Pooling::Pooled`] uses the first of shape `[N, D]`, else
    /// one with a grid; [`Pooling::Regions`] the first of shape `[N, C, H, W]` (or `[N, H, W, C]`,
    /// if that is the layout of the input), else of `[N, T, D]`, whose `T` tokens are a square grid
    /// with or without a class token in front.
    pub fn open(
        path: &Path,
        preprocess: Preprocess,
        pooling: Pooling,
        output: Option<&str>,
    ) -> Result<Self, Error> {
        Self::open_within(path, preprocess, pooling, output, TIME_LIMIT)
    }

    /// Like [`open`](Self::open), with a time limit other than [`TIME_LIMIT`] for opening the model
    /// and for encoding a picture. Exceeding it is [`Error::Slow`], and a thread stays busy until
    /// the process ends.
    pub fn open_within(
        path: &Path,
        preprocess: Preprocess,
        pooling: Pooling,
        output: Option<&str>,
        limit: Duration,
    ) -> Result<Self, Error> {
        let graph = Graph::open(path)?;
        check_input(path, &graph.inputs(), &preprocess)?;
        let output = choose(path, &graph.outputs(), pooling, output)?;
        let model = graph.compile(&output, Some(&[preprocess.shape().to_vec()]), limit)?;
        let mut encoder = ImageEncoder { model, preprocess, pooling, locals: 0, dim: 0 };
        let blank = Picture { width: 1, height: 1, pixels: vec![127; 3] };
        let prepared = encoder.preprocess.prepare(&blank)?;
        let row = encoder.encode_prepared(&Worker::new(), prepared)?;
        encoder.model.check_row(row.len())?;
        encoder.locals = match pooling {
            Pooling::Pooled => 1,
            Pooling::Regions(count) => count,
        };
        encoder.dim = row.len() / encoder.locals;
        Ok(encoder)
    }

    /// Number of vectors per picture.
    pub fn locals(&self) -> usize {
        self.locals
    }

    /// Dimensions of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The name of the output in use.
    pub fn output(&self) -> &str {
        &self.model.output
    }

    /// Everything that the numbers depend on, so that more can be made in the same way.
    pub(crate) fn describe(&self) -> Result<toml::Table, Error> {
        let mut table = self.model.describe()?;
        match self.pooling {
            Pooling::Pooled => table.insert("pooling".into(), "pooled".into()),
            Pooling::Regions(count) => table.insert("regions".into(), (count as i64).into()),
        };
        table.insert("preprocess".into(), self.preprocess.to_table().into());
        Ok(table)
    }

    /// Encodes one picture as `locals * dim` numbers.
    pub fn encode(&self, worker: &Worker, picture: &Picture) -> Result<Vec<f32>, Error> {
        self.encode_prepared(worker, self.preprocess.prepare(picture)?)
    }

    /// Like [`encode`](Self::encode), for the result of [`Preprocess::prepare`].
    pub fn encode_prepared(&self, worker: &Worker, prepared: Vec<f32>) -> Result<Vec<f32>, Error> {
        let shape = self.preprocess.shape();
        let count = prepared.len();
        let input = Value::from_shape(shape, prepared).map_err(|_| {
            let what = format!("{count} numbers for an input of shape {shape:?}");
            Error::file(&self.model.path, what)
        })?;
        let (shape, numbers) = self.model.run(worker, vec![input])?;
        let grid = Grid::new(&shape, &numbers, self.preprocess.layout());
        let tensor = || format!("output '{}'", self.model.output);
        let refused = |expected| Error::shape(&self.model.path, tensor(), &shape, expected);
        match (self.pooling, shape[..] == [1, numbers.len()]) {
            (Pooling::Pooled, true) => Ok(numbers),
            (Pooling::Pooled, false) => Ok(grid.map_err(refused)?.mean()),
            (Pooling::Regions(count), _) => grid.and_then(|g| g.regions(count)).map_err(refused),
        }
    }
}

fn check_input(path: &Path, inputs: &[Port], preprocess: &Preprocess) -> Result<(), Error> {
    let [input] = inputs else {
        let names = listed(inputs.iter().map(|input| &input.name));
        let what = format!("{} inputs ({names}); an image encoder has one", inputs.len());
        return Err(Error::file(path, what));
    };
    if !input.is_float {
        return Err(Error::file(path, format!("input '{}' is not of float32", input.name)));
    }
    let expected = preprocess.shape();
    let Some(shape) = &input.shape else { return Ok(()) };
    let fits = |(size, expected): (&Option<usize>, usize)| size.is_none_or(|size| size == expected);
    if shape.len() == 4 && shape.iter().zip(expected).all(fits) {
        return Ok(());
    }
    let other = match preprocess.layout() {
        Layout::Nchw => "nhwc",
        Layout::Nhwc => "nchw",
    };
    let found: Vec<_> = shape.iter().map(|size| size.unwrap_or(0)).collect();
    let what = format!(
        "the preprocessing makes {expected:?} (0 is any size; layout = \"{other}\" is the other \
         order; a batch must be free or 1)"
    );
    Err(Error::shape(path, format!("input '{}'", input.name), &found, what))
}

fn choose(
    path: &Path,
    outputs: &[Port],
    pooling: Pooling,
    name: Option<&str>,
) -> Result<String, Error> {
    if let Some(name) = name {
        if outputs.iter().any(|output| output.name == name) {
            return Ok(name.to_string());
        }
        let names = listed(outputs.iter().map(|output| &output.name));
        return Err(Error::file(path, format!("no output '{name}'; there are {names}")));
    }
    let ranks: &[usize] = match pooling {
        Pooling::Pooled => &[2, 4, 3],
        Pooling::Regions(_) => &[4, 3],
    };
    let of_rank = |rank: &usize| outputs.iter().find(|output| output.rank() == Some(*rank));
    // Files need not state shapes; then try the first output.
    let found = ranks.iter().find_map(of_rank).or(outputs.first());
    let found = found.ok_or_else(|| Error::file(path, "the graph has no outputs"))?;
    Ok(found.name.clone())
}
