//! Models that train together, held to the same models that train alone.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nextpair_data::dataset::{Dataset, FeatureSet, Per};
use nextpair_data::import::import_scenes;
use nextpair_data::scenes::Settings;
use nextpair_data::text::Vocabulary;
use nextpair_data::{Side, npy};
use nextpair_kernels::{Aggregation, Normaliser, Precision};

use super::*;
use crate::folder::resealed;
use crate::{
    Asks, Criterion, Directions, Encoders, Heads, Imram, Measure, Pooling, Scan, Spec, Violation,
    Vse,
};

const DIM: usize = 6;
const SEEDS: [u64; 3] = [4, 1, 8];

/// A dataset of scenes with vectors of captions, and models of three seeds.
struct World {
    folder: tempfile::TempDir,
    corpus: Corpus,
    config: Config,
    words: Option<Vocabulary>,
}

impl World {
    fn new(config: Config) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ds");
        import_scenes(&Settings { images: 60, ..Settings::default() }, &path, &()).unwrap();
        let mut dataset = Dataset::open(&path).unwrap();
        let captions: Vec<String> = dataset.items().iter().flat_map(|item| item.captions).collect();
        let letter = |caption: &str, at: usize| {
            let of = |letter: u8| usize::from(letter) * (at + 3) % 17;
            caption.bytes().map(of).sum::<usize>() as f32 / 100.0 - 2.0
        };
        let values = captions.iter().flat_map(|text| (0..DIM).map(move |at| letter(text, at)));
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
            digests: Default::default(),
        };
        dataset.add_features(&lock, set).unwrap();
        drop(lock);
        let words = config.reads_words().then(|| Vocabulary::build(&captions, 4));
        let corpus = match &words {
            Some(words) => Corpus::of_words(dataset, None, words).unwrap(),
            None => Corpus::of_vectors(dataset, None, None).unwrap(),
        };
        World { folder, corpus, config, words }
    }

    /// The pairs of a member: each has others, but equally many.
    fn pairs(&self, member: usize) -> Vec<Pair> {
        let items = self.corpus.training_items();
        let some = items.iter().skip(3 * member).take(21);
        let pair = |&item: &usize| {
            let caption = self.corpus.captions_of(item).nth(member % 2).unwrap();
            Pair { item, caption }
        };
        some.map(pair).collect()
    }

    fn path(&self, way: &str, member: usize) -> PathBuf {
        self.folder.path().join(format!("{way}-{member}"))
    }

    /// New models of all members.
    fn models(&self, way: &str, training: &Training) -> Vec<ModelFolder> {
        let create = |(member, &seed): (usize, &u64)| {
            let training = Training { seed, ..training.clone() };
            let letters = self.words.is_none().then(|| "letters".to_owned());
            let features = ("regions".to_owned(), letters);
            let (dataset, inputs) = (self.corpus.dataset(), self.corpus.inputs());
            let spec = Spec::new(dataset, self.config.clone(), inputs, features, training);
            let path = self.path(way, member);
            let (words, pairs) = (self.words.clone(), self.pairs(member));
            ModelFolder::create(&path, spec, words, &self.corpus, &pairs).unwrap()
        };
        SEEDS.iter().enumerate().map(create).collect()
    }

    fn together(
        &self,
        folders: &[Option<&ModelFolder>],
        device: Device,
    ) -> Result<Vec<usize>, Error> {
        let pairs: Vec<Vec<Pair>> = (0..SEEDS.len()).map(|member| self.pairs(member)).collect();
        let members = folders.iter().zip(&pairs).zip(SEEDS);
        let members: Vec<Member<'_>> = members
            .map(|((&folder, pairs), seed)| Member { folder, corpus: &self.corpus, pairs, seed })
            .collect();
        let heard = Mutex::new(Vec::new());
        train_ensemble(&members, device, &(), &|member, epoch| {
            heard.lock().unwrap().push((member, epoch.epoch));
        })?;
        let heard = heard.into_inner().unwrap().into_iter();
        Ok(heard.filter(|&(member, _)| member == 0).map(|(_, epoch)| epoch).collect())
    }

    fn alone(&self, folders: &[ModelFolder], device: Device) {
        for folder in folders {
            train(folder, &self.corpus, device, &(), |_| ()).unwrap();
        }
    }
}

/// The log without times.
fn log(folder: &ModelFolder) -> Vec<Epoch> {
    let timeless = |epoch: Epoch| Epoch { seconds: 0.0, dev_seconds: 0.0, ..epoch };
    folder.epochs().unwrap().into_iter().map(timeless).collect()
}

fn weights(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("model.safetensors")).unwrap()
}

