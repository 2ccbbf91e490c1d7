//! The folder of a model in training.
//!
//! ```text
//! MODEL/
//!   model.json          the resolved settings: model, training, data, version
//!   vocabulary.json     the vocabulary, for models that read words
//!   pairs.jsonl         the training pairs: item and caption
//!   start.safetensors   the first weights, if another model gave some of them
//!   log.jsonl           one line per epoch
//!   model.safetensors   the weights to use: the best so far, or the mean of the last
//!   state.safetensors   everything that training needs to resume after the last epoch
//!   tensorboard/        event files of the log, if asked for
//!   log.csv             the log as a table, if asked for
//!   .lock               held by the process that writes to the folder
//! ```

mod files;
mod spec;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nextpair_data::dataset::Dataset;
use nextpair_data::text::Vocabulary;
use nextpair_data::{FolderLock, Side, fingerprint, ordinary};
use nextpair_kernels::Device;
use serde::{Deserialize, Serialize};

use crate::corpus::{Corpus, Pair};
use crate::{Admission, Config, Error, Inputs, Mixing, Model, Origin};
pub(crate) use files::PAIRS;
use files::{SPEC, START, VOCABULARY, WEIGHTS, lock, push_line, refuse_strangers, write};
pub use spec::Spec;
#[cfg(test)]
pub(crate) use spec::resealed;
pub use state::epochs_of;
pub(crate) use state::{Position, State};

/// An opened folder of a model.
pub struct ModelFolder {
    folder: PathBuf,
    spec: Spec,
    vocabulary: Option<Vocabulary>,
}

/// A line of `pairs.jsonl`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PairLine {
    item: String,
    caption: usize,
    /// The item that the caption belongs to, if it is another one: annotators make mistakes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caption_of: Option<String>,
}

impl ModelFolder {
    /// Starts a model in a new or empty folder.
    pub fn create(
        folder: &Path,
        mut spec: Spec,
        vocabulary: Option<Vocabulary>,
        corpus: &Corpus,
        pairs: &[Pair],
    ) -> Result<Self, Error> {
        enough(pairs)?;
        let lines = prepared(folder, &mut spec, corpus, pairs)?;
        Self::make(folder, spec, vocabulary, &lines, |_| Ok(()))
    }

    /// Makes the folder of a model that learns from no pairs: its weights are those before the first step.
    pub fn untrained(
        folder: &Path,
        mut spec: Spec,
        vocabulary: Option<Vocabulary>,
        corpus: &Corpus,
    ) -> Result<Self, Error> {
        let lines = prepared(folder, &mut spec, corpus, &[])?;
        Self::make(folder, spec, vocabulary, &lines, |made| {
            made.write_weights(&made.first_model(Device::Cpu)?, 0).map(drop)
        })
    }

    /// Whether it has no pairs to learn from, so that it is finished from the start.
    pub(crate) fn learns_nothing(&self) -> bool {
        self.spec.files.get(PAIRS) == Some(&fingerprint(&[]))
    }

    /// The same, with the weights of another model where names and shapes are the same. Returns the
    /// names of the others too.
    pub fn create_from(
        folder: &Path,
        mut spec: Spec,
        vocabulary: Option<Vocabulary>,
        corpus: &Corpus,
        pairs: &[Pair],
        start: &ModelFolder,
    ) -> Result<(Self, Vec<String>), Error> {
        let words = |known: Option<&Vocabulary>| known.map(|known| known.words().to_vec());
        if spec.model.reads_words() && words(start.vocabulary()) != words(vocabulary.as_ref()) {
            return Err(Error::file(&start.folder, "it knows other words than the new model"));
        }
        enough(pairs)?;
        let lines = prepared(folder, &mut spec, corpus, pairs)?;
        spec.start = Some(start.folder.display().to_string());
        let seed = spec.training.seed;
        let mut first = Model::new(spec.model.clone(), spec.inputs, seed, Device::Cpu)?;
        let left = first.begin_with(&start.model(Device::Cpu)?)?;
        let path = folder.join(START);
        let made = Self::make(folder, spec, vocabulary, &lines, |made| {
            first.save(&path)?;
            made.spec.files.insert(START.to_owned(), fingerprint(&ordinary::read(&path)?));
            Ok(())
        })?;
        Ok((made, left))
    }

    /// The model before its first step.
    pub(crate) fn first_model(&self, device: Device) -> Result<Model, Error> {
        let Spec { model, inputs, training, files, .. } = &self.spec;
        if !files.contains_key(START) {
            return Model::new(model.clone(), *inputs, training.seed, device);
        }
        self.read_unchanged(START)?;
        Model::load(model.clone(), *inputs, &self.folder.join(START), device)
    }

