//! Selections with a trained model equal those on its exported encodings.

use std::fs::{self, File};
use std::path::Path;

use nextpair::data::dataset::Dataset;
use nextpair::data::npy;
use nextpair::data::text::{SplitWords, Vocabulary};
use nextpair::engine::reference;
use nextpair::models::{
    Choice, Config, Corpus, Device, Model, ModelFolder, Pair, Setting, Spec, Training, train,
};
use serde_json::Value;

use crate::world::{World, json_lines, nextpair, nextpair_with};

/// Trains a small model in `run` on the first `items` training items of the dataset.
pub fn train_run(
    path: &Path,
    run: &str,
    model: &str,
    items: usize,
    captions: Choice,
) -> ModelFolder {
    let dataset = Dataset::open(&path.join("ds")).unwrap();
    let mut config = Config::named(model).unwrap();
    config.set(Setting::Dim(16)).unwrap();
    let vocabulary = config.reads_words().then(|| {
        let counts = SplitWords::count(dataset.items(), &());
        Vocabulary::from_counts(&counts.of_train_and_dev(), 2)
    });
    let corpus = match &vocabulary {
        Some(vocabulary) => Corpus::of_words(dataset, None, vocabulary).unwrap(),
        None => Corpus::of_vectors(dataset, None, None).unwrap(),
    };
    let training = Training {
        epochs: 2,
        batch: 16,
        rate: 0.01,
        validate_last: 0,
        captions,
        seed: 5,
        ..Training::default()
    };
    let pairs = corpus.pairs(&corpus.training_items()[..items], captions, training.seed);
    let image = corpus.image_features().0.name.clone();
    let text = corpus.text_features().map(|(set, _)| set.name.clone());
    let spec = Spec::new(corpus.dataset(), config, corpus.inputs(), (image, text), training);
    let run = ModelFolder::create(&path.join(run), spec, vocabulary, &corpus, &pairs).unwrap();
    train(&run, &corpus, Device::Cpu, &(), |_| {}).unwrap();
    run
}

/// Makes a dataset `ds` from the images and texts of the world, each with a caption and with
/// vectors of both sides, which stay in `images.npy` and `texts.npy`. Trains heads on its first 70
/// items in `run`.
pub fn heads_on(world: &World) {
    world.write_lines("captions.txt", (0..world.images.len()).map(|row| format!("text {row}")));
    let import = "import embeddings images.npy ds --other texts.npy --captions captions.txt";
    let run = world.run(import);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let manifest = String::from_utf8(world.read("ds/dataset.toml")).unwrap();
    let (images, texts) = manifest.split_once("side = \"text\"").unwrap();
    let texts = texts.replace("per = \"item\"", "per = \"caption\"");
    world.write("ds/dataset.toml", format!("{images}side = \"text\"{texts}").as_bytes());
    train_run(&world.path(""), "run", "heads", 70, Choice::First);
}

/// A model folder, opened with its model and its dataset.
pub struct Opened {
    pub corpus: Corpus,
    pub model: Model,
    pairs: Vec<Pair>,
}

impl Opened {
    pub fn new(path: &Path, run: &str) -> Self {
        let run = ModelFolder::open(&path.join(run)).unwrap();
        let corpus = run.corpus(Dataset::open(&path.join("ds")).unwrap()).unwrap();
        let (model, pairs) = (run.model(Device::Cpu).unwrap(), run.pairs(&corpus).unwrap());
        Opened { corpus, model, pairs }
    }

    pub fn images(&self, items: &[usize]) -> Vec<f32> {
        let features = self.corpus.features(items, Device::Cpu).unwrap();
        self.model.encode_images(&features).unwrap().to_f32s().unwrap()
    }

    pub fn texts(&self, captions: &[usize]) -> Vec<f32> {
        let texts = self.corpus.texts(captions, Device::Cpu).unwrap();
        self.model.encode_texts(&texts).unwrap().to_f32s().unwrap()
    }

    /// Returns the items of the pool: the training items that are not paired.
    fn pool(&self) -> Vec<usize> {
        let paired = |item: &usize| self.pairs.iter().any(|pair| pair.item == *item);
        self.corpus.training_items().into_iter().filter(|item| !paired(item)).collect()
    }

    /// Returns the caption of a pair.
    fn text(&self, pair: &Pair) -> String {
        let items = self.corpus.dataset().items();
        let owner = items.item_of_caption(pair.caption);
        items.get(owner).captions.swap_remove(pair.caption - items.captions_of(owner).start)
    }

