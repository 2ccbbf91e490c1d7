//! The state that training writes after every epoch, and how it resumes from there.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use nextpair_data::{fingerprint_of, ordinary};
use safetensors::Dtype;
use serde::{Deserialize, Serialize};

use super::ModelFolder;
use super::files::{WEIGHTS, push_line, write};
use crate::tensor_file::{self, Stored, metadata};
use crate::{Epoch, Error, Model, Trainer};

const LOG: &str = "log.jsonl";
const STATE: &str = "state.safetensors";
/// Metadata key of the [`Position`] in the state.
const POSITION: &str = "position";
/// Metadata key of the weights' epoch, from 1.
const EPOCH: &str = "epoch";

/// The numbers that the next epoch of a model depends on, by the names of their tensors.
pub(crate) type State = BTreeMap<String, Vec<f32>>;

/// How far training has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Position {
    /// Epochs done.
    pub(crate) epochs: usize,
    /// Best rsum on dev so far.
    pub(crate) best: Option<f64>,
    /// Epoch of the weights in `model.safetensors`, from 1.
    pub(crate) best_epoch: usize,
    /// Fingerprint of those weights, once there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) weights: Option<String>,
    /// Optimiser steps of each weight.
    pub(crate) steps: Vec<u32>,
}

impl ModelFolder {
    /// Writes the best weights. Returns their fingerprint.
    pub(crate) fn write_weights(&self, model: &Model, epoch: usize) -> Result<String, Error> {
        let tensors = model.weights().iter().map(|(name, weight)| (name.to_owned(), weight));
        tensor_file::write(&self.folder.join(WEIGHTS), tensors, (EPOCH, epoch.to_string()))
    }

    /// The epoch of the best weights, from 1, if the file has it.
    pub fn weights_epoch(&self) -> Result<Option<usize>, Error> {
        let path = self.folder.join(WEIGHTS);
        let epoch = metadata(&path, EPOCH)?;
        let wrong = |text: String| Error::file(&path, format!("'{text}' is not an epoch"));
        epoch.map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }

    /// Writes everything the next epoch of a member depends on.
    pub(crate) fn write_state(
        &self,
        trainer: &Trainer,
        member: usize,
        position: &mut Position,
    ) -> Result<(), Error> {
        let path = self.folder.join(STATE);
        position.steps = trainer.steps();
        let position =
            serde_json::to_string(position).map_err(|e| Error::file(&path, e.to_string()))?;
        let state = trainer.state(member)?;
        let tensors = state.iter().map(|(name, tensor)| (name.clone(), tensor));
        tensor_file::write(&path, tensors, (POSITION, position)).map(drop)
    }

    /// The last epoch that was written, and the state after it: none before the first, and when training
    /// is finished.
    pub(crate) fn read_state(&self, trainer: &Trainer) -> Result<(Position, State), Error> {
        let path = self.folder.join(STATE);
        if !path.exists() {
            // Either training is finished, or no state was written yet and the epochs of the log
            // are repeated.
            let epochs = if self.is_finished()? { self.spec.training.epochs } else { 0 };
            return Ok((Position { epochs, ..Position::default() }, State::new()));
        }
        let position = read_position(&path)?;
        let mut stored = tensor_file::read(&path)?;
        let (mut listing, mut state) = (Vec::new(), State::new());
        for (name, wanted) in trainer.shapes() {
            match stored.remove(&name) {
                Some(Stored { dtype: Dtype::F32, shape, values: Some(values) })
                    if shape == wanted =>
                {
                    state.insert(name, values);
                }
                Some(Stored { dtype, shape, .. }) => {
                    listing.push(format!("  {name} is {dtype:?} {shape:?}, not {wanted:?}"));
                }
                None => listing.push(format!("  {name} is missing")),
            }
        }
        listing.extend(stored.keys().map(|name| format!("  {name} is extra")));
        if position.steps.len() != trainer.steps().len() {
            listing.push(format!("  {} steps of the optimiser", position.steps.len()));
        }
        match listing.is_empty() {
            true => Ok((position, state)),
            false => Err(Error::Weights { origin: path.display().to_string(), listing }),
        }
    }

