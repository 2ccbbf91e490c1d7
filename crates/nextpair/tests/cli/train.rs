//! Training and evaluation of models.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nextpair::data::fingerprint;
use nextpair::engine::Draws;
use serde_json::Value;

use crate::world::{Run, json_lines, listed, nextpair};

const SMALL: &str = "--model vse++ --dim 32 --word-dim 16 --batch 16 --epochs 3 --validate-last 2";

/// Returns a folder with a dataset `ds` of generated scenes.
fn world(images: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    succeeds(folder.path(), &format!("import scenes ds --images {images}"), &[]);
    folder
}

pub(crate) fn succeeds(path: &Path, words: &str, says: &[&str]) -> Run {
    let run = nextpair(path, words);
    assert_eq!(run.code, Some(0), "{words}: {}", run.stderr);
    for part in says {
        let said = run.stdout.contains(part) || run.stderr.contains(part);
        assert!(said, "{words}: no '{part}' in {}{}", run.stdout, run.stderr);
    }
    run
}

fn refused(path: &Path, words: &str, says: &str) {
    let run = nextpair(path, words);
    assert_eq!(run.code, Some(2), "{words}: {}", run.stdout);
    assert!(run.stderr.contains(says), "{words}: no '{says}' in {}", run.stderr);
    assert!(!run.stderr.contains("panicked"), "{words}: {}", run.stderr);
}

/// Reads the log without the fields that depend on the clock.
fn log(run: &Path) -> Vec<Value> {
    let mut epochs = json_lines(&fs::read_to_string(run.join("log.jsonl")).unwrap());
    for epoch in &mut epochs {
        epoch["seconds"].take();
        epoch["dev_seconds"].take();
    }
    epochs
}

/// Returns edited settings of a model with their fingerprint.
fn sealed(mut settings: Value) -> String {
    settings["files"].as_object_mut().unwrap().remove("model.json");
    settings["files"]["model.json"] = fingerprint(settings.to_string().as_bytes()).into();
    settings.to_string()
}

pub(crate) fn assert_same_run(one: &Path, other: &Path) {
    for name in ["model.safetensors", "state.safetensors", "pairs.jsonl", "vocabulary.json"] {
        let same = fs::read(one.join(name)).unwrap() == fs::read(other.join(name)).unwrap();
        assert!(same, "{name} of {} and {}", one.display(), other.display());
    }
    assert_eq!(log(one), log(other));
}

