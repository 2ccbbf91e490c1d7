//! Features from the tiny encoders of the tests of `nextpair-encode`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::datasets::tree;
use crate::world::{Run, json_lines, listed, nextpair};

const PREPROCESS: &str = "size = 8\nresize = \"squash\"\nscale = 1\nmean = [127, 127, 127]\n\
                          std = [128, 128, 128]\n";

/// A folder with the encoders and a dataset `ds` of generated scenes.
pub fn world(images: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/fixtures");
    for name in ["image.onnx", "text.onnx", "tokenizer.json"] {
        fs::copy(fixtures.join(name), path.join(name)).unwrap();
    }
    fs::write(path.join("image.toml"), PREPROCESS).unwrap();
    let run = nextpair(path, &format!("import scenes ds --images {images}"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    folder
}

fn inspected(path: &Path, dataset: &str) -> serde_json::Value {
    let run = nextpair(path, &format!("inspect {dataset} --json"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

fn succeeds(path: &Path, words: &str, says: &[&str]) -> Run {
    let run = nextpair(path, words);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for part in says {
        assert!(run.stdout.contains(part) || run.stderr.contains(part), "{part} in {}", run.stdout);
    }
    run
}

fn refused(path: &Path, words: &str, says: &str) {
    let before = tree(&path.join("ds"));
    let run = nextpair(path, words);
    assert_eq!(run.code, Some(2), "{}", run.stdout);
    assert!(run.stderr.contains(says), "{says} in {}", run.stderr);
    assert!(tree(&path.join("ds")) == before, "{words} changed the dataset");
}

#[test]
fn captions_are_encoded_once_there_are_some() {
    let folder = world(4);
    let path = folder.path();
    succeeds(path, "import folder ds/images photos", &["4"]);
    let run = nextpair(path, "embed photos --text-model text.onnx");
    assert_eq!(run.code, Some(2), "{}", run.stdout);
    assert!(run.stderr.contains("run this once after the first `nextpair add`"), "{}", run.stderr);
}

#[test]
fn both_sides_become_features() {
    let folder = world(20);
    let path = folder.path();
    let both = "embed ds --image-model image.onnx --regions 9 --text-model text.onnx";
    succeeds(path, both, &["image: 20 images embedded", "text: 100 captions embedded"]);
    let report = inspected(path, "ds");
    let shapes: Vec<_> = report["features"]
        .as_array()
        .unwrap()
        .iter()
        .map(|set| {
            let number = |key: &str| set[key].as_u64().unwrap();
            (set["name"].as_str().unwrap(), number("rows"), number("regions"), number("dim"))
        })
        .collect();
    assert_eq!(shapes[0], ("regions", 20, 36, 64));
    assert_eq!((shapes[1].0, shapes[1].1, shapes[1].2), ("image", 20, 9));
    assert_eq!((shapes[2].0, shapes[2].1, shapes[2].2), ("text", 100, 1));
    assert_eq!(report["features"][2]["dtype"], "f16");
    let names = listed(&path.join("ds/features"));
    assert!(!names.iter().any(|name| name.contains("partial") || name.contains("waiting")));

    // What a killed command did not finish is removed by the next one.
    for left in ["ds/.nextpair-a1b2c3", "ds/features/.nextpair-d4e5f6"] {
        fs::write(path.join(left), "half").unwrap();
    }
    // Repeating a command does no work. Other settings need another name, or `--replace`.
    succeeds(path, both, &["20 images are embedded already"]);
    let before = tree(&path.join("ds"));
    assert!(!before.keys().any(|file| file.contains(".nextpair-")));
    succeeds(path, both, &["20 images are embedded already"]);
    assert!(tree(&path.join("ds")) == before);
    refused(
        path,
        "embed ds --image-model image.onnx --pooled",
        "give another --name, or --replace",
    );
    succeeds(path, "embed ds --image-model image.onnx --pooled --replace", &["20 images embedded"]);
    assert_eq!(inspected(path, "ds")["features"][2]["regions"], 1);
    let named = "embed ds --image-model image.onnx --pooled --name other --dtype f32 --threads 1";
    succeeds(path, named, &["other: 20 images"]);
    let report = inspected(path, "ds");
    assert_eq!(report["features"].as_array().unwrap().len(), 4);
    assert_eq!(report["features"][3]["dtype"], "f32");
}

#[test]
fn components_are_fitted_and_told() {
    let folder = world(30);
    let path = folder.path();
    let words = "embed ds --image-model image.onnx --regions 4 --pca 2 --dtype f32";
    succeeds(path, words, &["2 components explain"]);
    let report = inspected(path, "ds");
    assert_eq!(report["features"][1]["dim"], 2);
    assert!(path.join("ds/features/image.image.pca.safetensors").exists());
    let manifest = fs::read_to_string(path.join("ds/dataset.toml")).unwrap();
    assert!(manifest.contains("pca = \"features/image.image.pca.safetensors\""), "{manifest}");
    let words = "embed ds --image-model image.onnx --regions 4 --pca 4000 --name many";
    let run = nextpair(path, words);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("4000 principal components of"), "{}", run.stderr);
    assert!(!run.stderr.contains("images"), "nothing was encoded for it: {}", run.stderr);
    assert_eq!(inspected(path, "ds")["features"].as_array().unwrap().len(), 2);
}

#[test]
fn bad_images_are_listed_and_do_not_stop_it() {
    let folder = world(12);
    let path = folder.path();
    fs::write(
        path.join("t.csv"),
        "filepath,title\nscene-000000.png,a\nscene-000001.png,b\n,alone\n\
                                   scene-000002.png,c\n",
    )
    .unwrap();
    succeeds(path, "import table t.csv mixed --image-dir ds/images/000", &[]);
    // Damage the file after the import: only decoding can detect it.
    let image = path.join("ds/images/000/scene-000001.png");
    let mut bytes = fs::read(&image).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(0);
    fs::write(&image, bytes).unwrap();
    let words = "embed mixed --image-model image.onnx --pooled --text-model text.onnx";
    succeeds(path, words, &["2 images embedded", "1 could not be encoded", "4 captions embedded"]);
    let bad = fs::read_to_string(path.join("mixed/features/image.image.bad.jsonl")).unwrap();
    assert_eq!(json_lines(&bad)[0]["id"], "scene-000001.png");
    let report = inspected(path, "mixed");
    assert_eq!(
        (&report["features"][0]["rows"], &report["features"][0]["missing"]),
        (&2.into(), &2.into())
    );

    // The program cannot know that the image was repaired: it takes `--replace`.
    fs::copy(path.join("ds/images/000/scene-000003.png"), &image).unwrap();
    let again = "embed mixed --image-model image.onnx --pooled";
    succeeds(path, again, &["2 images are embedded already"]);
    succeeds(path, &format!("{again} --replace"), &["3 images embedded"]);
    assert_eq!(inspected(path, "mixed")["features"].as_array().unwrap().len(), 2);
    // A stale file is removed.
    fs::write(path.join("t.csv"), "filepath,title\nscene-000000.png,a\n").unwrap();
    succeeds(path, "import table t.csv one --image-dir ds/images/000", &[]);
    fs::create_dir_all(path.join("one/features")).unwrap();
    fs::write(path.join("one/features/image.image.rows.npy"), "stale").unwrap();
    succeeds(path, "embed one --image-model image.onnx --pooled", &["1 images embedded"]);
    assert_eq!(listed(&path.join("one/features")), ["image.image.bad.jsonl", "image.image.npy"]);

    fs::remove_dir_all(path.join("ds/images")).unwrap();
    let words = "embed mixed --image-model image.onnx --pooled --name none";
    let run = nextpair(path, words);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("not one image could be encoded"), "{}", run.stderr);
    assert!(!listed(&path.join("mixed/features")).iter().any(|name| name.contains("partial")));
}

#[test]
fn a_name_that_changes_its_way_is_never_half_of_each() {
    let folder = world(300);
    let path = folder.path();
    let all = "embed ds --image-model image.onnx --pooled --name x";
    succeeds(path, all, &["300 images embedded"]);
    // Stop in the middle of replacing features: a folder is in the way of a file.
    fs::remove_file(path.join("ds/images/000/scene-000007.png")).unwrap();
    fs::create_dir(path.join("ds/features/x.image.rows.npy")).unwrap();
    let other = "embed ds --image-model image.onnx --regions 4 --name x --replace";
    assert_eq!(nextpair(path, other).code, Some(2));
    assert_eq!(inspected(path, "ds")["features"].as_array().unwrap().len(), 1);
    fs::remove_dir(path.join("ds/features/x.image.rows.npy")).unwrap();
    succeeds(path, other, &["299 images embedded", "299 of them by an earlier run"]);
    assert_eq!(inspected(path, "ds")["features"][1]["missing"], 1);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let folder = world(4);
    let path = folder.path();
    fs::copy(path.join("image.onnx"), path.join("bare.onnx")).unwrap();
    fs::write(path.join("wrong.toml"), "size = 9\nresize = \"squash\"\n").unwrap();
    for (words, says) in [
        ("embed ds", "give --image-model, --text-model or both"),
        ("embed ds --image-model bare.onnx", "Write bare.toml beside it"),
        ("embed ds --image-model none.onnx --preprocess clip", "none.onnx: No such file"),
        ("embed ds --image-model image.onnx --preprocess none", "none: No such file"),
        ("embed ds --image-model image.onnx --preprocess wrong.toml", "input 'pixels' has shape"),
        ("embed ds --image-model image.onnx --output none", "no output 'none'"),
        ("embed ds --image-model image.onnx --pooled --name a/b", "is not a name for features"),
        ("embed ds --image-model image.onnx --pca 0", "would keep nothing"),
        ("embed ds --image-model tokenizer.json --preprocess clip", "not an ONNX file"),
        ("embed ds --text-model text.onnx --tokenizer image.toml", "not a tokeniser"),
        ("embed ds --text-model image.onnx", "input_ids"),
    ] {
        refused(path, words, says);
    }
}

#[test]
fn killed_and_started_again_it_ends_with_the_same_bytes() {
    let folder = world(3000);
    let path = folder.path();
    let run = nextpair(path, "import scenes killed --images 3000");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let words = "--image-model image.onnx --regions 9 --pca 3 --text-model text.onnx";
    succeeds(path, &format!("embed ds {words}"), &[]);
    let partial = |side| path.join(format!("killed/features/.{side}.partial/embed.progress"));
    let records = [partial("image.image"), partial("text.text")];
    let state = || records.clone().map(|record| fs::read(record).ok());
    let mut kills = 0;
    while kills < 6 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nextpair"))
            .args(["embed", "killed"])
            .args(words.split_whitespace())
            .current_dir(path)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let before = state();
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success());
                break true;
            }
            // A chunk was recorded: the next one is under way.
            if state() != before && state().iter().any(Option::is_some) {
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
                break false;
            }
        };
        if ended {
            break;
        }
    }
    assert!(kills > 0, "no process was killed in the middle");
    succeeds(path, &format!("embed killed {words}"), &[]);
    let (mut whole, mut killed) = (tree(&path.join("ds")), tree(&path.join("killed")));
    let manifest = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace("killed", "ds");
    let manifests = [&mut whole, &mut killed].map(|t| manifest(t.remove("dataset.toml").unwrap()));
    assert_eq!(manifests[0], manifests[1]);
    assert_eq!(whole.keys().collect::<Vec<_>>(), killed.keys().collect::<Vec<_>>());
    assert!(whole == killed);
}

