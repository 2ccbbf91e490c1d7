//! The queries of an experiment: read once, and kept in its folder.

use nextpair_data::dataset::FeatureSource;
use nextpair_data::{AtomicFile, Matrix, Progress, npy};
use nextpair_models::Texts;

use super::Scenario;
use super::fingerprints::file_fingerprint;
use super::learn::Place;
use crate::queries::{Queries, read_queries};
use crate::{Arm, Error, Experiment};

/// The name of their fingerprint in the manifest.
const QUERIES: &str = "queries";

impl Scenario {
    /// Keeps the queries in the folder: texts for models that read words, vectors for others.
    pub(super) fn keep_queries(&mut self, progress: &dyn Progress) -> Result<(), Error> {
        let Some(path) = &self.experiment.queries else { return Ok(()) };
        let read = read_queries(path)?;
        let kept = self.folder.queries(self.experiment.model.reads_words());
        let queries = match (self.experiment.model.reads_words(), read) {
            (true, Queries::Vectors(_)) => {
                let what = format!("{}: vectors, but the model reads words", path.display());
                return Err(Error::setting("queries", what));
            }
            (true, Queries::Lines(lines)) => {
                AtomicFile::write_whole(&kept, (lines.join("\n") + "\n").as_bytes())?;
                Queries::Lines(lines)
            }
            (false, read) => {
                let matrix = read.vectors(&self.corpus, self.query_source(), progress)?;
                write_vectors(&kept, &matrix)?;
                Queries::Vectors(matrix)
            }
        };
        self.manifest.files.insert(QUERIES.to_owned(), file_fingerprint(&kept)?);
        self.queries = Some(queries);
        Ok(())
    }

    /// Reads the queries that were kept.
    pub(super) fn read_kept_queries(&mut self) -> Result<(), Error> {
        let Some(print) = self.manifest.files.get(QUERIES) else { return Ok(()) };
        let kept = self.folder.queries(self.experiment.model.reads_words());
        if *print != file_fingerprint(&kept)? {
            return Err(Error::file(&kept, "was changed after the experiment was made"));
        }
        self.queries = Some(read_queries(&kept)?);
        Ok(())
    }

    /// Returns the queries of a strategy as inputs of the models of a seed.
    pub(super) fn queries_of(
        &self,
        strategy: &Arm,
        place: Place<'_>,
        progress: &dyn Progress,
    ) -> Result<Option<Texts>, Error> {
        let Some(queries) = self.queries.as_ref().filter(|_| strategy.queries) else {
            return Ok(None);
        };
        let words = self.reading(place.seed)?.vocabulary;
        let (source, device) = (self.query_source(), place.device);
        queries.texts(words, &self.corpus, source, device, progress).map(Some)
    }

    fn query_source(&self) -> Option<&dyn FeatureSource> {
        self.options.source.as_deref().map(|source| source as &dyn FeatureSource)
    }
}

impl Experiment {
    /// Checks that strategies have the queries that they ask for.
    pub(crate) fn check_queries(&self) -> Result<(), Error> {
        if self.queries.is_some() && self.pool == nextpair_data::Side::Text {
            let what = "they are for pools of images, and the pool is of texts";
            return Err(Error::setting("queries", what));
        }
        match self.strategies.iter().find(|arm| arm.queries) {
            Some(arm) if self.queries.is_none() => {
                let what = format!("{arm} needs a file of what people search for");
                Err(Error::setting("queries", what))
            }
            _ => Ok(()),
        }
    }
}

fn write_vectors(path: &std::path::Path, matrix: &Matrix) -> Result<(), Error> {
    let mut file = AtomicFile::create(path)?;
    npy::write_matrix(&mut file, matrix).map_err(|e| Error::io(path, e))?;
    Ok(file.commit()?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nextpair_data::Side;
    use nextpair_data::import::import_scenes;
    use nextpair_data::scenes::Settings;
    use nextpair_models::{Config, Training, Vse};

    use super::*;
    use crate::{Amount, ExperimentKeys, Options};

    fn resolve(keys: ExperimentKeys) -> Result<Experiment, Error> {
        let model = Config::Vse(Vse { dim: 8, word_dim: 8, ..Vse::default() });
        let training = Training { epochs: 3, batch: 8, validate_last: 0, ..Training::default() };
        let captions = Experiment::default_captions();
        Experiment::resolve(keys, model, Training { captions, ..training })
    }

    #[test]
    fn queries_are_kept_and_change_what_is_picked() {
        let folder = tempfile::tempdir().unwrap();
        let (data, path) = (folder.path().join("ds"), folder.path().join("e"));
        import_scenes(&Settings { images: 200, ..Settings::default() }, &data, &()).unwrap();
        let file = folder.path().join("asked.txt");
        let names = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
        let keys = |strategies: &[&str]| ExperimentKeys {
            dataset: Some(data.clone()),
            initial: Some(Amount::Share(0.4)),
            budget: Some(Amount::Count(15)),
            rounds: Some(1),
            strategies: names(strategies),
            queries: Some(file.clone()),
            min_count: Some(1),
            ..ExperimentKeys::default()
        };
        let asked = ["herding", "herding+queries", "novelty+queries"];
        let create = || {
            let experiment = resolve(keys(&asked)).unwrap();
            Scenario::create(&path, experiment, &Options::default(), &())
        };
        for (text, says) in [
            ("\n \n", "asked.txt: there is no query in it"),
            ("zyzzyva\n", "not one word of them is in the vocabulary"),
        ] {
            fs::write(&file, text).unwrap();
            let what = match create() {
                Err(error) => error.to_string(),
                Ok(scenario) => scenario.run(1, &()).unwrap_err().to_string(),
            };
            assert!(what.contains(says), "{what}");
            let _ = fs::remove_dir_all(&path);
        }
        fs::write(&file, "a red star\n\ntwo red stars\nzyzzyva\n").unwrap();
        let scenario = create().unwrap();
        // What was read is what counts.
        fs::write(&file, "a blue circle\n").unwrap();
        scenario.run(1, &()).unwrap();
        let picks = |name: &str| fs::read(path.join(format!("seed-0/{name}/picks-1.jsonl")));
        assert_ne!(picks("herding").unwrap(), picks("herding+queries").unwrap());
        let kept = fs::read_to_string(path.join("queries.txt")).unwrap();
        assert_eq!(kept, "a red star\ntwo red stars\nzyzzyva\n");
        drop(scenario);
        fs::write(path.join("queries.txt"), "other\n").unwrap();
        let what = Scenario::resume(&path, None, &Options::default()).err().unwrap().to_string();
        assert!(what.contains("queries.txt: was changed"), "{what}");

        let without = ExperimentKeys { queries: None, ..keys(&asked) };
        let what = resolve(without).unwrap_err().to_string();
        assert!(what.contains("queries: herding+queries needs a file"), "{what}");
        let of_texts = ExperimentKeys { pool: Some(Side::Text), ..keys(&["random"]) };
        let what = resolve(of_texts).unwrap_err().to_string();
        assert!(what.contains("queries: they are for pools of images"), "{what}");
    }
}
