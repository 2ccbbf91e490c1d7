//! `nextpair add`: answers of every form, refusals, encoders, and what is refused.

use std::fs;
use std::path::PathBuf;

use nextpair::data::Side;
use nextpair::data::dataset::Dataset;
use serde_json::{Value, json};

use crate::datasets::tree;
use crate::scenario::{Lab, encoded, people};
use crate::world::json_lines;

/// The images without captions of the lab of people, in order.
fn uncaptioned(lab: &Lab) -> Vec<String> {
    let items = json_lines(&lab.read("ds/items.jsonl"));
    let bare = items.iter().filter(|item| item["captions"].as_array().unwrap().is_empty());
    bare.map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

fn report(lab: &Lab, words: &str) -> Value {
    serde_json::from_str(&lab.succeeds(&format!("{words} --json")).stdout).unwrap()
}

/// The counts of a report: captions, newly paired items, answers known before.
fn counts(report: &Value) -> [u64; 3] {
    ["captions", "paired", "known"].map(|key| report[key].as_u64().unwrap())
}

#[test]
fn every_form_of_answers_is_added() {
    let lab = people::lab();
    let ids = uncaptioned(&lab);
    let (a, b, c) = (&ids[0], &ids[1], &ids[2]);
    lab.write(
        "lines.jsonl",
        &format!(
            "{{\"id\":\"{a}\",\"caption\":\"A walrus .\"}}\n{{\"id\":\"{b}\",\"caption\":\"A heron .\"}}\n\
             {{\"id\":\"{c}\",\"skip\":\"dark\"}}\n"
        ),
    );
    lab.write(
        "sheet.csv",
        &format!("id,caption,skip\n{a},A walrus .,\n{b},A heron .,\n{c},,dark\n"),
    );
    let said = |id: &str, text: &str| {
        let result =
            json!({ "type": "textarea", "from_name": "caption", "value": { "text": [text] } });
        json!({ "data": { "item": id }, "annotations": [{ "result": [result] }] })
    };
    let skip = json!({ "type": "textarea", "from_name": "skip", "value": { "text": ["dark"] } });
    let skip = json!({ "data": { "item": c },
                       "annotations": [{ "was_cancelled": true, "result": [skip] }] });
    lab.write(
        "studio.json",
        &json!([said(a, "A walrus ."), said(b, "A heron ."), skip]).to_string(),
    );
    let image = |number: u64, id: &str| {
        let items = json_lines(&lab.read("ds/items.jsonl"));
        let item = items.iter().find(|item| item["id"] == id).unwrap();
        json!({ "id": number, "file_name": item["image"] })
    };
    let caption =
        |number: u64, text: &str| json!({ "id": number, "image_id": number, "caption": text });
    lab.write(
        "coco.json",
        &json!({ "images": [image(1, a), image(2, b)],
                 "annotations": [caption(1, "A walrus ."), caption(2, "A heron .")] })
        .to_string(),
    );
    // What the app exports has more columns.
    lab.write(
        "exported.csv",
        &format!(
            "id,image,score,confused_with,caption,skip,annotator,exported\n\
             {a},x,1,,A walrus .,,ann,caption\n{b},x,1,,A heron .,,ann,caption\n{c},x,1,,,dark,ann,skip\n"
        ),
    );
    let before = tree(&lab.path("ds"));
    for (file, skips) in [
        ("lines.jsonl", true),
        ("sheet.csv", true),
        ("studio.json", true),
        ("coco.json", false),
        ("exported.csv", true),
    ] {
        let out = format!("new-{file}");
        let report = report(&lab, &format!("add ds {file} --out {out}"));
        assert_eq!(counts(&report), [2, 2, 0], "{file}");
        let refused = if skips { json!({ "dark": 1 }) } else { json!({}) };
        assert_eq!(report["refused"], refused, "{file}");
        let captions = people::captions(&lab, &out);
        assert_eq!(captions[a], [json!("A walrus .")], "{file}");
        assert_eq!(captions[b], [json!("A heron .")], "{file}");
        let items = json_lines(&lab.read(&format!("{out}/items.jsonl")));
        let kept = json_lines(&lab.read(&format!("{out}/answers.jsonl")));
        assert_eq!(items.len(), 80);
        assert_eq!(kept.len(), 2 + usize::from(skips), "{file}");
    }
    assert!(tree(&lab.path("ds")) == before, "the old dataset is left alone");

    // Several files at once; people read what happened.
    let run = lab.succeeds("add ds lines.jsonl exported.csv --out both");
    let said = format!("{}{}", run.stdout, run.stderr);
    for line in [
        "captions    2 added\n",
        "paired      2 more items\n",
        "refused     1: dark (1)\n",
        "next        nextpair train ",
    ] {
        assert!(said.contains(line), "{line} in {said}");
    }
    // Twice adds nothing, and keeps what was refused.
    let again = report(&lab, "add both sheet.csv --out again");
    assert_eq!(counts(&again), [0, 0, 3]);
    assert_eq!(lab.read("again/items.jsonl"), lab.read("both/items.jsonl"));
    assert_eq!(lab.read("again/answers.jsonl"), lab.read("both/answers.jsonl"));
}

#[test]
fn what_people_answered_is_never_picked_again() {
    let lab = people::lab();
    let ids = uncaptioned(&lab);
    let train = "--model vse++ --dim 8 --epochs 1 --validate-last 0";
    lab.succeeds(&format!("train ds {train} --out model"));
    let select = |model: &str, dataset: &str, budget: usize, flags: &str| {
        let words = format!("select --model {model} {dataset} --pool-side image --budget {budget}");
        lab.succeeds(&format!("{words} {flags} --strategy random --out picks.jsonl"));
        lab.ids("picks.jsonl", "id")
    };
    let mut all = select("model", "ds", ids.len(), "");
    all.sort();
    assert_eq!(all, ids, "the pool is what has no caption");
    let lines: Vec<String> = ids[..6]
        .iter()
        .enumerate()
        .map(|(at, id)| match at {
            0 | 1 => format!("{{\"id\":\"{id}\",\"caption\":\"A walrus and {at} stars .\"}}\n"),
            _ => format!("{{\"id\":\"{id}\",\"skip\":\"too dark\"}}\n"),
        })
        .collect();
    lab.write("first.jsonl", &lines[..4].concat());
    lab.write("second.jsonl", &lines[4..].concat());
    lab.succeeds("add ds first.jsonl --out two");
    lab.succeeds("add two second.jsonl --out three");
    lab.succeeds(&format!("train three {train} --out later"));
    // Also with the model of the first dataset, which has not learned from the answers.
    for model in ["model", "later"] {
        let mut left = select(model, "three", ids.len() - 6, "");
        left.sort();
        assert_eq!(left, ids[6..], "{model}");
        let words = format!("select --model {model} three --pool-side image --out p.jsonl");
        lab.refused(&format!("{words} --budget {}", ids.len() - 5), "but the pool has only");
    }
    let pairs = lab.ids("later/pairs.jsonl", "item");
    assert!(ids[..2].iter().all(|id| pairs.contains(id)), "the captions were learned from");
    // Refusals of both additions teach what is usable, named or not.
    let words = "select --model later three --pool-side image --strategy random --budget 4 --json";
    let by_itself = report_of(&lab, &format!("{words} --out a.jsonl --usable"));
    let by_name = report_of(&lab, &format!("{words} --usable three/answers.jsonl --out a.jsonl"));
    assert_eq!(by_itself["left_out"], by_name["left_out"]);
    assert!(by_itself["left_out"].is_u64(), "{by_itself}");
    let flags = "--paired-images x.npy --paired-texts x.npy --pool x.npy --pool-side image";
    lab.succeeds("example world");
    let flags = flags.replace("--paired-images x", "--paired-images world/paired_images");
    let flags = flags.replace("--paired-texts x", "--paired-texts world/paired_texts");
    let flags = flags.replace("--pool x", "--pool world/pool");
    // Before there are answers, what looks like nothing paired is avoided.
    lab.succeeds(&format!("select {flags} --budget 1 --out a.jsonl --usable"));

    // An experiment with people does not ask again either.
    lab.succeeds(
        "run e.toml --dataset three --annotator human --strategies random --budget 5 --out run",
    );
    let asked = lab.ids("run/queue.jsonl", "id");
    assert!(asked.iter().all(|id| ids[6..].contains(id)), "{asked:?}");
}

fn report_of(lab: &Lab, words: &str) -> Value {
    serde_json::from_str(&lab.succeeds(words).stdout).unwrap()
}

/// The stored row of every caption, `None` where it has none.
fn rows(lab: &Lab, dataset: &str, set: &str) -> Vec<Option<Vec<u8>>> {
    let dataset = Dataset::open(&lab.path(dataset)).unwrap();
    let (_, features) = dataset.features(Side::Text, Some(set)).unwrap();
    let row = |caption| Some(features.matrix().row_bytes(features.row(caption)?).to_vec());
    (0..dataset.items().captions()).map(row).collect()
}

#[test]
fn new_captions_get_the_features_that_embed_would_give_them() {
    let lab = encoded::lab();
    let ids = uncaptioned(&lab);
    let line = |id: &str, text: &str| format!("{{\"id\":\"{id}\",\"caption\":\"{text}\"}}\n");
    lab.write("a.jsonl", &(line(&ids[0], "a red circle") + &line(&ids[1], "a blue star")));
    let run = lab.succeeds("add ds a.jsonl --out known");
    assert!(run.stdout.contains("features    words: 2 encoded\n"), "{}", run.stdout);
    assert!(
        run.stderr.contains("nextpair train known --model heads --out model\n"),
        "{}",
        run.stderr
    );
    lab.succeeds("embed known --text-model text.onnx --name again");
    let made = rows(&lab, "known", "words");
    assert!(made.iter().all(Option::is_some) && made == rows(&lab, "known", "again"));
    // And once more, from the enlarged dataset.
    lab.write("b.jsonl", &line(&ids[2], "a green square"));
    lab.succeeds("add known b.jsonl --out more");
    assert!(rows(&lab, "more", "words").iter().all(Option::is_some));

    // The encoder is gone: captions are added without features, and it is said.
    fs::rename(lab.path("text.onnx"), lab.path("moved.onnx")).unwrap();
    let run = lab.succeeds("add ds a.jsonl --out gone");
    for part in [
        "warning     2 captions have no text features words",
        "text.onnx: is gone, with which the text features words were made",
        "`nextpair embed gone --text-model ENCODER.onnx --name words --replace`",
    ] {
        assert!(run.stderr.contains(part), "{part} in {}", run.stderr);
    }
    assert_eq!(rows(&lab, "gone", "words").iter().filter(|row| row.is_none()).count(), 2);
    lab.succeeds(
        "embed gone --text-model moved.onnx --tokenizer tokenizer.json --name words --replace",
    );
    assert!(rows(&lab, "gone", "words") == made, "the command that was named helps");
    // It was never known.
    let manifest = lab.read("ds/dataset.toml");
    let made_by = manifest.rfind("[features.made_by]").unwrap();
    lab.write("ds/dataset.toml", &manifest[..made_by]);
    let run = lab.succeeds("add ds a.jsonl --out never");
    let unknown = "it is not known how the text features words were made; `nextpair embed ";
    assert!(run.stderr.contains(unknown), "{}", run.stderr);
}

#[test]
fn wrong_files_are_refused_whole() {
    let lab = people::lab();
    let ids = uncaptioned(&lab);
    let good = format!("{{\"id\":\"{}\",\"caption\":\"A walrus .\"}}\n", ids[0]);
    lab.write("good.jsonl", &good);
    let test = json_lines(&lab.read("ds/items.jsonl"));
    let test = test.iter().find(|item| item["split"] == "test").unwrap()["id"].as_str().unwrap();
    for (name, text, says) in [
        ("bad.jsonl", format!("{good}{{\"id\":\"nobody\",\"caption\":\"x\"}}\n"), "bad.jsonl:2: "),
        ("bad.jsonl", format!("{good}{{\"id\":\"{test}\",\"caption\":\"x\"}}\n"), "bad.jsonl:2: "),
        ("bad.jsonl", format!("{good}{{\"id\":"), "bad.jsonl:2: not an answer"),
        ("bad.jsonl", format!("{good}\n"), "bad.jsonl:2: the line is empty"),
        ("bad.csv", format!("id,caption\n{},A heron .\n,x\n", ids[0]), "bad.csv:3: "),
        ("bad.csv", "caption\nx\n".to_owned(), "bad.csv:1: no column id"),
        ("bad.json", "[{\"data\":{}}]".to_owned(), "bad.json: task 1: no annotations"),
        ("bad.json", "{\"images\":[]}".to_owned(), "bad.json"),
        ("bad.txt", good.clone(), "answers are read from .jsonl, .csv and .json"),
    ] {
        lab.write(name, &text);
        lab.refused(&format!("add ds good.jsonl {name} --out new"), says);
        assert!(!lab.path("new").exists(), "{name}: something was written");
    }
    lab.write("brought.jsonl", &format!("{{\"id\":\"{test}\",\"image\":\"upload:x.png\"}}\n"));
    let says = "brought.jsonl:1: an answer about";
    lab.refused("add ds brought.jsonl --pool-side text --out new", says);
    lab.refused("add ds good.jsonl --images ds --out new", "--images is for texts");
    lab.refused("add ds good.jsonl --images nowhere --out new", "nowhere: not a folder");
    lab.refused("add ds good.jsonl --out ds", "ds: a dataset cannot be enlarged in its own place");
    lab.refused("add ds good.jsonl --out no/such/new", "no/such: there is no such folder for new");
    lab.succeeds("add ds good.jsonl --out new");
    let told = lab.succeeds("add ds good.jsonl --out new").stdout;
    assert!(told.contains("written     new"), "{told}");
    lab.write("other.jsonl", &good.replace("caption\":\"", "caption\":\"Another "));
    lab.refused("add ds other.jsonl --out new", "new: exists already");
    lab.write("new/answers.jsonl", "{\"id\":");
    lab.refused("add new good.jsonl --out newer", "new/answers.jsonl:1: not an answer");
    let left: Vec<PathBuf> = fs::read_dir(lab.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".new"))
        .collect();
    assert!(left.is_empty(), "{left:?} was left");
}
