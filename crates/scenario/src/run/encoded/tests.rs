//! New captions with a source of features that needs no encoder.

use std::fs::File;
use std::sync::Arc;

use nextpair_data::dataset::Per;
use nextpair_data::import::import_scenes;
use nextpair_data::scenes::Settings;
use nextpair_models::{Config, Heads, Training};

use super::*;
use crate::{Amount, ExperimentKeys, Inbox, Options};

const DIM: usize = 4;
/// The width of images that cannot be encoded.
const ODD: u32 = 5;

/// Maps every text to its own numbers, and "odd" to none.
struct Letters;

fn numbers(text: &str) -> [f32; DIM] {
    let count = |n: usize| text.bytes().filter(|byte| *byte as usize % DIM == n).count();
    if text == "odd" { [f32::NAN; DIM] } else { [0, 1, 2, 3].map(|n| 1.0 + count(n) as f32) }
}

impl FeatureSource for Letters {
    fn check(
        &self,
        _: &Dataset,
        _: &FeatureSet,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }

    fn text_rows(
        &self,
        _: &Dataset,
        _: &FeatureSet,
        texts: &[&str],
        _: &dyn Progress,
    ) -> Result<Matrix, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Matrix::from_vec(DIM, texts.iter().flat_map(|text| numbers(text)).collect()))
    }

    fn image_rows(
        &self,
        _: &Dataset,
        set: &FeatureSet,
        images: &[&Path],
        _: &dyn Progress,
    ) -> Result<Matrix, Box<dyn std::error::Error + Send + Sync>> {
        assert_eq!(set.name, "sides");
        let size = |path: &&Path| nextpair_data::picture::probe(path).map(|header| header.width);
        let widths = images.iter().map(size).collect::<Result<Vec<u32>, _>>()?;
        let row = |width: u32| if width == ODD { [f32::NAN; 2] } else { [width as f32, 1.0] };
        Ok(Matrix::from_vec(2, widths.into_iter().flat_map(row).collect()))
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
    let values = (0..120).map(|number| 1.0 + number as f32);
    let mut file = File::create(path.join("sides.npy")).unwrap();
    npy::write_f32(&mut file, 60, 2, values).unwrap();
    let lock = dataset.lock().unwrap();
    let set = |name: &str, side, per| FeatureSet {
        name: name.to_owned(),
        side,
        per,
        files: vec![PathBuf::from(format!("{name}.npy"))],
        rows: None,
        made_by: None,
        digests: Default::default(),
    };
    dataset.add_features(&lock, set("letters", Side::Text, Per::Caption)).unwrap();
    dataset.add_features(&lock, set("sides", Side::Image, Per::Item)).unwrap();
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
    let model = Config::Heads(Heads { dim: 4, hidden: 0, adapter: false });
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
    assert!(what.contains("annotator: heads takes features, and nobody is there"), "{what}");

    let source: Arc<dyn FeatureSource> = Arc::new(Letters);
    let options = Options { source: Some(source), ..Options::default() };
    let scenario = Scenario::create(&path, experiment(&data), &options, &()).unwrap();
    assert_eq!(scenario.run(1, &()).unwrap().unwrap().picked, 3);
    drop(scenario);
    let inbox = Inbox::open(&path).unwrap();
    let batch = inbox.batch().unwrap().unwrap();
    let said =
        ["a red star", "odd", "a red star"].map(|text| AnswerContent::Caption(text.to_owned()));
    let answer = |(task, said): (&nextpair_data::queue::Task, AnswerContent)| Answer {
        id: task.id.clone(),
        said,
        annotator: None,
        provenance: None,
    };
    let answers: Vec<Answer> = batch.tasks.iter().zip(said).map(answer).collect();
    inbox.take(&answers, &NewImages::default()).unwrap();

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

/// Writes a picture of one colour.
fn write_picture(path: &Path, width: u32) {
    // A bitmap of one row, whose length is a multiple of four bytes.
    let bytes = (3 * width).next_multiple_of(4);
    let mut file = b"BM".to_vec();
    for number in [54 + bytes, 0, 54, 40, width, 1, 1 | 24 << 16, 0, bytes, 0, 0, 0, 0] {
        file.extend(number.to_le_bytes());
    }
    file.extend(vec![9; bytes as usize]);
    std::fs::write(path, file).unwrap();
}

#[test]
fn an_image_that_cannot_be_encoded_makes_no_pair() {
    let folder = tempfile::tempdir().unwrap();
    let (data, path) = (folder.path().join("ds"), folder.path().join("experiment"));
    dataset(&data);
    let experiment = Experiment { pool: Side::Text, ..experiment(&data) };
    // Texts can do without new images, and so without a source of their features.
    let options = Options::default();
    let scenario = Scenario::create(&path, experiment, &options, &()).unwrap();
    assert_eq!(scenario.run(1, &()).unwrap().unwrap().picked, 3);
    drop(scenario);
    write_picture(&folder.path().join("good.bmp"), 8);
    write_picture(&folder.path().join("odd.bmp"), ODD);
    let inbox = Inbox::open(&path).unwrap();
    let batch = inbox.batch().unwrap().unwrap();
    let said =
        ["good.bmp", "odd.bmp", "good.bmp"].map(|name| AnswerContent::Image(name.to_owned()));
    let answer = |(task, said): (&nextpair_data::queue::Task, AnswerContent)| Answer {
        id: task.id.clone(),
        said,
        annotator: None,
        provenance: None,
    };
    let mut answers: Vec<Answer> = batch.tasks.iter().zip(said).map(answer).collect();
    let places = [folder.path().to_path_buf()];
    let images = NewImages::find(inbox.dataset(), &mut answers, &places).unwrap();
    assert_eq!(images.files.len(), 2);
    let what = inbox.take(&answers, &images).unwrap_err().to_string();
    assert!(what.contains("new images cannot get those of sides: nobody is there"), "{what}");
    assert!(!path.join("answers.jsonl").exists() && !path.join("images").exists());
    let source: Arc<dyn FeatureSource> = Arc::new(Letters);
    let inbox = inbox.with_source(Arc::clone(&source));
    inbox.take(&answers, &images).unwrap();
    assert_eq!(std::fs::read_dir(path.join("images")).unwrap().count(), 2);

    let refused = Scenario::resume(&path, None, &options).unwrap().run(1, &());
    let what = refused.err().unwrap().to_string();
    assert!(what.contains("heads takes features, and nobody is there"), "{what}");
    let options = Options { source: Some(source), ..Options::default() };
    let scenario = Scenario::resume(&path, None, &options).unwrap();
    assert!(scenario.run(1, &()).unwrap().is_none());
    let round = scenario.rounds().pop().unwrap();
    assert_eq!((round.paired, round.pairs - scenario.rounds()[0].pairs), (14, 2));
    assert_eq!(round.batch.unwrap().skipped, 1);
    let larger = Dataset::open(&path.join("dataset")).unwrap();
    let (_, features) = larger.features(Side::Image, None).unwrap();
    assert_eq!((features.row(60), features.row(61)), (Some(60), None));

    // A round that was handed over is known by what people said, also when files are gone.
    let named = |name: &str| {
        let said =
            |answer: &Answer| Answer { said: AnswerContent::Image(name.into()), ..answer.clone() };
        answers.iter().map(said).collect::<Vec<Answer>>()
    };
    assert!(inbox.hand_over(1, &answers, &[]).unwrap());
    assert!(inbox.hand_over(1, &named("folder:good.bmp"), &[]).unwrap());
    let what = inbox.hand_over(1, &named("upload:other.png"), &[]).unwrap_err().to_string();
    assert!(what.contains("other.png"), "{what}");
}
