//! Images that people bring for texts: they get features like those of the dataset, and models
//! learn from them.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use nextpair::data::dataset::Dataset;
use nextpair::data::{Side, fingerprint_of};
use nextpair::engine::Draws;
use serde_json::{Value, json};

use super::{Lab, files_below};
use crate::datasets::tree;
use crate::world::{json_lines, nextpair};

pub(crate) const RUN: &str =
    "run heads.toml --pool text --annotator human --strategies hard-negative --budget 4";
const PREPROCESS: &str = "size = 8\nresize = \"squash\"\n";

/// Returns a lab with image and text features of known encoders, an experiment `heads.toml` on
/// them, and images that the dataset does not have in `photos`.
pub(crate) fn lab() -> Lab {
    let lab = Lab::new(80);
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/fixtures");
    for name in ["text.onnx", "tokenizer.json", "image.onnx"] {
        fs::copy(fixtures.join(name), lab.path(name)).unwrap();
    }
    lab.write("p.toml", PREPROCESS);
    lab.succeeds("embed ds --text-model text.onnx --name words");
    lab.succeeds("embed ds --image-model image.onnx --preprocess p.toml --regions 4 --name pixels");
    let heads = lab.read("e.toml").replace("\"vse\"", "\"heads\"").replace("word_dim = 8\n", "");
    lab.write("heads.toml", &heads);
    lab.succeeds("import scenes more --images 6 --seed 7");
    fs::create_dir(lab.path("photos")).unwrap();
    for number in 0..6 {
        let image = lab.path(&format!("more/images/000/scene-{number:06}.png"));
        fs::rename(image, lab.path("photos").join(new_image(number))).unwrap();
    }
    lab
}

/// Returns the name of an image that the dataset does not have.
pub(crate) fn new_image(number: usize) -> String {
    let name = ["walrus", "heron", "beetle", "otter", "lynx", "salmon"][number];
    format!("{name}.png")
}

/// Answers a queue of four texts: with an image beside the answers, one of `photos`, the first
/// again under another name, and one of the dataset; in later rounds with the first again, another
/// one, a skip, and an image of the dataset that was brought.
fn answer(lab: &Lab, run: &str, round: usize) {
    let ids = lab.ids(&format!("{run}/queue.jsonl"), "id");
    fs::create_dir_all(lab.path("said/sub")).unwrap();
    let image = |number: usize| lab.path(&format!("photos/{}", new_image(number)));
    fs::copy(image(0), lab.path("said/sub/first.png")).unwrap();
    fs::copy(image(0), lab.path("said/again.png")).unwrap();
    fs::copy(lab.path("ds/images/000/scene-000001.png"), lab.path("said/known.png")).unwrap();
    let lines = match round {
        1 => [
            json!({ "id": ids[0], "image": "sub/first.png" }),
            json!({ "id": ids[1], "image": format!("folder:{}", new_image(1)) }),
            json!({ "id": ids[2], "image": "again.png" }),
            json!({ "id": ids[3], "image": "scene-000000" }),
        ],
        _ => [
            json!({ "id": ids[0], "image": "again.png" }),
            json!({ "id": ids[1], "image": new_image(2) }),
            json!({ "id": ids[2], "skip": "no such image" }),
            json!({ "id": ids[3], "image": "known.png" }),
        ],
    };
    lab.write("said/answers.jsonl", &lines.map(|line| format!("{line}\n")).concat());
}

fn ingest(run: &str) -> String {
    format!("ingest {run} said/answers.jsonl --images photos")
}

fn whole_run(lab: &Lab) {
    lab.succeeds(&format!("{RUN} --out run"));
    answer(lab, "run", 1);
    let first = lab.succeeds(&ingest("run"));
    assert!(first.stdout.starts_with("4 new answers, 0 known before\n"), "{}", first.stdout);
    assert!(first.stderr.contains("round 2 waits for people: 0 of 4"), "{}", first.stderr);
    answer(lab, "run", 2);
    let last = lab.succeeds(&ingest("run"));
    assert!(last.stderr.contains("done: run"), "{}", last.stderr);
}

