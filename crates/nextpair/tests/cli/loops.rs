//! The whole loop by the lines that commands name as next, from what people have to a verdict on the batch.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::by_hand::typed;
use crate::scenario::people;
use crate::world::files::{Numbers, npy, parquet_of_images};
use crate::world::{Run, Vectors, json_lines};

/// Sizes of a model for tests.
const SMALL: &str = "--dim 8 --word-dim 8 --min-count 1 --epochs 2 --batch 8 --validate-last 0";

/// A folder in which somebody types what is next, and people who know a caption of every item.
struct Desk<'a> {
    folder: PathBuf,
    shown: &'a HashMap<String, String>,
}

/// The command that a run names as the next one.
fn next(run: &Run) -> String {
    let mut lines = run.stderr.lines().filter_map(|line| line.strip_prefix("next        "));
    lines.next_back().unwrap_or_else(|| panic!("nothing is next: {}", run.stderr)).to_owned()
}

impl Desk<'_> {
    fn types(&self, line: &str) -> Run {
        match line.strip_prefix("nextpair annotate ") {
            Some(rest) => self.annotates(line, rest.split(' ').next().unwrap()),
            None => typed(&self.folder, line),
        }
    }

    /// People answer all picks, and the app hands the answers over.
    fn annotates(&self, line: &str, picks: &str) -> Run {
        let lines = json_lines(&fs::read_to_string(self.folder.join(picks)).unwrap());
        let said = |pick: &Value| {
            let caption = &self.shown[pick["id"].as_str().unwrap()];
            serde_json::json!({ "id": pick["id"], "caption": caption }).to_string() + "\n"
        };
        let answers = self.folder.join(picks).with_extension("answers.jsonl");
        fs::write(answers, lines.iter().map(said).collect::<String>()).unwrap();
        let served = "2> said & until grep -q /join/ said; do :; done; kill $!; cat said >&2";
        typed(&self.folder, &format!("{line} --port 0 {served}"))
    }

    /// Types what is next until a command is named, which is returned with all that were typed before.
    fn follows(&self, run: &Run, until: &str) -> (Vec<(String, Run)>, String) {
        let (mut done, mut line) = (Vec::new(), next(run));
        while !line.starts_with(&format!("nextpair {until} ")) {
            assert!(done.len() < 9, "{until} is never next: {line}");
            let run = self.types(&line);
            let after = next(&run);
            done.push((std::mem::replace(&mut line, after), run));
        }
        (done, line)
    }

    /// Picks a batch as told, and goes on by the next lines to a verdict on it. The batch after that is picked
    /// likewise.
    fn buys(&self, trained: &Run, decided: &str, flags: &str) {
        let select = next(trained);
        let (before, _) = select.split_once(" --budget ").expect("a selection");
        let picked = self.types(&format!("{before} {decided} --out picks-of-ours.jsonl"));
        let (done, eval) = self.follows(&picked, "eval");
        let commands: Vec<&str> =
            done.iter().map(|(line, _)| line.split(' ').nth(1).unwrap()).collect();
        assert_eq!(commands, ["annotate", "add", "train"]);
        assert!(done[2].0.contains(flags), "{flags}: {}", done[2].0);
        assert!(eval.contains(" --against "), "{eval}");
        let verdict = self.types(&eval);
        assert!(verdict.stdout.contains("mean log rank "), "{}", verdict.stdout);
        let again = next(&verdict);
        assert!(again.contains(decided), "{decided}: {again}");
        self.types(&again);
    }
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/fixtures").join(name)
}

