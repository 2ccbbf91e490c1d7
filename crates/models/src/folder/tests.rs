//! Model folders whose files were damaged, swapped or edited.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nextpair_data::dataset::Dataset;
use nextpair_data::import::import_scenes;
use nextpair_data::scenes::Settings;
use nextpair_data::text::Vocabulary;
use nextpair_kernels::{Device, Tensor};

use super::{ModelFolder, Position, SPEC, Spec, resealed};
use crate::{
    Choice, Config, Corpus, Error, Evaluation, Model, Setting, Training, evaluate, evaluate_ranks,
    tensor_file, train,
};

mod average;

/// A folder with a dataset, and a model trained for two of four epochs.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let training = Training { epochs: 2, validate_last: 0, ..Training::default() };
        let world = Self::with("vse++", training);
        world.trained().unwrap();
        world.edit("model.json", |text| text.replace("\"epochs\": 2", "\"epochs\": 4"));
        world
    }

    /// A folder with a dataset, and a model that is not trained yet.
    fn with(model: &str, training: Training) -> Self {
        let world = World { folder: tempfile::tempdir().unwrap() };
        let settings = Settings { images: 30, ..Settings::default() };
        import_scenes(&settings, &world.path("ds"), &()).unwrap();
        let dataset = world.dataset();
        let captions: Vec<String> = dataset.items().iter().flat_map(|i| i.captions).collect();
        let vocabulary = Vocabulary::build(&captions, 4);
        let corpus = Corpus::of_words(dataset, None, &vocabulary).unwrap();
        let mut model = Config::named(model).unwrap();
        model.set(Setting::Dim(4)).unwrap();
        let features = ("regions".to_owned(), None);
        let spec = Spec::new(corpus.dataset(), model, corpus.inputs(), features, training);
        let pairs = corpus.pairs(&corpus.training_items(), Choice::First, 0);
        ModelFolder::create(&world.path("run"), spec, Some(vocabulary), &corpus, &pairs).unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn dataset(&self) -> Dataset {
        Dataset::open(&self.path("ds")).unwrap()
    }

    /// Opens the model and resumes its training. Returns the epochs it took.
    fn trained(&self) -> Result<Vec<usize>, Error> {
        let run = ModelFolder::open(&self.path("run"))?;
        let corpus = run.training_corpus(self.dataset())?;
        let mut epochs = Vec::new();
        train(&run, &corpus, Device::Cpu, &(), |epoch| epochs.push(epoch.epoch))?;
        Ok(epochs)
    }

    fn edit(&self, file: &str, edit: impl FnOnce(String) -> String) {
        let path = self.path("run").join(file);
        let text = fs::read_to_string(&path).unwrap();
        let edited = if file == SPEC { resealed(&text, edit) } else { edit(text) };
        fs::write(&path, edited).unwrap();
    }

    /// Changes the tensors of a file, and its position if one is given.
    fn edit_tensors(
        &self,
        file: &str,
        edit: impl FnOnce(&mut BTreeMap<String, Tensor>),
        position: Option<&str>,
    ) {
        let path = self.path("run").join(file);
        let bytes = fs::read(&path).unwrap();
        let (_, head) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
        let metadata = head.metadata().clone().unwrap();
        let (key, text) = metadata.iter().find(|(key, _)| *key != "digest").unwrap();
        let text = position.map_or(text.clone(), str::to_owned);
        let tensor = |(name, stored): (String, tensor_file::Stored)| {
            let values = stored.values.unwrap();
            (name, Tensor::new(values, &stored.shape, Device::Cpu).unwrap())
        };
        let mut tensors: BTreeMap<String, Tensor> =
            tensor_file::read(&path).unwrap().into_iter().map(tensor).collect();
        edit(&mut tensors);
        let tensors = tensors.iter().map(|(name, tensor)| (name.clone(), tensor));
        tensor_file::write(&path, tensors, (key, text)).unwrap();
    }

    fn refused(&self, says: &str) {
        let what = self.trained().unwrap_err().to_string();
        assert!(what.contains(says), "no '{says}' in {what}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_state_must_be_that_of_the_model() {
    let world = World::new();
    copy(&world.path("run"), &world.path("good"));
    let small = Tensor::new(vec![0.0; 3], &[3], Device::Cpu).unwrap();
    type Edit<'a> = (&'a dyn Fn(&mut BTreeMap<String, Tensor>), &'a str);
    let edits: [Edit<'_>; 4] = [
        (&|all| drop(all.remove("img_fc.bias")), "img_fc.bias is missing"),
        (&|all| drop(all.remove("adam.second.img_fc.bias")), "adam.second.img_fc.bias is missing"),
        (&|all| drop(all.insert("more".to_owned(), small.clone())), "more is extra"),
        (&|all| drop(all.insert("img_fc.bias".to_owned(), small.clone())), "F32 [3], not [4]"),
    ];
    for (edit, says) in edits {
        world.edit_tensors("state.safetensors", edit, None);
        world.refused(says);
        copy(&world.path("good"), &world.path("run"));
    }
    for (position, says) in [
        ("{}", "the position: missing field"),
        (r#"{"epochs":2,"best":null,"best_epoch":2,"steps":[1]}"#, "1 steps of the optimiser"),
        (r#"{"epochs":3,"best":null,"best_epoch":2,"steps":[]}"#, "0 steps of the optimiser"),
    ] {
        world.edit_tensors("state.safetensors", |_| (), Some(position));
        world.refused(says);
        copy(&world.path("good"), &world.path("run"));
    }
    let state = world.path("run/state.safetensors");
    let whole = fs::read(&state).unwrap();
    for length in [0, 7, 20, whole.len() / 2, whole.len() - 1] {
        fs::write(&state, &whole[..length]).unwrap();
        world.refused("state.safetensors");
    }
    fs::remove_file(&state).unwrap();
    // Without a state the epochs are repeated; a finished model does not need it.
    let weights = |name| fs::read(world.path(name)).unwrap();
    assert_eq!(world.trained().unwrap(), [1, 2, 3, 4]);
    let repeated = weights("run/model.safetensors");
    ModelFolder::open(&world.path("run")).unwrap().forget_state().unwrap();
    assert_eq!(world.trained().unwrap(), [0; 0]);
    assert!(!state.exists());
    copy(&world.path("good"), &world.path("run"));
    assert_eq!(world.trained().unwrap(), [3, 4]);
    assert!(weights("run/model.safetensors") == repeated);
    assert_eq!(world.trained().unwrap(), [0; 0]);
}

#[test]
fn weights_must_be_those_of_the_model() {
    let world = World::new();
    let run = ModelFolder::open(&world.path("run")).unwrap();
    assert_eq!(run.weights_epoch().unwrap(), Some(2));
    world.edit_tensors("model.safetensors", |all| drop(all.remove("embed.weight")), None);
    let what = run.model(Device::Cpu).err().unwrap().to_string();
    assert!(what.contains("embed.weight") && what.contains("is missing"), "{what}");
    fs::remove_file(world.path("run/model.safetensors")).unwrap();
    let what = run.model(Device::Cpu).err().unwrap().to_string();
    assert!(what.contains("the weights are missing"), "{what}");
}

#[test]
fn weights_must_be_those_that_training_wrote() {
    let world = World::new();
    let path = world.path("run/model.safetensors");
    let good = fs::read(&path).unwrap();
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 1;
    // With epochs left, and with none.
    for epochs in [4, 2] {
        world.edit("model.json", |text| {
            text.replace("\"epochs\": 4", &format!("\"epochs\": {epochs}"))
        });
        fs::write(&path, &bad).unwrap();
        world.refused("model.safetensors: not the weights that training wrote");
        assert!(fs::read(&path).unwrap() == bad);
        fs::write(&path, &good).unwrap();
    }
    assert_eq!(world.trained().unwrap(), [0; 0]);
    // The advice of the message works.
    fs::write(&path, &bad).unwrap();
    world.refused("or delete them and state.safetensors to train again");
    fs::remove_file(&path).unwrap();
    fs::remove_file(world.path("run/state.safetensors")).unwrap();
    assert_eq!(world.trained().unwrap(), [1, 2]);
    assert!(fs::read(&path).unwrap() == good);
}

#[test]
fn weights_of_an_epoch_that_was_not_acknowledged_are_made_again() {
    let world = World::new();
    copy(&world.path("run"), &world.path("good"));
    assert_eq!(world.trained().unwrap(), [3, 4]);
    let expected = fs::read(world.path("run/model.safetensors")).unwrap();
    // Killed between writing the weights of the last epoch and writing the state.
    let weights = world.path("run/model.safetensors");
    copy(&world.path("good"), &world.path("run"));
    fs::write(&weights, &expected).unwrap();
    assert_eq!(world.trained().unwrap(), [3, 4]);
    assert!(fs::read(&weights).unwrap() == expected);
    // Another version may not find that epoch the best again.
    let weights_of = |print: &str| Position {
        epochs: 2,
        best: Some(50.0),
        best_epoch: 1,
        weights: Some(print.to_owned()),
        ..Position::default()
    };
    let best = || {
        let mut position = weights_of("those of epoch 1, which are gone");
        ModelFolder::open(&world.path("run")).unwrap().check_weights(&mut position).unwrap();
        position.best
    };
    assert_eq!(best(), Some(50.0));
    let mixed =
        "\"continued_by\": [{ \"version\": \"0.0.9\", \"unit\": \"abacus\" }],\n  \"dataset\":";
    world.edit("model.json", |text| text.replacen("\"dataset\":", mixed, 1));
    assert_eq!(best(), None);
}

#[test]
fn the_log_has_one_line_for_each_epoch() {
    let world = World::new();
    // A line that was never acknowledged, and one that was cut off.
    world.edit("log.jsonl", |text| format!("{text}{}{{\"epo", text.lines().next().unwrap()));
    world.edit("log.jsonl", |text| text.replace("}{\"epo", "}\n{\"epo"));
    let run = ModelFolder::open(&world.path("run")).unwrap();
    assert_eq!(run.epochs().unwrap().len(), 3);
    assert_eq!(world.trained().unwrap(), [3, 4]);
    let epochs: Vec<usize> = run.epochs().unwrap().iter().map(|epoch| epoch.epoch).collect();
    assert_eq!(epochs, [1, 2, 3, 4]);
    world.edit("log.jsonl", |text| text[..text.len() - 1].to_owned());
    world.refused("log.jsonl: not the lines of 4 epochs");
    fs::remove_file(world.path("run/log.jsonl")).unwrap();
    world.refused("log.jsonl: ");
}

#[test]
fn files_that_were_changed_are_noticed() {
    let world = World::new();
    copy(&world.path("run"), &world.path("good"));
    let again = || copy(&world.path("good"), &world.path("run"));
    world.edit("pairs.jsonl", |text| text.lines().skip(1).map(|l| format!("{l}\n")).collect());
    world.refused("pairs.jsonl: was changed after the model was made");
    again();
    Vocabulary::build(["a a a"], 1).write(&world.path("run/vocabulary.json")).unwrap();
    world.refused("vocabulary.json: 5 words in the vocabulary, but");
    again();
    world.edit("vocabulary.json", |text| text.replace("scene", "scenery"));
    world.edit("vocabulary.json", |text| text.replace("\"square\"", "\"quadrangle\""));
    world.refused("vocabulary.json: was changed after the model was made");
    again();
    for (from, to, says) in [
        (
            "\"nextpair_run\": 1",
            "\"nextpair_run\": 2",
            "model.json: format 2; this version reads 1",
        ),
        ("\"margin\"", "\"margins\"", "model.json: unknown field `margins`"),
        ("\"dim\": 4", "\"dim\": 0", "dim: is 0"),
        ("\"regions\"", "\"others\"", "no image features others; there are regions"),
        ("\"image\": 64", "\"image\": 65", "but the model takes"),
    ] {
        world.edit("model.json", |text| text.replace(from, to));
        world.refused(says);
        again();
    }
    // Another dataset with the same name.
    world.edit("../ds/items.jsonl", |text| text.replace("scene-000003", "scene-x00003"));
    world.refused("pairs.jsonl:4: the dataset has no item");
}

#[test]
fn folds_are_evaluated_by_themselves_and_averaged() {
    let world = World::new();
    let run = ModelFolder::open(&world.path("run")).unwrap();
    let corpus = run.corpus(world.dataset()).unwrap();
    let model = run.model(Device::Cpu).unwrap();
    let items: Vec<usize> = (0..24).collect();
    let whole = evaluate(&model, &corpus, &items, 3, &()).unwrap();
    let parts: Vec<Evaluation> =
        items.chunks(8).map(|part| evaluate(&model, &corpus, part, 1, &()).unwrap()).collect();
    let mean = |of: fn(&Evaluation) -> f64| parts.iter().map(of).sum::<f64>() / 3.0;
    for (found, expected) in [
        (whole.text.r1, mean(|part| part.text.r1)),
        (whole.text.median_rank, mean(|part| part.text.median_rank)),
        (whole.image.r10, mean(|part| part.image.r10)),
        (whole.image.mean_rank, mean(|part| part.image.mean_rank)),
        (whole.text.mean_log_rank, mean(|part| part.text.mean_log_rank)),
        (whole.image.mean_reciprocal_rank, mean(|part| part.image.mean_reciprocal_rank)),
        (whole.rsum, mean(|part| part.rsum)),
    ] {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    assert_eq!((whole.images, whole.captions, whole.folds), (24, 120, 3));
    let (again, ranks) = evaluate_ranks(&model, &corpus, &items, 3, &()).unwrap();
    assert_eq!((again, ranks.text.len(), ranks.image.len()), (whole, 24, 120));
    assert!(ranks.text.iter().all(|&rank| rank < 40) && ranks.image.iter().all(|&rank| rank < 8));
    let first = evaluate_ranks(&model, &corpus, &items[8..16], 1, &()).unwrap().1;
    assert!(ranks.text[8..16] == first.text && ranks.image[40..80] == first.image);
    let within = ranks.image.iter().filter(|&&rank| rank < 5).count() as f64 / 1.2;
    assert!((whole.image.r5 - within).abs() < 1e-9, "{within}");
    let error = evaluate(&model, &corpus, &items, 7, &()).unwrap_err().to_string();
    assert!(error.contains("24 images do not divide into 7 folds"), "{error}");
}

#[test]
fn a_dataset_that_changed_is_refused() {
    let world = World::new();
    let path = world.path("ds").join("items.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let item = world.dataset().items().get(0);
    let (old, new) = (&item.captions[0], item.captions[0].to_uppercase());
    fs::write(&path, text.replacen(old.as_str(), &new, 1)).unwrap();
    world.refused("other captions or features than those the model was made with");
}

#[test]
fn the_rate_falls_to_a_tenth_again_and_again() {
    let training = Training { rate: 2e-4, decay_every: 20, ..Training::default() };
    for (epoch, expected) in [(0, 2e-4), (19, 2e-4), (20, 2e-5), (39, 2e-5), (40, 2e-6)] {
        assert!((training.rate_at(epoch) - expected).abs() < 1e-18);
    }
}

#[test]
fn a_model_begins_with_the_weights_of_another() {
    let training = Training { epochs: 2, validate_last: 0, ..Training::default() };
    let world = World::with("camp-cross", training);
    world.trained().unwrap();
    let start = ModelFolder::open(&world.path("run")).unwrap();
    let corpus = start.training_corpus(world.dataset()).unwrap();
    let pairs = start.pairs(&corpus).unwrap();
    // A rate that moves nothing, so that the first weights can be seen.
    let training =
        Training { rate: 1e-20, weight_decay: 0.0, seed: 9, ..start.spec().training.clone() };
    let mut model = Config::named("camp").unwrap();
    model.set(Setting::Dim(4)).unwrap();
    let spec = Spec { model, training, ..start.spec().clone() };
    let words = start.vocabulary().cloned();
    let create = |name: &str, spec: Spec, words| {
        ModelFolder::create_from(&world.path(name), spec, words, &corpus, &pairs, &start)
    };
    let (next, left) = create("next", spec.clone(), words.clone()).unwrap();
    assert_eq!(next.spec().start, Some(world.path("run").display().to_string()));
    let trained = train(&next, &corpus, Device::Cpu, &(), |_| ()).unwrap();
    let (first, begun) = (
        Model::new(spec.model.clone(), spec.inputs, 9, Device::Cpu).unwrap(),
        start.model(Device::Cpu).unwrap(),
    );
    assert!(!left.is_empty() && left.len() < first.weights().iter().count(), "{left:?}");
    for (name, weight) in trained.weights().iter() {
        let from = if left.iter().any(|own| own == name) { &first } else { &begun };
        let expected = from.weights().get(name).unwrap().to_f32s().unwrap();
        let found = weight.to_f32s().unwrap();
        let same = found.iter().zip(&expected).all(|(found, own)| (found - own).abs() < 1e-15);
        assert!(same && found.len() == expected.len(), "{name}");
    }
    // It needs the other model no longer, and its first weights must stay what they were.
    fs::remove_dir_all(world.path("run")).unwrap();
    copy(&world.path("next"), &world.path("run"));
    fs::remove_file(world.path("run").join("state.safetensors")).unwrap();
    fs::write(world.path("run").join("log.jsonl"), "").unwrap();
    assert_eq!(world.trained().unwrap(), [1, 2]);
    world.edit_tensors("start.safetensors", |tensors| drop(tensors.pop_first()), None);
    fs::remove_file(world.path("run").join("state.safetensors")).unwrap();
    world.refused("start.safetensors: was changed after the model was made");
    // Nothing is made of models that share nothing, or that know other words.
    let few = Vocabulary::build(&["a dog".to_owned()], 1);
    let error = create("other", spec.clone(), Some(few)).err().unwrap().to_string();
    assert!(error.contains("it knows other words"), "{error}");
    assert!(!world.path("other").exists());
}