/// Returns the stored rows of the images of a dataset, `None` for an item without one.
fn rows(dataset: &Dataset, set: &str) -> Vec<Option<Vec<u8>>> {
    let (_, features) = dataset.features(Side::Image, Some(set)).unwrap();
    let row = |item| Some(features.matrix().row_bytes(features.row(item)?).to_vec());
    (0..dataset.items().len()).map(row).collect()
}

#[test]
fn images_of_people_get_the_features_that_embed_would_give_them() {
    let lab = lab();
    whole_run(&lab);
    lab.succeeds(
        "embed run/dataset --image-model image.onnx --preprocess p.toml --regions 4 --name again",
    );
    let dataset = Dataset::open(&lab.path("run/dataset")).unwrap();
    let made = rows(&dataset, "pixels");
    assert_eq!(made.len(), 80 + 3);
    assert!(made.iter().all(Option::is_some));
    assert!(made == rows(&dataset, "again"), "other bits than embed makes");

    // Every image is one item, with the texts that it was found for.
    let items = json_lines(&lab.read("run/dataset/items.jsonl"));
    let before = json_lines(&lab.read("ds/items.jsonl"));
    let texts = |id: &str| {
        let item = before.iter().find(|item| item["id"] == id).unwrap();
        item["captions"].as_array().unwrap().clone()
    };
    let picked =
        |round: usize| lab.ids(&format!("run/seed-0/hard-negative/picks-{round}.jsonl"), "id");
    let (first, second) = (picked(1), picked(2));
    let captions_of = |ids: &[&String]| ids.iter().flat_map(|id| texts(id)).collect::<Vec<Value>>();
    let expected = [
        captions_of(&[&first[0], &first[2], &second[0]]),
        captions_of(&[&first[1]]),
        captions_of(&[&second[1]]),
    ];
    for (number, (item, captions)) in items[80..].iter().zip(&expected).enumerate() {
        let id = item["id"].as_str().unwrap();
        assert_eq!((&item["split"], item["image"].as_str()), (&json!("train"), id.get(7..)));
        assert_eq!(item["captions"].as_array().unwrap(), captions, "{id}");
        let kept = fs::read(lab.path("run/images").join(&id[7..])).unwrap();
        let brought = fs::read(lab.path("photos").join(new_image(number))).unwrap();
        let shown = fs::read(lab.path("run/dataset/images").join(&id[7..])).unwrap();
        assert!(kept == brought && shown == brought);
    }
    let known = items.iter().find(|item| item["id"] == "scene-000001").unwrap();
    assert!(
        texts(&second[3]).iter().all(|text| known["captions"].as_array().unwrap().contains(text))
    );

    // The models learned from them.
    let pairs = json_lines(&lab.read("run/seed-0/hard-negative/round-2/pairs.jsonl"));
    let learned: Vec<&str> = pairs.iter().filter_map(|pair| pair["item"].as_str()).collect();
    let count = |id: &Value| learned.iter().filter(|learned| *id == **learned).count();
    assert_eq!([80, 81, 82].map(|item| count(&items[item]["id"])), [3, 1, 1]);
    let rounds = lab.rounds("run");
    assert_eq!(rounds[2]["batch"]["skipped"], json!(1));
    for round in [1, 2] {
        let stored = lab.path(&format!("run/seed-0/hard-negative/images-{round}.npy"));
        assert_eq!(rounds[round]["batch"]["images"], json!(fingerprint_of(&stored).unwrap()));
    }

    // A closed batch needs no encoder and none of the files that people brought.
    lab.succeeds("run run --resume");
    let before = tree(&lab.path("run"));
    for name in ["image.onnx", "text.onnx", "tokenizer.json"] {
        fs::remove_file(lab.path(name)).unwrap();
    }
    fs::remove_dir_all(lab.path("said")).unwrap();
    fs::remove_dir_all(lab.path("photos")).unwrap();
    lab.succeeds("run run --resume");
    assert!(tree(&lab.path("run")) == before, "a resume changed a byte");
    lab.succeeds("report run");

    // What it learned from must stay as it was.
    let damage = |name: PathBuf, says: &str| {
        let whole = fs::read(&name).unwrap();
        let mut bytes = whole.clone();
        *bytes.last_mut().unwrap() ^= 1;
        // Not in place: the image of the dataset is the same file.
        fs::remove_file(&name).unwrap();
        fs::write(&name, bytes).unwrap();
        lab.refused("run run --resume", says);
        fs::write(&name, whole).unwrap();
        lab.succeeds("run run --resume");
    };
    let says = "images-1.npy: not what seed 0, hard-negative, round 1 was finished with";
    damage(lab.path("run/seed-0/hard-negative/images-1.npy"), says);
    let image = files_below(&lab.path("run/images")).swap_remove(0);
    damage(image, "has other bytes than the image upload:");
}

