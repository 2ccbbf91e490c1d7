//! A trained model together with a dataset.

use std::path::Path;

use crate::data::dataset::Dataset;
use crate::data::{Progress, Side};
use crate::models::{Corpus, Device, Encodings, Model, ModelFolder};
use anyhow::Result;

/// A trained model, and a dataset as its inputs.
pub(crate) struct Trained {
    pub(crate) folder: ModelFolder,
    pub(crate) corpus: Corpus,
    pub(crate) model: Model,
}

impl Trained {
    pub(crate) fn open(folder: &Path, dataset: &Path, device: Device) -> Result<Self> {
        let folder = ModelFolder::open(folder)?;
        let corpus = folder.corpus(Dataset::open(dataset)?)?;
        if let Some(notice) = folder.stand_in(&corpus) {
            alert!("{notice}");
        }
        let model = folder.model(device)?;
        Ok(Trained { folder, corpus, model })
    }

    pub(crate) fn dataset(&self) -> &Dataset {
        self.corpus.dataset()
    }

    /// Encodes images (as items) or captions.
    pub(crate) fn encode(
        &self,
        side: Side,
        which: &[usize],
        progress: &dyn Progress,
    ) -> Result<Encodings> {
        let (model, corpus) = (&self.model, &self.corpus);
        Ok(match side {
            Side::Image => Encodings::of_images(model, corpus, which, progress)?,
            Side::Text => Encodings::of_texts(model, corpus, which, progress)?,
        })
    }
}