#[test]
fn a_model_is_trained_and_evaluated() {
    let folder = world(100);
    let path = folder.path();
    let words = format!("train ds {SMALL} --out run");
    let says = [
        "vse++, 32 dimensions",
        "400 pairs of 80 images (regions, 36 regions x 64 numbers",
        "the last 2 epochs are evaluated on 10 images of dev",
        "epoch 1/3  loss",
        "epoch 3/3  loss",
        "rsum",
        "image retrieval (by caption)",
        "the model is run",
    ];
    let run = succeeds(path, &words, &says);
    assert!(run.stdout.contains("best epoch"), "{}", run.stdout);
    assert_eq!(
        listed(&path.join("run")),
        [
            ".lock",
            "log.jsonl",
            "model.json",
            "model.safetensors",
            "pairs.jsonl",
            "plan.json",
            "state.safetensors",
            "vocabulary.json"
        ]
    );
    let epochs = log(&path.join("run"));
    assert!(epochs[0]["dev"].is_null() && epochs[1]["dev"]["images"] == 10);
    assert!(epochs[2]["loss"].as_f64() < epochs[0]["loss"].as_f64());
    // The final table is that of the weights that were kept.
    let kept = succeeds(path, "eval run ds --split dev --json", &[]);
    let kept: Value = serde_json::from_str(&kept.stdout).unwrap();
    let best = &epochs[kept["epoch"].as_u64().unwrap() as usize - 1]["dev"];
    for key in ["text", "image", "rsum", "images", "captions"] {
        assert_eq!(kept[key], best[key], "{key}");
    }
    assert_eq!((&kept["finished"], &kept["left_out"]), (&true.into(), &0.into()));

    succeeds(path, "eval run ds", &["vse++ of run, epoch", "ds (synthetic), split test", "R@10"]);
    let folds =
        succeeds(path, "eval run ds --folds 5", &["averaged over 5 folds", "10 images, 50"]);
    assert!(!folds.stdout.contains("not finished"), "{}", folds.stdout);
    // Another training, seed 1, of more epochs.
    let longer =
        words.replace("--epochs 3", "--epochs 6 --seed 1").replace("--out run", "--out longer");
    succeeds(path, &longer, &["the model is longer"]);
    let paired = succeeds(path, "eval longer ds --against run --json", &[]);
    let before = succeeds(path, "eval run ds --json", &[]);
    let [paired, before] =
        [paired, before].map(|run| -> Value { serde_json::from_str(&run.stdout).unwrap() });
    let against = &paired["against"];
    for key in ["text", "image", "rsum"] {
        assert_eq!(against["evaluation"][key], before[key], "{key}");
    }
    let number = |value: &Value| value.as_f64().unwrap();
    let both = |of: &Value, key: &str| number(&of["text"][key]) + number(&of["image"][key]);
    let less = |key: &str| both(&paired, key) - both(&before, key);
    let rsum = number(&paired["rsum"]) - number(&before["rsum"]);
    for (key, expected) in
        [("r1", less("r1")), ("log_rank", less("mean_log_rank") / 2.0), ("rsum", rsum)]
    {
        let found = ["mean", "low", "high"].map(|end| number(&against[key][end]));
        assert!((found[0] - expected).abs() < 1e-9, "{key}: {found:?} {expected}");
        assert!(found[1] < found[0] && found[0] < found[2], "{key}: {found:?}");
    }
    succeeds(
        path,
        "eval run ds --against run",
        &["against run: not clear", "R@1-sum +0.0 [+0.0, +0.0]"],
    );
    refused(path, "eval run ds --against run --folds 5", "cannot be used with '--folds");
    refused(path, "eval run ds --folds 3", "10 images do not divide into 3 folds");
    refused(path, "eval run ds --folds 0", "do not divide into 0 folds");
    refused(path, "eval run ds --split val", "no split val; there are train, dev, test");
    refused(path, "eval ds run", "ds: a dataset, not a model: the model is named first");

    // The vocabulary equals that of `vocab`. A finished training has nothing left to do.
    succeeds(path, "vocab ds v.json", &[]);
    let words = ["v.json", "run/vocabulary.json"].map(|name| fs::read(path.join(name)).unwrap());
    assert!(words[0] == words[1]);
    let again = succeeds(path, "train ds --out run --resume --json", &["before: 3 of 3"]);
    let last: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&last["epoch"], &last["dev"]["images"]), (&3.into(), &10.into()));
}

#[test]
fn the_weights_do_not_depend_on_the_threads() {
    let folder = world(60);
    let path = folder.path();
    // Enough data for more than one chunk in every parallel sum.
    let models = [
        "vse++ --dim 256",
        "text-imram --dim 64",
        "full-imram --dim 16",
        "scan-i2t --dim 48",
        "vse-infinity --dim 96",
        "vsrn --dim 64",
        "pvse --dim 128",
    ];
    for model in models {
        let name = |threads: usize| format!("{}-{threads}", model.split(' ').next().unwrap());
        for threads in [1, 2, 5] {
            let words = format!("--model {model} --epochs 1 --batch 100 --validate-last 0");
            let out = name(threads);
            succeeds(path, &format!("train ds {words} --out {out} --threads {threads}"), &[]);
        }
        assert_same_run(&path.join(name(1)), &path.join(name(2)));
        assert_same_run(&path.join(name(1)), &path.join(name(5)));
    }
    refused(path, &format!("train ds {SMALL} --out x --threads 0"), "--threads is 0");
}