/// Encodes a protobuf field: its number and bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length > 0x7f {
        field.push(length as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    [field, bytes.to_vec()].concat()
}

/// Returns an ONNX model that multiplies matrices for minutes.
fn slow_model() -> Vec<u8> {
    let node = |kind: &str, inputs: &[&str], output: &str| {
        let inputs = inputs.iter().flat_map(|input| field(1, input.as_bytes()));
        let rest = [field(2, output.as_bytes()), field(4, kind.as_bytes())].concat();
        field(1, &inputs.chain(rest).collect::<Vec<u8>>())
    };
    // Two sizes of at most two bytes each, as varints.
    let sizes = |name: &str, sizes: &[u8], count: u8| {
        let parts = [vec![0x08, count, 0x10, 7], field(7, sizes), field(8, name.as_bytes())];
        field(5, &parts.concat())
    };
    let mut graph = vec![
        node("ReduceMean", &["pixels"], "mean"),
        node("Reshape", &["mean", "one"], "number"),
        node("Expand", &["number", "square"], "m0"),
    ];
    for at in 0..400 {
        let (from, to) = (format!("m{at}"), format!("m{}", at + 1));
        graph.push(node("MatMul", &[&from, &from], &to));
    }
    graph.push(sizes("one", &[1, 1], 2));
    graph.push(sizes("square", &[0x80, 0x20, 0x80, 0x20], 2));
    graph.push(field(11, &field(1, b"pixels")));
    graph.push(field(12, &field(1, b"m400")));
    let version = vec![0x08, 8];
    [version, field(8, &[0x10, 17]), field(7, &graph.concat())].concat()
}

#[test]
fn an_encoder_that_takes_too_long_ends_the_program() {
    let folder = world(4);
    let path = folder.path();
    fs::write(path.join("slow.onnx"), slow_model()).unwrap();
    let words = "embed ds --image-model slow.onnx --preprocess image.toml --pooled --time-limit 1";
    let says = "slow.onnx: encoding one item takes more than 1 s; --time-limit allows more";
    refused(path, words, says);
    refused(path, "embed ds --image-model image.onnx --time-limit 0", "--time-limit 0 leaves no");
}
