//! Creates and resumes experiments.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use nextpair_data::dataset::Dataset;
use nextpair_data::text::{SplitWords, Vocabulary, WordCounts};
use nextpair_data::{AtomicFile, FolderLock, Progress};
use nextpair_models::{Admission, Corpus, Makers, Origin, Unused};

use super::fingerprints::{
    features_fingerprint, file_fingerprint, items_fingerprint, settings_fingerprint,
};
use super::strategies::check_strategies;
use super::words::OwnReadings;
use super::{Done, Scenario};
use crate::folder::{Journal, Record, VERSION, no_experiment, read_manifest};
use crate::plan::Plan;
use crate::world;
use crate::{
    Error, Experiment, ExperimentFolder, ExperimentManifest, ItemVectors, Machine, Options,
    VocabularyOf,
};

/// Names of fingerprints in the manifest.
const ITEMS: &str = "items.jsonl";
const WORDS: &str = "vocabulary.json";
const FEATURES: &str = "features";
const SETTINGS: &str = "settings";

impl Scenario {
    /// Starts an experiment in a new or empty folder.
    pub fn create(
        path: &Path,
        experiment: Experiment,
        options: &Options,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let folder = ExperimentFolder::new(path);
        fs::create_dir_all(path).map_err(|e| Error::io(path, e))?;
        if folder.manifest().exists() {
            return Err(Error::file(path, "there is an experiment already; --resume continues it"));
        }
        refuse_strangers(path)?;
        let lock = lock(path)?;
        let mut dataset = Dataset::open(&experiment.dataset)?;
        // From here on the folder alone tells how to go on after a kill.
        experiment.write(&folder.experiment())?;
        if let Some(world) = &experiment.world {
            let no_words = experiment.model.reads_words().then(no_words);
            let source = corpus_of(&experiment, dataset, no_words.as_ref())?;
            dataset = world::make(world, &experiment, &source, &folder.world(), progress)?;
        }
        let vocabulary = words(&experiment, &dataset, progress)?;
        let mut files = BTreeMap::new();
        files.insert(ITEMS.to_owned(), items_fingerprint(&dataset)?);
        let Origin { version, unit } = Origin::of(options.device);
        let manifest = ExperimentManifest {
            nextpair_scenario: VERSION,
            version,
            unit,
            dataset: dataset.manifest().name.clone(),
            synthetic: dataset.manifest().synthetic,
            items: 0,
            machine: Machine::here(),
            files,
        };
        let mut scenario =
            Self::assemble(folder, experiment, options, manifest, dataset, vocabulary, lock)?;
        scenario.check_caption_source()?;
        scenario.manifest.items = scenario.plan.whole();
        let features = features_fingerprint(&scenario.corpus);
        scenario.manifest.files.insert(FEATURES.to_owned(), features);
        if let Some(vocabulary) = &scenario.vocabulary {
            let path = scenario.folder.vocabulary();
            vocabulary.write(&path)?;
            scenario.manifest.files.insert(WORDS.to_owned(), file_fingerprint(&path)?);
        }
        scenario.keep_queries(progress)?;
        let settings = settings_fingerprint(&scenario.experiment)?;
        scenario.manifest.files.insert(SETTINGS.to_owned(), settings);
        scenario.experiment.write(&scenario.folder.experiment())?;
        // Write the manifest last: a folder with a manifest is complete.
        write_manifest(&scenario.folder.manifest(), &scenario.manifest)?;
        Ok(scenario)
    }

