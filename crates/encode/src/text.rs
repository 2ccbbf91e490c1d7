//! Text encoders: from a text to one vector.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nextpair_data::{listed, ordinary};
use rten::Value;
use tokenizers::Tokenizer;

use crate::hash::{sha256, whole_path};
use crate::model::{Graph, Model, Port, TIME_LIMIT};
use crate::{Error, Worker};

/// Most tokens of a text, for graphs of a fixed length.
const MOST_TOKENS: usize = 1 << 16;

/// Pooling of the token vectors. An output that is already one vector is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPooling {
    /// Their mean.
    Mean,
    /// The first one.
    Cls,
}

/// An ONNX text encoder and its tokeniser.
///
/// Texts are encoded one at a time and without padding: in dynamically quantised graphs, a vector
/// would otherwise depend on the padding and on the other texts of its batch.
#[derive(Debug)]
pub struct TextEncoder {
    model: Model,
    inputs: Vec<Input>,
    tokenizer: Tokenizer,
    tokenizer_path: PathBuf,
    /// The number of tokens and the padding token, for graphs of a fixed length.
    fixed: Option<(usize, u32)>,
    pooling: TextPooling,
    l2: bool,
    dim: usize,
}

/// An input of a graph, with one number per token.
#[derive(Clone, Copy, Debug)]
enum Input {
    Ids,
    Mask,
    Types,
    Positions,
}

impl TextEncoder {
    /// Opens a model and its `tokenizer.json` and encodes a word, so that a mismatch shows at once.
    /// The file's padding is turned off; truncation is kept.
    ///
    /// Without the name of an output, one called `sentence_embedding` or `text_embeds` is used,
    /// else the first of shape `[N, T, D]`, else the first.
    pub fn open(
        path: &Path,
        tokenizer_path: &Path,
        pooling: TextPooling,
        l2: bool,
        output: Option<&str>,
    ) -> Result<Self, Error> {
        Self::open_within(path, (tokenizer_path, pooling, l2), output, TIME_LIMIT)
    }

    /// Like [`open`](Self::open), with a time limit other than [`TIME_LIMIT`] for opening the model
    /// and for encoding a text; see
    /// [`ImageEncoder::open_within`](crate::ImageEncoder::open_within).
    pub fn open_within(
        path: &Path,
        (tokenizer_path, pooling, l2): (&Path, TextPooling, bool),
        output: Option<&str>,
        limit: Duration,
    ) -> Result<Self, Error> {
        let mut tokenizer = Tokenizer::from_bytes(ordinary::read(tokenizer_path)?)
            .map_err(|e| Error::file(tokenizer_path, format!("not a tokeniser: {e}")))?;
        let filler = tokenizer.get_padding().map_or(0, |padding| padding.pad_id);
        tokenizer.with_padding(None);
        let graph = Graph::open(path)?;
        let ports = graph.inputs();
        let inputs = ports.iter().map(|port| meaning(path, port)).collect::<Result<Vec<_>, _>>()?;
        if !inputs.iter().any(|input| matches!(input, Input::Ids)) {
            return Err(Error::file(path, "no input 'input_ids'; is it a text encoder?"));
        }
        let length = ports.iter().find_map(|port| *port.shape.as_ref()?.get(1)?);
        if let Some(length) = length.filter(|&length| length > MOST_TOKENS) {
            let expected = format!("at most {MOST_TOKENS} tokens are accepted");
            return Err(Error::shape(path, "input 'input_ids'", &[1, length], expected));
        }
        let output = choose(path, &graph.outputs(), output)?;
        let mut encoder = TextEncoder {
            model: graph.compile(&output, None, limit)?,
            inputs,
            tokenizer,
            tokenizer_path: tokenizer_path.to_path_buf(),
            fixed: length.map(|length| (length, filler)),
            pooling,
            l2,
            dim: 0,
        };
        encoder.dim = encoder.embed(&Worker::new(), &[0])?.len();
        encoder.model.check_row(encoder.dim)?;
        Ok(encoder)
    }