/// A folder with the tiny encoders and generated scenes, and their captions by image.
fn desk(images: usize) -> (tempfile::TempDir, HashMap<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    typed(folder.path(), &format!("nextpair import scenes scenes --images {images}"));
    for name in ["image.onnx", "text.onnx", "tokenizer.json"] {
        fs::copy(fixture(name), path(name)).unwrap();
    }
    let prepared = "size = 8\nresize = \"squash\"\nscale = 1\nmean = [127, 127, 127]\n\
                    std = [128, 128, 128]\n";
    fs::write(path("image.toml"), prepared).unwrap();
    let items = json_lines(&fs::read_to_string(path("scenes/items.jsonl")).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let shown = items.iter().map(|item| (text(&item["image"]), text(&item["captions"][0])));
    let shown = shown.collect();
    (folder, shown)
}

#[test]
fn photographs_without_captions_end_with_a_verdict() {
    let (folder, shown) = desk(60);
    let desk = Desk { folder: folder.path().to_owned(), shown: &shown };
    let imported = desk.types("nextpair import folder scenes/images photos");
    let embed = next(&imported).replace("ENCODER.onnx", "image.onnx") + " --pooled";
    let embedded = desk.types(&embed);
    let select = next(&embedded).replace("--budget 60", "--budget 30");
    let (done, train) = desk.follows(&desk.types(&select), "train");
    assert_eq!(done.len(), 2, "annotate and add");
    // Nobody could say at the import which images will have captions, so those are drawn that get the first.
    assert!(done[1].0.contains(" --test 0.2 "), "{}", done[1].0);
    let trained = desk.types(&format!("{train} {SMALL}"));
    desk.buys(&trained, "--budget 7 --strategy core-set", "--dim 8");
}

#[test]
fn embeddings_end_with_a_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let shown = (0..48).map(|row| (row.to_string(), format!("a star {} and a disk", row % 7)));
    let shown: HashMap<String, String> = shown.collect();
    let desk = Desk { folder: folder.path().to_owned(), shown: &shown };
    let vectors = Vectors::drawn(&mut nextpair::engine::Draws::new(4), 48, 6);
    fs::write(folder.path().join("images.npy"), npy(&vectors, Numbers::F32)).unwrap();
    let captions = (0..48).map(|row| match row < 24 {
        true => shown[&row.to_string()].clone() + "\n",
        false => "\n".to_owned(),
    });
    fs::write(folder.path().join("captions.txt"), captions.collect::<String>()).unwrap();
    let imported = desk
        .types("nextpair import embeddings images.npy vectors --captions captions.txt --test 0.25");
    let trained = desk.types(&format!("{} {SMALL} --device cpu", next(&imported)));
    desk.buys(&trained, "--budget 5 --strategy novelty --device cpu", "--device cpu");
}

#[test]
fn a_table_of_hugging_face_ends_with_a_verdict() {
    let (folder, of_image) = desk(60);
    let mut names: Vec<&String> = of_image.keys().collect();
    names.sort();
    let png = |name: &String| fs::read(folder.path().join("scenes/images").join(name)).unwrap();
    let row = |(at, name): (usize, &&String)| {
        let caption = (at % 2 == 0).then(|| of_image[*name].as_str());
        (png(name), caption)
    };
    let rows: Vec<_> = names.iter().enumerate().map(row).collect();
    fs::create_dir_all(folder.path().join("table/data")).unwrap();
    let mut shown = HashMap::new();
    let tested: Vec<_> = rows[44..].iter().filter(|row| row.1.is_some()).cloned().collect();
    for (name, rows) in [("train", &rows[..44]), ("test", &tested[..])] {
        let file = format!("data/{name}-00000-of-00001");
        let path = folder.path().join(format!("table/{file}.parquet"));
        fs::write(path, parquet_of_images(rows)).unwrap();
        let ids = (0..rows.len()).map(|at| format!("{file}:{at}"));
        shown.extend(ids.zip(&names).map(|(id, name)| (id, of_image[*name].clone())));
    }
    let desk = Desk { folder: folder.path().to_owned(), shown: &shown };
    let imported = desk.types("nextpair import parquet table ours");
    let embed =
        next(&imported).replace("ENCODER.onnx", "image.onnx --pooled --text-model text.onnx");
    let embedded = desk.types(&embed);
    let train = next(&embedded);
    assert!(train.contains("--model heads"), "{train}");
    let trained = desk.types(&format!("{train} --dim 8 --epochs 3"));
    desk.buys(&trained, "--budget 6 --strategy herding --bandwidth 2", "--epochs 3");
}