/// A small Text-IMRAM learns the captions of a small world.
#[test]
fn text_imram_learns_scenes() {
    let folder = world(500);
    let path = folder.path();
    let words = "--model text-imram --dim 32 --word-dim 32 --rate 3e-3 --batch 20 --epochs 6 \
                 --decay-every 5 --validate-last 0";
    succeeds(path, &format!("train ds {words} --out run"), &[]);
    let found = succeeds(path, "eval run ds --split test --json", &[]);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    // Chance level is one in five; the lowest of seeds 0 to 7 is 38.4.
    let r10 = [&found["text"]["r10"], &found["image"]["r10"]].map(|r| r.as_f64().unwrap());
    assert!(r10[0] > 35.0 && r10[1] > 35.0, "{r10:?}");
}

fn started(path: &Path, words: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_nextpair"))
        .args(words.split_whitespace())
        .current_dir(path)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Trains a model in the folder `out`, killed at random up to `most` times and resumed. Returns how often
/// it was killed.
pub(crate) fn trained_through_kills(path: &Path, words: &str, out: &str, most: usize) -> usize {
    let (first, run) = (format!("train ds {words} --out {out}"), path.join(out));
    let resume = format!("train ds --out {out} --resume --threads 1");
    let mut draws = Draws::new(11);
    let mut kills = 0;
    loop {
        // Resume only once the folder exists.
        let again = run.join("model.json").exists();
        let mut child = started(path, if again { &resume } else { &first });
        // Kill it some time after its next write.
        let written = |name: &str| fs::metadata(run.join(name)).and_then(|m| m.modified()).ok();
        let state = || ["model.json", "log.jsonl", "state.safetensors"].map(written);
        let (before, mut polls) = (state(), draws.below(4000));
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if state() != before {
                if polls == 0 && kills < most {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    kills += 1;
                    break None;
                }
                polls = polls.saturating_sub(1);
            }
        };
        if let Some(status) = ended {
            assert!(status.success());
            return kills;
        }
    }
}

#[test]
fn killed_and_resumed_it_ends_with_the_same_bytes() {
    let folder = world(40);
    let path = folder.path();
    let words = "--model text-imram --dim 16 --batch 16 --epochs 5 --validate-last 3 --seed 5";
    succeeds(path, &format!("train ds {words} --out whole"), &[]);
    let run = path.join("killed");
    let kills = trained_through_kills(path, words, "killed", 4);
    assert!(kills > 0, "no process was killed in the middle");
    assert_same_run(&path.join("whole"), &run);
    let names = listed(&run);
    assert!(!names.iter().any(|name| name.starts_with(".nextpair")), "{names:?}");
}

#[test]
fn a_training_begins_with_another_model() {
    let folder = world(40);
    let path = folder.path();
    let sizes = "--dim 16 --word-dim 8 --batch 16 --epochs 2 --validate-last 1";
    succeeds(path, &format!("train ds --model camp-cross {sizes} --out first"), &[]);
    let words = format!("--model camp {sizes} --start first --rate-factor gru.=0");
    let says = ["begins with the weights of first but for ", "epoch 2/2"];
    succeeds(path, &format!("train ds {words} --out second"), &says);
    let kills = trained_through_kills(path, &words, "killed", 3);
    assert!(kills > 0, "no process was killed in the middle");
    assert_same_run(&path.join("second"), &path.join("killed"));
    succeeds(path, "train ds --model camp --start first --out second --resume", &[]);
    for (words, says) in [
        ("train ds --start second --out second --resume", "start is second and not first"),
        ("train ds --model vse++ --start none --out x", "none: not a model"),
        ("train ds --model vse++ --start first --min-count 2 --out x", "cannot be used with"),
    ] {
        refused(path, words, says);
    }
    assert!(!path.join("x").exists());
}

