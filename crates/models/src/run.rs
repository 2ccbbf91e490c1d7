//! The folder of a training run.
//!
//! ```text
//! RUN/
//!   run.json            what was asked for, resolved: model, training, data, version
//!   vocabulary.json     the words, for models that read
//!   pairs.jsonl         the pairs that it learns from: item and caption
//!   log.jsonl           one line per epoch
//!   model.safetensors   the weights to use: the best so far
//!   state.safetensors   everything that training needs to go on after the last epoch
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use nextpair_data::AtomicFile;
use nextpair_data::dataset::Dataset;
use nextpair_data::text::Vocabulary;
use serde::{Deserialize, Serialize};

use crate::corpus::{Corpus, Pair};
use crate::parameters::{Parameters, read_tensors};
use crate::train::Training;
use crate::{Adam, Config, Error, Inputs, Model};

/// The version of the format.
const VERSION: u32 = 1;

/// What a run is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The version of the format, 1.
    pub nextpair_run: u32,
    /// The version of nextpair that made it.
    pub version: String,
    /// The dataset as it was called.
    pub dataset: String,
    /// The model.
    pub model: Config,
    /// What it is fed.
    pub inputs: Inputs,
    /// The image features it is fed.
    pub image_features: String,
    /// The text features it is fed, if it does not read words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_features: Option<String>,
    /// How it is trained.
    pub training: Training,
}

impl Spec {
    /// A spec of this version.
    pub fn new(
        dataset: &Dataset,
        model: Config,
        inputs: Inputs,
        (image_features, text_features): (String, Option<String>),
        training: Training,
    ) -> Self {
        Spec {
            nextpair_run: VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            dataset: dataset.manifest().name.clone(),
            model,
            inputs,
            image_features,
            text_features,
            training,
        }
    }
}

/// An opened run.
pub struct Run {
    folder: PathBuf,
    spec: Spec,
    vocabulary: Option<Vocabulary>,
}

/// A pair as it is written down.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PairLine {
    item: String,
    caption: usize,
}

/// How far training has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Epochs done.
    pub epochs: usize,
    /// The best rsum on dev so far.
    pub best: Option<f64>,
    /// The epoch of the weights in `model.safetensors`, from 1.
    pub best_epoch: usize,
    /// Steps that the optimiser has taken with each weight.
    pub steps: Vec<u32>,
}

impl Run {
    /// Starts a run in a new or empty folder.
    pub fn create(
        folder: &Path,
        spec: Spec,
        vocabulary: Option<Vocabulary>,
        corpus: &Corpus,
        pairs: &[Pair],
    ) -> Result<Self, Error> {
        Self::prepare(folder)?;
        let mut lines = Vec::new();
        for pair in pairs {
            let caption = pair.caption - corpus.dataset().items().captions_of(pair.item).start;
            let item = corpus.dataset().items().get(pair.item).id;
            push_line(&mut lines, &PairLine { item, caption }, folder)?;
        }
        let run = Run { folder: folder.to_path_buf(), spec, vocabulary };
        run.write_parts(&lines)?;
        Ok(run)
    }

    /// Makes the folder, which must not hold a run.
    fn prepare(folder: &Path) -> Result<(), Error> {
        fs::create_dir_all(folder).map_err(|e| nextpair_data::Error::io(folder, e))?;
        match folder.join(SPEC).exists() {
            true => Err(Error::file(folder, "there is a run already")),
            false => Ok(()),
        }
    }

    /// Writes what does not change. The spec comes last: a folder with one has all the rest.
    fn write_parts(&self, pairs: &[u8]) -> Result<(), Error> {
        if let Some(vocabulary) = &self.vocabulary {
            vocabulary.write(&self.folder.join(VOCABULARY))?;
        }
        write(&self.folder.join(PAIRS), pairs)?;
        let path = self.folder.join(SPEC);
        let mut text =
            serde_json::to_vec_pretty(&self.spec).map_err(|e| Error::file(&path, e.to_string()))?;
        text.push(b'\n');
        write(&path, &text)
    }

    /// Makes a finished run of a model that was trained elsewhere. It has no pairs.
    pub fn adopt(
        folder: &Path,
        origin: &Path,
        model: &Model,
        vocabulary: Vocabulary,
    ) -> Result<Self, Error> {
        let spec = Spec {
            nextpair_run: VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            dataset: origin.display().to_string(),
            model: model.config().clone(),
            inputs: model.inputs(),
            image_features: String::new(),
            text_features: None,
            training: Training::default(),
        };
        check_words(&vocabulary, model.inputs(), origin)?;
        Self::prepare(folder)?;
        let run = Run { folder: folder.to_path_buf(), spec, vocabulary: Some(vocabulary) };
        run.write_weights(model.weights())?;
        run.write_parts(&[])?;
        Ok(run)
    }

