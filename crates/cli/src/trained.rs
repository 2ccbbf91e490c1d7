//! A trained model together with a dataset.

use std::path::Path;

use anyhow::Result;
use nextpair_data::Progress;
use nextpair_data::dataset::Dataset;
use nextpair_models::{Corpus, Device, Encodings, Model, Rows, Run, Scorer};

/// A trained model in its folder, and a dataset as its model takes it.
pub(crate) struct Trained {
    pub(crate) run: Run,
    pub(crate) corpus: Corpus,
    pub(crate) model: Model,
    pub(crate) scorer: Scorer,
}

impl Trained {
    pub(crate) fn open(run: &Path, dataset: &Path) -> Result<Self> {
        let run = Run::open(run)?;
        let corpus = run.corpus(Dataset::open(dataset)?)?;
        if let Some(notice) = run.stand_in(&corpus) {
            say!("{notice}");
        }
        let model = run.model(&Device::Cpu)?;
        let scorer = model.scorer()?;
        Ok(Trained { run, corpus, model, scorer })
    }

    pub(crate) fn dataset(&self) -> &Dataset {
        self.corpus.dataset()
    }

    /// Encodes images, given as items, or captions.
    pub(crate) fn encode(
        &self,
        what: Rows,
        which: &[usize],
        progress: &dyn Progress,
    ) -> Result<Encodings> {
        let (model, corpus) = (&self.model, &self.corpus);
        Ok(match what {
            Rows::Images => Encodings::of_images(model, corpus, which, progress)?,
            Rows::Texts => Encodings::of_texts(model, corpus, which, progress)?,
        })
    }
}