#[test]
fn one_process_trains_a_run_at_a_time() {
    let folder = world(40);
    let path = folder.path();
    succeeds(path, &format!("train ds {SMALL} --out run"), &[]);
    let before = crate::datasets::tree(&path.join("run"));
    let lock = fs::File::open(path.join("run/.lock")).unwrap();
    lock.lock().unwrap();
    refused(path, "train ds --out run --resume", "another process is training this model");
    // Reading needs no lock.
    succeeds(path, "eval run ds", &[]);
    lock.unlock().unwrap();
    refused(path, &format!("train ds {SMALL} --out run"), "--resume continues it");
    succeeds(path, "train ds --out run --resume", &[]);
    assert!(crate::datasets::tree(&path.join("run")) == before);
}

#[test]
fn an_unfinished_run_says_so() {
    let folder = world(40);
    let path = folder.path();
    succeeds(path, &format!("train ds {SMALL} --out run"), &[]);
    // As if it had been started with more epochs, and stopped.
    let spec = path.join("run/model.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&spec).unwrap()).unwrap();
    settings["training"]["epochs"] = 5.into();
    fs::write(&spec, settings.to_string()).unwrap();
    refused(path, "eval run ds", "model.json: damaged, or changed after the model was made");
    fs::write(&spec, sealed(settings)).unwrap();
    succeeds(path, "eval run ds", &["of 5; training is not finished"]);
    let says = ["before: 3 of 5", "epoch 4/5", "epoch 5/5"];
    succeeds(path, "train ds --out run --resume", &says);
    assert_eq!(log(&path.join("run")).len(), 5);
}

#[test]
fn another_version_or_vector_unit_is_refused_unless_it_is_accepted() {
    let folder = world(40);
    let path = folder.path();
    succeeds(path, &format!("train ds {SMALL} --out done"), &[]);
    let spec = path.join("done/model.json");
    let whole: Value = serde_json::from_slice(&fs::read(&spec).unwrap()).unwrap();
    assert_eq!(whole["version"], env!("CARGO_PKG_VERSION"));
    // As if it had been started with more epochs, on another machine.
    let begin = |run: &str, edit: &dyn Fn(&mut Value)| {
        fs::create_dir(path.join(run)).unwrap();
        for name in listed(&path.join("done")) {
            fs::copy(path.join("done").join(&name), path.join(run).join(&name)).unwrap();
        }
        let mut spec = whole.clone();
        spec["training"]["epochs"] = 5.into();
        edit(&mut spec);
        fs::write(path.join(run).join("model.json"), sealed(spec)).unwrap();
    };
    for (run, key) in [("old", "version"), ("other", "unit")] {
        begin(run, &|spec| spec[key] = "0.0.9".into());
        let resume = format!("train ds --out {run} --resume");
        let before = crate::datasets::tree(&path.join(run));
        refused(path, &resume, &format!("{run}: made by nextpair "));
        refused(path, &resume, "--resume --mixed");
        assert!(crate::datasets::tree(&path.join(run)) == before, "nothing was touched");
        succeeds(path, "eval old ds", &[]);
        succeeds(path, &format!("{resume} --mixed"), &["note: ", "are mixed", "epoch 5/5"]);
        let spec = fs::read(path.join(run).join("model.json")).unwrap();
        let spec: Value = serde_json::from_slice(&spec).unwrap();
        assert_eq!(spec["continued_by"].as_array().unwrap().len(), 1);
        assert_eq!(spec["continued_by"][0]["version"], whole["version"]);
        assert_eq!(spec["continued_by"][0]["unit"], whole["unit"]);
        succeeds(path, &resume, &["before: 5 of 5"]);
    }
    refused(path, &format!("train ds {SMALL} --out x --mixed"), "--resume");
}

#[test]
fn some_items_count_as_paired() {
    let folder = world(100);
    let path = folder.path();
    let pairs =
        |run: &str| json_lines(&fs::read_to_string(path.join(run).join("pairs.jsonl")).unwrap());
    let one = "--model vse++ --dim 8 --epochs 1 --validate-last 0";
    let says = ["24 pairs of 24 images", "no epoch is evaluated: the last one is kept"];
    succeeds(path, &format!("train ds {one} --share 0.3 --captions first --out a"), &says);
    assert!(pairs("a").iter().all(|pair| pair["caption"] == 0));
    succeeds(
        path,
        &format!("train ds {one} --share 0.35 --captions random --out b"),
        &["28 pairs"],
    );
    assert!(pairs("b").iter().any(|pair| pair["caption"] != 0));
    let ids = |run: &str| -> Vec<Value> { pairs(run).iter().map(|p| p["item"].clone()).collect() };
    assert!(ids("a").iter().all(|id| ids("b").contains(id)));
    succeeds(path, &format!("train ds {one} --share 0.3 --seed 1 --out c"), &["120 pairs of 24"]);
    assert!(ids("c").iter().any(|id| !ids("a").contains(id)));

    let lines = |ids: &[Value]| -> String {
        ids.iter().rev().map(|id| format!("{}\n", id.as_str().unwrap())).collect()
    };
    fs::write(path.join("paired.txt"), lines(&ids("a"))).unwrap();
    succeeds(path, &format!("train ds {one} --paired paired.txt --captions first --out d"), &[]);
    assert_eq!(pairs("a"), pairs("d"));
    let items = json_lines(&fs::read_to_string(path.join("ds/items.jsonl")).unwrap());
    let test = items.iter().find(|item| item["split"] == "test").unwrap();
    fs::write(path.join("test.txt"), lines(&[test["id"].clone(), ids("a")[0].clone()])).unwrap();
    fs::write(path.join("none.txt"), "nobody\n").unwrap();
    for (flags, says) in [
        ("--paired test.txt", "test.txt:2: item"),
        ("--paired none.txt", "none.txt:1: the dataset has no item nobody"),
        ("--paired gone.txt", "gone.txt: No such file"),
        ("--share 0", "--share 0 is not above 0"),
        ("--share 1.5", "--share 1.5 is not above 0"),
        ("--share 0.001", "0 pairs to learn from"),
        ("--share 0.5 --paired paired.txt", "cannot be used with"),
    ] {
        refused(path, &format!("train ds {one} {flags} --out x"), says);
    }
    assert!(!path.join("x").exists());
}

#[test]
fn settings_come_from_a_file_and_flags_override_them() {
    let folder = world(40);
    let path = folder.path();
    let text = "[model]\narchitecture = \"vse\"\ndim = 16\nword_dim = 8\nnormalise_images = false\n\
                [training]\nepochs = 2\nvalidate_last = 1\nbatch = 20\n";
    fs::write(path.join("s.toml"), text).unwrap();
    let words = "train ds --config s.toml --out run --dim 12 --rate 1e-3 --json";
    let run = succeeds(path, words, &["vse0, 12 dimensions"]);
    let epoch: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&epoch["epoch"], &epoch["rate"]), (&2.into(), &1e-3.into()));
    let spec: Value =
        serde_json::from_slice(&fs::read(path.join("run/model.json")).unwrap()).unwrap();
    assert_eq!(spec["training"]["violation"], "sum");
    assert_eq!((&spec["training"]["batch"], &spec["model"]["dim"]), (&20.into(), &12.into()));
    let words = "train ds --config s.toml --model vse++ --dim 12 --epochs 1 --out other";
    succeeds(path, words, &["vse++, 12 dimensions"]);
    fs::write(path.join("s.toml"), text.replace("word_dim", "words")).unwrap();
    refused(path, "train ds --config s.toml --out x", "s.toml:4: unknown field `words`");
    refused(path, "train ds --config none.toml --out x", "none.toml: No such file");
}