    /// Creates the folder of a model that was trained elsewhere, for `epochs`. It has no pairs.
    pub fn adopt(
        folder: &Path,
        origin: &Path,
        config: Config,
        model: &Model,
        vocabulary: Vocabulary,
        epochs: usize,
    ) -> Result<Self, Error> {
        check_words(&vocabulary, model.inputs(), origin)?;
        let spec = Spec::adopted(origin, config, model.inputs(), epochs);
        Self::make(folder, spec, Some(vocabulary), &[], |made| {
            made.write_weights(model, epochs).map(drop)
        })
    }

    /// Writes the files that do not change, and those that `more` writes.
    fn make(
        folder: &Path,
        mut spec: Spec,
        vocabulary: Option<Vocabulary>,
        pairs: &[u8],
        more: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(|e| nextpair_data::Error::io(folder, e))?;
        if !folder.join(SPEC).exists() {
            refuse_strangers(folder)?;
        }
        let _lock = lock(folder)?;
        if folder.join(SPEC).exists() {
            let what = if spec.adopted {
                "there is a model already; name another folder"
            } else {
                "there is a model already; --resume continues it"
            };
            return Err(Error::file(folder, what));
        }
        if let Some(vocabulary) = &vocabulary {
            let path = folder.join(VOCABULARY);
            vocabulary.write(&path)?;
            let bytes = ordinary::read(&path)?;
            spec.files.insert(VOCABULARY.to_owned(), fingerprint(&bytes));
        }
        write(&folder.join(PAIRS), pairs)?;
        spec.files.insert(PAIRS.to_owned(), fingerprint(pairs));
        let mut made = ModelFolder { folder: folder.to_path_buf(), spec, vocabulary };
        more(&mut made)?;
        // The spec comes last: a folder with a spec has everything else.
        made.spec.write(&folder.join(SPEC))?;
        Ok(made)
    }

    /// Whether a folder holds a model.
    pub fn is_there(folder: &Path) -> bool {
        folder.join(SPEC).exists()
    }