    /// Writes the inputs that `select` needs without the model.
    fn export(&self, path: &Path, choice: Choice) {
        let items = self.corpus.dataset().items();
        let write = |name: &str, values: &[f32]| {
            let mut file = File::create(path.join(name)).unwrap();
            npy::write_f32(&mut file, values.len() / 16, 16, values.iter().copied()).unwrap();
        };
        let lines = |name: &str, lines: Vec<String>| {
            fs::write(path.join(name), lines.join("\n") + "\n").unwrap();
        };
        let (pairs, pool) = (&self.pairs, self.pool());
        write("images.npy", &self.images(&pairs.iter().map(|p| p.item).collect::<Vec<_>>()));
        write("texts.npy", &self.texts(&pairs.iter().map(|p| p.caption).collect::<Vec<_>>()));
        write("image-pool.npy", &self.images(&pool));
        let first = |&item: &usize| match choice {
            Choice::Random => self.corpus.chosen(item, choice, 5)[0].caption,
            _ => items.captions_of(item).start,
        };
        write("text-pool.npy", &self.texts(&pool.iter().map(first).collect::<Vec<_>>()));
        lines("image-groups.txt", pairs.iter().map(|pair| pair.item.to_string()).collect());
        lines("text-groups.txt", pairs.iter().map(|pair| self.text(pair)).collect());
        lines("ids.txt", pool.iter().map(|&item| items.get(item).id).collect());
        let name = |pair: &Pair| match choice {
            Choice::All => {
                let caption = pair.caption - items.captions_of(pair.item).start;
                format!("{}#{caption}", items.get(pair.item).id)
            }
            _ => items.get(pair.item).id,
        };
        lines("pairs.txt", pairs.iter().map(name).collect());
        let regions = self.corpus.image_features().1.matrix();
        for (name, rows) in [
            ("regions.npy", pairs.iter().map(|pair| pair.item as u32).collect::<Vec<_>>()),
            ("region-pool.npy", pool.iter().map(|&item| item as u32).collect()),
        ] {
            let mut file = File::create(path.join(name)).unwrap();
            npy::write_matrix(&mut file, &regions.gather(&rows)).unwrap();
        }
    }
}

/// Asserts that both ways pick the same items. The last bits of an encoding depend on the batch it
/// was encoded in, so scores may differ by rounding.
fn same(path: &Path, by_files: &str, by_model: &str, flags: &str) {
    let picks = |words: &str| {
        let run = nextpair(path, &format!("{words} {flags} --out picks.jsonl"));
        assert_eq!(run.code, Some(0), "{words} {flags}: {}", run.stderr);
        Value::Array(json_lines(&fs::read_to_string(path.join("picks.jsonl")).unwrap()))
    };
    let (mut files, mut model) = (picks(by_files), picks(by_model));
    let items = Dataset::open(&path.join("ds")).unwrap();
    // Files do not know what a model knows of its pairs.
    for why in model.as_array_mut().unwrap().iter_mut().flat_map(|pick| pick["why"].as_array_mut())
    {
        for reason in why.iter_mut().map(|reason| reason.as_object_mut().unwrap()) {
            let (id, caption) = (reason.remove("id").unwrap(), reason.remove("caption").unwrap());
            let (id, caption) = (id.as_str().unwrap(), caption.as_str().unwrap().to_owned());
            let name = reason["anchor_id"].as_str().unwrap();
            assert!(name == id || name.starts_with(&format!("{id}#")), "{name} is not of {id}");
            let item = items.items().get(items.items().find([id])[id]);
            assert!(item.captions.contains(&caption), "{caption} is not of {id}");
        }
    }
    nearest_have_captions(&model);
    [&mut files, &mut model].into_iter().for_each(forget_pairs);
    assert!(close(&files, &model), "{by_model} {flags}: {model:#}\ninstead of {files:#}");
}

/// A model knows the captions of the paired items that are nearest.
fn nearest_have_captions(picks: &Value) {
    let near = picks.as_array().unwrap().iter().filter_map(|pick| pick["near"].as_array());
    for near in near.flatten().filter(|near| near["pair"].is_u64()) {
        assert!(near["id"].is_string() && near["caption"].is_string(), "{near}");
    }
}

/// Leaves of the nearest paired items how near they are: files without names number their pairs.
fn forget_pairs(picks: &mut Value) {
    for near in
        picks.as_array_mut().unwrap().iter_mut().flat_map(|pick| pick["near"].as_array_mut())
    {
        for near in near.iter_mut().filter(|near| near["pair"].is_u64()) {
            *near = near["cosine"].clone();
        }
    }
}

