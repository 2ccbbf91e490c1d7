//! A text gets an image that somebody uploads in the browser, and a model learns from it.

use std::fs;

use serde_json::{Value, json};

use super::app::{App, Process, picture};
use super::driver::{Browser, key};
use crate::datasets::tree;
use crate::scenario::brought;
use crate::world::json_lines;

#[test]
fn heads_learn_from_images_that_people_upload() {
    let lab = brought::lab();
    let words = format!("{} --rounds 1 --out run", brought::RUN);
    lab.succeeds(&words);
    let app = App::start(&lab.path(""), "run --grace 0 --images photos", "Ann");
    let browser = Browser::open();
    browser.go(app.link("Ann"));
    let mut chosen: Vec<(String, String)> = Vec::new();
    for task in 0..4 {
        browser.find("body[data-view=task]:not([data-busy])");
        let item = browser.find("#workspace").property("dataset")["item"].clone();
        let item = item.as_str().unwrap().to_owned();
        match task {
            // Uploaded, and the same bytes under another name.
            0 | 1 => {
                let (from, to) = ([3, 3][task], format!("mine-{task}.png"));
                let from = lab.path(&format!("photos/{}", brought::new_image(from)));
                fs::copy(from, lab.path(&to)).unwrap();
                let file = lab.path(&to).canonicalize().unwrap();
                browser.find("#upload-file").type_text(file.to_str().unwrap());
                browser.until_text("#search-status", "Uploaded and chosen.");
            }
            // Found in the folder beside the dataset, whose images are called by their names.
            2 => {
                browser.find("#search").type_text("salmon");
                browser.find("#candidates .candidate[data-item='folder:salmon.png']").click();
            }
            _ => {
                browser.find("#candidates .candidate[data-item^='scene-']").click();
            }
        }
        let image = browser.find("#candidates [aria-checked=true]").property("dataset");
        if task == 0 {
            browser.until("the image is there", || {
                let script = "const i = document.querySelector('#candidates img'); \
                              return i && i.complete && i.naturalWidth > 0";
                (browser.script(script) == json!(true)).then_some(())
            });
            browser.screenshot(&picture("texts-uploaded"));
        }
        chosen.push((item.clone(), image["item"].as_str().unwrap().to_owned()));
        browser.keys([key::ENTER]);
        let gone = format!(
            "return document.body.dataset.view === 'task' && workspace.dataset.item === {}",
            json!(item)
        );
        browser.until("the next task", || (browser.script(&gone) == json!(false)).then_some(()));
    }
    assert!(chosen[0].1.starts_with("upload:") && chosen[0].1 == chosen[1].1);
    let book = lab.path("run/answers.jsonl");
    browser.until("the answers are handed over", || {
        let lines = json_lines(&fs::read_to_string(&book).ok()?);
        (lines.len() == 4).then_some(())
    });
    let console = browser.console();
    assert!(console.iter().all(|(level, _)| level != "SEVERE"), "{console:?}");
    drop(app);
    // What people brought is the experiment's own now.
    fs::remove_dir_all(lab.path("run/uploads")).unwrap();
    fs::remove_dir_all(lab.path("photos")).unwrap();

    // Another experiment gets the same answers in one go; this one is killed while it closes.
    lab.copy("run", "whole");
    lab.succeeds("run whole --resume");
    let mut run = Process::start(&lab.path(""), "run run --resume", "run.log");
    run.until("the images are encoded", |_| {
        lab.path("run/seed-0/hard-negative/images-1.npy").exists().then_some(())
    });
    drop(run);
    lab.succeeds("run run --resume");
    lab.assert_same("run", &lab.results("whole"));

    let items = json_lines(&lab.read("run/dataset/items.jsonl"));
    assert_eq!(items.len(), 80 + 2);
    assert_eq!(items[80]["id"], json!(chosen[0].1));
    let texts = |id: &str| {
        let item = items.iter().find(|item| item["id"] == id).unwrap();
        item["captions"].as_array().unwrap().clone()
    };
    let both: Vec<Value> = [texts(&chosen[0].0), texts(&chosen[1].0)].concat();
    assert_eq!(items[80]["captions"], json!(both));
    let pairs = json_lines(&lab.read("run/seed-0/hard-negative/round-1/pairs.jsonl"));
    let learned = |id: &Value| pairs.iter().filter(|pair| pair["item"] == *id).count();
    assert_eq!((learned(&items[80]["id"]), learned(&items[81]["id"])), (2, 1));
    let before = tree(&lab.path("run"));
    fs::remove_file(lab.path("image.onnx")).unwrap();
    lab.succeeds("run run --resume");
    assert!(tree(&lab.path("run")) == before, "a resume changed a byte");
}

#[test]
fn uploads_are_not_offered_where_nobody_could_learn_from_them() {
    let lab = brought::lab();
    let manifest = lab.read("ds/dataset.toml");
    let made_by = manifest.rfind("[features.made_by]").unwrap();
    lab.write("ds/dataset.toml", &manifest[..made_by]);
    lab.succeeds(&format!("{} --rounds 1 --out run", brought::RUN));
    let app = App::start(&lab.path(""), "run", "Ann");
    let said = lab.read("annotate.log");
    for part in
        ["people choose among the images of the dataset: ", "--image-model ONNX` makes features"]
    {
        assert!(said.contains(part), "no '{part}' in {said}");
    }
    let browser = Browser::open();
    browser.go(app.link("Ann"));
    browser.find("#candidates .candidate");
    browser.until_shown("#upload", false);
}
