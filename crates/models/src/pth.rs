//! Checkpoints of the published code of VSE++, SCAN, IMRAM and the models that the paper cites:
//! `model_best.pth.tar`.
//!
//! Such a file is a pickle of a dictionary: `model` has the parameters, `opt` or `args` the options of
//! the training. This module reads both formats of PyTorch, that of 1.6 and later and the older one,
//! written by Python 2 or 3. It never executes anything in a file, and a damaged or hostile file
//! gives an error. Sizes are checked before anything is allocated, and the tensors of a file
//! together take no more memory than the file (twice as much if it has half precision).

mod archive;
mod legacy;
mod names;
mod pickle;
mod releases;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nextpair_kernels::{Device, Tensor};

use crate::{Config, Error, Inputs, Model, VseInfinity};
use archive::Archive;
use legacy::Storages;
use pickle::{Pickle, Value};
use releases::{Place, Release, release_of, whole_name};
use view::View;

/// Contents of a published checkpoint.
#[derive(Debug)]
pub struct Checkpoint {
    /// The release of a cited model; `None` for VSE++, SCAN and IMRAM.
    release: Option<&'static Release>,
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
        let family = match (self.release, has("mem_"), has("_reverse")) {
            (Some(release), ..) => release.family,
            (None, true, _) => "IMRAM",
            // Its parameters have the names of SCAN's.
            (None, false, true) if self.settings.contains_key("thres_safe") => "NAAF",
            (None, false, true) => "SCAN",
            (None, false, false) => "VSE++",
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
        match family {
            "VSE_INF" => {
                let unit = |axis: usize| size(&["img_gpo.gru.weight_ih_l0"], axis);
                options.insert("gpo_dims".to_owned(), vec![unit(1), unit(0) / 3].into());
            }
            "VSRN" => {
                let data = if has("img_bn.") { "f30k_precomp" } else { "coco_precomp" };
                options.insert("data_name".to_owned(), data.into());
            }
            "PVSE" => {
                options.insert("num_embeds".to_owned(), size(&["img_pie.w2.weight"], 0).into());
                options.insert("img_attention".to_owned(), true.into());
                options.insert("txt_attention".to_owned(), has("txt_pie.").into());
                // Checkpoints from before the option were made as it says.
                options.entry("legacy").or_insert(true.into());
            }
            "SGRAF" => {
                let module = if has("saf.") { "SAF" } else { "SGR" };
                options.insert("module_name".to_owned(), module.into());
                let sizes = [("sim_dim", "sim_loc.bias"), ("num_region", "v_sa.local_bn.bias")];
                for (option, name) in sizes {
                    options.insert(option.to_owned(), size(&[name], 0).into());
                }
                let steps = (0..).take_while(|step| has(&format!("sgr.{step}."))).count();
                options.insert("sgr_step".to_owned(), steps.max(1).into());
                // The release turns it off where it is given, and checks nothing.
                options.insert("bi_gru".to_owned(), has("_reverse").into());
            }
            "NAAF" if self.release.is_some() => {
                // Its encoder of GloVe's words always normalises.
                options.insert("no_txtnorm".to_owned(), false.into());
            }
            "CAMP" => {
                let measure = match (has("msg_"), has("fuse_")) {
                    (true, true) => "gate_fusion_new",
                    (true, false) => "cross_attention_new",
                    (false, true) => "gate_fusion",
                    (false, false) => "cross_attention",
                };
                options.insert("measure".to_owned(), measure.into());
                let heads = size(&["pool_img.l2.bias"], 0);
                if heads > 0 {
                    options.insert("heads".to_owned(), heads.into());
                }
            }
            _ => {}
        }
        let mut parameters = self.parameters.clone();
        if family == "NAAF" {
            // Options that training moves.
            for name in ["thres", "thres_safe"] {
                let threshold = options.get(name).and_then(serde_json::Value::as_f64);
                let threshold = vec![threshold.unwrap_or(0.0) as f32];
                parameters.insert(name.to_owned(), Tensor::new(threshold, &[1], Device::Cpu)?);
            }
        }
        let mut config = Config::from_published(family, &serde_json::Value::Object(options))?;
        let image = size(&["img_fc.weight", "img_fc.weight_v"], 1);
        let mut inputs = Inputs { image, text: size(&["embed.weight"], 0) };
        if let Config::VseInfinity(VseInfinity { mask_word, .. }) = &mut config {
            // The release adds a word to the vocabulary of its file.
            (*mask_word, inputs.text) = (true, inputs.text.saturating_sub(1));
        }
        let origin = path.display().to_string();
        let model = Model::from_tensors(config.clone(), inputs, &parameters, &origin, device)?;
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
    let (release, views) = views(path, model)?;
    let mut parameters = BTreeMap::new();
    let mut allowance = bytes.len();
    for (name, view) in views {
        let tensor = source.tensor(view, &mut allowance);
        let tensor = tensor.and_then(|tensor| match name.as_str() {
            // One number for the whole matrix, stored by PyTorch with no axis or with one.
            "img_fc.weight_g" => tensor.reshaped(&[1]).map_err(|e| e.to_string()),
            _ => without_last_axis(&name, tensor),
        });
        let tensor = tensor.map_err(|what| fail(format!("{name}: {what}")))?;
        parameters.insert(name, tensor);
    }
    let number = |key| checkpoint.get(key).and_then(Value::plain);
    let options = checkpoint.get("opt").or_else(|| checkpoint.get("args"));
    let best_rsum = number("best_rsum").or_else(|| number("best_score"));
    Ok(Checkpoint {
        release,
        parameters,
        settings: settings(options, bytes.len()).map_err(fail)?,
        epoch: number("epoch").and_then(|epoch| epoch.as_i64()),
        best_rsum: best_rsum.and_then(|rsum| rsum.as_f64()),
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

/// A convolution over one place as the matrix that it is.
fn without_last_axis(name: &str, tensor: Tensor) -> Result<Tensor, String> {
    match *tensor.shape() {
        [rows, columns, 1] if name.starts_with("gcn.") => {
            tensor.reshaped(&[rows, columns]).map_err(|e| e.to_string())
        }
        _ => Ok(tensor),
    }
}

/// Parameters by our names.
type Views<'a> = BTreeMap<String, &'a View>;

/// The parameters by our names, and the release of a cited model: exactly those that VSE++, SCAN and
/// IMRAM need; of others, the model knows.
fn views<'a>(
    path: &Path,
    model: Value<'a>,
) -> Result<(Option<&'static Release>, Views<'a>), Error> {
    let fail = |what: String| Error::file(path, what);
    // IMRAM has one state dict, the others a list of one per encoder, and one for the similarity.
    let state_dicts: Vec<_> = match model.items() {
        Some(items) => items.collect(),
        None => vec![model],
    };
    if state_dicts.len() > 3 {
        return Err(fail(format!("'model' has {} parts, expected 2 or 3", state_dicts.len())));
    }
    let mut found = Vec::new();
    for (part, state_dict) in state_dicts.iter().enumerate() {
        let entries = state_dict.entries();
        for (key, value) in entries.ok_or_else(|| fail("'model' is no state dict".into()))? {
            let theirs = key.text().ok_or_else(|| fail("a parameter has no name".into()))?;
            found.push((theirs, whole_name(theirs, part, state_dicts.len()), value));
        }
    }
    let release = release_of(found.iter().map(|(_, whole, _)| whole.as_str()));
    let mut views = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for (theirs, whole, value) in found {
        let place = match release {
            Some(release) => release.place(&whole),
            None => names::ours(theirs).map_or(Place::Unknown, Place::Ours),
        };
        match (place, value.tensor()) {
            (Place::LeftOut, _) => {}
            (Place::Unknown, _) => {
                unknown.insert(theirs);
            }
            (_, None) => return Err(fail(format!("{theirs} is not a tensor"))),
            (Place::Ours(ours), Some(view)) => {
                if views.insert(ours, view).is_some() {
                    return Err(fail(format!("{theirs} is there twice")));
                }
            }
        }
    }
    if release.is_some() && unknown.is_empty() {
        return Ok((release, views));
    }
    let mut missing = names::required(|name| views.contains_key(name));
    if release.is_none() {
        unknown.extend(
            views.keys().map(String::as_str).filter(|&name| !missing.iter().any(|m| m == name)),
        );
    }
    missing.retain(|name| !views.contains_key(name));
    if release.is_some() {
        missing.clear();
    }
    if missing.is_empty() && unknown.is_empty() {
        return Ok((None, views));
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