#[test]
fn kills_while_images_are_taken_change_nothing() {
    let lab = lab();
    whole_run(&lab);
    let expected = lab.results("run");
    let files = |run: &str| {
        let (run, items) = (lab.path(run), lab.path(run).join("dataset/items.jsonl"));
        let images = [run.join("images"), run.join("dataset/images")].map(|folder| tree(&folder));
        (images, fs::read(items).unwrap())
    };
    let mut draws = Draws::new(5);
    let mut kills = 0;
    for attempt in 0..3 {
        let out = format!("killed-{attempt}");
        // Kill a command, resume, and repeat it: taking answers twice adds nothing.
        let mut step = |words: &str| {
            let began = Instant::now();
            nextpair(&lab.path(""), words.replace(&out, "measured").as_str());
            let mut child = lab.start(words);
            let until = Instant::now() + began.elapsed().mul_f64(draws.unit());
            while Instant::now() < until && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            if child.try_wait().unwrap().is_none() {
                child.kill().unwrap();
                kills += 1;
            }
            child.wait().unwrap();
            lab.succeeds(&format!("{RUN} --out {out} --resume"));
        };
        step(&format!("{RUN} --out {out} --resume"));
        for round in [1, 2] {
            let is_open = || {
                let rounds = lab.rounds(&out).len();
                rounds == round && lab.path(&format!("{out}/queue.jsonl")).exists()
            };
            answer(&lab, &out, round);
            step(&ingest(&out));
            if is_open() {
                lab.succeeds(&ingest(&out));
            }
        }
        lab.assert_same(&out, &expected);
        assert!(files(&out) == files("run"), "other images or items");
        let _ = fs::remove_dir_all(lab.path("measured"));
    }
    assert!(kills > 0, "no process was killed in the middle");
}