    /// Opens an experiment to continue it. `changed` may have other strategies, seeds and rounds
    /// and another price. All other settings must be the same.
    ///
    /// Returns an error if weights of finished rounds were changed. Also returns one if another
    /// version or vector unit has worked on the experiment, unless the options accept that.
    pub fn resume(
        path: &Path,
        changed: Option<Experiment>,
        options: &Options,
    ) -> Result<Self, Error> {
        let folder = ExperimentFolder::new(path);
        if !folder.manifest().exists() {
            return Err(no_experiment(path));
        }
        let lock = lock(path)?;
        remove_unfinished(path)?;
        let manifest = read_manifest(&folder.manifest())?;
        let stored = Experiment::read_resolved(&folder.experiment())?;
        if manifest.files.get(SETTINGS) != Some(&settings_fingerprint(&stored)?) {
            let what =
                "was changed after the experiment was made; an experiment keeps its settings";
            return Err(Error::file(&folder.experiment(), what));
        }
        let mut experiment = changed.unwrap_or_else(|| stored.clone());
        // Unnamed features are those of the experiment, even if others were added since.
        experiment.features = experiment.features.or_else(|| stored.features.clone());
        experiment.text_features =
            experiment.text_features.or_else(|| stored.text_features.clone());
        stored.may_become(&experiment)?;
        let dataset = Dataset::open(&experiment.items_in(&folder))?;
        if manifest.files.get(ITEMS) != Some(&items_fingerprint(&dataset)?) {
            let what = "other items than those the experiment was made with";
            return Err(Error::file(dataset.folder(), what));
        }
        let words = folder.vocabulary();
        let vocabulary = match experiment.model.reads_words() {
            true if experiment.has_words_by_seed() => Some(no_words()),
            true if manifest.files.get(WORDS) != Some(&file_fingerprint(&words)?) => {
                return Err(Error::file(&words, "was changed after the experiment was made"));
            }
            true => Some(Vocabulary::read(&words)?),
            false => None,
        };
        let mut scenario =
            Self::assemble(folder, experiment, options, manifest, dataset, vocabulary, lock)?;
        let features = scenario.manifest.files.get(FEATURES);
        if features.is_some_and(|print| *print != features_fingerprint(&scenario.corpus)) {
            let what = "other features than those the experiment was made with";
            return Err(Error::file(scenario.corpus.dataset().folder(), what));
        }
        scenario.read_kept_queries()?;
        scenario.check_finished()?;
        // A finished experiment has nothing left to mix.
        if scenario.work_left() > 0 {
            scenario.admit()?;
        }
        if scenario.experiment != stored {
            scenario.experiment.write(&scenario.folder.experiment())?;
        }
        Ok(scenario)
    }

    /// Checks that all parts match, and assembles them.
    fn assemble(
        folder: ExperimentFolder,
        mut experiment: Experiment,
        options: &Options,
        manifest: ExperimentManifest,
        dataset: Dataset,
        vocabulary: Option<Vocabulary>,
        lock: FolderLock,
    ) -> Result<Self, Error> {
        let corpus = corpus_of(&experiment, dataset, vocabulary.as_ref())?;
        let own = OwnReadings::of(&experiment);
        let vocabulary = vocabulary.filter(|_| !experiment.has_words_by_seed());
        // Fix the names: features added later would change the default.
        experiment.features = Some(corpus.image_features().0.name.clone());
        experiment.text_features = corpus.text_features().map(|(set, _)| set.name.clone());
        let plan = Plan::new(&experiment, &corpus)?;
        check_strategies(&experiment, &plan, &corpus)?;
        let (journal, Record { rounds, continued_by }) = Journal::open(&folder.rounds())?;
        let done = Mutex::new(Done { rounds, journal });
        let vectors = ItemVectors::new(experiment.bow, plan.items_of_any_seed());
        Ok(Scenario {
            folder,
            experiment,
            options: options.clone(),
            manifest,
            corpus,
            vocabulary,
            own,
            plan,
            queries: None,
            vectors,
            done,
            logs: Default::default(),
            continued_by,
            note: None,
            _lock: lock,
        })
    }

    /// Checks that this process may continue the experiment, and records it if it is new.
    fn admit(&mut self) -> Result<(), Error> {
        let here = Origin::of(self.options.device);
        let makers = Makers {
            version: &self.manifest.version,
            unit: &self.manifest.unit,
            continued_by: &self.continued_by,
        };
        if let Admission::New(note) =
            makers.admit(&here, self.options.mixing, self.folder.path())?
        {
            self.done().journal.let_in(&here)?;
            self.continued_by.push(here);
            self.note = Some(note);
        }
        Ok(())
    }
}

