//! Our side of `cargo xtask bench train` and `bench score`: `contestant serve FILE THREADS`.
//!
//! It speaks the protocol of its rivals (bench/matching.py): requests and answers are lines of
//! JSON, and FILE holds a batch with weights, or encoded images and captions.

// Standard output is its protocol: one reader, no user.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use nextpair_data::npy;
use nextpair_data::safetensors::SafetensorsFile;
use nextpair_kernels::{Aggregation, Attention, Matcher, Memory, Normaliser, Ragged};
use nextpair_models::{Batch, Config, Device, Inputs, Model, Tensor, Texts, Trainer};
use serde_json::{Value, json};

type Anything = Box<dyn std::error::Error>;

fn main() -> Result<(), Anything> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, _, file, threads] = arguments.as_slice() else {
        return Err("usage: contestant serve FILE THREADS".into());
    };
    nextpair_kernels::prepare_process();
    rayon::ThreadPoolBuilder::new().num_threads(threads.parse()?).build_global()?;
    // As `train` does: on a thread of the pool.
    rayon::scope(|_| serve(Path::new(file)).map_err(|error| error.to_string()))?;
    Ok(())
}

fn serve(file: &Path) -> Result<(), Anything> {
    let input = Input::open(file)?;
    println!("{}", json!({"versions": {"nextpair": env!("CARGO_PKG_VERSION")}}));
    let mut training = None;
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let answer = match request["run"].as_str() {
            Some("reset") => {
                training = Some(Training::new(&input)?);
                json!({})
            }
            Some("step") => {
                if training.is_none() {
                    training = Some(Training::new(&input)?);
                }
                training.as_mut().ok_or("reset comes first")?.step()?
            }
            Some("score") => score(&input, request["out"].as_str())?,
            other => return Err(format!("unknown request {other:?}").into()),
        };
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

struct Input {
    file: SafetensorsFile,
    config: Value,
}

impl Input {
    fn open(path: &Path) -> Result<Self, Anything> {
        let file = SafetensorsFile::open(path)?;
        let metadata = file.metadata();
        let config = serde_json::from_str(metadata.get("config").ok_or("the file has no config")?)?;
        Ok(Input { file, config })
    }

    fn floats(&self, name: &str) -> Result<(Vec<usize>, Vec<f32>), Anything> {
        let (shape, values) = self.file.f64s(name)?;
        Ok((shape, values.into_iter().map(|value| value as f32).collect()))
    }

    fn number(&self, key: &str) -> Result<f64, Anything> {
        self.config[key].as_f64().ok_or_else(|| format!("no {key}").into())
    }
}

/// A model and its optimiser, in the middle of training.
struct Training {
    trainer: Trainer,
    batch: Batch,
}

impl Training {
    fn new(input: &Input) -> Result<Self, Anything> {
        let mut weights = BTreeMap::new();
        for stored in input.file.names() {
            let parts = ["param.", "buffer."].iter().find_map(|part| stored.strip_prefix(part));
            let Some(name) = parts else { continue };
            let (shape, values) = input.floats(&stored)?;
            weights.insert(name.to_owned(), Tensor::new(values, &shape, Device::Cpu)?);
        }
        for (buffer, key) in [("thres", "thres_before"), ("thres_safe", "thres_safe_before")] {
            if let Ok(threshold) = input.number(key) {
                let threshold = Tensor::new(vec![threshold as f32], &[1], Device::Cpu)?;
                weights.insert(buffer.to_owned(), threshold);
            }
        }
        let family = input.config["family"].as_str().unwrap_or("IMRAM");
        let config = Config::from_published(family, &input.config)?;
        let published = config.architecture().training();
        let size = |key: &str| Ok::<_, Anything>(input.number(key)? as usize);
        let inputs = Inputs { image: size("img_dim")?, text: size("vocab_size")? };
        let model = Model::from_tensors(config, inputs, &weights, "the input", Device::Cpu)?;
        let (shape, values) = input.floats("in.images")?;
        let images = Tensor::new(values, &shape, Device::Cpu)?;
        let (shape, ids) = input.file.i64s("in.captions")?;
        let (_, lengths) = input.file.i64s("in.lengths")?;
        let captions: Vec<Vec<u32>> = ids
            .chunks(shape[1])
            .zip(lengths)
            .map(|(ids, length)| ids[..length as usize].iter().map(|&id| id as u32).collect())
            .collect();
        let training = nextpair_models::Training {
            margin: input.number("margin")?,
            clip: input.number("grad_clip")?,
            rate: input.number("lr")?,
            loss: published.loss,
            reduction: published.reduction,
            ..Default::default()
        };
        Ok(Training {
            trainer: Trainer::new(model, training)?,
            batch: Batch::new(images, Texts::words(&captions)?),
        })
    }

    fn step(&mut self) -> Result<Value, Anything> {
        let start = Instant::now();
        let step = self.trainer.step(&self.batch, 0)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(
            json!({"seconds": seconds, "loss": step.losses.read()?[0].loss, "grad_norm": step.gradient.value()?}),
        )
    }
}

fn score(input: &Input, out: Option<&str>) -> Result<Value, Anything> {
    let (shape, images) = input.floats("in.image_emb")?;
    let (count, regions, dim) = (shape[0], shape[1], shape[2]);
    let (shape, words) = input.floats("in.caption_emb")?;
    let width = shape[1];
    let (_, lengths) = input.file.i64s("in.lengths")?;
    let mut captions = Vec::new();
    let mut text_offsets = vec![0];
    for (row, &length) in words.chunks(width * dim).zip(&lengths) {
        captions.extend_from_slice(&row[..length as usize * dim]);
        text_offsets.push(captions.len() / dim);
    }
    let image_offsets: Vec<usize> = (0..=count).map(|image| image * regions).collect();
    let weight = |name: &str| Ok::<_, Anything>(input.floats(&format!("param.mem_t2i.{name}"))?.1);
    let (linear_weight, linear_bias) = (weight("linear.weight")?, weight("linear.bias")?);
    let (gate_weight, gate_bias) = (weight("gate.weight")?, weight("gate.bias")?);
    let attention = Attention {
        temperature: input.number("lambda_softmax")? as f32,
        normaliser: Normaliser::ClippedL2,
        aggregation: Aggregation::Mean,
        steps: input.number("iteration_step")? as usize,
        normalise_memory: input.config["no_IMRAM_norm"] != true,
    };
    let mut scores = vec![0.0; count * lengths.len()];
    let start = Instant::now();
    let memory = Memory {
        linear_weight: &linear_weight,
        linear_bias: &linear_bias,
        gate_weight: &gate_weight,
        gate_bias: &gate_bias,
    };
    let matcher = Matcher::new(dim, attention, Some(memory))?;
    let images = Ragged { dim, values: &images, offsets: &image_offsets };
    let texts = Ragged { dim, values: &captions, offsets: &text_offsets };
    matcher.scores(images, texts, &mut scores)?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(path) = out {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        npy::write_f32(&mut file, count, lengths.len(), scores)?;
        file.flush()?;
    }
    Ok(json!({"seconds": seconds}))
}