#[test]
fn heads_are_trained_on_embeddings() {
    let folder = world(60);
    let path = folder.path();
    let heads = "--model heads --dim 8 --epochs 2 --validate-last 1";
    refused(
        path,
        &format!("train ds {heads} --out x"),
        "no text features; `nextpair embed` makes them",
    );
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/fixtures");
    for name in ["text.onnx", "tokenizer.json"] {
        fs::copy(fixtures.join(name), path.join(name)).unwrap();
    }
    succeeds(path, "embed ds --text-model text.onnx --name words", &[]);
    let says = ["heads, 8 dimensions", "240 pairs of 48 images", "words, "];
    succeeds(path, &format!("train ds {heads} --hidden 6 --out run"), &says);
    assert!(!path.join("run/vocabulary.json").exists());
    succeeds(path, "eval run ds", &["heads of run"]);
    for (flags, says) in [
        ("--vocabulary v.json", "heads takes text features"),
        ("--min-count 2", "heads takes text features"),
        ("--text-features none", "no text features none; there are words"),
        ("--features none", "no image features none; there are regions"),
    ] {
        refused(path, &format!("train ds {heads} {flags} --out x"), says);
    }
    let words = format!("train ds {SMALL} --text-features words --out x");
    refused(path, &words, "--text-features: vse++ reads words");
    // The features of the training are gone: the error says so.
    let manifest = fs::read_to_string(path.join("ds/dataset.toml")).unwrap();
    fs::write(path.join("ds/dataset.toml"), manifest.replace("\"words\"", "\"other\"")).unwrap();
    refused(path, "train ds --out run --resume", "no text features words; there are other");
    succeeds(path, "eval run ds", &["heads of run"]);
}

