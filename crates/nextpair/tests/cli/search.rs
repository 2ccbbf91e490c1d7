//! Search with a trained model, by text and by image.

use std::fs;
use std::path::Path;

use nextpair::models::Choice;
use serde_json::Value;

use crate::embed;
use crate::trained::{Opened, train_run};
use crate::world::{Run, nextpair, nextpair_with};

fn search(path: &Path, words: &[&str]) -> Run {
    nextpair_with(path, &[&["search", "run", "ds"], words].concat())
}

fn found(path: &Path, words: &[&str]) -> Value {
    let run = search(path, &[words, &["--json"]].concat());
    assert_eq!(run.code, Some(0), "{words:?}: {}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

/// Returns the score of the result with this id.
fn score(report: &Value, id: &str) -> f64 {
    let results = report["results"].as_array().unwrap();
    results.iter().find(|result| result["id"] == id).unwrap()["score"].as_f64().unwrap()
}

fn refused(path: &Path, words: &[&str], says: &str) {
    let run = search(path, words);
    assert_eq!(run.code, Some(2), "{words:?}: {}", run.stdout);
    assert!(run.stderr.contains(says), "{words:?}: no {says} in {}", run.stderr);
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
}

#[test]
fn texts_find_images_and_images_find_captions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(nextpair(path, "import scenes ds --images 60").code, Some(0));
    train_run(path, "run", "vse++", 30, Choice::All);
    let opened = Opened::new(path, "run");
    let items = opened.corpus.dataset().items();
    let caption = items.get(7).captions[0].clone();

    // Every score is the dot product of the encodings, in descending order.
    let report = found(path, &[&caption, "--top", "100"]);
    assert_eq!((&report["among"], &report["searched"]), (&60.into(), &"images".into()));
    let images = opened.images(&(0..60).collect::<Vec<_>>());
    let text = opened.texts(&[items.captions_of(7).start]);
    let dot = |item: usize| -> f64 {
        let own = images[16 * item..][..16].iter().zip(&text);
        own.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let mut expected: Vec<(usize, f64)> = (0..60).map(|item| (item, dot(item))).collect();
    expected.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    for (result, (item, score)) in report["results"].as_array().unwrap().iter().zip(expected) {
        let item = items.get(item);
        assert_eq!(
            (&result["id"], &result["image"]),
            (&item.id.clone().into(), &item.image.into())
        );
        // The caption that has most words of the query, which is one of them.
        let shown = result["caption"].as_str().unwrap();
        assert!(item.captions.iter().any(|caption| caption == shown), "{result}");
        assert!(item.id != "scene-000007" || shown == caption, "{result}");
        assert!((result["score"].as_f64().unwrap() - score).abs() < 1e-6);
    }

    // An item and its image file find the same. A caption and its image score each other alike.
    let by_item = found(path, &["--item", "scene-000007", "--top", "300"]);
    let file = "ds/images/000/scene-000007.png";
    let by_image = found(path, &["--image", file, "--top", "300"]);
    assert_eq!(by_item["results"], by_image["results"]);
    let own = by_item["results"].as_array().unwrap().iter().find(|r| r["caption"] == *caption);
    let score_of_text = score(&report, "scene-000007");
    assert!((own.unwrap()["score"].as_f64().unwrap() - score_of_text).abs() < 1e-6);

    // The table of a split.
    let run = search(path, &["a circle", "--split", "test", "--top", "3"]);
    assert_eq!((run.code, run.stdout.lines().count()), (Some(0), 4), "{}", run.stderr);
    let head: Vec<&str> = run.stdout.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["rank", "score", "id", "image", "caption"]);
    for line in run.stdout.lines().skip(1) {
        let id = line.split_whitespace().nth(2).unwrap();
        let item = items.iter().find(|item| item.id == id).unwrap();
        assert_eq!(item.split.as_deref(), Some("test"));
        assert!(item.captions.iter().any(|caption| line.ends_with(caption)), "{line}");
    }
}

#[test]
fn pages_need_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(nextpair(path, "import scenes ds --images 30").code, Some(0));
    train_run(path, "run", "vse++", 12, Choice::First);
    let run = search(path, &["a <b>circle</b> qqq & \"zzz\"", "--html", "a.html"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("not in the vocabulary of the model: "), "{}", run.stderr);
    assert!(run.stderr.contains("qqq") && run.stderr.contains("zzz"), "{}", run.stderr);
    let page = fs::read_to_string(path.join("a.html")).unwrap();
    assert!(page.contains("<h1>a &lt;b&gt;circle&lt;/b&gt; qqq &amp; &quot;zzz&quot;</h1>"));
    assert_eq!(page.matches("data:image/jpeg;base64,").count(), 5);
    let run = search(path, &["--item", "scene-000001", "--top", "150", "--html", "b.html"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let captions = fs::read_to_string(path.join("b.html")).unwrap();
    assert_eq!(captions.matches("its own").count(), 5);
    for page in [page, captions] {
        assert!(page.contains("Synthetic") && page.contains("prefers-color-scheme: dark"));
        for other in ["http:", "https:", "<script", "unsafe"] {
            assert!(!page.contains(other), "it needs nothing else: {other}");
        }
    }

    for (words, says) in [
        (&["zzz qqq ."][..], "not one word of \"zzz qqq .\" is in the vocabulary"),
        (&[""], "not one word of"),
        (&[], "required"),
        (&["a", "--item", "scene-000001"], "cannot be used with"),
        (&["a", "--top", "0"], "--top is 0"),
        (&["a", "--split", "nowhere"], "ds: no split nowhere; there are"),
        (&["a", "--html", "none/x.html"], "none: there is no such folder for x.html"),
        (&["--item", "nobody"], "there is no item nobody"),
        (&["--image", "none.png"], "none.png: No such file"),
        (&["--image", "ds/dataset.toml"], "ds/dataset.toml"),
    ] {
        refused(path, words, says);
    }
    // Features without a recipe.
    let manifest = fs::read_to_string(path.join("ds/dataset.toml")).unwrap();
    let cut = manifest.find("[features.made_by]").unwrap();
    fs::write(path.join("ds/dataset.toml"), &manifest[..cut]).unwrap();
    let file = "ds/images/000/scene-000001.png";
    refused(path, &["--image", file], "it is not known how the image features regions were made");
    refused(path, &["--image", file], "--item searches by");
    assert_eq!(search(path, &["--item", "scene-000001"]).code, Some(0));
}

#[test]
fn heads_ask_the_encoders_of_the_dataset() {
    let folder = embed::world(24);
    let path = folder.path();
    let words = "embed ds --image-model image.onnx --regions 4 --pca 3 --text-model text.onnx";
    let run = nextpair(path, words);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    train_run(path, "run", "heads", 12, Choice::First);
    let dataset = nextpair::data::dataset::Dataset::open(&path.join("ds")).unwrap();
    let caption = dataset.items().get(3).captions[1].clone();
    let by_text = found(path, &[&caption, "--top", "24"]);
    let by_item = found(path, &["--item", "scene-000003", "--top", "120"]);
    let by_image = found(path, &["--image", "ds/images/000/scene-000003.png", "--top", "120"]);
    assert_eq!(by_item["results"], by_image["results"]);
    let of_text = by_item["results"].as_array().unwrap().iter().find(|r| r["caption"] == *caption);
    let difference = of_text.unwrap()["score"].as_f64().unwrap() - score(&by_text, "scene-000003");
    assert!(difference.abs() < 1e-6, "{difference}");

    let picks = "select --model run ds --pool-side text --budget 4 --strategy hybrid --out p.csv";
    let run = nextpair(path, picks);
    assert_eq!(run.code, Some(0), "{}", run.stderr);

    // Another tokeniser would make other features.
    let tokenizer = fs::read_to_string(path.join("tokenizer.json")).unwrap();
    fs::write(path.join("tokenizer.json"), tokenizer + "\n").unwrap();
    refused(path, &["a"], "is another file than the text features text were made with");
    fs::remove_file(path.join("image.onnx")).unwrap();
    refused(path, &["--image", "ds/images/000/scene-000003.png"], "--item searches by");
}