fn lock(path: &Path) -> Result<FolderLock, Error> {
    Ok(FolderLock::take(path, "another process is at this experiment")?)
}

/// Removes partial files of a killed process from the folders of images, seeds, strategies and their models.
fn remove_unfinished(path: &Path) -> Result<(), Error> {
    let images = ExperimentFolder::new(path).images();
    if images.is_dir() {
        AtomicFile::remove_unfinished(&images)?;
    }
    for seed in folders_in(path)? {
        if seed.file_name().is_some_and(|name| name.to_string_lossy().starts_with("seed-")) {
            AtomicFile::remove_unfinished(&seed)?;
            for lane in folders_in(&seed)? {
                AtomicFile::remove_unfinished(&lane)?;
                folders_in(&lane)?.iter().try_for_each(|run| AtomicFile::remove_unfinished(run))?;
            }
        }
    }
    Ok(())
}

fn folders_in(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(path).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()
    });
    let mut entries = entries.map_err(|e| Error::io(path, e))?;
    entries.retain(|entry| entry.is_dir());
    Ok(entries)
}

/// Checks that a folder holds nothing but a partly created experiment, which may be created again.
fn refuse_strangers(path: &Path) -> Result<(), Error> {
    let io = |e| Error::io(path, e);
    for entry in fs::read_dir(path).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let name = name.to_string_lossy();
        let ours =
            ["experiment.toml", WORDS, "rounds.jsonl", "world", "queries.txt", "queries.npy"];
        if !ours.contains(&&*name) && !name.starts_with('.') {
            let what = format!("holds {name}, which is not of an experiment; name a new folder");
            return Err(Error::file(path, what));
        }
    }
    Ok(())
}

/// Returns the vocabulary of models that read words: from a file, or from train and dev. It
/// includes captions of the pool, as in the published code, because the size of a model must not
/// change between rounds. It is empty if every seed has its own.
fn words(
    experiment: &Experiment,
    dataset: &Dataset,
    progress: &dyn Progress,
) -> Result<Option<Vocabulary>, Error> {
    if !experiment.model.reads_words() {
        return Ok(None);
    }
    Ok(Some(match &experiment.vocabulary {
        Some(VocabularyOf::File(path)) => Vocabulary::read(path)?,
        Some(VocabularyOf::Paired) => no_words(),
        None if experiment.has_words_by_seed() => no_words(),
        None => {
            let words = SplitWords::count(dataset.items(), progress);
            Vocabulary::from_counts(&words.of_train_and_dev(), experiment.min_count)
        }
    }))
}

/// Returns an empty vocabulary.
pub(crate) fn no_words() -> Vocabulary {
    Vocabulary::from_counts(&WordCounts::default(), 1)
}

/// Returns a dataset as inputs of the model of an experiment.
pub(crate) fn corpus_of(
    experiment: &Experiment,
    dataset: Dataset,
    vocabulary: Option<&Vocabulary>,
) -> Result<Corpus, Error> {
    let images = experiment.features.as_deref();
    Ok(match vocabulary {
        Some(vocabulary) => Corpus::of_words(dataset, images, vocabulary)?,
        None => Corpus::of_vectors(dataset, images, experiment.text_features.as_deref())?,
    })
}

/// Returns the captions that an experiment does not learn from, because features are missing.
pub(crate) fn unused(experiment: &Experiment, corpus: &Corpus) -> Vec<Unused> {
    match experiment.only.is_empty() {
        true => corpus.unused(&corpus.training_items()),
        // Only items with all features can be named.
        false => Vec::new(),
    }
}

fn write_manifest(path: &Path, manifest: &ExperimentManifest) -> Result<(), Error> {
    let mut text =
        serde_json::to_vec_pretty(manifest).map_err(|e| Error::file(path, e.to_string()))?;
    text.push(b'\n');
    Ok(AtomicFile::write_whole(path, &text)?)
}
