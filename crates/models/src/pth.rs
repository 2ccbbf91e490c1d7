//! Checkpoints of the published code of VSE++, SCAN and IMRAM: `model_best.pth.tar`.
//!
//! Such a file is a pickle of a dictionary: `model` has the parameters, `opt` the options of the
//! training. This module reads both formats of PyTorch, that of 1.6 and later and the older one,
//! written by Python 2 or 3. It never executes anything in a file, and a damaged or hostile file
//! gives an error. Sizes are checked before anything is allocated, and the tensors of a file
//! together take no more memory than the file (twice as much if it has half precision).

mod archive;
mod legacy;
mod names;
mod pickle;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nextpair_kernels::{Device, Tensor};

use crate::{Config, Error, Inputs, Model};
use archive::Archive;
use legacy::Storages;
use pickle::{Pickle, Value};
use view::View;

/// Contents of a published checkpoint.
#[derive(Debug)]
pub struct Checkpoint {
    /// The parameters under our names, in single precision, on the CPU.
    pub parameters: BTreeMap<String, Tensor>,
    /// Options of the training, such as `embed_size` or `raw_feature_norm`: booleans, numbers,
    /// strings and null. Empty if the file has none.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// The epoch after which it was written, as the release counts: VSE++ and IMRAM from 1, SCAN
    /// from 0.
    pub epoch: Option<i64>,
    /// The best sum of the six recalls on the validation split, in percent.
    pub best_rsum: Option<f64>,
}

impl Checkpoint {
    /// The model of the checkpoint, and its settings. Errors name `path`.
    ///
    /// # Errors
    /// If the settings or the weights are not those of a published model.
    pub fn model(&self, path: &Path, device: Device) -> Result<(Config, Model), Error> {
        let has = |part: &str| self.parameters.keys().any(|name| name.contains(part));
        let family = match (has("mem_"), has("_reverse")) {
            (true, _) => "IMRAM",
            (false, true) => "SCAN",
            (false, false) => "VSE++",
        };
        let size = |names: &[&str], axis: usize| {
            let tensor = names.iter().find_map(|&name| self.parameters.get(name));
            tensor.and_then(|tensor| tensor.shape().get(axis).copied()).unwrap_or(0)
        };
        let mut options: serde_json::Map<String, serde_json::Value> =
            self.settings.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        if family == "VSE++" && options.contains_key("cross_attn") {
            let what = "a SCAN whose captions are read in one direction, which is not known here";
            return Err(Error::file(path, what));
        }
        // The sizes of the tensors take precedence over the options.
        options.insert("embed_size".to_owned(), size(&["img_fc.bias"], 0).into());
        options.insert("word_dim".to_owned(), size(&["embed.weight"], 1).into());
        let config = Config::from_published(family, &serde_json::Value::Object(options))?;
        let image = size(&["img_fc.weight", "img_fc.weight_v"], 1);
        let inputs = Inputs { image, text: size(&["embed.weight"], 0) };
        let origin = path.display().to_string();
        let model = Model::from_tensors(config.clone(), inputs, &self.parameters, &origin, device)?;
        Ok((config, model))
    }
}

/// Reads a checkpoint.
pub fn read(path: &Path) -> Result<Checkpoint, Error> {
    from_bytes(path, &nextpair_data::ordinary::read(path)?)
}

/// [`read`] for a file that is already in memory. Errors name `path`.
pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Checkpoint, Error> {
    let fail = |what: String| Error::file(path, what);
    let (pickle, mut source) = Source::read(bytes).map_err(fail)?;
    let checkpoint = pickle.root();
    let model = checkpoint.get("model").ok_or_else(|| fail("has no entry 'model'".into()))?;
    let views = views(path, model)?;
    let mut parameters = BTreeMap::new();
    let mut allowance = bytes.len();
    for (name, view) in views {
        let tensor = source.tensor(view, &mut allowance);
        let tensor = tensor.and_then(|tensor| match name.as_str() {
            // One number for the whole matrix, stored by PyTorch with no axis or with one.
            "img_fc.weight_g" => tensor.reshaped(&[1]).map_err(|e| e.to_string()),
            _ => Ok(tensor),
        });
        let tensor = tensor.map_err(|what| fail(format!("{name}: {what}")))?;
        parameters.insert(name, tensor);
    }
    let number = |key| checkpoint.get(key).and_then(Value::plain);
    Ok(Checkpoint {
        parameters,
        settings: settings(checkpoint.get("opt"), bytes.len()).map_err(fail)?,
        epoch: number("epoch").and_then(|epoch| epoch.as_i64()),
        best_rsum: number("best_rsum").and_then(|rsum| rsum.as_f64()),
    })
}