#[test]
fn what_cannot_be_trained_or_evaluated_is_refused() {
    let folder = world(40);
    let path = folder.path();
    fs::write(path.join("t.csv"), "filepath,title\n,a dog\n,a cat\n").unwrap();
    succeeds(path, "import table t.csv bare", &[]);
    fs::create_dir(path.join("full")).unwrap();
    fs::write(path.join("full/notes.txt"), "mine").unwrap();
    for (words, says) in [
        (
            "train bare --model vse++ --out x",
            "no image features; `nextpair embed` makes them with --image-model",
        ),
        ("train ds --out x", "give --model, or --config with a table [model]"),
        ("train ds --model vse++", "--out <MODEL>"),
        ("train ds --model vse++ --steps 3 --out x", "--steps is not a setting of vse++"),
        ("train ds --model vse++ --vocabulary ds/dataset.toml --out x", "not a vocabulary"),
        ("train ds --model vse++ --out full", "holds notes.txt, which is not of a model"),
        ("train ds --model vse++ --out t.csv", "t.csv: "),
        (
            "train none --model vse++ --out x",
            "none: not a dataset; make one with `nextpair import`",
        ),
        ("train ds --out x --resume", "not a model"),
        ("train ds --out x --resume --epochs 3", "not a model"),
        ("eval none ds", "not a model"),
    ] {
        refused(path, words, says);
    }
    assert_eq!(listed(&path.join("full")), ["notes.txt"]);
    assert_eq!(listed(path), ["bare", "ds", "full", "t.csv"]);
}

#[test]
fn without_dev_the_last_epoch_is_kept() {
    let folder = world(40);
    let path = folder.path();
    let items = path.join("ds/items.jsonl");
    let text = fs::read_to_string(&items).unwrap().replace("\"dev\"", "\"odd\"");
    fs::write(&items, text).unwrap();
    let says =
        ["the split dev has nothing to evaluate: the last epoch is kept", "the model is run"];
    let run = succeeds(path, &format!("train ds {SMALL} --out run"), &says);
    assert_eq!(run.stdout, "");
    succeeds(path, "eval run ds --split odd", &["epoch 3 of 3"]);
}
