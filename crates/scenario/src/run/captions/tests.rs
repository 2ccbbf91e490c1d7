//! New captions with a source of features that needs no encoder.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use nextpair_data::dataset::{Dataset, FeatureSet, Per};
use nextpair_data::import::import_scenes;
use nextpair_data::scenes::Settings;
use nextpair_models::{Config, Heads, Training};

use super::*;
use crate::{Amount, ExperimentKeys, Inbox, Options};

const DIM: usize = 4;

/// Maps every text to its own numbers, and "odd" to none.
struct Letters;

fn numbers(text: &str) -> [f32; DIM] {
    let count = |n: usize| text.bytes().filter(|byte| *byte as usize % DIM == n).count();
    if text == "odd" { [f32::NAN; DIM] } else { [0, 1, 2, 3].map(|n| 1.0 + count(n) as f32) }
}

impl TextSource for Letters {
    fn check(
        &self,
        _: &Dataset,
        _: &FeatureSet,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }

    fn rows(
        &self,
        _: &Dataset,
        _: &FeatureSet,
        texts: &[&str],
        _: &dyn Progress,
    ) -> Result<Matrix, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Matrix::from_vec(DIM, texts.iter().flat_map(|text| numbers(text)).collect()))
    }
}

/// Writes scenes with text features of unknown origin.
fn dataset(path: &Path) {
    import_scenes(&Settings { images: 60, ..Settings::default() }, path, &()).unwrap();
    let mut dataset = Dataset::open(path).unwrap();
    let captions: Vec<String> = dataset.items().iter().flat_map(|item| item.captions).collect();
    let values = captions.iter().flat_map(|caption| numbers(caption));
    let mut file = File::create(path.join("letters.npy")).unwrap();
    npy::write_f32(&mut file, captions.len(), DIM, values).unwrap();
    let lock = dataset.lock().unwrap();
    let set = FeatureSet {
        name: "letters".to_owned(),
        side: Side::Text,
        per: Per::Caption,
        files: vec![PathBuf::from("letters.npy")],
        rows: None,
        made_by: None,
    };
    dataset.add_features(&lock, set).unwrap();
}

fn experiment(dataset: &Path) -> Experiment {
    let keys = ExperimentKeys {
        dataset: Some(dataset.to_path_buf()),
        annotator: Some(Annotator::Human),
        initial: Some(Amount::Count(12)),
        budget: Some(Amount::Count(3)),
        rounds: Some(1),
        strategies: Some(vec!["random".to_owned()]),
        ..ExperimentKeys::default()
    };
    let model = Config::Heads(Heads { dim: 4, hidden: 0 });
    let training = Training { epochs: 1, batch: 4, validate_last: 0, ..Training::default() };
    Experiment::resolve(keys, model, training).unwrap()
}

#[test]
fn a_caption_that_cannot_be_encoded_makes_no_pair() {
    let folder = tempfile::tempdir().unwrap();
    let (data, path) = (folder.path().join("ds"), folder.path().join("experiment"));
    dataset(&data);
    let refused = Scenario::create(&path, experiment(&data), &Options::default(), &());
    let what = refused.err().unwrap().to_string();
    assert!(what.contains("annotator: heads takes text features"), "{what}");

    let source: Arc<dyn TextSource> = Arc::new(Letters);
    let options = Options { text_source: Some(source), ..Options::default() };
    let scenario = Scenario::create(&path, experiment(&data), &options, &()).unwrap();
    assert_eq!(scenario.run(1, &()).unwrap().unwrap().picked, 3);
    drop(scenario);
    let inbox = Inbox::open(&path).unwrap();
    let batch = inbox.batch().unwrap().unwrap();
    let said = ["a red star", "odd", "a red star"].map(|text| Said::Caption(text.to_owned()));
    let answer = |(task, said): (&nextpair_data::queue::Task, Said)| Answer {
        id: task.id.clone(),
        said,
        annotator: None,
        provenance: None,
    };
    let answers: Vec<Answer> = batch.tasks.iter().zip(said).map(answer).collect();
    inbox.take(&answers).unwrap();

    let scenario = Scenario::resume(&path, None, &options).unwrap();
    assert!(scenario.run(1, &()).unwrap().is_none());
    let round = scenario.rounds().pop().unwrap();
    assert_eq!((round.paired, round.pairs - scenario.rounds()[0].pairs), (14, 2));
    assert_eq!(round.batch.unwrap().skipped, 1);
    // Two captions are equal and share their features.
    let kept = npy::open(&path.join("seed-0/random/captions-1.npy")).unwrap();
    let mut row = [0.0; DIM];
    kept.read_f32(0, &mut row);
    assert_eq!((kept.rows(), row), (2, numbers("a red star")));
    drop(scenario);

    // Features that do not match the answers, in an experiment that has not trained on them.
    std::fs::write(path.join("rounds.jsonl"), "").unwrap();
    let mut file = File::create(path.join("seed-0/random/captions-1.npy")).unwrap();
    npy::write_f32(&mut file, 1, DIM, numbers("a blue star")).unwrap();
    let scenario = Scenario::resume(&path, None, &options).unwrap();
    let what = scenario.run(1, &()).err().unwrap().to_string();
    assert!(what.contains("captions-1.npy: not the features of the captions"), "{what}");
}