fn trainings() -> [Training; 3] {
    let first = Training {
        epochs: 4,
        batch: 8,
        rate: 5e-3,
        violation: Violation::Sum,
        dropout_inputs: 0.4,
        dropout_states: 0.2,
        validate_last: 0,
        ..Training::default()
    };
    let info_nce = Training {
        loss: Criterion::InfoNce,
        learn_temperature: true,
        validate_last: 3,
        ..first.clone()
    };
    let average =
        Training { violation: Violation::Max, average_last: 2, validate_last: 1, ..first.clone() };
    [first, info_nce, average]
}

/// Every architecture that trains together.
fn configs() -> Vec<Config> {
    let vse = Vse { dim: 5, word_dim: 4, ..Vse::default() };
    let order = Vse { measure: Measure::Order, absolute: true, ..vse.clone() };
    let mut all = vec![
        Config::Heads(Heads { dim: 5, hidden: 0, adapter: false }),
        Config::Heads(Heads { dim: 5, hidden: 7, adapter: false }),
        Config::Vse(vse.clone()),
        Config::Vse(Vse { pooling: Pooling::Mean, normalise_images: false, ..vse }),
        Config::Vse(order),
    ];
    all.extend(attending(5));
    all
}

/// Those that attend, with vectors of `dim` dimensions.
fn attending(dim: usize) -> Vec<Config> {
    let encoders = Encoders { dim, word_dim: 4, ..Encoders::default() };
    let unusual = Encoders { normalise_texts: false, weight_norm: true, ..encoders.clone() };
    let imram = Imram { encoders: encoders.clone(), ..Imram::default() };
    let image = Imram { mode: Directions::Image, normalise_memory: true, ..imram.clone() };
    let full = Imram { mode: Directions::Full, steps: 2, encoders: unusual, ..imram.clone() };
    let one = Imram { steps: 1, normaliser: Normaliser::Softmax, ..imram.clone() };
    let scan = Scan { encoders, aggregation: Aggregation::Max, ..Scan::default() };
    let regions = Scan { direction: Asks::Regions, aggregation: Aggregation::Mean, ..scan.clone() };
    let all = [imram, image, full, one].into_iter().map(Config::Imram);
    all.chain([scan, regions].map(Config::Scan)).collect()
}

#[test]
fn members_learn_what_they_learn_alone() {
    for config in configs() {
        assert!(config.architecture().trains_together());
        let world = World::new(config);
        for (at, training) in trainings().iter().enumerate() {
            let alone = world.models(&format!("alone-{at}"), training);
            let together = world.models(&format!("together-{at}"), training);
            world.alone(&alone, Device::Cpu);
            let folders: Vec<_> = together.iter().map(Some).collect();
            assert_eq!(world.together(&folders, Device::Cpu).unwrap(), [1, 2, 3, 4]);
            for (alone, together) in alone.iter().zip(&together) {
                assert_eq!(log(alone), log(together), "{training:?}");
                assert!(weights(alone.folder()) == weights(together.folder()), "{training:?}");
            }
            assert!(weights(alone[0].folder()) != weights(alone[1].folder()));
        }
    }
}

/// On other devices, up to rounding.
#[test]
fn members_learn_the_same_on_every_device() {
    for config in configs() {
        let world = World::new(config);
        for (at, training) in trainings().iter().enumerate() {
            // A rounded score may make another hinge the largest, and Adam makes much of little.
            let training = Training { rate: 5e-4, ..training.clone() };
            let alone = world.models(&format!("alone-{at}"), &training);
            world.alone(&alone, Device::Cpu);
            for device in Device::available() {
                let models = world.models(&format!("{device}-{at}"), &training);
                world.together(&models.iter().map(Some).collect::<Vec<_>>(), device).unwrap();
                for (alone, model) in alone.iter().zip(&models) {
                    let [alone, model] = [alone, model].map(|f| f.model(Device::Cpu).unwrap());
                    close(&alone, &model, &format!("{device}, {:?}", world.config));
                }
            }
        }
    }
}

fn close(expected: &Model, found: &Model, what: &str) {
    for ((name, a), (_, b)) in expected.weights().iter().zip(found.weights().iter()) {
        for (a, b) in a.to_f32s().unwrap().iter().zip(b.to_f32s().unwrap()) {
            assert!((a - b).abs() < 1e-3, "{what}, {name}: {a} {b}");
        }
    }
}

/// In every precision of a GPU, what is learned alone there.
#[test]
fn members_learn_the_same_in_every_precision() {
    let gpus = Device::available().into_iter().filter(|device| *device != Device::Cpu);
    for gpu in gpus {
        // Large enough for the matrix units.
        for config in attending(32).into_iter().take(3) {
            let world = World::new(config);
            let training = Training { rate: 5e-4, epochs: 1, ..trainings()[0].clone() };
            let training = Training { violation: Violation::Max, ..training };
            for precision in [Precision::Tf32, Precision::Fp16] {
                let device = gpu.with_precision(precision);
                let alone = world.models(&format!("alone-{precision}"), &training);
                world.alone(&alone, device);
                let models = world.models(&format!("together-{precision}"), &training);
                world.together(&models.iter().map(Some).collect::<Vec<_>>(), device).unwrap();
                for ((alone, model), seed) in alone.iter().zip(&models).zip(SEEDS) {
                    let [alone, model] = [alone, model].map(|f| f.model(Device::Cpu).unwrap());
                    let (config, inputs) = (world.config.clone(), world.corpus.inputs());
                    let first = Model::new(config, inputs, seed, Device::Cpu).unwrap();
                    alike(&first, (&alone, &model), &format!("{precision}, {:?}", world.config));
                }
            }
        }
    }
}