fn close(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| close(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.keys().eq(b.keys()) && a.iter().all(|(key, value)| close(value, &b[key]))
        }
        (Value::Number(a), Value::Number(b)) => {
            (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-5
        }
        _ => a == b,
    }
}

/// Gives every third item the first caption of the item before it, so that images share texts.
fn repeat_captions(path: &Path) {
    let file = path.join("ds/items.jsonl");
    let mut items = json_lines(&fs::read_to_string(&file).unwrap());
    for at in (1..items.len()).step_by(3) {
        items[at]["captions"][0] = items[at - 1]["captions"][0].clone();
    }
    fs::write(file, items.iter().map(|item| format!("{item}\n")).collect::<String>()).unwrap();
}

/// Asserts that exactly the pairs that share an image or a text form groups. `shared` says whether
/// pairs of different images share a text.
fn check_groups(opened: &Opened, shared: bool) {
    let pairs = &opened.pairs;
    let texts: Vec<String> = pairs.iter().map(|pair| opened.text(pair)).collect();
    let share = |a: usize, b: usize| pairs[a].item == pairs[b].item || texts[a] == texts[b];
    let by_image = reference::groups(pairs.len(), |a, b| pairs[a].item == pairs[b].item);
    let expected = reference::groups(pairs.len(), share);
    assert_eq!(expected != by_image, shared, "texts are shared");
    let found = nextpair::scenario::groups(opened.corpus.dataset().items(), pairs).unwrap();
    let alone = expected.iter().enumerate().all(|(pair, &first)| pair == first as usize);
    assert_eq!(found, (!alone).then_some(expected));
    let alone = nextpair::scenario::groups(opened.corpus.dataset().items(), &pairs[..1]).unwrap();
    assert_eq!(alone, None);
}

#[test]
fn a_model_selects_as_its_encodings_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(nextpair(path, "import scenes ds --images 90").code, Some(0));
    repeat_captions(path);
    for (run, choice, pairs) in
        [("all", Choice::All, 15), ("random", Choice::Random, 40), ("first", Choice::First, 30)]
    {
        train_run(path, run, "vse++", pairs, choice);
        let opened = Opened::new(path, run);
        opened.export(path, choice);
        // Random draws of one caption in five rarely take the first of both items.
        check_groups(&opened, choice != Choice::Random);
        for side in ["image", "text"] {
            let files = format!(
                "select --paired-images images.npy --paired-texts texts.npy --pool {side}-pool.npy \
                 --similarity dot --ids ids.txt --paired-ids pairs.txt --pool-side {side} --budget 7"
            );
            let model = format!("select --model {run} ds --pool-side {side} --budget 7");
            // Without labels, the model's pairs of one image or one text form a group.
            let grouped = format!("{files} --groups image-groups.txt --groups text-groups.txt");
            for flags in ["", "--weight count --top-k 2", "--sample 12 --seed 3 --explain 9"] {
                same(path, &grouped, &model, &format!("--strategy hard-negative {flags}"));
            }
            let flags = "--strategy coverage --relative-margin 0.01 --threads 1";
            same(path, &grouped, &model, flags);
            same(path, &files, &model, "--strategy random --seed 9");
            // Files have a row for every pair; points that are covered are drawn among items.
            let strategies =
                if run == "all" { &["core-set"][..] } else { &["core-set", "herding"] };
            for strategy in strategies {
                let encoded = format!("{model} --features encoded");
                same(path, &files, &encoded, &format!("--strategy {strategy}"));
            }
            // The model reads words: distances of captions are distances of their encodings.
            if side == "text" {
                same(path, &files, &model, "--strategy core-set");
            }
        }
        let model = format!("select --model {run} ds --pool-side image --budget 7");
        let regions = "select --paired-images regions.npy --pool region-pool.npy --ids ids.txt \
                       --pool-side image --budget 7";
        same(path, regions, &model, "--strategy core-set");
        let hybrid = nextpair(path, &format!("{model} --strategy hybrid --json --out h.csv"));
        assert_eq!(hybrid.code, Some(0), "{}", hybrid.stderr);
        assert!(hybrid.stdout.contains("\"picks\":7"), "{}", hybrid.stdout);
        if run == "first" {
            same(path, regions, &model, "--strategy core-set --features bow --seed 2");
        }
    }
}