    /// Dimensions of the vector of a text.
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
        let pooling = match self.pooling {
            TextPooling::Mean => "mean",
            TextPooling::Cls => "cls",
        };
        table.insert("pooling".into(), pooling.into());
        table.insert("l2".into(), self.l2.into());
        table.insert("tokenizer".into(), whole_path(&self.tokenizer_path)?.into());
        table.insert("tokenizer_sha256".into(), sha256(&self.tokenizer_path)?.into());
        Ok(table)
    }

    /// The tokens of a text, including those that the tokeniser adds around it.
    pub fn tokens(&self, text: &str) -> Result<Vec<u32>, Error> {
        let encoding = self.tokenizer.encode_fast(text, true);
        let encoding = encoding.map_err(|e| {
            Error::file(&self.tokenizer_path, format!("cannot split {text:?} into tokens: {e}"))
        })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Encodes one text as `dim` numbers. A text without tokens gives zeros; only the empty text
    /// can have none, and only with some tokenisers.
    pub fn encode(&self, worker: &Worker, text: &str) -> Result<Vec<f32>, Error> {
        let tokens = self.tokens(text)?;
        if tokens.is_empty() {
            return Ok(vec![0.0; self.dim]);
        }
        self.embed(worker, &tokens)
    }

    fn embed(&self, worker: &Worker, tokens: &[u32]) -> Result<Vec<f32>, Error> {
        let length = self.fixed.map_or(tokens.len(), |(length, _)| length);
        let known = tokens.len().min(length);
        let values = self.inputs.iter().map(|input| {
            let number = |n: usize| match input {
                Input::Ids if n < known => tokens[n] as i32,
                Input::Ids => self.fixed.map_or(0, |(_, filler)| filler as i32),
                Input::Mask => i32::from(n < known),
                Input::Types => 0,
                Input::Positions => n as i32,
            };
            let numbers: Vec<i32> = (0..length).map(number).collect();
            Value::from_shape([1, length], numbers).expect("as many numbers as the shape says")
        });
        let (shape, numbers) = self.model.run(worker, values.collect())?;
        let mut vector = match (&shape[..], self.pooling) {
            (&[1, dim], _) if dim > 0 => numbers,
            (&[1, found, dim], _) if found != length || dim == 0 => {
                return Err(self.refused(&shape, length));
            }
            (&[1, _, dim], TextPooling::Cls) => numbers[..dim].to_vec(),
            (&[1, _, dim], TextPooling::Mean) => mean(&numbers[..known * dim], dim),
            _ => return Err(self.refused(&shape, length)),
        };
        if self.l2 {
            normalise(&mut vector);
        }
        Ok(vector)
    }

    fn refused(&self, shape: &[usize], length: usize) -> Error {
        let expected = format!("expected [1, D] or [1, {length}, D] for {length} tokens");
        Error::shape(&self.model.path, format!("output '{}'", self.model.output), shape, expected)
    }
}

fn mean(numbers: &[f32], dim: usize) -> Vec<f32> {
    let count = (numbers.len() / dim) as f64;
    let sum = |d: usize| numbers[d..].iter().step_by(dim).map(|&v| f64::from(v)).sum::<f64>();
    (0..dim).map(|d| (sum(d) / count) as f32).collect()
}

/// Scales to unit norm; zeros stay.
fn normalise(vector: &mut [f32]) {
    let norm = vector.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|v| *v = (f64::from(*v) / norm) as f32);
    }
}

fn meaning(path: &Path, port: &Port) -> Result<Input, Error> {
    Ok(match port.name.as_str() {
        "input_ids" => Input::Ids,
        "attention_mask" => Input::Mask,
        "token_type_ids" => Input::Types,
        "position_ids" => Input::Positions,
        other => {
            let known = "input_ids, attention_mask, token_type_ids and position_ids";
            return Err(Error::file(
                path,
                format!("input '{other}' is unknown; known are {known}"),
            ));
        }
    })
}

fn choose(path: &Path, outputs: &[Port], name: Option<&str>) -> Result<String, Error> {
    let named = |name: &str| outputs.iter().find(|output| output.name == name);
    let found = match name {
        Some(name) => named(name),
        None => named("sentence_embedding")
            .or_else(|| named("text_embeds"))
            .or_else(|| outputs.iter().find(|output| output.rank() == Some(3)))
            .or(outputs.first()),
    };
    let what = || {
        let names = listed(outputs.iter().map(|output| &output.name));
        format!("no output '{}'; there are {names}", name.unwrap_or("any"))
    };
    found.map(|output| output.name.clone()).ok_or_else(|| Error::file(path, what()))
}