    /// Opens a run.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(SPEC);
        if !path.exists() {
            return Err(Error::file(folder, "not a run: there is no run.json in it"));
        }
        let text = fs::read(&path).map_err(|e| nextpair_data::Error::io(&path, e))?;
        let spec: Spec =
            serde_json::from_slice(&text).map_err(|e| Error::file(&path, e.to_string()))?;
        if spec.nextpair_run != VERSION {
            let what = format!("format {}; this version reads {VERSION}", spec.nextpair_run);
            return Err(Error::file(&path, what));
        }
        spec.model.check()?;
        spec.training.check()?;
        let vocabulary = match spec.model.reads_words() {
            true => Some(Vocabulary::read(&folder.join(VOCABULARY))?),
            false => None,
        };
        let run = Run { folder: folder.to_path_buf(), spec, vocabulary };
        if let Some(vocabulary) = &run.vocabulary {
            check_words(vocabulary, run.spec.inputs, &folder.join(VOCABULARY))?;
        }
        Ok(run)
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it is made of.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Its words, if the model reads.
    pub fn vocabulary(&self) -> Option<&Vocabulary> {
        self.vocabulary.as_ref()
    }

    /// A dataset as the model of this run takes it.
    pub fn corpus(&self, dataset: Dataset) -> Result<Corpus, Error> {
        // Another dataset may call its features otherwise; there the last ones are taken.
        let known = |side, name: &str| dataset.features(side, Some(name)).is_ok();
        let images = Some(self.spec.image_features.as_str());
        let images = images.filter(|name| known(nextpair_data::Side::Image, name));
        let texts = self.spec.text_features.as_deref();
        let texts = texts.filter(|name| known(nextpair_data::Side::Text, name));
        let corpus = match &self.vocabulary {
            Some(vocabulary) => Corpus::of_words(dataset, images, vocabulary)?,
            None => Corpus::of_vectors(dataset, images, texts)?,
        };
        let (found, expected) = (corpus.inputs(), self.spec.inputs);
        match found == expected {
            true => Ok(corpus),
            false => Err(Error::Shape {
                what: format!("the features of {}", corpus.dataset().folder().display()),
                found: format!("{found:?}"),
                expected: format!("{expected:?}"),
            }),
        }
    }