/// Whether weights moved alike. Adam takes a step of the same size wherever a gradient is next to
/// nothing, in the direction that rounding gives it; what moves by other gradients is 1.4 times as far apart
/// as it moved.
fn alike(first: &Model, (alone, together): (&Model, &Model), what: &str) {
    let norm = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f32>();
    let weights = [first, alone, together].map(Model::weights);
    for (name, from) in weights[0].iter() {
        let from = from.to_f32s().unwrap();
        let [alone, together] = [1, 2].map(|at| weights[at].get(name).unwrap().to_f32s().unwrap());
        let (moved, apart) = (norm(&alone, &from).sqrt(), norm(&alone, &together).sqrt());
        assert!(apart <= 0.5 * moved, "{what}, {name}: moved by {moved}, {apart} apart");
    }
}

#[test]
fn they_go_on_from_where_all_of_them_stopped() {
    go_on(Config::Heads(Heads { dim: 5, hidden: 0, adapter: false }));
    attending(5).into_iter().step_by(2).for_each(go_on);
}

fn go_on(config: Config) {
    let world = World::new(config);
    // Without an evaluation, half of a training is a training of half.
    let whole = &Training { validate_last: 0, ..trainings()[1].clone() };
    let half = Training { epochs: 2, ..whole.clone() };
    let expected = world.models("whole", whole);
    world.alone(&expected, Device::Cpu);
    for lost in [None, Some(1)] {
        let way = format!("lost-{lost:?}");
        world.alone(&world.models(&way, &half), Device::Cpu);
        let reopened = |member: usize| {
            let path = world.path(&way, member);
            let spec = fs::read_to_string(path.join("model.json")).unwrap();
            let edited = resealed(&spec, |text| text.replace("\"epochs\": 2", "\"epochs\": 4"));
            fs::write(path.join("model.json"), edited).unwrap();
            ModelFolder::open(&path).unwrap()
        };
        let folders: Vec<ModelFolder> = (0..SEEDS.len()).map(reopened).collect();
        if let Some(lost) = lost {
            folders[lost].forget_state().unwrap();
        }
        let epochs = world.together(&folders.iter().map(Some).collect::<Vec<_>>(), Device::Cpu);
        // The state of one is missing: all begin again.
        let first = if lost.is_some() { 1 } else { 3 };
        assert_eq!(epochs.unwrap(), (first..=4).collect::<Vec<_>>());
        for (expected, found) in expected.iter().zip(&folders) {
            assert!(weights(expected.folder()) == weights(found.folder()), "{lost:?}");
            assert!(found.is_finished().unwrap());
        }
    }
}

#[test]
fn one_that_is_trained_along_is_not_written() {
    let world = World::new(Config::Heads(Heads { dim: 5, hidden: 0, adapter: false }));
    let training = &trainings()[0];
    let (expected, found) = (world.models("expected", training), world.models("found", training));
    world.alone(&expected, Device::Cpu);
    world.together(&[Some(&found[0]), None, Some(&found[2])], Device::Cpu).unwrap();
    for member in [0, 2] {
        assert!(weights(expected[member].folder()) == weights(found[member].folder()));
    }
    assert!(found[1].epochs().unwrap().is_empty());
}

#[test]
fn members_that_do_not_fit_are_refused() {
    let world = World::new(Config::Heads(Heads { dim: 5, hidden: 0, adapter: false }));
    let [first, other, _] = trainings();
    let (models, others) = (world.models("models", &first), world.models("others", &other));
    let refused = world.together(&[Some(&models[0]), Some(&others[1]), None], Device::Cpu);
    assert!(refused.unwrap_err().to_string().contains("differ in more than their seeds"));
    // Their seeds are those of their folders.
    assert!(world.together(&[Some(&models[1]), None, None], Device::Cpu).is_err());
    let inputs = world.corpus.inputs();
    let most = |config: &Config| members_at_most(config, inputs, (1, 8), Device::Cpu).unwrap();
    assert!(most(&world.config) > 1000);
    let attending = most(&Config::named("text-imram").unwrap());
    assert!((2..most(&Config::named("vse++").unwrap())).contains(&attending), "{attending}");
    assert_eq!(most(&Config::named("saf").unwrap()), 1);
}