    /// Opens a folder.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(SPEC);
        if !path.exists() {
            let what = if folder.join("dataset.toml").exists() {
                "a dataset, not a model: the model is named first"
            } else if folder.is_dir() {
                "not a model: there is no model.json in it; make one with `nextpair train`"
            } else {
                "not a model; make one with `nextpair train`"
            };
            return Err(Error::file(folder, what));
        }
        let spec = Spec::read(&path)?;
        let mut opened = ModelFolder { folder: folder.to_path_buf(), spec, vocabulary: None };
        if opened.spec.model.reads_words() {
            let path = folder.join(VOCABULARY);
            let vocabulary = Vocabulary::read(&path)?;
            check_words(&vocabulary, opened.spec.inputs, &path)?;
            opened.read_unchanged(VOCABULARY)?;
            opened.vocabulary = Some(vocabulary);
        }
        Ok(opened)
    }

    /// Reads a file that must not have changed since the folder was created.
    fn read_unchanged(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.folder.join(name);
        let bytes = ordinary::read(&path)?;
        if self.spec.files.get(name) == Some(&fingerprint(&bytes)) {
            Ok(bytes)
        } else {
            Err(Error::file(&path, "was changed after the model was made"))
        }
    }

    /// Admits this process to continue the training, and records it if it is new. Returns a note
    /// for the user in that case.
    pub fn admit(&mut self, device: Device, mixing: Mixing) -> Result<Option<String>, Error> {
        let here = Origin::of(device);
        match self.spec.makers().admit(&here, mixing, &self.folder)? {
            Admission::Known => Ok(None),
            Admission::New(note) => {
                let _lock = self.lock()?;
                self.spec.continued_by.push(here);
                self.spec.write(&self.folder.join(SPEC))?;
                Ok(Some(note))
            }
        }
    }

    /// Keeps other processes from writing to the folder while the lock lives.
    pub(crate) fn lock(&self) -> Result<FolderLock, Error> {
        lock(&self.folder)
    }

    /// The path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The resolved settings.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The vocabulary, if the model reads words.
    pub fn vocabulary(&self) -> Option<&Vocabulary> {
        self.vocabulary.as_ref()
    }

    /// The dataset to continue training on. It must have the features that training has seen so
    /// far.
    pub fn training_corpus(&self, dataset: Dataset) -> Result<Corpus, Error> {
        if self.spec.adopted {
            return Err(Error::file(&self.folder, "a converted model cannot be trained further"));
        }
        dataset.features(Side::Image, Some(&self.spec.image_features))?;
        if let Some(name) = &self.spec.text_features {
            dataset.features(Side::Text, Some(name))?;
        }
        self.corpus(dataset)
    }

    /// A dataset in the form that this model takes.
    pub fn corpus(&self, dataset: Dataset) -> Result<Corpus, Error> {
        // Another dataset may name its features differently; then take its last ones.
        let known = |side, name: &str| dataset.features(side, Some(name)).is_ok();
        let images = Some(self.spec.image_features.as_str());
        let images = images.filter(|name| known(Side::Image, name));
        let texts = self.spec.text_features.as_deref();
        let texts = texts.filter(|name| known(Side::Text, name));
        let corpus = match &self.vocabulary {
            Some(vocabulary) => Corpus::of_words(dataset, images, vocabulary)?,
            None => Corpus::of_vectors(dataset, images, texts)?,
        };
        let (found, expected) = (corpus.inputs(), self.spec.inputs);
        if found == expected {
            return Ok(corpus);
        }
        let texts = if self.spec.model.reads_words() { "words" } else { "a caption" };
        let told = |i: Inputs| format!("{} numbers a region, {} {texts}", i.image, i.text);
        Err(Error::Shape {
            what: format!("the features of {}", corpus.dataset().folder().display()),
            found: told(found),
            expected: told(expected),
        })
    }

    /// A note for the user if the dataset lacks the model's image features and others stand in.
    pub fn stand_in(&self, corpus: &Corpus) -> Option<String> {
        let (expected, found) = (&self.spec.image_features, &corpus.image_features().0.name);
        (expected != found && !self.spec.adopted)
            .then(|| format!("no image features {expected} in the dataset; {found} stand in"))
    }

    /// The training pairs, looked up in a dataset.
    pub fn pairs(&self, corpus: &Corpus) -> Result<Vec<Pair>, Error> {
        let path = self.folder.join(PAIRS);
        if self.spec.adopted {
            return Err(Error::file(&self.folder, "a converted model comes without pairs"));
        }
        let text = String::from_utf8(self.read_unchanged(PAIRS)?)
            .map_err(|_| Error::file(&path, "not UTF-8"))?;
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
            let find = |id: &String| {
                let item = by_id.get(id).copied();
                item.ok_or_else(|| wrong(format!("the dataset has no item {id}")))
            };
            let item = find(&line.item)?;
            let owner = line.caption_of.as_ref().unwrap_or(&line.item);
            let captions = items.captions_of(find(owner)?);
            let caption = captions.start + line.caption;
            if !captions.contains(&caption) {
                return Err(wrong(format!("item {owner} has no caption {}", line.caption)).into());
            }
            pairs.push(Pair { item, caption });
        }
        if !self.learns_nothing() {
            enough(&pairs)?;
        }
        if self.spec.files.get(DATASET) != Some(&fingerprint(&corpus.sample(&pairs))) {
            let what = "other captions or features than those the model was made with";
            return Err(Error::file(corpus.dataset().folder(), what));
        }
        Ok(pairs)
    }

    /// The model with its best weights.
    pub fn model(&self, device: Device) -> Result<Model, Error> {
        let path = self.folder.join(WEIGHTS);
        if !path.exists() {
            let what = match self.epochs()?.len() {
                0 => "no epoch is done yet; --resume continues it",
                _ => "the weights are missing; the model has to be made again",
            };
            return Err(Error::file(&path, what));
        }
        Model::load(self.spec.model.clone(), self.spec.inputs, &path, device)
    }
}

/// Completes and checks the settings of a new model. Returns the lines of its pairs.
fn prepared(
    folder: &Path,
    spec: &mut Spec,
    corpus: &Corpus,
    pairs: &[Pair],
) -> Result<Vec<u8>, Error> {
    spec.model.fit(corpus.regions());
    spec.model.check()?;
    spec.training.check()?;
    let mut lines = Vec::new();
    let items = corpus.dataset().items();
    for pair in pairs {
        let owner = items.item_of_caption(pair.caption);
        let caption = pair.caption - items.captions_of(owner).start;
        let item = items.get(pair.item).id;
        let caption_of = (owner != pair.item).then(|| items.get(owner).id);
        push_line(&mut lines, &PairLine { item, caption, caption_of }, folder)?;
    }
    spec.files.insert(DATASET.to_owned(), fingerprint(&corpus.sample(pairs)));
    Ok(lines)
}

/// Key of the dataset's fingerprint among those of files.
const DATASET: &str = "dataset";

/// Fails if there are too few pairs to learn from.
fn enough(pairs: &[Pair]) -> Result<(), Error> {
    match pairs.len() {
        0 | 1 => {
            let what = format!("{} pairs to learn from; at least 2 are needed", pairs.len());
            Err(Error::Dataset { what })
        }
        _ => Ok(()),
    }
}

/// Fails if the vocabulary and the model differ in their number of words.
fn check_words(vocabulary: &Vocabulary, inputs: Inputs, origin: &Path) -> Result<(), Error> {
    let (found, expected) = (vocabulary.words().len(), inputs.text);
    if found == expected {
        return Ok(());
    }
    let what = format!("{found} words in the vocabulary, but {expected} in the model");
    Err(Error::file(origin, what))
}