    /// The pairs it learns from, found in a dataset.
    pub fn pairs(&self, corpus: &Corpus) -> Result<Vec<Pair>, Error> {
        let path = self.folder.join(PAIRS);
        let text = fs::read_to_string(&path).map_err(|e| nextpair_data::Error::io(&path, e))?;
        let items = corpus.dataset().items();
        let by_id: BTreeMap<String, usize> =
            items.iter().enumerate().map(|(index, item)| (item.id, index)).collect();
        let mut pairs = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = |what: String| nextpair_data::Error::Line {
                path: path.clone(),
                line: number + 1,
                what,
            };
            let line: PairLine =
                serde_json::from_str(line).map_err(|e| wrong(format!("not a pair: {e}")))?;
            let item = by_id.get(&line.item);
            let item =
                *item.ok_or_else(|| wrong(format!("the dataset has no item {}", line.item)))?;
            let captions = items.captions_of(item);
            let caption = captions.start + line.caption;
            if !captions.contains(&caption) {
                let what = format!("item {} has no caption {}", line.item, line.caption);
                return Err(wrong(what).into());
            }
            pairs.push(Pair { item, caption });
        }
        Ok(pairs)
    }

    /// The model with the weights to use.
    pub fn model(&self, device: &Device) -> Result<Model, Error> {
        let path = self.folder.join(WEIGHTS);
        if !path.exists() {
            return Err(Error::file(&path, "no epoch is done yet; --resume continues the run"));
        }
        Model::load(self.spec.model.clone(), self.spec.inputs, &path, device)
    }

    /// Writes the weights to use.
    pub(crate) fn write_weights(&self, weights: &Parameters) -> Result<(), Error> {
        let tensors = weights.iter().map(|(name, var)| (name.to_owned(), var.as_tensor()));
        write_tensors(&self.folder.join(WEIGHTS), tensors, None)
    }

    /// Writes everything that the next epoch depends on.
    pub(crate) fn write_state(
        &self,
        weights: &Parameters,
        adam: &Adam,
        position: &Position,
    ) -> Result<(), Error> {
        let path = self.folder.join(STATE);
        let position =
            serde_json::to_string(position).map_err(|e| Error::file(&path, e.to_string()))?;
        let weight = weights.iter().map(|(name, var)| (name.to_owned(), var.as_tensor()));
        let moments = adam.named(weights).map(|(name, var)| (name, var.as_tensor()));
        write_tensors(&path, weight.chain(moments), Some(position))
    }

    /// Continues from the last epoch that was written: sets weights and moments. Nothing happens
    /// before the first.
    pub(crate) fn read_state(
        &self,
        weights: &Parameters,
        adam: &mut Adam,
    ) -> Result<Position, Error> {
        let path = self.folder.join(STATE);
        if !path.exists() {
            return Ok(Position::default());
        }
        let bytes = fs::read(&path).map_err(|e| nextpair_data::Error::io(&path, e))?;
        let wrong = |what: String| Error::file(&path, what);
        let (_, head) =
            safetensors::SafeTensors::read_metadata(&bytes).map_err(|e| wrong(e.to_string()))?;
        let position = head.metadata().as_ref().and_then(|all| all.get(POSITION));
        let position = position.ok_or_else(|| wrong("there is no position in it".to_owned()))?;
        let position: Position =
            serde_json::from_str(position).map_err(|e| wrong(format!("the position: {e}")))?;
        let mut tensors = read_tensors(&path)?;
        let mut listing = Vec::new();
        let named = weights.iter().map(|(name, var)| (name.to_owned(), var));
        for (name, var) in named.chain(adam.named(weights)) {
            match tensors.remove(&name) {
                Some(found) if found.dims() == var.dims() && found.dtype() == DType::F32 => {
                    var.set(&found.to_device(var.device())?)?;
                }
                Some(found) => {
                    let (shape, wanted) = (found.dims(), var.dims());
                    listing
                        .push(format!("  {name} is {:?} {shape:?}, not {wanted:?}", found.dtype()));
                }
                None => listing.push(format!("  {name} is missing")),
            }
        }
        listing.extend(tensors.keys().map(|name| format!("  {name} is extra")));
        if position.steps.len() != adam.steps().len() {
            listing.push(format!("  {} steps of the optimiser", position.steps.len()));
        }
        if !listing.is_empty() {
            return Err(Error::Weights { origin: path.display().to_string(), listing });
        }
        adam.set_steps(position.steps.clone());
        Ok(position)
    }

    /// The lines of the log that belong to the first `epochs`; later ones were not acknowledged.
    pub(crate) fn cut_log(&self, epochs: usize) -> Result<(), Error> {
        let path = self.folder.join(LOG);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && epochs == 0 => String::new(),
            Err(e) => return Err(nextpair_data::Error::io(&path, e).into()),
        };
        let kept: String = text.split_inclusive('\n').take(epochs).collect();
        if kept.lines().count() != epochs || !kept.is_empty() && !kept.ends_with('\n') {
            return Err(Error::file(&path, format!("not the lines of {epochs} epochs")));
        }
        write(&path, kept.as_bytes())
    }

    /// Appends a line to the log.
    pub(crate) fn log(&self, line: &impl Serialize) -> Result<(), Error> {
        let path = self.folder.join(LOG);
        let mut bytes = Vec::new();
        push_line(&mut bytes, line, &path)?;
        let append = || {
            let mut file = fs::OpenOptions::new().append(true).create(true).open(&path)?;
            file.write_all(&bytes)?;
            file.sync_data()
        };
        append().map_err(|e| nextpair_data::Error::io(&path, e).into())
    }
}

const SPEC: &str = "run.json";
const VOCABULARY: &str = "vocabulary.json";
const PAIRS: &str = "pairs.jsonl";
const LOG: &str = "log.jsonl";
const WEIGHTS: &str = "model.safetensors";
const STATE: &str = "state.safetensors";
/// Where the state keeps its [`Position`].
const POSITION: &str = "position";

/// An error if the words are not as many as the model has.
fn check_words(vocabulary: &Vocabulary, inputs: Inputs, origin: &Path) -> Result<(), Error> {
    let (found, expected) = (vocabulary.words().len(), inputs.text);
    match found == expected {
        true => Ok(()),
        false => {
            let what = format!("the vocabulary has {found} words, the model {expected}");
            Err(Error::file(origin, what))
        }
    }
}

fn push_line(lines: &mut Vec<u8>, line: &impl Serialize, path: &Path) -> Result<(), Error> {
    serde_json::to_writer(&mut *lines, line).map_err(|e| Error::file(path, e.to_string()))?;
    lines.push(b'\n');
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes).map_err(|e| nextpair_data::Error::io(path, e))?;
    Ok(file.commit()?)
}

/// Writes tensors whole or not at all.
fn write_tensors<'a>(
    path: &Path,
    tensors: impl Iterator<Item = (String, &'a Tensor)>,
    position: Option<String>,
) -> Result<(), Error> {
    let tensors = tensors.collect::<Vec<_>>();
    let metadata = position.map(|text| [(POSITION.to_owned(), text)].into());
    let bytes = safetensors::serialize(tensors, metadata);
    write(path, &bytes.map_err(|e| Error::file(path, e.to_string()))?)
}