#[test]
fn images_that_cannot_take_part_are_refused_whole() {
    let lab = lab();
    lab.succeeds(&format!("{RUN} --rounds 1 --out run"));
    let ids = lab.ids("run/queue.jsonl", "id");
    let good = fs::read(lab.path(&format!("photos/{}", new_image(0)))).unwrap();
    lab.write("text.png", "no picture");
    fs::write(lab.path("cut.png"), &good[..good.len() / 2]).unwrap();
    fs::write(lab.path("huge.bmp"), huge_bitmap()).unwrap();
    fs::copy(lab.path("ds/images/000/scene-000070.png"), lab.path("test.png")).unwrap();
    let image = |name: &str| json!({ "id": ids[1], "image": name });
    let refused = |name: &str, says: &str| {
        let first = json!({ "id": ids[0], "image": format!("folder:{}", new_image(0)) });
        lab.write("answers.jsonl", &format!("{first}\n{}\n", image(name)));
        lab.refused("ingest run answers.jsonl --images photos", says);
        assert!(!lab.path("run/answers.jsonl").exists(), "{name}: an answer was taken");
        assert!(!lab.path("run/images").exists(), "{name}: an image was kept");
    };
    refused("text.png", "answers.jsonl:2: an answer about ");
    refused("text.png", "text.png: not a JPEG, PNG, WebP, GIF or BMP picture");
    refused("cut.png", "cut.png: damaged: ");
    refused("huge.bmp", "huge.bmp: 60000 x 60000 pixels; decoding them takes ");
    refused("none.png", "there is no item \"none.png\", and no image file of it in ");
    refused("../secret.png", "\"../secret.png\" is not a plain path inside its folder");
    refused("test.png", "test.png is the image of the item \"scene-000070\" of the split dev");
    refused("scene-000070", "the item \"scene-000070\" is of the split dev, not train");
    lab.refused("ingest run answers.jsonl --images text.png", "text.png: not a folder");
    lab.succeeds(
        "run heads.toml --annotator human --strategies random --budget 2 --rounds 1 --out captions",
    );
    lab.refused("ingest captions answers.jsonl --images photos", "--images is for texts");
    lab.refused("annotate captions --images photos --port 0", "are for texts");
}

/// Returns the beginning of a bitmap that claims more pixels than can be decoded.
fn huge_bitmap() -> Vec<u8> {
    let mut bytes = b"BM".to_vec();
    for number in [54_u32 + 12, 0, 54, 40, 60_000, 60_000, 1 | 24 << 16, 0, 12, 0, 0, 0, 0] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend([0; 12]);
    bytes
}

#[test]
fn an_encoder_of_images_that_is_not_there_is_missed_in_time() {
    let lab = lab();
    let run = format!("{RUN} --rounds 1 --out run");
    lab.succeeds(&run.replace("--out run", "--out whole"));
    answer(&lab, "whole", 1);
    lab.succeeds(&ingest("whole"));
    let expected = lab.results("whole");

    // Features of unknown origin: texts get images of the dataset only, and who brings one is told.
    lab.succeeds(&run);
    let manifest = lab.read("ds/dataset.toml");
    let made_by = manifest.rfind("[features.made_by]").unwrap();
    lab.write("ds/dataset.toml", &manifest[..made_by]);
    let unknown = "new images cannot get those of pixels: ";
    lab.refused(&ingest("run"), unknown);
    lab.refused(&ingest("run"), "--image-model ONNX` makes features whose encoder is known");
    lab.refused("annotate run --images photos --port 0", unknown);
    lab.refused("annotate run --uploads new --port 0", unknown);
    lab.write("ds/dataset.toml", &manifest);

    // Gone before answers are taken: nothing is.
    fs::rename(lab.path("image.onnx"), lab.path("away.onnx")).unwrap();
    lab.refused(&ingest("run"), "image.onnx: is gone, with which the image features pixels");
    assert!(!lab.path("run/answers.jsonl").exists() && !lab.path("run/images").exists());
    fs::rename(lab.path("away.onnx"), lab.path("image.onnx")).unwrap();

    // Gone after they were taken, before the batch closes: no answer and no image is lost.
    lab.succeeds(&(ingest("run") + " --only"));
    fs::rename(lab.path("image.onnx"), lab.path("away.onnx")).unwrap();
    fs::remove_dir_all(lab.path("said")).unwrap();
    fs::rename(lab.path("photos"), lab.path("away")).unwrap();
    lab.refused("run run --resume", "image.onnx: is gone, with which the image features pixels");
    fs::rename(lab.path("away.onnx"), lab.path("image.onnx")).unwrap();
    lab.succeeds("run run --resume");
    lab.assert_same("run", &expected);

    // Gone after the batch closed: nobody misses it.
    fs::remove_file(lab.path("image.onnx")).unwrap();
    fs::remove_file(lab.path("run/rounds.jsonl")).unwrap();
    lab.succeeds("run run --resume");
    lab.assert_same("run", &expected);
}