/// What a rehearsal advised is what is trained, picked, priced, and picked again after the verdict.
#[test]
fn what_a_rehearsal_advises_is_bought() {
    let lab = people::lab();
    fs::copy(fixture("image.onnx"), lab.path("image.onnx")).unwrap();
    let items = json_lines(&lab.read("ds/items.jsonl"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let shown = items.iter().map(|item| (text(&item["id"]), "a red disk".to_owned())).collect();
    let desk = Desk { folder: lab.path(""), shown: &shown };
    let own = lab.read("ds/dataset.toml");
    let own = own.split("[[features]]").nth(1).unwrap().split('"').nth(1).unwrap().to_owned();
    lab.write("image.toml", "size = 8\nresize = \"squash\"\n");
    lab.succeeds("embed ds --image-model image.onnx --pooled --name others");
    lab.write(
        "small.toml",
        "[model]\narchitecture = \"vse\"\ndim = 8\nword_dim = 8\n[training]\nbatch = 8\n",
    );
    let flags = format!("--config small.toml --features {own} --epochs 2 --device cpu");
    let rehearsed = desk.types(&format!(
        "nextpair rehearse ds {flags} --budget 4 --seeds 4 --strategies novelty --price 0.5"
    ));
    let advice: Value = serde_json::from_str(&lab.read("rehearsal/rehearsal.json")).unwrap();
    let strategy = advice["strategy"].as_str().unwrap().to_owned();
    let train = next(&rehearsed);
    for part in ["--config small.toml", &format!("--features {own}"), "--epochs 2", "--device cpu"]
    {
        assert!(train.contains(part), "{part}: {train}");
    }
    let (done, eval) = desk.follows(&rehearsed, "eval");
    let line = |command: &str| {
        let start = format!("nextpair {command} ");
        let mut all = done.iter().filter(|(line, _)| line.starts_with(&start));
        let (line, run) = all.next_back().unwrap_or_else(|| panic!("no {command}"));
        (line.clone(), run.stderr.clone())
    };
    let (select, picked) = line("select");
    for part in
        ["--pool-side image", "--budget 4", &format!("--strategy {strategy}"), "--device cpu"]
    {
        assert!(select.contains(part), "{part}: {select}");
    }
    assert!(picked.contains(&format!("by {strategy}\n")), "{picked}");
    assert_eq!(lab.ids("picks.jsonl", "id").len(), 4);
    assert!(line("annotate").0.contains("--price 0.5"), "{}", line("annotate").0);
    for model in ["model", "model-2"] {
        let spec: Value = serde_json::from_str(&lab.read(&format!("{model}/model.json"))).unwrap();
        assert_eq!(spec["image_features"], own.as_str(), "{model}");
        assert_eq!(spec["training"]["epochs"], 2, "{model}");
    }
    let verdict = desk.types(&eval);
    assert!(eval.contains("--against model") && eval.contains("--device cpu"), "{eval}");
    // The forecast stands beside it, if there was one.
    let plan: Value = serde_json::from_str(&lab.read("model/plan.json")).unwrap();
    let said = "forecast by the rehearsal: 4 captions by ";
    assert_eq!(verdict.stdout.contains(said), plan["rehearsed"].is_string(), "{}", verdict.stdout);
    let again = next(&verdict);
    assert_eq!(
        again.replace("model-2", "model").replace("ds-2", "ds").replace("picks-2", "picks"),
        select
    );
}

/// Who does not use the app gets a sheet and tasks for Label Studio with the pictures, and `add` takes the sheet back.
#[test]
fn a_batch_goes_to_a_spreadsheet_and_to_label_studio() {
    let (folder, shown) = desk(60);
    let desk = Desk { folder: folder.path().to_owned(), shown: &shown };
    let path = |name: &str| folder.path().join(name);
    desk.types("nextpair import folder scenes/images photos");
    desk.types("nextpair embed photos --image-model image.onnx --pooled");
    let select = "nextpair select photos --budget 5 --out picks.jsonl";
    let selected = desk.types(&format!("{select} --tasks ask.csv --tasks ask.json"));
    assert_eq!(next(&selected), "nextpair add photos ask.csv --test 0.2 --out photos-2");
    let sheet = fs::read_to_string(path("ask.csv")).unwrap();
    let mut filled = String::new();
    for (at, line) in sheet.lines().enumerate() {
        let picture = line.split(',').nth(1).unwrap();
        assert!(at == 0 || PathBuf::from(picture).is_file(), "{line}");
        let line = line.strip_suffix(",,").map(|line| format!("{line},a star and a disk,"));
        filled += &(line.unwrap_or_else(|| sheet.lines().next().unwrap().to_owned()) + "\n");
    }
    fs::write(path("ask.csv"), filled).unwrap();
    let tasks: Value =
        serde_json::from_str(&fs::read_to_string(path("ask.json")).unwrap()).unwrap();
    let picks = json_lines(&fs::read_to_string(path("picks.jsonl")).unwrap());
    let ids = |all: &[Value], id: fn(&Value) -> &Value| {
        all.iter().map(|one| id(one).clone()).collect::<Vec<_>>()
    };
    let asked = ids(tasks.as_array().unwrap(), |task| &task["data"]["item"]);
    assert_eq!(asked, ids(&picks, |pick| &pick["id"]));
    assert!(
        tasks[0]["data"]["image"].as_str().unwrap().contains("/data/local-files/?d="),
        "{tasks}"
    );
    assert!(fs::read_to_string(path("ask.xml")).unwrap().contains("<View>"));
    let added = desk.types(&next(&selected));
    assert!(added.stdout.contains("captions    5 added"), "{}", added.stdout);
    for (words, says) in [
        ("select photos-2 --budget 5 --out p.jsonl --tasks ask.txt", "a sheet ends in .csv"),
        ("select --pool v.npy --budget 5 --out p.jsonl --tasks a.csv", "the items of a DATASET"),
    ] {
        let vectors = Vectors::drawn(&mut nextpair::engine::Draws::new(4), 8, 6);
        fs::write(path("v.npy"), npy(&vectors, Numbers::F32)).unwrap();
        let run = crate::world::nextpair(folder.path(), words);
        assert_eq!(run.code, Some(2), "{words}");
        assert!(run.stderr.contains(says), "{}", run.stderr);
    }
}