/// Source of the tensors' numbers.
enum Source<'a> {
    Archive(Archive<'a>),
    Legacy(Storages<'a>),
}

impl<'a> Source<'a> {
    fn read(bytes: &'a [u8]) -> Result<(Pickle, Source<'a>), String> {
        if bytes.starts_with(archive::MAGIC) {
            Archive::read(bytes).map(|(pickle, archive)| (pickle, Source::Archive(archive)))
        } else if bytes.starts_with(legacy::MAGIC) {
            legacy::read(bytes).map(|(pickle, storages)| (pickle, Source::Legacy(storages)))
        } else {
            Err("is not a checkpoint of PyTorch".into())
        }
    }

    fn tensor(&mut self, view: &View, allowance: &mut usize) -> Result<Tensor, String> {
        let key = &*view.storage.key;
        let bytes = match self {
            Source::Archive(archive) => archive.storage(key)?,
            Source::Legacy(storages) => storages
                .get(key)
                .copied()
                .ok_or_else(|| format!("its storage {key:?} is missing"))?,
        };
        view.tensor(bytes, allowance)
    }
}

/// The parameters by our names: exactly those a model needs.
fn views<'a>(path: &Path, model: Value<'a>) -> Result<BTreeMap<String, &'a View>, Error> {
    let fail = |what: String| Error::file(path, what);
    // IMRAM has one state dict, the others a list of one per encoder.
    let state_dicts: Vec<_> = match model.items() {
        Some(items) => items.collect(),
        None => vec![model],
    };
    if state_dicts.len() > 2 {
        return Err(fail(format!("'model' has {} parts, expected 2", state_dicts.len())));
    }
    let mut views = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for state_dict in state_dicts {
        let entries = state_dict.entries();
        for (key, value) in entries.ok_or_else(|| fail("'model' is no state dict".into()))? {
            let theirs = key.text().ok_or_else(|| fail("a parameter has no name".into()))?;
            match (names::ours(theirs), value.tensor()) {
                (None, _) => {
                    unknown.insert(theirs);
                }
                (_, None) => return Err(fail(format!("{theirs} is not a tensor"))),
                (Some(ours), Some(view)) => {
                    if views.insert(ours, view).is_some() {
                        return Err(fail(format!("{theirs} is there twice")));
                    }
                }
            }
        }
    }
    let mut missing = names::required(|name| views.contains_key(name));
    unknown.extend(
        views.keys().map(String::as_str).filter(|&name| !missing.iter().any(|m| m == name)),
    );
    missing.retain(|name| !views.contains_key(name));
    if missing.is_empty() && unknown.is_empty() {
        return Ok(views);
    }
    let listing = missing.iter().map(|name| format!("  {name} is missing"));
    let listing =
        listing.chain(unknown.iter().map(|name| format!("  {name} is unknown"))).collect();
    Err(Error::Weights { origin: path.display().to_string(), listing })
}

/// The plain values of `opt`. A pickle can share strings; with a copy for each setting, they may
/// not take more than `allowance` bytes.
fn settings(
    opt: Option<Value<'_>>,
    mut allowance: usize,
) -> Result<BTreeMap<String, serde_json::Value>, String> {
    let mut settings = BTreeMap::new();
    for (key, value) in opt.and_then(Value::entries).into_iter().flatten() {
        let Some(name) = key.text() else { continue };
        let length = name.len() + value.text().map_or(0, str::len);
        allowance = allowance.checked_sub(length).ok_or("its settings are larger than the file")?;
        if let Some(value) = value.plain() {
            settings.insert(name.to_owned(), value);
        }
    }
    Ok(settings)
}