#[test]
fn what_a_model_cannot_select_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(nextpair(path, "import scenes ds --images 30").code, Some(0));
    let all = Dataset::open(&path.join("ds")).unwrap().items().in_split(Some("train")).len();
    train_run(path, "some", "vse++", 8, Choice::First);
    train_run(path, "whole", "vse++", all, Choice::First);
    fs::create_dir(path.join("empty")).unwrap();
    let asked = "--pool-side image --budget 3 --out p.jsonl";
    for (words, says) in [
        ("select --model whole ds", "the pool is empty"),
        ("select --model whole ds", "train --paired or --share"),
        ("select --model some", "<DATASET>"),
        ("select ds --strategy hard-negative", "give --model"),
        ("select ds --strategy v-optimal", "ds: the pool is empty"),
        ("select --model some ds --pool x.npy", "cannot be used with"),
        ("select --model some ds --similarity dot", "cannot be used with"),
        ("select --model some ds --ids x.txt", "cannot be used with"),
        ("select --model empty ds", "there is no model.json in it"),
        ("select --model some empty", "there is no dataset.toml in it"),
        (
            "select --model some ds --strategy hard-negative --top-k 8",
            "anchor 0 has 7 rival groups",
        ),
        (
            "score --model some ds --strategy random --shard 0/2",
            "shards are scored from files of embeddings",
        ),
    ] {
        let run = nextpair(path, &format!("{words} {asked}"));
        assert_eq!(run.code, Some(2), "{words}");
        assert!(run.stderr.contains(says), "{words}: no {says} in {}", run.stderr);
    }
    for (flags, says) in [
        ("--pool-side image --budget 300", "the budget is 300 but the pool has only"),
        ("--pool-side text --budget 3 --strategy core-set --features bow", "bow is for images"),
    ] {
        let run = nextpair(path, &format!("select --model some ds --out p.jsonl {flags}"));
        assert_eq!(run.code, Some(2), "{flags}");
        assert!(run.stderr.contains(says), "{flags}: no {says} in {}", run.stderr);
    }
    // A model trained on another dataset.
    assert_eq!(nextpair(path, "import scenes other --images 3").code, Some(0));
    let words = ["select", "--model", "some", "other", "--pool-side", "image", "--budget", "1"];
    let run = nextpair_with(path, &[&words[..], &["--out", "p.jsonl"]].concat());
    assert!(run.stderr.contains("pairs.jsonl:"), "{}", run.stderr);
    assert!(!path.join("p.jsonl").exists());
}

#[test]
fn a_model_selects_for_queries_and_without_what_was_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(nextpair(path, "import scenes ds --images 90").code, Some(0));
    train_run(path, "run", "vse++", 30, Choice::First);
    let select = |flags: &str| {
        let words = "select --model run ds --pool-side image --out p.jsonl";
        let run = nextpair(path, &format!("{words} {flags}"));
        assert_eq!(run.code, Some(0), "{flags}: {}", run.stderr);
        let picks = json_lines(&fs::read_to_string(path.join("p.jsonl")).unwrap());
        let ids = picks.iter().map(|pick| pick["id"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<String>>(), run.stderr)
    };
    fs::write(path.join("asked.txt"), "a red circle\n\na red square\nxyzzy\n").unwrap();
    for strategy in
        ["herding --points 40", "novelty --points 40", "v-optimal", "v-optimal --features encoded"]
    {
        let strategy = format!("--strategy {strategy} --budget 7");
        let (usual, _) = select(&strategy);
        let (asked, said) = select(&format!("{strategy} --queries asked.txt"));
        assert_ne!(asked, usual, "{strategy}");
        assert!(said.contains("at the expense of other queries"), "{said}");
    }
    let skip = |id: &String| format!("{{\"id\":\"{id}\",\"skip\":\"blurred\"}}\n");
    // From ten on, what else looks like them is told.
    for (strategy, skipped) in [("herding --points 40", 7), ("v-optimal", 7), ("v-optimal", 12)] {
        let (first, _) = select(&format!("--strategy {strategy} --budget {skipped}"));
        fs::write(path.join("answers.jsonl"), first.iter().map(skip).collect::<String>()).unwrap();
        let (usable, said) =
            select(&format!("--strategy {strategy} --budget 7 --usable answers.jsonl"));
        assert!(usable.iter().all(|id| !first.contains(id)), "{usable:?} of {first:?}");
        assert!(said.contains("that people may refuse"), "{said}");
    }

    fs::write(path.join("asked.txt"), "xyzzy\n").unwrap();
    let refused = "select --model run ds --pool-side image --budget 7 --strategy herding \
                   --queries asked.txt --out no.jsonl";
    let run = nextpair(path, refused);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("not one word of them is in the vocabulary"), "{}", run.stderr);
}