    /// Fails if the best weights are not those that the state was written with. Weights of a later
    /// epoch, left behind by a kill, are computed again.
    pub(crate) fn check_weights(&self, position: &mut Position) -> Result<(), Error> {
        let path = self.folder.join(WEIGHTS);
        let Some(written) = position.weights.as_ref().filter(|_| path.exists()) else {
            return Ok(());
        };
        if *written == self.weights_fingerprint()? {
            return Ok(());
        }
        // Damaged weights have no epoch.
        let epoch = self.weights_epoch().unwrap_or_default();
        if epoch.is_some_and(|epoch| epoch > position.epochs) {
            if !self.spec.continued_by.is_empty() {
                // Another version may not find that epoch the best again, and the best weights
                // before it are gone: take the best of the epochs still to come.
                position.best = None;
            }
            return Ok(());
        }
        let what = "not the weights that training wrote; put them back, or delete them and \
                    state.safetensors to train again";
        Err(Error::file(&path, what))
    }

    /// Epochs that need not be repeated.
    pub fn epochs_kept(&self) -> Result<usize, Error> {
        let path = self.folder.join(STATE);
        match (path.exists(), self.is_finished()?) {
            (true, _) => Ok(read_position(&path)?.epochs),
            (false, true) => Ok(self.spec.training.epochs),
            (false, false) => Ok(0),
        }
    }

    /// Whether the last epoch is done.
    pub fn is_finished(&self) -> Result<bool, Error> {
        let done = self.learns_nothing() || self.epochs()?.len() >= self.spec.training.epochs;
        Ok(self.spec.adopted || done && self.folder.join(WEIGHTS).exists())
    }

    /// Removes the state, which only more training would need. The training is finished.
    pub fn forget_state(&self) -> Result<(), Error> {
        let path = self.folder.join(STATE);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                Err(nextpair_data::Error::io(&path, e).into())
            }
            _ => Ok(()),
        }
    }

    /// The fingerprint of the best weights.
    pub fn weights_fingerprint(&self) -> Result<String, Error> {
        let path = self.folder.join(WEIGHTS);
        Ok(fingerprint_of(&path)?)
    }

    /// Cuts the log after the first `epochs`; later lines were never acknowledged.
    pub(crate) fn cut_log(&self, epochs: usize) -> Result<(), Error> {
        let path = self.folder.join(LOG);
        let text = match epochs {
            0 => String::new(),
            _ => ordinary::read_text(&path)?,
        };
        let kept: String = text.split_inclusive('\n').take(epochs).collect();
        if kept.lines().count() != epochs || !kept.is_empty() && !kept.ends_with('\n') {
            return Err(Error::file(&path, format!("not the lines of {epochs} epochs")));
        }
        write(&path, kept.as_bytes())
    }

    /// The finished epochs, from the log.
    pub fn epochs(&self) -> Result<Vec<Epoch>, Error> {
        epochs_of(&self.folder)
    }

    /// Appends a line to the log, and syncs it to disk if `sync` is set.
    pub(crate) fn log(&self, line: &impl Serialize, sync: bool) -> Result<(), Error> {
        let path = self.folder.join(LOG);
        let mut bytes = Vec::new();
        push_line(&mut bytes, line, &path)?;
        let mut file = ordinary::open_with(&path, OpenOptions::new().append(true).create(true))?;
        let mut append = || {
            file.write_all(&bytes)?;
            if sync { file.sync_data() } else { Ok(()) }
        };
        append().map_err(|e| nextpair_data::Error::io(&path, e).into())
    }
}

/// The finished epochs in the log of a model's folder, which another process may be writing. A folder without a
/// log has none.
pub fn epochs_of(folder: &Path) -> Result<Vec<Epoch>, Error> {
    let path = folder.join(LOG);
    let text = ordinary::read_if_there(&path)?.unwrap_or_default();
    let text = String::from_utf8(text).map_err(|_| Error::file(&path, "not UTF-8"))?;
    // A kill cut off a line without its end.
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let epoch = |(at, line)| {
        serde_json::from_str(line).map_err(|e| {
            let what = format!("not an epoch: {e}");
            nextpair_data::Error::Line { path: path.clone(), line: at + 1, what }.into()
        })
    };
    whole.enumerate().map(epoch).collect()
}

fn read_position(path: &Path) -> Result<Position, Error> {
    let wrong = |what: String| Error::file(path, what);
    let position = metadata(path, POSITION)?;
    let position = position.ok_or_else(|| wrong("there is no position in it".to_owned()))?;
    serde_json::from_str(&position).map_err(|e| wrong(format!("the position: {e}")))
}
